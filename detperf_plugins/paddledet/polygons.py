"""COCO segmentations checked, and packed as compressed sparse rows (CSR).

An instance's segmentation is a list of parts, each a flat list x0 y0 x1 y1 ... of at least three points.
Everything else that is met in real files is sorted out here, by one rule: what cannot be read as a part
is left out, and an instance with no part left has no mask target (weight 0) while its box still trains.
pycocotools gets none of it: it reads a two-point part as a box, and NaN or huge coordinates crash it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MAX_COORDINATE", "NO_MASK", "PackedPolygons", "is_rle", "pack_polygons", "usable_parts"]

# Pixels. No image is this large, and the raster's sub-pixel lattice stays far inside 64 bits.
MAX_COORDINATE = 1e6

# What stands in gt_poly for an instance without a usable polygon. PaddleDetection's own placeholder for
# crowds: every transform survives it, and it stays a single point under flips, resizes and crops.
NO_MASK = [[0.0] * 8]


class PackedPolygons(NamedTuple):
    """Polygons of one image (or batch) in CSR form.

    Attributes:
        xy: float64 [V, 2], vertices in pixels.
        parts: int64 [P + 1], part p is xy[parts[p]:parts[p + 1]].
        instances: int64 [G + 1], instance g has the parts instances[g] to instances[g + 1]; none means
            that it has no mask target.
    """

    xy: np.ndarray
    parts: np.ndarray
    instances: np.ndarray

    def has_mask(self) -> np.ndarray:
        """bool [G]: which instances have at least one part."""
        return np.diff(self.instances) > 0


def is_rle(segmentation: Any) -> bool:
    """Whether a segmentation is run-length encoded (compressed or not) instead of polygons."""
    return isinstance(segmentation, Mapping) and "counts" in segmentation


def usable_parts(segmentation: Any) -> tuple[list[list[float]], list[str]]:
    """The parts of one instance that can be rasterised, and what is wrong with the rest.

    Args:
        segmentation: whatever stands in the annotation.

    Returns:
        parts, each a flat list of at least six finite floats, and one phrase per fault. A list of
        [x, y] pairs and a flat list without its outer brackets are read as the one part they mean.
    """
    if is_rle(segmentation):
        return [], ["run-length encoding where polygons are expected"]
    if not isinstance(segmentation, (Sequence, np.ndarray)) or isinstance(segmentation, (str, bytes)):
        return [], ["no polygon"]
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in segmentation]
    faults = []
    if len(rows) >= 3 and all(_is_point(row) for row in rows):
        rows = [list(chain.from_iterable(rows))]
        faults.append("points given as [x, y] pairs, read as one part")
    elif len(rows) >= 6 and all(isinstance(value, (int, float)) for value in rows):
        rows = [rows]
        faults.append("one part without its outer brackets")
    parts = []
    for row in rows:
        fault = _fault_of_part(row)
        if fault:
            faults.append(fault)
        else:
            parts.append([float(value) for value in row])
    if not rows:
        faults.append("no polygon")
    return parts, faults


def _is_point(row: Any) -> bool:
    return (
        isinstance(row, Sequence)
        and not isinstance(row, (str, bytes))
        and len(row) == 2
        and all(isinstance(value, (int, float)) for value in row)
    )


def _fault_of_part(row: Any) -> str:
    """Why a part cannot be rasterised; an empty string where it can."""
    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        return "a part that is no list of coordinates"
    if len(row) == 0:
        return "an empty part"
    try:
        total, low, high = math.fsum(row), min(row), max(row)
    except (TypeError, ValueError, OverflowError):
        return "a coordinate that is no finite number"
    if not math.isfinite(total):
        return "a coordinate that is no finite number"
    if high > MAX_COORDINATE or low < -MAX_COORDINATE:
        return f"a coordinate beyond {MAX_COORDINATE:g} pixels"
    if len(row) % 2:
        return "an odd number of coordinates"
    if len(row) < 6:
        return f"a part of {len(row) // 2} point{'s' if len(row) > 2 else ''}"
    return ""


def pack_polygons(gt_poly: Sequence[Any]) -> tuple[PackedPolygons, list[tuple[int, str]]]:
    """Pack the polygons of one image.

    Args:
        gt_poly: per instance a list of parts, each a flat list or array of coordinates in pixels.

    Returns:
        The packed polygons, one instance per entry of `gt_poly` in the same order, and (instance, fault)
        for everything that was left out; the placeholder `NO_MASK` is left out without a fault.
    """
    packed = _pack_clean(gt_poly)
    if packed is not None:
        return packed, []
    vertices: list[list[float]] = []
    instances, faults = [0], []
    for instance, segmentation in enumerate(gt_poly):
        parts, wrong = usable_parts(segmentation)
        faults += [(instance, fault) for fault in wrong]
        vertices += [part for part in parts if not _is_single_point(part)]
        instances.append(len(vertices))
    parts_of = np.cumsum([0] + [len(part) // 2 for part in vertices], dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(vertices), dtype=np.float64, count=2 * int(parts_of[-1]))
    return PackedPolygons(flat.reshape(-1, 2), parts_of, np.asarray(instances, dtype=np.int64)), faults


def _is_single_point(part: Sequence[float]) -> bool:
    return min(part[0::2]) == max(part[0::2]) and min(part[1::2]) == max(part[1::2])


def _pack_clean(gt_poly: Sequence[Any]) -> PackedPolygons | None:
    """The usual case, without a look at each part: None where anything needs one."""
    try:
        parts = [part for instance in gt_poly for part in instance]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        counts = [len(instance) for instance in gt_poly]
        if any(isinstance(instance, Mapping) for instance in gt_poly):
            return None
        if len(lengths) and (lengths.min() < 6 or (lengths & 1).any()):
            return None
        flat = np.concatenate([np.asarray(part) for part in parts]) if parts else np.empty(0)
    except (TypeError, ValueError):
        return None
    if flat.ndim != 1 or flat.dtype.kind not in "fiu" or not (np.abs(flat) <= MAX_COORDINATE).all():
        return None
    xy = flat.astype(np.float64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum(lengths >> 1)])
    if len(parts):
        starts = offsets[:-1]
        flat_x = np.minimum.reduceat(xy, starts) == np.maximum.reduceat(xy, starts)
        if flat_x.all(axis=1).any() or 0 in counts:
            return None
    elif counts:
        return None
    return PackedPolygons(xy, offsets, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
