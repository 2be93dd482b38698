"""Anchors (or RoIs) matched to ground-truth boxes, many images at once, without an overlap matrix.

Method: ppdet's `label_box` (ppdet/modeling/proposal_generator/target.py) over `bbox_overlaps`, fused:
anchors are walked in tiles and only a tile's overlaps exist at a time (native/include/detperf/match.h).
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["match_boxes"]


def match_boxes(
    anchors: np.ndarray,
    boxes: np.ndarray,
    offsets: np.ndarray,
    crowd: np.ndarray,
    positive_overlap: float,
    negative_overlap: float,
    ignore_thresh: float = -1.0,
    allow_low_quality: bool = True,
    equal_tolerance: float = 0.0,
    threads: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and matches of the same anchors in each image, bit-identical to `label_box` on the CPU.

    Beside its two results it needs memory for the anchors and the boxes, not for their product.

    Args:
        anchors: float32 [A, 4], x0 y0 x1 y1 in pixels.
        boxes: float32 [N, 4], the ground truth of all images, one image after the other.
        offsets: int64 [B + 1], image b has `boxes[offsets[b]:offsets[b + 1]]`.
        crowd: bool or integer [N], nonzero for a crowd box: never matched, see `ignore_thresh`.
        positive_overlap: overlap from which an anchor is foreground.
        negative_overlap: overlap below which it is background.
        ignore_thresh: above 0, an anchor whose overlap with a crowd box exceeds it is ignored.
        allow_low_quality: every anchor that reaches a box's best overlap is foreground too.
        equal_tolerance: overlaps closer than this count as equal to a box's best one; Paddle 2.6 compares
            float32 that way (1e-8), Paddle 3 exactly (0).
        threads: worker threads; 0 means one per core.

    Returns:
        labels int8 [B, A], 1 foreground, 0 background, -1 neither; and matches int32 [B, A], each
        anchor's box counted within its image (0 in an image without a usable box). Among equal overlaps
        the match is the one that `paddle.topk(k=1)` picks on the CPU, which is not always the first.

    Raises:
        ValueError: a shape or an offset does not fit.
    """
    anchors = np.ascontiguousarray(anchors, dtype=np.float32)
    boxes = np.ascontiguousarray(boxes, dtype=np.float32)
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    crowd = np.ascontiguousarray(np.asarray(crowd).reshape(-1) != 0, dtype=np.uint8)
    for name, array in (("anchors", anchors), ("boxes", boxes)):
        if array.ndim != 2 or array.shape[1] != 4:
            raise ValueError(f"{name} must be [N, 4], got {list(array.shape)}")
    if len(crowd) != len(boxes):
        raise ValueError(f"crowd has {len(crowd)} entries for {len(boxes)} boxes")
    if (
        offsets.ndim != 1
        or len(offsets) < 1
        or offsets[0] != 0
        or offsets[-1] != len(boxes)
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError(f"offsets must rise from 0 to {len(boxes)}, got {offsets.tolist()}")
    labels = np.empty((len(offsets) - 1, len(anchors)), dtype=np.int8)
    matches = np.empty(labels.shape, dtype=np.int32)
    kernels().match_boxes(
        anchors,
        boxes,
        offsets,
        crowd,
        positive_overlap,
        negative_overlap,
        ignore_thresh,
        allow_low_quality,
        equal_tolerance,
        labels,
        matches,
        threads,
    )
    return labels, matches
