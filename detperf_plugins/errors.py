"""Errors that a user can mend: one sentence each, saying what is wrong and what to do."""

from __future__ import annotations

__all__ = ["DetperfError", "UnreadableInput", "UnsupportedHost"]


class DetperfError(Exception):
    """Base of every error that the command prints as one sentence instead of a traceback.

    `status` is the exit status of the command: 1 for a failure, 2 for an input that cannot be read.
    """

    status = 1


class UnsupportedHost(DetperfError):
    """A framework is missing, or its version is one that this package was not written for."""


class UnreadableInput(DetperfError):
    """A file given by the user does not exist or cannot be read as what it should be."""

    status = 2
