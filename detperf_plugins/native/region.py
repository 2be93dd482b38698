"""Windows of pictures that OpenCV would make whole, to the same pixels; and pictures turned into planes.

Method: OpenCV's own fixed-point rules (bilinear resize with weights in 1/2048, affine warp with positions in
1/32 pixel), evaluated for the pixels asked for (native/include/detperf/region.h). `tests/native/test_region.py`
holds them to cv2, and `detperf_plugins.mindocr.geometry` checks the installed cv2 once before it relies on them.
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["affine_maps", "normalize_planes", "resize_reads", "resize_region"]


def resize_region(
    source: np.ndarray,
    origin: tuple[int, int],
    full_size: tuple[int, int],
    steps: tuple[float, float],
    window: tuple[int, int, int, int],
) -> np.ndarray:
    """Rows and columns `window` of `cv2.resize(full, None, fx=1 / steps[1], fy=1 / steps[0])`.

    Args:
        source: uint8 [h, w, 3], the part of the full picture that the window reads (see `resize_reads`),
            its pixels packed; rows may lie apart.
        origin: row and column of the full picture at which `source` begins.
        full_size: height and width of the full picture.
        steps: source pixels per output pixel, along y and x.
        window: top, left, bottom, right in output pixels; bottom and right are not in it.

    Returns:
        uint8 [bottom - top, right - left, 3].

    Raises:
        ValueError: a shape does not fit, or the source misses a pixel that is needed.
    """
    top, left, bottom, right = window
    if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3:
        raise ValueError(f"source must be uint8 [h, w, 3], got {source.dtype} {list(source.shape)}")
    if bottom <= top or right <= left:
        return np.empty((max(bottom - top, 0), max(right - left, 0), 3), dtype=np.uint8)
    for axis, first, last in ((0, top, bottom), (1, left, right)):
        low, high = resize_reads(first, last, steps[axis], full_size[axis])
        if low < origin[axis] or high > origin[axis] + source.shape[axis]:
            raise ValueError(f"the source lacks part of {low}..{high} along axis {axis}")
    if source.strides[1:] != (3, 1):
        source = np.ascontiguousarray(source)
    out: np.ndarray = np.empty((bottom - top, right - left, 3), dtype=np.uint8)
    kernels().resize_region(source, *origin, *full_size, *steps, top, left, out)
    return out


def resize_reads(first: int, last: int, step: float, size: int) -> tuple[int, int]:
    """The source samples, as a half-open range, that outputs `first` to `last` (excluded) of a resize read."""
    low = int(np.floor((first + 0.5) * step - 0.5)) - 1
    high = int(np.floor((last - 0.5) * step - 0.5)) + 3
    return min(max(low, 0), size - 1), max(min(high, size), 1)


def affine_maps(
    inverse: np.ndarray, window: tuple[int, int, int, int], origin: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """The two maps with which `cv2.remap` makes `window` of what `cv2.warpAffine` makes (bilinear, uint8).

    Args:
        inverse: float64 [2, 3], from output to source pixels.
        window: top, left, bottom, right in output pixels; bottom and right are not in it.
        origin: row and column of the source picture at which the picture handed to remap begins.

    Returns:
        int16 [h, w, 2] (x and y) and uint16 [h, w] (index into OpenCV's table of fractions).

    Raises:
        ValueError: the matrix is not [2, 3].
    """
    inverse = np.ascontiguousarray(inverse, dtype=np.float64)
    if inverse.shape != (2, 3):
        raise ValueError(f"the matrix must be [2, 3], got {list(inverse.shape)}")
    top, left, bottom, right = window
    places: np.ndarray = np.empty((max(bottom - top, 0), max(right - left, 0), 2), dtype=np.int16)
    fractions: np.ndarray = np.empty(places.shape[:2], dtype=np.uint16)
    kernels().affine_maps(inverse, top, left, *origin, places, fractions)
    return places, fractions


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
