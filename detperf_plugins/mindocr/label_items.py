"""The boxes of one label, {"transcription": text, "points": [[x, y], ...]}, mended one by one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from detperf_plugins.doctor.labels.points import FARTHEST, read_points
from detperf_plugins.doctor.labels.shapes import reordered
from detperf_plugins.doctor.words import counted
from detperf_plugins.native.border_map import measure_rings

__all__ = ["IGNORED", "clean_items", "mend_item"]

IGNORED = "###"
_NO_AREA = 1e-6  # square pixels

Note = tuple[str, str]  # what is wrong, what was done


def clean_items(label: str) -> list[Any] | None:
    """The boxes of a label (JSON) in which nothing needs mending, else None."""
    try:
        items = msgspec.json.decode(label)
        boxes = [item["points"] for item in items]
        texts = [item["transcription"] for item in items]
        if not boxes:
            return items if isinstance(items, list) else None
        points = np.array([point for box in boxes for point in box])
    except (msgspec.DecodeError, UnicodeEncodeError, ValueError, TypeError, KeyError, IndexError):
        return None
    if len(texts) != len(items) or points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "if":
        return None
    counts = [len(box) for box in boxes]
    areas, _, crossing = measure_rings(points, np.cumsum([0, *counts]))
    sound = min(counts) > 2 and bool((np.abs(points) < FARTHEST).all())
    return items if sound and bool((areas > _NO_AREA).all()) and not crossing.any() else None


def mend_item(item: Any) -> tuple[dict[str, Any] | None, list[Note]]:
    """One box repaired, or marked ignored; None where it has no place that could be masked out.

    Returns:
        The box, and what was wrong with it and done about it (nothing for a clean one).
    """
    if not isinstance(item, dict) or not isinstance(item.get("points"), list):
        return None, [(f"it has no list of points ({json.dumps(item)[:60]})", "the box is left out")]
    points, lost, notes = read_points(item["points"])
    ignore = item.get("transcription") in (IGNORED, "*")
    if lost and len(points) > 1:
        notes.append(
            (f"{lost} of its points are no numbers within {FARTHEST:g}", "the rest is ignored (masked out)")
        )
        ignore = True
    if len(points) < 2:
        what = (
            f"{lost} of its points are no numbers"
            if lost
            else f"{counted(len(points), 'point')} cannot enclose anything"
        )
        return None, [*notes, (what, "the box is left out")]
    if len(points) == 2:
        (x0, y0), (x1, y1) = points
        points = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        if not lost:
            notes.append(("it has 2 points", "their rectangle is ignored (masked out)"))
        ignore = True
    points, ignore = _untangled(points, ignore, notes)
    if "transcription" not in item:
        notes.append(("it has no transcription", "ignored (masked out)"))
        ignore = True
    text = IGNORED if ignore else item["transcription"]
    return {**item, "transcription": text, "points": [list(point) for point in points]}, notes


def _untangled(
    points: list[tuple[float, float]], ignore: bool, notes: list[Note]
) -> tuple[list[tuple[float, float]], bool]:
    """Zigzag corners put in order; other polygons that cross themselves or have no area are ignored."""
    area, crossing = _measure(points)
    if crossing and len(points) == 4:
        turned = reordered(points)
        area, crossing = _measure(turned)
        if not crossing:
            notes.append(("its corners are in zigzag order", "put in order round the box"))
            points = turned
    if crossing and not ignore:
        notes.append(("it crosses itself", "ignored (masked out)"))
    elif area <= _NO_AREA and not ignore:
        notes.append(("it has no area", "ignored (masked out)"))
    return points, ignore or crossing or area <= _NO_AREA


def _measure(points: list[tuple[float, float]]) -> tuple[float, bool]:
    areas, _, crossing = measure_rings(np.array(points), np.array([0, len(points)]))
    return float(areas[0]), bool(crossing[0])
