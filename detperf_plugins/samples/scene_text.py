"""A small scene-text data set: words of drawn letters, turned and skewed, with MindOCR label lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from detperf_plugins.samples.keep import keep_foreign

__all__ = ["is_scene_text", "write_scene_text"]

LETTERS = "ABCDEFGHKLMNPRSTUVXYZ23456789"


def is_scene_text(path: Path) -> bool:
    """Whether a label file was written by `write_scene_text`: img_0.jpg, img_1.jpg, ... with words of
    `LETTERS`, each in four corners."""
    try:
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        return bool(rows) and all(
            name == f"img_{index}.jpg" and all(map(_own_word, json.loads(label)))
            for index, (name, label) in enumerate(rows)
        )
    except (ValueError, TypeError):  # another encoding, another number of columns, no JSON, no list
        return False


def _own_word(word: object) -> bool:
    if not isinstance(word, dict) or list(word) != ["transcription", "points"]:
        return False
    text, points = word["transcription"], word["points"]
    return (text == "###" or (3 <= len(text) <= 7 and set(text) <= set(LETTERS))) and len(points) == 4


def _quad(rng: np.random.Generator, size: int, letters: int) -> np.ndarray:
    """float64 [4, 2]: a turned, slightly skewed rectangle as wide as `letters`, inside the picture."""
    height = rng.uniform(0.09, 0.16) * size
    width = min(0.66 * height * letters, 0.75 * size)
    half = np.array([[-width, -height], [width, -height], [width, height], [-width, height]]) / 2
    half += rng.uniform(-0.08, 0.08, (4, 2)) * height
    turn = rng.uniform(-0.35, 0.35)
    half = half @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    reach = np.abs(half).max(axis=0)
    return half + rng.uniform(reach + 2, size - reach - 2)


def write_scene_text(folder: Path, images: int = 32, size: int = 320, seed: int = 0) -> Path:
    """Write pictures and labels below `folder`.

    Args:
        folder: gets `images/img_0.jpg`... and `labels.txt`; made if missing.
        images: how many pictures, one to four words in each; about one word in twelve is marked illegible
            ("###") and drawn as a smear, as ICDAR marks text that a metric ignores.
        size: side of the square pictures, pixels.
        seed: everything drawn depends on it alone.

    Returns:
        The label file: a line a picture, `name<TAB>[{"transcription": ..., "points": [[x, y], ...]}, ...]`.

    Raises:
        UnreadableInput: `folder` holds a data set that was not generated here; nothing is written.
        OSError: a file cannot be written.
    """
    import cv2

    keep_foreign(folder, "labels.txt", is_scene_text)
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(images):
        ground = cv2.resize(rng.uniform(30, 225, (4, 4, 3)).astype(np.float32), (size, size))
        picture = np.clip(ground + rng.normal(0, 6, (size, size, 3)), 0, 255).astype(np.uint8)
        words: list[dict[str, object]] = []
        taken: list[np.ndarray] = []
        for _ in range(int(rng.integers(1, 5))):
            letters = int(rng.integers(3, 8))
            quad = _quad(rng, size, letters)
            low, high = quad.min(axis=0), quad.max(axis=0)
            if any((low < other[1] + 4).all() and (high > other[0] - 4).all() for other in taken):
                continue
            taken.append(np.stack([low, high]))
            word = "".join(rng.choice(list(LETTERS), letters))
            legible = bool(rng.uniform() > 1 / 12)
            _draw(picture, word if legible else "", quad, rng)
            points = np.rint(quad).astype(int).tolist()
            words.append({"transcription": word if legible else "###", "points": points})
        name = f"img_{index}.jpg"
        if not cv2.imwrite(str(folder / "images" / name), picture, [cv2.IMWRITE_JPEG_QUALITY, 92]):
            raise OSError(f"cannot write {folder / 'images' / name}")
        lines.append(f"{name}\t{json.dumps(words)}")
    path = folder / "labels.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _draw(picture: np.ndarray, word: str, quad: np.ndarray, rng: np.random.Generator) -> None:
    """Put a word (or, where it is empty, a smear) into the quadrilateral, in a colour that stands out."""
    import cv2

    height, width = 64, max(96, int(42 * max(len(word), 4)))
    patch = np.zeros((height, width), np.uint8)
    if word:
        (reach, _), _ = cv2.getTextSize(word, cv2.FONT_HERSHEY_DUPLEX, 1.0, 2)
        scale = 0.94 * width / reach
        high = cv2.getTextSize(word, cv2.FONT_HERSHEY_DUPLEX, scale, 3)[0][1]
        if high > 0.9 * height:
            scale *= 0.9 * height / high
        (reach, high), _ = cv2.getTextSize(word, cv2.FONT_HERSHEY_DUPLEX, scale, 3)
        corner = ((width - reach) // 2, (height + high) // 2)
        cv2.putText(patch, word, corner, cv2.FONT_HERSHEY_DUPLEX, scale, 255, 3, cv2.LINE_AA)
    else:
        patch[:] = cv2.GaussianBlur((rng.uniform(size=(height, width)) * 255).astype(np.uint8), (31, 31), 0)
    box = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(box, quad.astype(np.float32))
    alpha = cv2.warpPerspective(patch, matrix, picture.shape[1::-1], flags=cv2.INTER_AREA)[..., None] / 255.0
    centre = quad.mean(axis=0).astype(int)
    bright = picture[centre[1] - 8 : centre[1] + 9, centre[0] - 8 : centre[0] + 9].mean() > 127
    colour = rng.uniform(0, 50, 3) if bright else rng.uniform(205, 255, 3)
    picture[:] = (picture * (1 - alpha) + colour * alpha).astype(np.uint8)
