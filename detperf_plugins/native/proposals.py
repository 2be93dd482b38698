"""Proposals of a whole batch, all levels, from the RPN's logits as they lie in memory.

Method: Paddle's `generate_proposals` operator on the CPU, box for box, then ppdet's choice of the best of
all levels (`RPNHead._gen_proposal`); native/include/detperf/proposals.h.
"""

from __future__ import annotations

import numpy as np

from detperf_plugins.native import kernels

__all__ = ["propose"]


def propose(
    logits: np.ndarray,
    levels: np.ndarray,
    channels_last: bool,
    anchors: np.ndarray,
    im_shape: np.ndarray,
    pre_nms_top_n: int,
    nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    post_nms_top_n: int,
    threads: int = 0,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Boxes and scores of each image, in `generate_proposals`' order; equal scores may come in another.

    Args:
        logits: float32 [B, L], an image's scores and deltas of all levels, each block as the network
            made it: scores [k, h, w] and deltas [4 k, h, w], or [h, w, k] and [h, w, 4 k].
        levels: int64 [levels, 5], of each level: where its scores begin in a row, where its deltas begin,
            where its anchors begin, its cells h * w, its anchors a cell k.
        channels_last: which of the two layouts `logits` has.
        anchors: float32 [A, 4] of all levels, cell by cell.
        im_shape: float32 [B, 2], height and width to which boxes are clipped.
        pre_nms_top_n: boxes kept before suppression, per level; 0 or less keeps all.
        nms_top_n: boxes kept after it, per level; 0 or less keeps all.
        nms_thresh: overlap above which the lower-scored of two boxes goes.
        min_size: least width and height; below 1 counts as 1, as in the operator.
        post_nms_top_n: boxes kept of all levels together, where there is more than one.
        threads: worker threads; 0 means one per core.

    Returns:
        B arrays float32 [n, 4] and B arrays float32 [n]; one box of zeros where a level has none left.

    Raises:
        ValueError: a shape does not fit, or a level reaches outside `logits` or `anchors`.
    """
    logits = np.ascontiguousarray(logits, dtype=np.float32)
    levels = np.ascontiguousarray(levels, dtype=np.int64)
    anchors = np.ascontiguousarray(anchors, dtype=np.float32)
    im_shape = np.ascontiguousarray(im_shape, dtype=np.float32)
    if logits.ndim != 2 or im_shape.shape != (len(logits), 2):
        raise ValueError(
            f"logits must be [B, L] and im_shape [B, 2], got {list(logits.shape)}, {list(im_shape.shape)}"
        )
    if levels.ndim != 2 or levels.shape[1] != 5 or anchors.ndim != 2 or anchors.shape[1] != 4:
        raise ValueError(
            f"levels must be [n, 5] and anchors [A, 4], got {list(levels.shape)}, {list(anchors.shape)}"
        )
    per_level = levels[:, 3] * levels[:, 4]
    if (
        (levels < 0).any()
        or (levels[:, 0] + per_level > logits.shape[1]).any()
        or (levels[:, 1] + 4 * per_level > logits.shape[1]).any()
        or (levels[:, 2] + per_level > len(anchors)).any()
    ):
        raise ValueError(
            f"levels {levels.tolist()} reach outside {logits.shape[1]} logits or {len(anchors)} anchors"
        )
    limits = [limit for limit in (pre_nms_top_n, nms_top_n) if limit > 0]
    kept = int(sum(max(1, min([int(n), *limits])) for n in per_level))
    if len(levels) > 1:
        kept = max(1, min(kept, post_nms_top_n))
    boxes = np.empty((len(logits), kept, 4), dtype=np.float32)
    scores = np.empty((len(logits), kept), dtype=np.float32)
    counts = np.empty(len(logits), dtype=np.int64)
    kernels().propose(
        logits,
        levels,
        channels_last,
        anchors,
        im_shape,
        pre_nms_top_n,
        nms_top_n,
        nms_thresh,
        min_size,
        post_nms_top_n,
        boxes,
        scores,
        counts,
        threads,
    )
    return [b[:n] for b, n in zip(boxes, counts)], [s[:n] for s, n in zip(scores, counts)]
