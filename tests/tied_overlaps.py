"""Boxes whose overlaps with an anchor tie, and the rows that Paddle's topk(k=1) picks among them on a CPU."""

from __future__ import annotations

import numpy as np

__all__ = ["ANCHOR", "PADDLES_ROWS", "boxes_with", "heights"]

ANCHOR = np.array([[0, 0, 40, 40]], dtype=np.float32)

# paddle.topk(heights(n), k=1, axis=0) for n = 1 to 80, paddlepaddle 2.6.2 and 3.3.1.
PADDLES_ROWS = [
    *(0, 1, 0, 1, 1, 5, 2, 3, 4, 7, 6, 8, 0, 2, 9, 13, 11, 13, 15, 7, 10, 17, 13, 13, 20, 11, 12, 9, 24, 13),
    *(20, 27, 15, 12, 9, 9, 20, 25, 20, 15, 35, 10, 9, 27, 29, 6, 22, 12, 10, 44, 32, 33, 6, 29, 21, 24, 51),
    *(34, 35, 55, 32, 40, 17, 31, 1, 0, 6, 1, 0, 2, 2, 1, 0, 6, 1, 0, 2, 2, 1, 0),
]


def heights(count: int) -> np.ndarray:
    """int64 [count], each 0, 1 or 2."""
    i = np.arange(count)
    return (5 * i * i + 3 * i + count) % 7 // 3


def boxes_with(height: np.ndarray) -> np.ndarray:
    """float32 [n, 4]: boxes inside ANCHOR; a greater height overlaps more, an equal one as much."""
    boxes = np.zeros((len(height), 4), dtype=np.float32)
    boxes[:, 2] = 40
    boxes[:, 3] = 1 + np.asarray(height)
    return boxes
