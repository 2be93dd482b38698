"""Compiled kernels, one Python function each; shapes and dtypes are checked here, the C++ trusts them.

`available()` says whether the extension was built; a kernel called without it raises `DetperfError`
with the remedy.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from detperf_plugins.errors import DetperfError

_compiled: ModuleType | None = None
_reason = ""
try:
    _compiled = import_module("detperf_plugins.native._kernels")
except ImportError as _error:
    _reason = str(_error)

__all__ = ["available", "instructions", "kernels", "why_not"]


def available() -> bool:
    """Whether the compiled extension can be used."""
    return _compiled is not None


def why_not() -> str:
    """The reason where `available()` is False, else an empty string."""
    return _reason


def instructions() -> str:
    """What the kernels use of this processor beyond its basic set: "avx2", "ssse3" or "" (or none built)."""
    return _compiled.simd if _compiled is not None else ""


def kernels() -> ModuleType:
    """The compiled module.

    Raises:
        DetperfError: it is missing; the message names the remedy.
    """
    if _compiled is None:
        raise DetperfError(
            f"the compiled kernels are missing ({_reason}); install the package with a C++17 compiler "
            "at hand (pip install .) or from a wheel for this Python"
        )
    return _compiled
