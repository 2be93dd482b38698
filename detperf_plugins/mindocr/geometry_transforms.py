"""`PerfExactGeometry` and `PerfRandomGeometry`: the moves up to RandomCropWithBBox as one step.

Both draw what the stock transforms draw, from the same generators in the same order, so polys are equal.
`PerfExactGeometry` renders the same pixels as stock, but only those that the crop shows.
`PerfRandomGeometry` is opt-in: it renders with a single warp. Stock interpolates up to three times and is
therefore softer; docs/dbnet-data.md has the measured difference.
"""

from __future__ import annotations

import random as python_random
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from detperf_plugins.mindocr.decode import DeferredJpeg
from detperf_plugins.mindocr.geometry import (
    MOVES,
    Drawn,
    Window,
    inverted,
    regions_are_exact,
    scaling,
    shrink,
)
from detperf_plugins.native.region import warp_region

__all__ = ["PerfExactGeometry", "PerfRandomGeometry"]


class _Crop:
    """RandomCropWithBBox without its picture."""

    def __init__(
        self,
        max_tries: int = 10,
        min_crop_ratio: float = 0.1,
        crop_size: Sequence[int] = (640, 640),
        p: float = 0.5,
        **kwargs: Any,
    ) -> None:
        self.size = tuple(crop_size)
        self._tries, self._ratio, self._p = max_tries, min_crop_ratio, p

    def draw(
        self, random: Any, chance: Any, size: tuple[int, int], polys: np.ndarray, tags: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the crop begins and ends, int64 [2] each (y, x)."""
        if chance.random() < self._p:
            return self._find(random, size, polys, tags)
        return np.array([0, 0]), np.array(size)

    def _find(
        self, random: Any, size: tuple[int, int], polys: np.ndarray, tags: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        whole = np.array([0, 0]), np.array(size)
        kept = polys[~np.asarray(tags, dtype=bool)] if len(polys) else polys
        if not len(kept):
            return whole
        low, high = kept.min(axis=1), kept.max(axis=1)
        free_y, free_x = self._free(kept, size)
        if not (len(free_y) and len(free_x)):
            return whole
        least = np.ceil(whole[1] * self._ratio).astype(np.int32)
        for _ in range(self._tries):
            y = np.sort(random.choice(free_y, size=2))
            x = np.sort(random.choice(free_x, size=2))
            start, end = np.array([y[0], x[0]]), np.array([y[1], x[1]])
            if ((end - start) < least).any():
                continue
            if ((high > start[::-1]) & (low < end[::-1])).all(axis=1).any():
                return start, end
        return whole

    @staticmethod
    def _free(kept: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns without text."""
        points = np.maximum(np.round(kept).astype(np.int32), 0)
        used_y, used_x = np.zeros(size[0], dtype=bool), np.zeros(size[1], dtype=bool)
        for (left, top), (right, bottom) in zip(points.min(axis=1).tolist(), points.max(axis=1).tolist()):
            used_x[left : right + 1] = True
            used_y[top : bottom + 1] = True
        return np.flatnonzero(~used_y), np.flatnonzero(~used_x)


class _Geometry:
    """What both have in common: drawing, the padded canvas, and the bookkeeping of `data`.

    Args:
        steps: the stock transforms in their order, [{name: {argument: value}}, ...]: any of
            RandomHorizontalFlip, RandomRotate and RandomScale, then RandomCropWithBBox.
        colour: arguments of RandomColorAdjust where it stood before them, else None.

    Called with image uint8 [H, W, 3], polys float [N, V, 2] (or [0]) and ignore_tags [N]; replaces image (by
    [*crop_size, 3], padded with 0) and polys, and adds actual_size (height and width without padding).
    """

    releases_gil = True

    def __init__(
        self,
        steps: Sequence[Mapping[str, Mapping[str, Any] | None]],
        colour: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        named = [(name, dict(arguments or {})) for step in steps for name, arguments in step.items()]
        unknown = [name for name, _ in named[:-1] if name not in MOVES]
        if unknown or not named or named[-1][0] != "RandomCropWithBBox":
            raise ValueError(
                f"steps must be any of {', '.join(MOVES)}, then RandomCropWithBBox; "
                f"got {[name for name, _ in named]}"
            )
        self._moves = [MOVES[name](**arguments) for name, arguments in named[:-1]]
        self._crop = _Crop(**named[-1][1])
        self._colour = self._make_colour(dict(colour)) if colour is not None else None

    @staticmethod
    def _make_colour(arguments: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _render(self, data: dict[str, Any], drawn: list[Drawn], window: Window, factor: float) -> np.ndarray:
        raise NotImplementedError

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        random, chance = data.get("generators") or (np.random, python_random)
        size, polys = data["image"].shape[:2], data["polys"]
        drawn = []
        for move in self._moves:
            one, polys = move.draw(random, size, polys)
            size = one.size_out
            drawn.append(one)
        start, end = self._crop.draw(random, chance, size, polys, data["ignore_tags"])
        factor = min(self._crop.size / (end - start))
        image = self._render(data, drawn, (int(start[0]), int(start[1]), int(end[0]), int(end[1])), factor)
        data["actual_size"] = np.array(image.shape[:2])
        if image.shape[:2] != self._crop.size:
            padded: np.ndarray = np.zeros((*self._crop.size, *image.shape[2:]), dtype=image.dtype)
            padded[: image.shape[0], : image.shape[1]] = image
            image = padded
        data["image"] = image
        data["polys"] = (polys - start[::-1]) * factor if len(polys) else polys
        return data


class PerfExactGeometry(_Geometry):
    """The same pixels as stock's moves and crop, rendered only where the crop looks. See `_Geometry`."""

    @staticmethod
    def _make_colour(arguments: dict[str, Any]) -> Any:
        from mindocr.data.transforms.general_transforms import RandomColorAdjust

        return RandomColorAdjust(**arguments)

    def _coloured(self, picture: np.ndarray) -> np.ndarray:
        if self._colour is None or 0 in picture.shape:
            return picture
        return self._colour({"image": np.ascontiguousarray(picture)})["image"]

    def _render(self, data: dict[str, Any], drawn: list[Drawn], window: Window, factor: float) -> np.ndarray:
        picture = data["image"]
        if picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3 and regions_are_exact():
            windows = [window]
            for one in reversed(drawn):
                windows.append(one.reads(windows[-1]))
            at = windows.pop()
            picture = self._coloured(picture[at[0] : at[2], at[1] : at[3]])
            for one in drawn[:-1]:
                wanted = windows.pop()
                picture, at = one.part(picture, at, wanted), wanted
            last = drawn[-1] if drawn else Drawn((0, 0), (0, 0))
            return shrink(last, picture, at, window, factor)
        picture = self._coloured(picture)
        for one in drawn:
            picture = one.whole(picture)
        return cv2.resize(picture[window[0] : window[2], window[1] : window[3]], None, fx=factor, fy=factor)


class PerfRandomGeometry(_Geometry):
    """The same draws as stock, one warp, and the colour jitter on the crop (opt-in). See `_Geometry`.

    The jitter is drawn anew for every sample from numpy's generator, brightness and saturation uniform in
    stock's ranges. (Stock's, in MindSpore, repeats one draw for ever once a seed is set.)
    """

    @staticmethod
    def _make_colour(arguments: dict[str, Any]) -> Any:
        return _ColourJitter(**arguments)

    def _render(self, data: dict[str, Any], drawn: list[Drawn], window: Window, factor: float) -> np.ndarray:
        matrix = np.eye(3)
        for one in drawn:
            matrix = one.matrix() @ matrix
        shift = np.array([[1, 0, -window[1]], [0, 1, -window[0]], [0, 0, 1]], dtype=np.float64)
        matrix = scaling(factor, factor) @ shift @ matrix
        height, width = round((window[2] - window[0]) * factor), round((window[3] - window[1]) * factor)
        picture = data["image"]
        if isinstance(picture, DeferredJpeg):
            picture, reduced = picture.decode(float(np.sqrt(abs(np.linalg.det(matrix[:2, :2])))))
            matrix = matrix @ scaling(reduced, reduced)
        if regions_are_exact() and picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3:
            picture = warp_region(picture, inverted(matrix[:2]), (0, 0, height, width), (0, 0))
        else:
            picture = cv2.warpAffine(picture, matrix[:2], (width, height), flags=cv2.INTER_LINEAR)
        if self._colour is None:
            return picture
        return self._colour(picture, (data.get("generators") or (np.random,))[0])


class _ColourJitter:
    """Brightness and saturation as one 3 x 3 colour matrix, RandomColorAdjust but for rounding between."""

    def __init__(self, brightness: float = 32.0 / 255, saturation: float = 0.5, **kwargs: Any) -> None:
        self._ranges = [
            (max(0.0, 1 - value), 1 + value) if isinstance(value, (int, float)) else tuple(value)
            for value in (brightness, saturation)
        ]

    def __call__(self, picture: np.ndarray, random: Any) -> np.ndarray:
        brightness, saturation = (random.uniform(*limits) for limits in self._ranges)
        grey = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601, RGB
        matrix = brightness * (saturation * np.eye(3) + (1 - saturation) * np.ones((3, 1)) * grey)
        return cv2.transform(picture, matrix.astype(np.float32))
