"""The border (threshold) map of all text polygons of a picture, and the measures of their rings.

Polygons are given as compressed sparse rows: `xy` holds all vertices, polygon p is
`xy[parts[p]:parts[p + 1]]`. Method: MindOCR's BorderMap (not fast), evaluated in float64 per edge, only where
the edge can be nearer than the polygon's reach, and only inside the picture
(native/include/detperf/border_map.h). Where stock's 1 - cos^2 rounds below 0 (pixels on an edge's line) its
distance is NaN, and the polygon leaves that pixel as it was: so here too, unless `mended`.
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["border_map", "measure_rings", "visible_areas"]


def measure_rings(xy: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Area, length and self-crossing of each ring.

    Area and length equal shapely's (GEOS) to the last bit; a ring of fewer than 3 points has neither.

    Args:
        xy: float64 [V, 2], vertices in pixels.
        parts: int64 [P + 1].

    Returns:
        areas float64 [P] in square pixels, lengths float64 [P] in pixels, and crossing bool [P]: two of its
        edges cross at a point inside both (touching and repeated points do not count).

    Raises:
        ValueError: a shape or an offset does not fit.
    """
    xy, parts = _checked(xy, parts)
    measures: np.ndarray = np.zeros((len(parts) - 1, 2), dtype=np.float64)
    crossing: np.ndarray = np.zeros(len(parts) - 1, dtype=np.uint8)
    kernels().measure_rings(xy, parts, measures, crossing)
    return measures[:, 0], measures[:, 1], crossing.astype(bool)


def visible_areas(xy: np.ndarray, parts: np.ndarray, height: float, width: float) -> np.ndarray:
    """Area of each ring's part within 0..width x 0..height, for rings that do not cross themselves.

    Args:
        xy: float64 [V, 2], vertices in pixels.
        parts: int64 [P + 1].
        height, width: size of the picture in pixels.

    Returns:
        float64 [P] in square pixels; equal to a geometry library's up to rounding.

    Raises:
        ValueError: a shape or an offset does not fit.
    """
    xy, parts = _checked(xy, parts)
    out: np.ndarray = np.zeros(len(parts) - 1, dtype=np.float64)
    kernels().visible_areas(xy, parts, width, height, out)
    return out


def border_map(
    xy: np.ndarray,
    parts: np.ndarray,
    reaches: np.ndarray,
    boxes: np.ndarray,
    height: int,
    width: int,
    threads: int = 1,
    mended: bool = False,
) -> np.ndarray:
    """1 on the edges of the polygons, falling to 0 at a polygon's reach; the maximum over the polygons.

    Args:
        xy: float64 [V, 2], vertices in pixels.
        parts: int64 [P + 1].
        reaches: float64 [P], half the width of each polygon's border in pixels; 0 or less draws nothing.
        boxes: int32 [P, 4], left, top, right, bottom (all inclusive) of the pixels that each polygon may
            touch; may lie outside the picture.
        height, width: size of the map in pixels.
        threads: worker threads over the rows; 0 means one per core.
        mended: the distance is 0 where stock's is NaN, else such a pixel is not drawn.

    Returns:
        float32 [height, width] in 0 to 1.

    Raises:
        ValueError: a shape or an offset does not fit.
    """
    xy, parts = _checked(xy, parts)
    reaches = np.ascontiguousarray(reaches, dtype=np.float64)
    boxes = np.ascontiguousarray(boxes, dtype=np.int32)
    count = len(parts) - 1
    if reaches.shape != (count,) or boxes.shape != (count, 4):
        raise ValueError(
            f"reaches must be [{count}] and boxes [{count}, 4], "
            f"got {list(reaches.shape)} and {list(boxes.shape)}"
        )
    if not (0 <= height < 2**31 and 0 <= width < 2**31):
        raise ValueError(f"no map has {height} x {width} pixels")
    out: np.ndarray = np.zeros((height, width), dtype=np.float32)
    kernels().border_map(xy, parts, reaches, boxes, out, threads, mended)
    return out


def _checked(xy: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    xy = np.ascontiguousarray(xy, dtype=np.float64)
    parts = np.ascontiguousarray(parts, dtype=np.int64)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"xy must be [V, 2], got {list(xy.shape)}")
    if (
        parts.ndim != 1
        or len(parts) < 1
        or parts[0] != 0
        or parts[-1] != len(xy)
        or (np.diff(parts) < 0).any()
    ):
        raise ValueError(
            f"parts must rise from 0 to {len(xy)}, got {parts[:1].tolist()}..{parts[-1:].tolist()}"
        )
    return xy, parts
