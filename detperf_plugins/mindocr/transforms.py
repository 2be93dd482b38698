"""Exact, faster stand-ins for MindOCR's DetLabelEncode, ValidatePolygons, NormalizeImage and ToCHWImage.

Each takes the arguments of the transform that it stands for and gives the same data, to the last bit.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from detperf_plugins.mindocr.det_targets import pack
from detperf_plugins.native.border_map import measure_rings, visible_areas
from detperf_plugins.native.region import normalize_planes

__all__ = ["PerfDetLabelEncode", "PerfNormalizeToCHW", "PerfValidatePolygons"]

_IGNORED = ("*", "###")
_KEEP, _IGNORE, _OUTSIDE, _ASK = range(4)
_NARROW = 1e-3  # square pixels


class PerfDetLabelEncode:
    """DetLabelEncode: label (a JSON string) to polys float32 [N, V, 2], texts and ignore_tags bool [N].

    Polygons of fewer corners than the longest one repeat their last corner, as in stock.
    """

    releases_gil = True

    def __init__(self, **kwargs: Any) -> None:
        pass

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Replace the JSON text `label` by `polys`, `texts` and `ignore_tags`."""
        try:
            label = msgspec.json.decode(data["label"])
        except (msgspec.DecodeError, UnicodeEncodeError):  # NaN and lone surrogates, which json takes
            label = json.loads(data["label"])
        boxes = [item["points"] for item in label]
        texts = [item["transcription"] for item in label]
        longest = max(map(len, boxes), default=0)
        if any(len(box) != longest for box in boxes):
            boxes = [box + [box[-1]] * (longest - len(box)) for box in boxes]
        data["polys"] = np.array(boxes, dtype=np.float32)
        data["texts"] = texts
        data["ignore_tags"] = np.array([text in _IGNORED for text in texts], dtype=np.bool_)
        return data


class PerfValidatePolygons:
    """ValidatePolygons: drops polygons outside the picture, ignores those of which too little is inside.

    The geometry library is asked only where rounding could decide. A polygon that it cannot handle, and
    one that crosses itself, is ignored: stock raises there, which costs the whole picture. Of a polygon that
    `clip_to_visible_area` cuts into several, every piece is kept (stock raises).

    Args:
        min_area: square pixels; a polygon with less than that inside is ignored.
        clip_to_visible_area: replace polygons by their visible part.
        min_vertices: clipped polygons with fewer corners are ignored.

    Called with polys, texts and ignore_tags (N each) and actual_size or image; replaces the three: polys by a
    list of float [V, 2], ignore_tags by bool [N'].
    """

    releases_gil = True

    def __init__(
        self, min_area: float = 1.0, clip_to_visible_area: bool = False, min_vertices: int = 4, **kwargs: Any
    ) -> None:
        self._min_area, self._clip, self._min_vertices = min_area, clip_to_visible_area, min_vertices

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Leave polygons out of `polys`, `texts` and `ignore_tags` as stock does; clip the rest if asked."""
        size = data.get("actual_size", np.array(data["image"].shape[:2]))
        height, width = int(size[0]), int(size[1])
        xy, parts = pack(data["polys"])
        polys: list[np.ndarray] = []
        texts: list[Any] = []
        tags: list[bool] = []
        verdicts = self._verdicts(xy, parts, height, width)
        for poly, text, ignore, verdict in zip(data["polys"], data["texts"], data["ignore_tags"], verdicts):
            pieces = [(poly, bool(ignore) or verdict == _IGNORE)]
            if verdict == _OUTSIDE:
                continue
            if verdict == _ASK:
                pieces = self._pieces(poly, bool(ignore), height, width)
            for piece, ignored in pieces:
                polys.append(piece)
                texts.append(text)
                tags.append(ignored)
        data["polys"], data["texts"], data["ignore_tags"] = polys, texts, np.array(tags)
        return data

    def _verdicts(self, xy: np.ndarray, parts: np.ndarray, height: int, width: int) -> list[int]:
        """What becomes of each polygon, as far as that is plain without the geometry library."""
        count = len(parts) - 1
        if count == 0:
            return []
        if len(xy) == 0:
            return [_OUTSIDE] * count
        areas, _, crossing = measure_rings(xy, parts)
        corners = np.diff(parts)
        starts = np.minimum(parts[:-1], len(xy) - 1)
        low, high = np.minimum.reduceat(xy, starts), np.maximum.reduceat(xy, starts)
        frame = np.array([width, height])
        outside = (corners == 0) | (low > frame).any(axis=1) | (high < 0).any(axis=1)
        inside = (low >= 0).all(axis=1) & (high <= frame).all(axis=1)
        areas[~inside] = visible_areas(xy, parts, height, width)[~inside]
        # By less than this, rounding (or the mere touching of an edge) could decide.
        near = ~inside & ((areas < _NARROW) | (np.abs(areas - self._min_area) < _NARROW))
        verdicts = np.where(areas < self._min_area, _IGNORE, _KEEP)
        verdicts[near | self._clip] = _ASK
        verdicts[crossing | (corners < 3)] = _IGNORE
        verdicts[outside] = _OUTSIDE
        return verdicts.tolist()

    def _pieces(
        self, poly: np.ndarray, ignore: bool, height: int, width: int
    ) -> list[tuple[np.ndarray, bool]]:
        """What stock makes of one polygon; nothing where it lies outside."""
        from shapely.errors import ShapelyError
        from shapely.geometry import Polygon, box

        frame = box(0, 0, width, height)
        try:
            shape = Polygon(poly)
            if not shape.intersects(frame):
                return []
            visible = shape.intersection(frame)
        except (ShapelyError, ValueError):
            return [(poly, True)]
        ignore = ignore or visible.area < self._min_area
        if not self._clip:
            return [(poly, ignore)]
        shapes = [one for one in getattr(visible, "geoms", [visible]) if one.geom_type == "Polygon"]
        pieces = [np.array(one.exterior.coords[:-1]) for one in shapes if not one.is_empty]
        return [(piece, ignore or len(piece) < self._min_vertices) for piece in pieces]


class PerfNormalizeToCHW:
    """NormalizeImage and ToCHWImage in one step, by a table of the 256 values of a channel.

    Args:
        mean, std: a list of 3, or "imagenet".
        bgr_to_rgb, rgb_to_bgr: reverse the channels first.

    Called with image uint8 [H, W, 3] (other dtypes are computed as stock does); replaces it by float32
    [3, H, W].

    Raises:
        ValueError: `is_hwc` is False.
    """

    releases_gil = True

    def __init__(
        self,
        mean: Any = "imagenet",
        std: Any = "imagenet",
        is_hwc: bool = True,
        bgr_to_rgb: bool = False,
        rgb_to_bgr: bool = False,
        **kwargs: Any,
    ) -> None:
        from mindocr.data.transforms.general_transforms import get_value

        if not is_hwc:
            raise ValueError(
                "PerfNormalizeToCHW takes pictures as HWC; leave NormalizeImage and ToCHWImage for CHW"
            )
        self._mean = np.array(get_value(mean, "mean")).astype("float32")
        self._std = np.array(get_value(std, "std")).astype("float32")
        self._reverse = bgr_to_rgb or rgb_to_bgr
        values = np.arange(256, dtype=np.uint8).astype("float32")
        self._table = np.ascontiguousarray((values - self._mean[:, None]) / self._std[:, None])

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Replace `image`, [H, W, 3], by its normalised float32 [3, H, W]."""
        image = np.asarray(data["image"])
        if self._reverse:
            image = image[..., ::-1]
        if image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3:
            data["image"] = normalize_planes(image, self._table)
        else:
            data["image"] = ((image.astype("float32") - self._mean) / self._std).transpose((2, 0, 1))
        return data
