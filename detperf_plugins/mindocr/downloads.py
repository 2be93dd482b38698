"""MindOCR's download of pretrained weights: what fails leaves no empty file behind, and says what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from detperf_plugins.errors import DetperfError

__all__ = ["guarded"]


def guarded(original: Any) -> Callable[..., Any]:
    """`DownLoad.download_url`: a failed download leaves an empty file, which the next run takes for weights;
    here it is removed, and the error names file, folder and the way without.

    Raises:
        DetperfError: the file is not there and cannot be had.
    """

    def download_url(
        self: Any, url: str, path: Any = None, filename: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        from mindocr.models.backbones.mindcv_models.download import get_default_download_root

        name = filename or os.path.basename(url)
        folder = os.path.expanduser(path or get_default_download_root())
        file = os.path.join(folder, name)
        if os.path.isfile(file) and not os.path.getsize(file):
            os.remove(file)
        there = os.path.isfile(file)
        try:
            return original(self, url, path, filename, *args, **kwargs)
        except BaseException as error:
            if not there and os.path.isfile(file):
                os.remove(file)
            if not isinstance(error, OSError):  # URLError is one
                raise
            reason = getattr(error, "reason", None) or error
            raise DetperfError(
                f"cannot download {url} ({reason}): put {name} into {folder}, or "
                "start from random weights with model.backbone.pretrained=False"
            ) from error

    return download_url
