"""Stock MindOCR for the tests of the data path: always imported from the host, never copied."""

from __future__ import annotations

import importlib.util
import json
import random

import cv2
import numpy as np
import pytest

from detperf_plugins.mindocr import activate
from detperf_plugins.mindocr.transform_bench import COLUMNS, PIPELINE

__all__ = [
    "COLUMNS",
    "PIPELINE",
    "box",
    "make",
    "parts_of_shrunk",
    "seeded",
    "stock",
    "write_set",
]

if not all(importlib.util.find_spec(name) for name in ("mindspore", "mindocr")):
    pytest.skip("MindOCR is not installed here", allow_module_level=True)
activate()


def stock(name, **arguments):
    """A stock transform."""
    from mindocr.data.transforms import transforms_factory

    return getattr(transforms_factory, name)(**arguments)


def make(pipeline):
    """Transforms of a pipeline, stock and ours by name."""
    import copy

    from mindocr.data.transforms.transforms_factory import create_transforms

    from detperf_plugins.mindocr.pipeline import register

    register()
    return create_transforms(copy.deepcopy(pipeline), {"is_train": True, "use_minddata": False})


def parts_of_shrunk(poly, ratio=0.4):
    """How many parts stock's shrinking makes of a polygon."""
    from mindocr.data.transforms.det_transforms import expand_poly
    from shapely.geometry import Polygon

    shape = Polygon(poly)
    return len(expand_poly(poly, -(1 - ratio**2) * shape.area / shape.length))


def seeded(seed, run, *arguments):
    random.seed(seed)
    np.random.seed(seed)
    return run(*arguments)


def write_set(folder, labels, size=(96, 128)):
    """Pictures 0.jpg, 1.jpg... and labels.txt; each label a JSON-ready list, or a whole line as bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index, label in enumerate(labels):
        image = (
            np.random.default_rng(index).integers(0, 256, (size[0] // 8, size[1] // 8, 3)).astype(np.uint8)
        )
        cv2.imwrite(str(folder / f"{index}.jpg"), cv2.resize(image, size[::-1]))
        lines.append(label if isinstance(label, bytes) else f"{index}.jpg\t{json.dumps(label)}\n".encode())
    path = folder / "labels.txt"
    path.write_bytes(b"".join(lines))
    return path


def box(x0, y0, x1, y1, text="text"):
    return {"transcription": text, "points": [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]}
