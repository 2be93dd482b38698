"""Peak memory of a piece of code: everything that the process touches, whoever allocates it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import re
from pathlib import Path
from typing import Any, Callable, Optional

__all__ = ["peak_mb", "peak_since", "resident_mb"]

_SELF = Path("/proc/self")


def peak_mb(run: Callable[[], Any]) -> Optional[float]:
    """Most resident memory while `run` runs, above what was resident before, MiB.

    Counts pages of the process, so Paddle's tensors, numpy's arrays and a kernel's own buffers alike; the
    memory of a GPU is not among them. Freed memory is first handed back to the system, else it would be
    taken again unseen. Call `run` once before, so that what it allocates only once is there.

    Args:
        run: called once.

    Returns:
        MiB, or None where the system cannot tell (it takes Linux, and /proc/self/clear_refs writable).
    """
    before = resident_mb()
    if before is None:
        return None
    result = run()
    peak = peak_since(before)
    del result
    return peak


def resident_mb() -> Optional[float]:
    """Resident memory of the process now, MiB, from which on `peak_since` counts; None as in `peak_mb`."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        (_SELF / "clear_refs").write_text("5", encoding="ascii")  # sets the peak back to what is resident
        return _status("VmRSS") / 1024
    except (OSError, TypeError):
        return None


def peak_since(before: float) -> float:
    """Most resident memory since `resident_mb` gave `before`, above it, MiB."""
    return max(0.0, _status("VmHWM") / 1024 - before)


def _status(key: str) -> int:
    """A figure of /proc/self/status, KiB."""
    found = re.search(rf"^{key}:\s+(\d+) kB$", (_SELF / "status").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1])  # type: ignore[index]
