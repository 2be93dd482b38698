"""Masks in bulk: area, place in the picture, agreement with the box, crossings and nested parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from detperf_plugins.doctor.coco.geometry import Rings

if TYPE_CHECKING:
    from detperf_plugins.doctor.coco.check import Tally

__all__ = ["MaskBatch", "MaskVerdict", "judge_mask"]

_HUGE = 1e6  # no picture is a million pixels wide; pycocotools allocates by the coordinate
_WORST_IOU = 0.5


class MaskBatch:
    """Annotations whose polygons wait for a common check."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.flat: list[float] = []
        self.lengths: list[int] = []
        self.first: list[int] = []  # first ring of each annotation
        self.where: list[dict[str, Any]] = []
        self.sizes: list[tuple[float, float]] = []
        self.boxes: list[tuple[float, float, float, float]] = []
        self.areas: list[Any] = []

    def __len__(self) -> int:
        return len(self.where)

    def add(
        self,
        parts: list[list[float]],
        where: dict[str, Any],
        size: tuple[float, float],
        box: tuple[float, float, float, float] | None,
        area: Any,
    ) -> None:
        """Queue an annotation: flat parts of three or more finite points, ids, (width, height), box, area."""
        self.first.append(len(self.lengths))
        for part in parts:
            self.flat.extend(part)
            self.lengths.append(len(part))
        self.where.append(where)
        self.sizes.append(size)
        self.boxes.append(box or (0.0, 0.0, 0.0, 0.0))
        self.areas.append(area)

    def flush(self, tally: Tally) -> None:
        """Check what is queued and forget it."""
        if not self.where:
            return
        rings = Rings(self.flat, self.lengths)
        first = np.asarray(self.first)
        low, high = rings.extents()
        low, high = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)
        ring_areas = rings.areas()
        areas = np.add.reduceat(ring_areas, first)
        sizes = np.asarray(self.sizes, dtype=np.float64)
        known = (sizes > 0).all(axis=1)
        huge = (np.abs(low).max(axis=1) > _HUGE) | (np.abs(high).max(axis=1) > _HUGE)
        huge |= known & ((high > 20 * sizes + 1000) | (low < -20 * sizes - 1000)).any(axis=1)
        outside = known & ~huge & ((high <= 0) | (low >= sizes)).any(axis=1)
        over = np.maximum(np.maximum(-low, high - sizes), 0).max(axis=1)
        over_edge = known & ~huge & ~outside & (over > 1e-3)
        crossing = np.logical_or.reduceat(rings.crossing(), first)
        flat = (areas <= 1e-6) & ~crossing  # the halves of a bow-tie cancel out
        self._report(
            tally, "huge-coordinate", huge, lambda i: f"up to {np.abs(np.r_[low[i], high[i]]).max():g}"
        )
        self._report(
            tally,
            "outside-image",
            outside,
            lambda i: f"x {low[i, 0]:g} to {high[i, 0]:g}, y {low[i, 1]:g} to {high[i, 1]:g}",
        )
        self._report(tally, "over-edge", over_edge, lambda i: f"by {over[i]:g} px")
        self._report(tally, "zero-area", flat & ~huge, lambda i: "all points lie on one line")
        self._boxes(tally, low, high, sizes, known, huge | outside | flat)
        stated = np.asarray([a if type(a) in (int, float) else 1.0 for a in self.areas], dtype=np.float64)
        self._report(
            tally,
            "area-zero",
            (stated <= 0) & ~flat,
            lambda i: f"area {stated[i]:g}, the mask has {areas[i]:g}",
        )
        self._report(tally, "self-intersection", crossing & ~huge, lambda i: "")
        self._nested(tally, rings, ring_areas)
        self._clear()

    def _report(self, tally: Tally, rule: str, mask: np.ndarray, detail: Any) -> None:
        for index in np.flatnonzero(mask):
            tally.add(rule, detail(index), **self.where[index])

    def _boxes(
        self,
        tally: Tally,
        low: np.ndarray,
        high: np.ndarray,
        sizes: np.ndarray,
        known: np.ndarray,
        skip: np.ndarray,
    ) -> None:
        boxes = np.asarray(self.boxes, dtype=np.float64)
        box_low, box_high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
        limit = np.where(known[:, None], sizes, np.inf)
        low, high = np.clip(low, 0, limit), np.clip(high, 0, limit)
        both = np.clip(np.minimum(high, box_high) - np.maximum(low, box_low), 0, None).prod(axis=1)
        either = (high - low).prod(axis=1) + boxes[:, 2:].prod(axis=1) - both
        iou = np.divide(both, either, out=np.ones_like(both), where=either > 0)
        # Boxes on the pixel grid may be a pixel wider than the polygon: thin objects need that tolerance.
        near = (np.abs(low - box_low) <= 2).all(axis=1) & (np.abs(high - box_high) <= 2).all(axis=1)
        differ = (iou < _WORST_IOU) & ~near & ~skip & (boxes[:, 2] > 0)
        self._report(
            tally, "box-mask-differ", differ, lambda i: f"IoU of the box and the mask's extent {iou[i]:.2f}"
        )

    def _nested(self, tally: Tally, rings: Rings, ring_areas: np.ndarray) -> None:
        bounds = [*self.first, len(self.lengths)]
        low, high = rings.extents()
        for index, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            if end - begin < 2 or end - begin > 200:
                continue
            inner = 0
            for ring in range(begin, end):
                for other in range(begin, end):
                    inside = (low[ring] > low[other]).all() and (high[ring] < high[other]).all()
                    if ring != other and inside and ring_areas[ring] < ring_areas[other]:
                        point = rings.points[rings.starts[ring]]
                        if _contains(rings.points[rings.starts[other] : rings.starts[other + 1]], point):
                            inner += 1
                            break
            if inner:
                tally.add("nested-parts", f"{inner} of {end - begin} parts", **self.where[index])


@dataclass
class MaskVerdict:
    """One mask by itself: its fault ("" if none), its area, and its box clipped to the picture."""

    fault: str
    area: float
    box: tuple[float, float, float, float]

    def box_differs(self, box: Any) -> bool:
        """Whether an annotation's bbox is unusable, or overlaps the mask's extent by less than half."""
        numbers = (
            isinstance(box, list)
            and len(box) == 4
            and all(type(v) in (int, float) and abs(v) < 1e30 for v in box)
        )
        if not numbers or box[2] <= 1e-5 or box[3] <= 1e-5:
            return True
        x, y, width, height = self.box
        if all(abs(a - b) <= 2 for a, b in zip(self.box, box)):
            return False
        across = min(x + width, box[0] + box[2]) - max(x, box[0])
        down = min(y + height, box[1] + box[3]) - max(y, box[1])
        both = max(across, 0.0) * max(down, 0.0)
        return both < _WORST_IOU * (width * height + box[2] * box[3] - both)


def judge_mask(parts: list[list[float]], size: tuple[float, float]) -> MaskVerdict:
    """The tests of `MaskBatch` for one mask: flat parts of 3 or more finite points, (width, height)."""
    rings = Rings([value for part in parts for value in part], [len(part) for part in parts])
    low, high = rings.extents()
    low, high = low.min(axis=0), high.max(axis=0)
    area = float(rings.areas().sum())
    limit = np.asarray(size) if min(size) > 0 else np.asarray([np.inf, np.inf])
    fault = ""
    reach = max(np.abs(low).max(), np.abs(high).max())
    if reach > _HUGE or (high > 20 * limit + 1000).any() or (low < -20 * limit - 1000).any():
        fault = f"coordinates up to {reach:g}"
    elif (high <= 0).any() or (low >= limit).any():
        fault = "the mask lies outside the picture"
    elif area <= 1e-6 and not rings.crossing().any():
        fault = "the mask encloses no area"
    low, high = np.clip(low, 0, limit), np.clip(high, 0, limit)
    width, height = high - low
    return MaskVerdict(fault, area, (float(low[0]), float(low[1]), float(width), float(height)))


def _contains(ring: np.ndarray, point: np.ndarray) -> bool:
    """Even-odd test of a point against one ring."""
    following = np.roll(ring, -1, axis=0)
    spans = (ring[:, 1] > point[1]) != (following[:, 1] > point[1])
    rise = following[:, 1] - ring[:, 1]
    rise[rise == 0] = 1.0
    x = ring[:, 0] + (point[1] - ring[:, 1]) * (following[:, 0] - ring[:, 0]) / rise
    return bool(np.count_nonzero(spans & (x > point[0])) % 2)
