"""Synthetic ground truth for the target tests, with every case that has its own rule."""

from __future__ import annotations

import numpy as np
import paddle

CLASSES = 7
# Which of an image's boxes are crowds; "twins" repeats boxes, so that overlaps tie.
KINDS = ("plain", "crowd", "all crowd", "empty", "one", "twins", "many")


def image_boxes(
    rng: np.random.Generator, kind: str, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """float32 [G, 4] and int32 [G, 1] crowd flags of one image."""
    count = {"empty": 0, "one": 1, "many": int(rng.integers(66, 90))}.get(kind, int(rng.integers(2, 20)))
    start = rng.uniform(0, (width - 12, height - 12), (count, 2))
    size = 4 + rng.random((count, 2)) * min(height, width) * rng.random(2) ** 2
    boxes = np.concatenate([start, np.minimum(start + size, (width, height))], axis=1).astype(np.float32)
    if kind == "twins":
        boxes = np.round(boxes / 8) * 8
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 8)
        boxes[1::2] = boxes[: len(boxes) // 2 * 2 : 2]
    share = {"crowd": 0.4, "all crowd": 1.0, "twins": 0.1}.get(kind, 0.0)
    return boxes.reshape(-1, 4), (rng.random((count, 1)) < share).astype(np.int32)


def batch_inputs(
    rng: np.random.Generator, kinds: list[str], height: int, width: int, crowd: bool = True
) -> tuple[dict, dict]:
    """The same batch for ours and for stock, whose crowd flags are float32: int32 stops it on Paddle 3."""
    images = [image_boxes(rng, kind, height, width) for kind in kinds]
    ours = {
        "gt_bbox": [paddle.to_tensor(boxes) for boxes, _ in images],
        "gt_class": [
            paddle.to_tensor(rng.integers(0, CLASSES, (len(boxes), 1)).astype(np.int32))
            for boxes, _ in images
        ],
        "im_shape": paddle.to_tensor(np.array([[height, width]] * len(kinds), dtype=np.float32)),
    }
    stock = dict(ours)
    if crowd:
        ours["is_crowd"] = [paddle.to_tensor(flags) for _, flags in images]
        stock["is_crowd"] = [paddle.to_tensor(flags.astype(np.float32)) for _, flags in images]
    return ours, stock
