"""Windows of pictures that OpenCV would make whole, to the same pixels; and pictures turned into planes.

Method: OpenCV's own fixed-point rules (bilinear resize with weights in 1/2048, affine warp with positions
in 1/32 pixel), evaluated for the pixels asked for (native/include/detperf/region.h).
`tests/native/test_region.py` holds them to cv2, and `detperf_plugins.mindocr.geometry` checks the installed
cv2 once before it relies on them.
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["mix_taps", "normalize_planes", "resize_taps", "warp_region"]


def resize_taps(outputs: np.ndarray, step: float, size: int, column: bool) -> np.ndarray:
    """Where rows or columns of a bilinear cv2.resize read.

    Args:
        outputs: int64 [n], positions in the resized picture.
        step: source samples per output sample.
        size: source samples.
        column: columns and rows are treated differently at the edge.

    Returns:
        int32 [n, 4]: two source positions, and their weights in 1/2048.

    Raises:
        ValueError: `outputs` is not one row of positions, or there is no source sample.
    """
    outputs = np.ascontiguousarray(outputs, dtype=np.int64)
    if outputs.ndim != 1 or size < 1:
        raise ValueError(f"outputs must be [n] of at least one sample, got {list(outputs.shape)} of {size}")
    out: np.ndarray = np.empty((len(outputs), 4), dtype=np.int32)
    kernels().resize_taps(outputs, step, size, column, out)
    return out


def mix_taps(source: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Pixels mixed bilinearly from `source`, rounded as cv2.resize rounds.

    Args:
        source: uint8 [h, w, 3], its pixels packed; rows may lie apart.
        rows, columns: int32 [n, 4] as from `resize_taps`, counted in `source`, not falling; a column's second
            position is the one after the first, or has no weight.

    Returns:
        uint8 [len(rows), len(columns), 3].

    Raises:
        ValueError: a shape or dtype does not fit, or a tap lies outside the source.
    """
    if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3:
        raise ValueError(f"source must be uint8 [h, w, 3], got {source.dtype} {list(source.shape)}")
    rows, columns = (np.ascontiguousarray(taps, dtype=np.int32) for taps in (rows, columns))
    for name, taps, size in (("rows", rows, source.shape[0]), ("columns", columns, source.shape[1])):
        if taps.ndim != 2 or taps.shape[1] != 4:
            raise ValueError(f"{name} must be [n, 4], got {list(taps.shape)}")
        if len(taps) and (taps[:, :2].min() < 0 or taps[:, :2].max() >= size):
            raise ValueError(f"{name} read outside the source's {size}")
    if source.strides[1:] != (3, 1):
        source = np.ascontiguousarray(source)
    out: np.ndarray = np.empty((len(rows), len(columns), 3), dtype=np.uint8)
    kernels().mix_taps(source, rows, columns, out)
    return out


def warp_region(
    source: np.ndarray, inverse: np.ndarray, window: tuple[int, int, int, int], origin: tuple[int, int]
) -> np.ndarray:
    """`window` of what `cv2.warpAffine` makes of a picture (bilinear, black outside).

    Args:
        source: uint8 [h, w, 3], the part of the picture that the window reads; its pixels packed.
        inverse: float64 [2, 3], from output to picture pixels.
        window: top, left, bottom, right in output pixels; bottom and right are not in it.
        origin: row and column of the picture at which `source` begins.

    Returns:
        uint8 [bottom - top, right - left, 3].

    Raises:
        ValueError: a shape or dtype does not fit.
    """
    inverse = np.ascontiguousarray(inverse, dtype=np.float64)
    if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or inverse.shape != (2, 3):
        raise ValueError(
            f"source must be uint8 [h, w, 3] and the matrix [2, 3], got {source.dtype} {list(source.shape)} "
            f"and {list(inverse.shape)}"
        )
    if source.strides[1:] != (3, 1):
        source = np.ascontiguousarray(source)
    top, left, bottom, right = window
    out: np.ndarray = np.empty((max(bottom - top, 0), max(right - left, 0), 3), dtype=np.uint8)
    kernels().warp_region(source, inverse, top, left, *origin, out)
    return out


def normalize_planes(image: np.ndarray, table: np.ndarray) -> np.ndarray:
    """`table[c, image[y, x, c]]` as planes.

    Args:
        image: uint8 [h, w, 3].
        table: float32 [3, 256].

    Returns:
        float32 [3, h, w].

    Raises:
        ValueError: a shape or dtype does not fit.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"image must be uint8 [h, w, 3], got {image.dtype} {list(image.shape)}")
    table = np.ascontiguousarray(table, dtype=np.float32)
    if table.shape != (3, 256):
        raise ValueError(f"table must be [3, 256], got {list(table.shape)}")
    out: np.ndarray = np.empty((3, *image.shape[:2]), dtype=np.float32)
    kernels().normalize_planes(np.ascontiguousarray(image), table, out)
    return out
