"""DecodeImage under `use_minddata`, turned as the EXIF mark says.

MindSpore's Decode leaves pictures as stored; OpenCV, with which the boxes agree, turns them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["mend_decode", "turn"]


def turn(image: np.ndarray, orientation: int) -> np.ndarray:
    """A picture [H, W, C] as it is to be looked at, for EXIF orientation 1 to 8 (anything else: as it is).

    Source of the table: EXIF 2.3, tag 0x0112; 5 to 8 swap height and width.
    """
    if orientation in (2, 3, 4, 5, 6, 7, 8):
        if orientation >= 5:
            image = image.transpose(1, 0, 2)
        if orientation in (3, 4, 7, 8):
            image = image[::-1]
        if orientation in (2, 3, 6, 7):
            image = image[:, ::-1]
        image = np.ascontiguousarray(image)
    return image


def _orientation(path: str) -> int:
    from PIL import Image

    with Image.open(path) as picture:
        return int(picture.getexif().get(0x0112, 1))


def mend_decode() -> bool:
    """Wrap `DecodeImage.__call__` so that it turns what `vision.Decode` has left unturned.

    Returns:
        Whether it was wrapped now (False the second time, and where patch 0011 has MindOCR turn them).
    """
    import cv2
    from mindocr.data.transforms.general_transforms import DecodeImage

    original = DecodeImage.__call__
    if hasattr(original, "_detperf_wrapped") or hasattr(DecodeImage, "_is_turned"):
        return False

    def call(self: Any, data: dict[str, Any]) -> dict[str, Any]:
        data = original(self, data)
        if not self.use_minddata or "img_path" not in data or self.flag & cv2.IMREAD_IGNORE_ORIENTATION:
            return data
        orientation = _orientation(data["img_path"])
        if orientation > 1:
            axes = (1, 2, 0) if self.channel_first else (0, 1, 2)
            image = turn(np.asarray(data["image"]).transpose(axes), orientation)
            data["raw_img_shape"] = image.shape[:2]
            data["image"] = image.transpose(2, 0, 1) if self.channel_first else image
            if self.keep_ori:
                data["image_ori"] = data["image"].copy()
        return data

    call._detperf_wrapped = True  # type: ignore[attr-defined]
    DecodeImage.__call__ = call
    return True
