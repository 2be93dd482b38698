"""Everything that runs inside MindOCR. Importing this imports no framework.

`activate()` prepares a process: before MindOCR is imported its missing names are put back (`compat`), and
afterwards the functions that its trainer calls are wrapped (`hooks`). Nothing of MindOCR is edited on disk.
"""

from __future__ import annotations

__all__ = ["activate"]


def activate(replace: bool = False) -> str:
    """Set the plugins up for MindOCR, now or as soon as somebody imports it. Doing it twice changes nothing.

    Args:
        replace: let the exact parts stand in for the stock transforms of any config.

    Returns:
        A sentence that says what was done.
    """
    from detperf_plugins.mindocr import hooks

    return hooks.activate(replace)
