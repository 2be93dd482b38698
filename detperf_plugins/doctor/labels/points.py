"""The corners of one text box as they were meant: numbers as strings, pairs as one flat list."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["FARTHEST", "read_points"]

FARTHEST = 1e6  # pixels: more is no picture, and overflows the fixed point of the drawing


def read_points(given: list[Any]) -> tuple[list[tuple[float, float]], int, list[tuple[str, str]]]:
    """The usable corners of a box.

    Args:
        given: the list `points` of a box, whatever is in it.

    Returns:
        The corners (x, y) in pixels, how many others there are, and what was read in another form than
        [[x, y], ...]: pairs of what is wrong and how it was read.
    """
    notes = []
    nested = any(isinstance(value, (list, dict)) for value in given)
    if len(given) >= 6 and len(given) % 2 == 0 and not nested:
        notes.append(("its points are one flat list", "taken as pairs"))
        given = [given[i : i + 2] for i in range(0, len(given), 2)]
    points, lost, written = [], 0, False
    for point in given:
        pair = [_number(value) for value in point] if isinstance(point, list) and len(point) == 2 else [None]
        x, y = pair[0], pair[-1]
        if x is None or y is None:
            lost += 1
            continue
        written |= any(isinstance(value, str) for value in point)
        points.append((x, y))
    if written and not lost:
        notes.append(("its coordinates are strings", "read as numbers"))
    return points, lost, notes


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < FARTHEST else None
