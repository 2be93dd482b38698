"""`PerfDetTargets`: DBNet's four target maps in one pass, as ShrinkBinaryMap and BorderMap make them.

Exact: binary_map, mask, thresh_mask and ignore_tags are bit-equal to stock's, thresh_map is within 2e-7. Two
faults of stock are mended on request, and where the installed MindOCR has them mended: pixels lost to NaN
(see `detperf_plugins.native.border_map`), and a text that shrinks into several parts, of which stock paints
the first. One always is: a polygon that crosses itself is ignored (stock paints half of a bow-tie, unshrunk).

Polygons are shrunk and grown by pyclipper, as in stock; everything else is vectorised or compiled, and the
interpreter's lock is free while the border map is made.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pyclipper

from detperf_plugins.native.border_map import border_map, measure_rings

__all__ = ["PerfDetTargets", "mended_by_host", "pack"]


def pack(polys: Any) -> tuple[np.ndarray, np.ndarray]:
    """Polygons as compressed sparse rows.

    Args:
        polys: float [N, V, 2], or a sequence of N arrays [V, 2].

    Returns:
        xy float64 [sum of V, 2] and parts int64 [N + 1].
    """
    if isinstance(polys, np.ndarray) and polys.ndim == 3:
        count, vertices = polys.shape[:2]
        return polys.reshape(-1, 2).astype(np.float64), np.arange(count + 1, dtype=np.int64) * vertices
    parts = np.cumsum([0, *(len(poly) for poly in polys)]).astype(np.int64)
    if not len(polys):
        return np.zeros((0, 2)), parts
    return np.concatenate([np.asarray(poly, dtype=np.float64).reshape(-1, 2) for poly in polys]), parts


@functools.cache
def mended_by_host() -> tuple[bool, bool]:
    """Whether the installed MindOCR draws the pixels lost to NaN in 0.5.0, and all parts of a shrunk text."""
    from mindocr.data.transforms.det_transforms import BorderMap, ShrinkBinaryMap

    corner, pixel = np.zeros(2), np.zeros((1, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        repeated = BorderMap._distance(pixel, pixel, corner, corner)
    left = [(35, 31), (35, 50), (5, 50), (5, 10), (35, 10), (35, 28)]  # a dumbbell's half
    dumbbell = np.array([*left, *((95 - x, y) for x, y in left[::-1])], dtype=np.float64)
    sample = {"image": np.zeros((60, 96, 3), np.uint8), "polys": [dumbbell], "ignore_tags": np.array([False])}
    shrunk = ShrinkBinaryMap(min_text_size=8, shrink_ratio=0.4)(sample)["binary_map"][0]
    return bool(np.isfinite(repeated).all()), bool(shrunk[30, 20] and shrunk[30, 75])


class PerfDetTargets:
    """ShrinkBinaryMap followed by BorderMap (not `fast`).

    Args:
        min_text_size: side in pixels below which a text is ignored.
        shrink_ratio: of both maps.
        thresh_min, thresh_max: range of thresh_map.
        mended: draw the pixels that stock loses to NaN, and every part of a shrunk text; False leaves either
            to the installed MindOCR's way.

    Called with image [H, W, 3], polys (a sequence of float [V, 2]) and ignore_tags bool [N]; sets ignore_tags
    in place, and adds binary_map float32 [1, H, W], mask, thresh_map and thresh_mask float32 [H, W].
    """

    releases_gil = True

    def __init__(
        self,
        min_text_size: float = 8,
        shrink_ratio: float = 0.4,
        thresh_min: float = 0.3,
        thresh_max: float = 0.7,
        mended: bool = False,
        **kwargs: Any,
    ) -> None:
        self._all_pixels, self._all_parts = (mended or by_host for by_host in mended_by_host())
        self._min_text_size = min_text_size
        self._reach = 1 - shrink_ratio**2
        self._thresh_min, self._thresh_max = thresh_min, thresh_max

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add the four maps to `data`; see the class."""
        height, width = data["image"].shape[:2]
        binary: np.ndarray = np.zeros((1, height, width), dtype=np.float32)
        mask: np.ndarray = np.ones((height, width), dtype=np.float32)
        thresh_mask: np.ndarray = np.zeros((height, width), dtype=np.float32)
        polys, tags = data["polys"], data["ignore_tags"]
        xy, parts = pack(polys)
        kept, reaches, boxes = [], [], []
        for index, reach in enumerate(self._reaches(xy, parts, tags)):
            shrunk, grown = _offsets(polys[index], reach) if reach > 0 else ((), ())
            if not shrunk or not grown:
                cv2.fillPoly(mask, [polys[index].astype(np.int32)], 0)
                tags[index] = True
                continue
            for part in shrunk if self._all_parts else shrunk[:1]:
                cv2.fillPoly(binary[0], [np.array(part, dtype=np.int32)], 1)
            outline = np.array(grown[0], dtype=np.int32)
            cv2.fillPoly(thresh_mask, [outline], 1.0)
            kept.append(index)
            reaches.append(reach)
            boxes.append(cv2.boundingRect(outline))
        data["binary_map"], data["mask"] = binary, mask
        data["thresh_map"] = self._border(xy, parts, kept, reaches, boxes, height, width)
        data["thresh_mask"] = thresh_mask
        return data

    def _reaches(self, xy: np.ndarray, parts: np.ndarray, tags: Sequence[bool]) -> list[float]:
        """By how many pixels each polygon shrinks and grows; 0 for one that is ignored."""
        count = len(parts) - 1
        if count == 0:
            return []
        areas, lengths, crossing = measure_rings(xy, parts)
        filled = np.diff(parts) > 0
        low, high = np.zeros((2, count, 2))
        low[filled] = np.minimum.reduceat(xy, parts[:-1][filled])
        high[filled] = np.maximum.reduceat(xy, parts[:-1][filled])
        wanted = ~np.asarray(tags, dtype=bool) & ~crossing & (areas > 0)
        wanted &= (high - low).min(axis=1) >= self._min_text_size
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(wanted, self._reach * areas / lengths, 0.0).tolist()

    def _border(
        self,
        xy: np.ndarray,
        parts: np.ndarray,
        kept: list[int],
        reaches: list[float],
        boxes: list[tuple[int, int, int, int]],
        height: int,
        width: int,
    ) -> np.ndarray:
        if not kept:
            return np.full((height, width), self._thresh_min, dtype=np.float32)
        if len(kept) < len(parts) - 1:
            xy, parts = pack([xy[parts[i] : parts[i + 1]] for i in kept])
        sizes = np.array(boxes, dtype=np.int32)
        sizes[:, 2:] += sizes[:, :2] - 1
        border = border_map(xy, parts, np.array(reaches), sizes, height, width, mended=self._all_pixels)
        border *= np.float32(self._thresh_max - self._thresh_min)
        border += np.float32(self._thresh_min)
        return border


def _offsets(poly: np.ndarray, reach: float) -> tuple[list[Any], list[Any]]:
    """The outlines of `poly` shrunk and grown by `reach` pixels (integers, as pyclipper gives them)."""
    clipper = pyclipper.PyclipperOffset()
    try:
        clipper.AddPath(poly.tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    except pyclipper.ClipperException:  # it collapses to a point or a line on the pixel grid
        return [], []
    shrunk = clipper.Execute(-reach)
    return shrunk, clipper.Execute(reach) if shrunk else []
