"""Freed memory kept by the process, so that the next sample's maps do not fault in fresh pages.

A sample is 11 MB at 640 pixels. By default glibc hands that back to the kernel when it is freed and faults
it in again, page by page, for the next one: a third of the time of a fast sample, and more of a slow one.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_KEEP = 256 << 20  # bytes of free memory that stay with the process
_LARGEST = 32 << 20  # glibc's limit for blocks that it may keep

_done = 0


def keep_freed_memory() -> bool:
    """Let this process keep up to 256 MB of freed memory, where its libc is glibc. Once a process."""
    global _done
    if _done == os.getpid():
        return False
    _done = os.getpid()
    try:
        mallopt = ctypes.CDLL(None).mallopt
        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018 - musl has a mallopt that does nothing
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, _KEEP))
