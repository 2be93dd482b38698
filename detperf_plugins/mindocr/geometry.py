"""The random moves of a DBNet sample (flip, rotate, scale, crop): drawn first, rendered where needed.

A move draws exactly what MindOCR's transform of the same name draws, from the same generators in the same
order, and moves the polygons with the same operations; the picture is rendered afterwards. So the pixels that
no later move looks at are never made, and several moves can become one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from detperf_plugins.native.region import mix_taps, resize_taps, warp_region

__all__ = [
    "MOVES",
    "Drawn",
    "Flip",
    "Rotate",
    "Scale",
    "Window",
    "inverted",
    "regions_are_exact",
    "scaling",
    "shrink",
]

logger = logging.getLogger("mindocr.detperf")

# Top, left, bottom, right in pixels; bottom and right are not in it.
Window = tuple[int, int, int, int]
Size = tuple[int, int]


def scaling(factor_x: float, factor_y: float) -> np.ndarray:
    """float64 [3, 3] of cv2.resize: pixel centres keep their places."""
    return np.array(
        [[factor_x, 0, 0.5 * factor_x - 0.5], [0, factor_y, 0.5 * factor_y - 0.5], [0, 0, 1]],
        dtype=np.float64,
    )


def inverted(mat: np.ndarray) -> np.ndarray:
    """float64 [2, 3] inverse of an affine matrix, as OpenCV computes it: pixels depend on the last bit."""
    (a, b, c), (d, e, f) = mat.tolist()
    determinant = a * e - b * d
    scale = 1.0 / determinant if determinant != 0 else 0.0
    a, b, d, e = e * scale, b * -scale, d * -scale, a * scale
    return np.array([[a, b, -a * c - b * f], [d, e, -d * c - e * f]])


@dataclass(frozen=True)
class Drawn:
    """A move with its draws, from a picture of `size_in` (height, width) to one of `size_out`; here: none."""

    size_in: Size
    size_out: Size

    def matrix(self) -> np.ndarray:
        """float64 [3, 3], from input to output pixels (x, y, 1)."""
        return np.eye(3)

    def whole(self, picture: np.ndarray) -> np.ndarray:
        """The moved picture, uint8 [H', W', 3] of [H, W, 3], by the stock operation."""
        return picture

    def reads(self, window: Window) -> Window:
        """The input window that `window` of the output depends on."""
        return window

    def part(self, picture: np.ndarray, at: Window, window: Window) -> np.ndarray:
        """`window` of the output, uint8 [h, w, 3], from `picture`, which is the window `at` of the input."""
        top, left, bottom, right = window
        return picture[top - at[0] : bottom - at[0], left - at[1] : right - at[1]]


@dataclass(frozen=True)
class _Flipped(Drawn):
    def matrix(self) -> np.ndarray:
        return np.array([[-1, 0, self.size_in[1] - 1], [0, 1, 0], [0, 0, 1]], dtype=np.float64)

    def whole(self, picture: np.ndarray) -> np.ndarray:
        return cv2.flip(picture, 1)

    def reads(self, window: Window) -> Window:
        top, left, bottom, right = window
        return top, self.size_in[1] - right, bottom, self.size_in[1] - left

    def part(self, picture: np.ndarray, at: Window, window: Window) -> np.ndarray:
        top, left, bottom, right = self.reads(window)
        return cv2.flip(picture[top - at[0] : bottom - at[0], left - at[1] : right - at[1]], 1)


class Flip:
    """RandomHorizontalFlip."""

    def __init__(self, p: float = 0.5, **kwargs: Any) -> None:
        self._p = p

    def draw(self, random: Any, size: Size, polys: np.ndarray) -> tuple[Drawn, np.ndarray]:
        """Draw as stock does; size is (height, width) and polys float32 [N, V, 2], moved with it."""
        if not random.random() < self._p:
            return Drawn(size, size), polys
        if len(polys):
            mat = np.array([[-1, 0, size[1] - 1], [0, 1, 0]], dtype=np.float32)
            polys = cv2.transform(polys, mat)[:, ::-1, :]
        return _Flipped(size, size), polys


@dataclass(frozen=True)
class _Rotated(Drawn):
    mat: np.ndarray

    def matrix(self) -> np.ndarray:
        return np.vstack([self.mat, [0, 0, 1]])

    def whole(self, picture: np.ndarray) -> np.ndarray:
        return cv2.warpAffine(picture, self.mat, self.size_out[::-1])

    @functools.cached_property
    def _inverse(self) -> np.ndarray:
        return inverted(self.mat)

    def reads(self, window: Window) -> Window:
        top, left, bottom, right = window
        corners = np.array([[x, y, 1] for x in (left, right) for y in (top, bottom)]) @ self._inverse.T
        low, high = np.floor(corners.min(axis=0)) - 2, np.ceil(corners.max(axis=0)) + 3
        low, high = np.clip(low, 0, self.size_in[::-1]), np.clip(high, 0, self.size_in[::-1])
        return int(low[1]), int(low[0]), int(high[1]), int(high[0])

    def part(self, picture: np.ndarray, at: Window, window: Window) -> np.ndarray:
        return warp_region(picture, self._inverse, window, at[:2])


class Rotate:
    """RandomRotate."""

    def __init__(
        self, degrees: Sequence[int] = (-10, 10), expand_canvas: bool = True, p: float = 1.0, **kwargs: Any
    ) -> None:
        self._degrees, self._expand, self._p = degrees, expand_canvas, p

    def draw(self, random: Any, size: Size, polys: np.ndarray) -> tuple[Drawn, np.ndarray]:
        """Draw as stock does; size is (height, width) and polys float32 [N, V, 2], moved with it."""
        if not random.random() < self._p:
            return Drawn(size, size), polys
        height, width = size
        centre = width // 2, height // 2
        mat = cv2.getRotationMatrix2D(centre, random.randint(self._degrees[0], self._degrees[1]), 1)
        if self._expand:
            cos, sin = abs(mat[0, 0]), abs(mat[0, 1])
            width, height = int((height * sin) + (width * cos)), int((height * cos) + (width * sin))
            mat[0, 2] += (width / 2) - centre[0]
            mat[1, 2] += (height / 2) - centre[1]
        return _Rotated(size, (height, width), mat), cv2.transform(polys, mat) if len(polys) else polys


@dataclass(frozen=True)
class _Scaled(Drawn):
    factor: float

    def matrix(self) -> np.ndarray:
        return scaling(self.factor, self.factor)

    def whole(self, picture: np.ndarray) -> np.ndarray:
        return cv2.resize(picture, dsize=None, fx=self.factor, fy=self.factor)

    def _taps(self, outputs: np.ndarray, axis: int) -> np.ndarray:
        return resize_taps(outputs, 1.0 / self.factor, self.size_in[axis], column=axis == 1)

    def reads(self, window: Window) -> Window:
        if self.size_in == self.size_out:  # cv2 copies
            return window
        top, bottom = (
            int(self._taps(np.array([y]), 0)[0, i]) for y, i in ((window[0], 0), (window[2] - 1, 1))
        )
        left, right = (
            int(self._taps(np.array([x]), 1)[0, i]) for x, i in ((window[1], 0), (window[3] - 1, 1))
        )
        return top, left, bottom + 1, right + 1

    def part(self, picture: np.ndarray, at: Window, window: Window) -> np.ndarray:
        if self.size_in == self.size_out:
            return super().part(picture, at, window)
        return self.sample(picture, at, np.arange(window[0], window[2]), np.arange(window[1], window[3]))

    def sample(self, picture: np.ndarray, at: Window, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The crossings of some rows and columns of the output; see `part`."""
        if self.size_in == self.size_out:
            return picture[rows - at[0]][:, columns - at[1]]
        row_taps, column_taps = self._taps(rows, 0), self._taps(columns, 1)
        row_taps[:, :2] -= at[0]
        column_taps[:, :2] -= at[1]
        return mix_taps(picture, row_taps, column_taps)


def shrink(last: Drawn, picture: np.ndarray, at: Window, window: Window, factor: float) -> np.ndarray:
    """`cv2.resize(part, None, fx=factor, fy=factor)` of `last.part(picture, at, window)`.

    Where the last move is a scaling, only the rows and columns of its result that the resize reads are made.

    Args:
        last, at: the last move, and the window of `picture` in its source.
        picture: uint8 [H, W, 3].
        window: top, left, bottom, right of the wanted part of the move's result, pixels.
        factor: of both sides.

    Returns:
        uint8 [round(h factor), round(w factor), 3] of a window of h x w pixels.
    """
    size = window[2] - window[0], window[3] - window[1]
    wanted = round(size[0] * factor), round(size[1] * factor)
    # At exactly a half OpenCV averages areas, which rounds otherwise at the end of an odd size.
    if not isinstance(last, _Scaled) or wanted == size or factor == 0.5:
        return cv2.resize(last.part(picture, at, window), None, fx=factor, fy=factor)
    needed, taps = [], []
    for axis in (0, 1):
        reads = resize_taps(np.arange(wanted[axis]), 1.0 / factor, size[axis], column=axis == 1)
        used: np.ndarray = np.zeros(size[axis], dtype=bool)
        used[reads[:, :2]] = True
        needed.append(np.flatnonzero(used))
        reads[:, :2] = (np.cumsum(used) - 1)[reads[:, :2]]
        taps.append(reads)
    return mix_taps(last.sample(picture, at, needed[0] + window[0], needed[1] + window[1]), *taps)


class Scale:
    """RandomScale."""

    def __init__(
        self,
        scale_range: Sequence[float],
        size_limits: Sequence[float] | None = None,
        p: float = 0.5,
        **kwargs: Any,
    ) -> None:
        self._range = sorted(scale_range)
        self._limits = sorted(size_limits) if size_limits else []
        self._p = p

    def draw(self, random: Any, size: Size, polys: np.ndarray) -> tuple[Drawn, np.ndarray]:
        """Draw as stock does; size is (height, width) and polys float32 [N, V, 2], moved with it."""
        if not random.random() < self._p:
            return Drawn(size, size), polys
        low, high = self._range[0], self._range[-1]
        if self._limits:
            low = max(self._limits[0] / size[0], self._limits[0] / size[1], low)
            high = min(self._limits[1] / size[0], self._limits[1] / size[1], high)
        factor = random.uniform(low, high)
        polys = polys.copy()
        polys *= factor
        # cv2 rounds halves to even, as round() does.
        return _Scaled(size, (round(size[0] * factor), round(size[1] * factor)), factor), polys


MOVES = {"RandomHorizontalFlip": Flip, "RandomRotate": Rotate, "RandomScale": Scale}


@functools.lru_cache(maxsize=1)
def regions_are_exact() -> bool:
    """Whether rendering by windows gives the pixels of the installed cv2, tried once on small pictures."""
    random = np.random.RandomState(7)
    picture = random.randint(0, 256, (61, 83, 3)).astype(np.uint8)
    window = (11, 7, 40, 52)
    exact = True
    for angle, factor in ((-9, 0.71), (6, 1.37), (10, 2.9)):
        mat = cv2.getRotationMatrix2D((41, 30), angle, 1)
        size = (round(61 * factor), round(83 * factor))
        for drawn in (_Rotated((61, 83), (61, 83), mat), _Scaled((61, 83), size, factor)):
            at = drawn.reads(window)
            part = drawn.part(picture[at[0] : at[2], at[1] : at[3]], at, window)
            stock = drawn.whole(picture)[window[0] : window[2], window[1] : window[3]]
            exact &= part.shape == stock.shape and bool((part == stock).all())
    if not exact:
        logger.warning(
            f"OpenCV {cv2.__version__} on this machine rounds otherwise than the window kernels: "
            "PerfExactGeometry renders whole pictures here (same samples, not faster)"
        )
    return exact
