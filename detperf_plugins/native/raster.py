"""Polygons to masks, exactly as pycocotools and ppdet rasterise them, many at once.

Polygons are given as compressed sparse rows (CSR), the form in which they travel from the loader:
`xy` holds all vertices, `parts` where each polygon part begins, `instances` where each instance's parts
begin. An instance's mask is the union of its parts, each filled even-odd (COCO's rule).
Method: rleFrPoly of cocoapi's maskApi.c, solved per edge and pixel column (native/include/detperf/raster.h).
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["rasterize", "rasterize_full"]


def rasterize(
    xy: np.ndarray,
    parts: np.ndarray,
    instances: np.ndarray,
    boxes: np.ndarray,
    index: np.ndarray,
    height: int,
    width: int,
    dtype: type = np.int32,
    threads: int = 0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Masks of instances `index` seen through `boxes`, on a height x width grid each.

    Bit-identical to ppdet's `rasterize_polygons_within_box` for every polygon that survives it.

    Args:
        xy: float64 [V, 2], vertices in image pixels, finite.
        parts: int64 [P + 1], part p is `xy[parts[p]:parts[p + 1]]`.
        instances: int64 [G + 1], instance g has parts `instances[g]` to `instances[g + 1]`.
        boxes: float32 [N, 4], x0 y0 x1 y1 in image pixels; sizes under 0.1 count as 0.1.
        index: int64 [N], the instance of each box; -1 gives an empty mask.
        height, width: grid size in cells, 1 to 32767.
        dtype: int32 or uint8.
        threads: worker threads; 0 means one per core.
        out: dtype [N, height, width] to write to, C-contiguous; made where None.

    Returns:
        dtype [N, height, width], 1 inside and 0 outside.

    Raises:
        ValueError: a shape, dtype or offset does not fit.
    """
    xy = np.ascontiguousarray(xy, dtype=np.float64)
    parts = np.ascontiguousarray(parts, dtype=np.int64)
    instances = np.ascontiguousarray(instances, dtype=np.int64)
    boxes = np.ascontiguousarray(boxes, dtype=np.float32)
    index = np.ascontiguousarray(index, dtype=np.int64)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"xy must be [V, 2], got {list(xy.shape)}")
    if boxes.ndim != 2 or boxes.shape[1] != 4 or index.shape != boxes.shape[:1]:
        raise ValueError(f"boxes must be [N, 4] and index [N], got {list(boxes.shape)}, {list(index.shape)}")
    if not (1 <= height <= 32767 and 1 <= width <= 32767):
        raise ValueError(f"a grid of {height} x {width} cells is outside 1 to 32767")
    _check_offsets("parts", parts, len(xy))
    _check_offsets("instances", instances, len(parts) - 1)
    if len(index) and (index.min() < -1 or index.max() >= len(instances) - 1):
        raise ValueError(f"index must lie in -1 to {len(instances) - 2}, got {index.min()} to {index.max()}")
    shape = (len(boxes), height, width)
    if out is None:
        out = np.empty(shape, dtype=dtype)
    elif out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(f"out must be contiguous {np.dtype(dtype)} {list(shape)}")
    if out.dtype == np.int32:
        kernel = kernels().rasterize_int32
    elif out.dtype == np.uint8:
        kernel = kernels().rasterize_uint8
    else:
        raise ValueError(f"dtype must be int32 or uint8, got {out.dtype}")
    kernel(xy, parts, instances, boxes, index, out, threads)
    return out


def rasterize_full(
    xy: np.ndarray, parts: np.ndarray, instances: np.ndarray, height: int, width: int, threads: int = 0
) -> np.ndarray:
    """Bitmaps of all instances over the whole image, as pycocotools' frPyObjects, merge and decode.

    Args:
        xy, parts, instances: see `rasterize`.
        height, width: image size in pixels.
        threads: worker threads; 0 means one per core.

    Returns:
        uint8 [G, height, width].
    """
    count = len(instances) - 1
    boxes = np.tile(np.array([[0, 0, width, height]], dtype=np.float32), (count, 1))
    return rasterize(xy, parts, instances, boxes, np.arange(count), height, width, np.uint8, threads)


def _check_offsets(name: str, offsets: np.ndarray, total: int) -> None:
    if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != total:
        raise ValueError(
            f"{name} must run from 0 to {total}, got {offsets[:1].tolist()}..{offsets[-1:].tolist()}"
        )
    if (np.diff(offsets) < 0).any():
        raise ValueError(f"{name} must not fall")
