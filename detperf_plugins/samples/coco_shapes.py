"""A COCO data set of coloured shapes on noise: triangles, stars and many-cornered blobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from detperf_plugins.samples.keep import keep_foreign

__all__ = ["CLASSES", "is_shapes", "write_coco_shapes"]

CLASSES = ("triangle", "star", "blob")
_INFO = {"description": "coloured shapes, generated"}


def is_shapes(path: Path) -> bool:
    """Whether an annotation file was written by `write_coco_shapes`: it opens with its `info`."""
    opening = json.dumps({"info": _INFO})[:-1].encode()
    with path.open("rb") as stream:
        return stream.read(len(opening)) == opening


def _outline(kind: int, centre: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    """float64 [V, 2]: the corners of a shape of class `kind` round `centre`."""
    turn = rng.uniform(0, 2 * np.pi)
    if kind == 0:
        angles, radii = turn + np.arange(3) * 2 * np.pi / 3, np.full(3, radius)
    elif kind == 1:
        angles = turn + np.arange(10) * np.pi / 5
        radii = np.where(np.arange(10) % 2 == 0, radius, radius * 0.5)
    else:
        count = int(rng.integers(14, 31))
        angles = turn + np.arange(count) * 2 * np.pi / count
        radii = radius * (1 + 0.18 * np.sin(3 * angles) + rng.uniform(-0.05, 0.05, count))
    return centre + np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii[:, None]


def _place(size: int, count: int, rng: np.random.Generator) -> list[tuple[np.ndarray, float]]:
    """Centres and radii of up to `count` shapes that overlap little and lie inside the image."""
    placed: list[tuple[np.ndarray, float]] = []
    for _ in range(40 * count):
        if len(placed) == count:
            break
        radius = rng.uniform(0.11, 0.24) * size
        centre = rng.uniform(1.2 * radius, size - 1.2 * radius, 2)
        if all(np.hypot(*(centre - other)) > 0.8 * (radius + reach) for other, reach in placed):
            placed.append((centre, radius))
    return placed


def write_coco_shapes(folder: Path, images: int = 64, size: int = 128, seed: int = 0) -> Path:
    """Write pictures and COCO annotations below `folder`.

    Args:
        folder: gets `images/000000.png`... and `annotations.json`; made if missing.
        images: how many pictures, one to four shapes in each.
        size: side of the square pictures, pixels.
        seed: everything drawn depends on it alone.

    Returns:
        The path of the annotation file.

    Raises:
        UnreadableInput: `folder` holds a data set that was not generated here; nothing is written.
        OSError: a file cannot be written.
    """
    from PIL import Image, ImageDraw

    keep_foreign(folder, "annotations.json", is_shapes)
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    records: dict[str, Any] = {
        "info": _INFO,
        "images": [],
        "annotations": [],
        "categories": [{"id": i + 1, "name": name} for i, name in enumerate(CLASSES)],
    }
    for index in range(images):
        noise = rng.normal(0, 12, (size, size, 3)) + rng.uniform(40, 120, 3)
        picture = Image.fromarray(np.clip(noise, 0, 255).astype(np.uint8))
        draw = ImageDraw.Draw(picture)
        name = f"{index:06d}.png"
        records["images"].append({"id": index + 1, "file_name": name, "width": size, "height": size})
        for centre, radius in _place(size, int(rng.integers(1, 5)), rng):
            kind = int(rng.integers(len(CLASSES)))
            corners = np.clip(_outline(kind, centre, radius, rng), 0, size)
            colour = tuple(int(value) for value in rng.integers(120, 256, 3))
            draw.polygon([tuple(corner) for corner in corners], fill=colour)
            (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
            x, y = corners[:, 0], corners[:, 1]
            area = 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))
            records["annotations"].append(
                {
                    "id": len(records["annotations"]) + 1,
                    "image_id": index + 1,
                    "category_id": kind + 1,
                    "segmentation": [[round(float(value), 2) for value in corners.reshape(-1)]],
                    "bbox": [round(float(v), 2) for v in (left, top, right - left, bottom - top)],
                    "area": round(area, 2),
                    "iscrowd": 0,
                }
            )
        picture.save(folder / "images" / name)
    path = folder / "annotations.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path
