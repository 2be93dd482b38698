"""`PerfDecodeImage`: DecodeImage to the same pixels, from a cache of decoded pictures where one is given.

The decoder's floor: JPEG entropy decoding and the inverse transform take most of it, and OpenCV's build
already uses their SIMD versions. What can go without changing a pixel is the second pass that swaps BGR to
RGB (libjpeg writes either order), and, in later epochs, decoding itself. Reduced decoding changes pixels
and is opt-in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from detperf_plugins.doctor.labels.pictures import read_header
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.cache import DecodedCache

__all__ = ["DeferredJpeg", "PerfDecodeImage"]

_REDUCED = ((8, cv2.IMREAD_REDUCED_COLOR_8), (4, cv2.IMREAD_REDUCED_COLOR_4), (2, cv2.IMREAD_REDUCED_COLOR_2))


class DeferredJpeg:
    """A JPEG whose size is known and whose pixels are not: decoded once it is known how small it may be.

    Attributes:
        shape: (height, width, 3) of the whole picture.

    Args:
        content: uint8 [bytes], the file.
        height, width: of the whole picture, pixels.
        path: for messages.
        whole: called with content and path; decodes what cannot be reduced.
        rgb: the order of the channels, else BGR.
    """

    def __init__(
        self, content: np.ndarray, height: int, width: int, path: str, whole: Any, rgb: bool
    ) -> None:
        self.shape = (height, width, 3)
        self._content, self._path, self._whole, self._rgb = content, path, whole, rgb

    def decode(self, scale: float) -> tuple[np.ndarray, int]:
        """The picture for a drawing that scales it by `scale`, uint8 [H / n, W / n, 3], and n (1, 2, 4 or 8).

        It is never reduced below the size that is drawn.
        """
        for factor, flag in _REDUCED:
            if scale * factor <= 1:
                image = cv2.imdecode(self._content, flag | cv2.IMREAD_IGNORE_ORIENTATION)
                if image is not None:
                    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if self._rgb else image, factor
        return self._whole(self._content, self._path), 1


class PerfDecodeImage:
    """DecodeImage to uint8 HWC.

    Args:
        img_mode: BGR or RGB.
        ignore_orientation: leave EXIF-rotated pictures as stored.
        cache: a folder for decoded pictures on a disk, "memory", or None.
        cache_gb: the most it may hold, in 2**30 bytes.
        read_only: hand out cached pictures without copying them; where the next step writes to none.
        defer: hand out JPEGs undecoded, as `DeferredJpeg`; for PerfRandomGeometry as the next step.

    Called with img_path (or img_lmdb, bytes, which are never cached); adds image uint8 [H, W, 3] and
    raw_img_shape.

    Raises:
        UnreadableInput: the file is missing, or no picture.
    """

    releases_gil = True

    def __init__(
        self,
        img_mode: str = "BGR",
        ignore_orientation: bool = False,
        cache: str | None = None,
        cache_gb: float = 4.0,
        read_only: bool = False,
        defer: bool = False,
        **kwargs: Any,
    ) -> None:
        self._rgb = img_mode == "RGB"
        self._flag = cv2.IMREAD_COLOR | (cv2.IMREAD_IGNORE_ORIENTATION if ignore_orientation else 0)
        direct = getattr(cv2, "IMREAD_COLOR_RGB", None) if self._rgb and not ignore_orientation else None
        self._swap = self._rgb and direct is None
        if direct is not None:
            self._flag = direct
        self._read_only, self._defer = read_only, defer
        self._ignore_orientation = ignore_orientation
        variant = f"{'rgb' if self._rgb else 'bgr'}{int(ignore_orientation)}"
        self._cache = DecodedCache.open(cache, int(cache_gb * 2**30), variant) if cache else None

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add `image` and `raw_img_shape` to `data`; see the class."""
        path = data.get("img_path")
        image = self._cache.get(path) if self._cache is not None and path is not None else None
        if image is None:
            image = self._decode(data)
            if self._cache is not None and path is not None:
                self._cache.put(path, image)
        elif not self._read_only:
            image = image.copy()
        data["image"] = image
        data["raw_img_shape"] = image.shape[:2]
        return data

    def _decode(self, data: dict[str, Any]) -> Any:
        path = data.get("img_path", "img_lmdb")
        try:
            content = np.frombuffer(
                Path(path).read_bytes() if "img_path" in data else data["img_lmdb"], np.uint8
            )
        except OSError as error:
            raise UnreadableInput(
                f"{path}: {error.strerror or error}; correct its path in the label file"
            ) from error
        if self._defer and "img_path" in data and content[:2].tobytes() == b"\xff\xd8":
            header = read_header(Path(path))
            if header is not None and (header.orientation == 1 or self._ignore_orientation):
                return DeferredJpeg(content, header.height, header.width, path, self._pixels, self._rgb)
        return self._pixels(content, path)

    def _pixels(self, content: np.ndarray, path: str) -> np.ndarray:
        image = cv2.imdecode(content, self._flag) if len(content) else None
        if image is None:
            raise UnreadableInput(f"{path} is no picture that OpenCV can decode; replace the file")
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if self._swap else image
