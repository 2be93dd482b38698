"""Synthetic scene-text pictures with a DBNet label file, for benchmarks and tests of the data path."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

__all__ = ["write_pictures"]


def write_pictures(
    folder: Path,
    count: int = 20,
    polygons: tuple[int, int] = (5, 19),
    vertices: int = 4,
    size: tuple[int, int] = (720, 1280),
    seed: int = 0,
) -> Path:
    """Synthetic scene-text pictures (JPEG) and their label file.

    Args:
        folder: made if missing.
        count: pictures.
        polygons: least and most texts a picture.
        vertices: corners of each; more than 4 makes curved texts.
        size: height and width in pixels.
        seed: everything drawn depends on it alone.

    Returns:
        The path of the label file; picture paths count from `folder`.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    height, width = size
    lines = []
    for index in range(count):
        coarse = rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3)).astype(np.uint8)
        picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
        picture = cv2.add(picture, rng.integers(0, 8, (height, width, 3)).astype(np.uint8))
        label = []
        for _ in range(int(rng.integers(polygons[0], polygons[1] + 1))):
            outline = _outline(rng, vertices, size)
            colour = tuple(int(value) for value in rng.integers(0, 256, 3))
            cv2.fillPoly(picture, [outline.astype(np.int32)], colour)
            text = "text" if rng.random() < 0.7 else "###"
            label.append({"transcription": text, "points": np.round(outline, 1).tolist()})
        cv2.imwrite(str(folder / f"{index:05d}.jpg"), picture, [cv2.IMWRITE_JPEG_QUALITY, 85])
        lines.append(f"{index:05d}.jpg\t{json.dumps(label)}\n")
    path = folder / "labels.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _outline(rng: np.random.Generator, vertices: int, size: tuple[int, int]) -> np.ndarray:
    """float64 [vertices, 2]: a bent band of text."""
    tall = float(np.exp(rng.uniform(np.log(12), np.log(48))))
    wide, bend, turn = tall * rng.uniform(1.5, 6), rng.uniform(-0.4, 0.4), rng.uniform(-0.3, 0.3)
    upper = (vertices + 1) // 2
    along = np.concatenate([np.linspace(-0.5, 0.5, upper), np.linspace(0.5, -0.5, vertices - upper)])
    across = np.concatenate([np.full(upper, -0.5), np.full(vertices - upper, 0.5)])
    bent = bend * wide * (along**2 if vertices > 4 else 0 * along)
    band = np.stack([along * wide, across * tall + bent], axis=1)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    band = band @ rotation.T
    low, high = band.min(axis=0), band.max(axis=0)
    room = np.maximum(np.array(size[::-1]) - 1 - (high - low), 0)
    return band - low + rng.uniform(0, 1, 2) * room
