"""Proposals straight from the RPN's logits, in either layout, for a whole batch.

Method: ppdet's ProposalGenerator over Paddle's `generate_proposals`, then `RPNHead._gen_proposal`'s
choice among levels. Two ways to the same boxes: a kernel on the host, where the logits already are on a
CPU; pure Paddle on a device, where they stay.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle.utils import dlpack

from detperf_plugins.native.proposals import propose
from detperf_plugins.paddledet.anchors import AnchorSettings, Grids

__all__ = ["LogitLayout", "flat_logits", "propose_on_device", "propose_on_host"]


class LogitLayout(NamedTuple):
    """Where logits lie in an image's row: each level's scores, then its deltas, as the network made them.

    Attributes:
        levels: int64 [levels, 5], see `native.proposals.propose`.
        channels_last: [h, w, k] blocks instead of [k, h, w].
    """

    levels: np.ndarray
    channels_last: bool

    @classmethod
    def of(cls, settings: AnchorSettings, grids: Grids, channels_last: bool) -> LogitLayout:
        """The layout for these feature map sizes."""
        levels, start, first = [], 0, 0
        for (rows, columns), per_cell in zip(grids, settings.per_cell()):
            count = rows * columns * per_cell
            levels.append([start, start + count, first, rows * columns, per_cell])
            start, first = start + 5 * count, first + count
        return cls(np.asarray(levels, dtype=np.int64), channels_last)

    def positions(self) -> np.ndarray:
        """Where each anchor's score and four deltas lie in the row: int32 [A, 5]."""
        parts = []
        for scores, deltas, _, cells, per_cell in self.levels.tolist():
            cell, k = np.divmod(np.arange(cells * per_cell), per_cell)
            four = np.arange(4)
            if self.channels_last:
                score = scores + cell * per_cell + k
                delta = deltas + 4 * (cell * per_cell + k)[:, None] + four
            else:
                score = scores + k * cells + cell
                delta = deltas + (4 * k[:, None] + four) * cells + cell[:, None]
            parts.append(np.concatenate([score[:, None], delta], axis=1))
        return np.concatenate(parts).astype(np.int32)


def flat_logits(
    scores: list[paddle.Tensor], deltas: list[paddle.Tensor], im_shape: paddle.Tensor
) -> paddle.Tensor:
    """Score and delta maps of all levels as the rows that `LogitLayout` describes: float32 [B, L + 2].

    A row ends with its image's height and width, so that one read brings all that the kernel needs.
    """
    blocks = [block.flatten(1) for pair in zip(scores, deltas) for block in pair]
    if blocks[0].dtype != paddle.float32:
        # Half precision under AMP; stock's losses and its operator work in float32 as well.
        blocks = [paddle.concat(blocks, axis=1).astype("float32")]
    return paddle.concat([*blocks, im_shape.astype("float32")], axis=1)


def propose_on_host(
    logits: paddle.Tensor, layout: LogitLayout, anchors: np.ndarray, generator: Any
) -> list[paddle.Tensor]:
    """Proposals by one kernel call, after one read of the batch.

    Args:
        logits: float32 [B, L + 2], see `flat_logits`.
        layout: how a row is laid out.
        anchors: float32 [A, 4] of all levels.
        generator: a ProposalGenerator with eta 1.

    Returns:
        Per image float32 [n, 4], best first; one box of zeros where nothing is left.
    """
    values = _read(logits)
    boxes, _ = propose(
        values,
        layout.levels,
        layout.channels_last,
        anchors,
        values[:, -2:],
        generator.pre_nms_top_n,
        generator.pre_nms_top_n if generator.topk_after_collect else generator.post_nms_top_n,
        generator.nms_thresh,
        generator.min_size,
        generator.post_nms_top_n,
    )
    return [paddle.to_tensor(one) for one in boxes]


class _Exported:
    """A tensor on the host as numpy asks for it; Paddle 2.6's own tensor has no such method."""

    def __init__(self, tensor: paddle.Tensor) -> None:
        self.tensor = tensor.detach()

    def __dlpack__(self, **_: Any) -> Any:
        return dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU


def _read(tensor: paddle.Tensor) -> np.ndarray:
    """Values of a tensor on the host, read-only and without a copy: `numpy()` makes one even there."""
    if not hasattr(np, "from_dlpack"):  # numpy 1.21
        return tensor.numpy()
    return np.from_dlpack(_Exported(tensor))


def propose_on_device(
    logits: paddle.Tensor,
    layout: LogitLayout,
    positions: paddle.Tensor,
    anchors: paddle.Tensor,
    generator: Any,
) -> list[paddle.Tensor]:
    """The same in pure Paddle: candidates of all images and levels are decoded together.

    Only the suppression goes image by image and level by level, as in stock; its number of boxes is the
    one thing that reaches the host, inside Paddle's own `nms`.

    Args:
        logits, layout, generator: see `propose_on_host`.
        positions: `layout.positions()`, on the device of `logits`.
        anchors: float32 [A, 4], there too.
    """
    chosen, scores, sizes = [], [], []
    for begin, _, first, cells, per_cell in layout.levels.tolist():
        count = cells * per_cell
        wanted = min(generator.pre_nms_top_n, count) if generator.pre_nms_top_n > 0 else count
        block = logits[:, begin : begin + count]
        if not layout.channels_last:
            block = block.reshape([-1, per_cell, cells]).transpose([0, 2, 1]).reshape([-1, count])
        value, index = paddle.topk(block, wanted, axis=1)
        scores.append(value)
        chosen.append(index + first)
        sizes.append(wanted)
    score, anchor = paddle.concat(scores, axis=1), paddle.concat(chosen, axis=1)
    images, candidates = anchor.shape
    flat = anchor.reshape([-1])
    at = paddle.gather(positions, flat)[:, 1:].reshape([images, 4 * candidates]).astype("int64")
    delta = paddle.take_along_axis(logits, at, axis=1)
    boxes = _decode(
        paddle.gather(anchors, flat).reshape([images, candidates, 4]),
        delta.reshape([images, candidates, 4]),
        logits[:, -2:],
    )
    smallest = max(generator.min_size, 1.0)
    side = boxes[:, :, 2:] - boxes[:, :, :2]
    keep = (side >= smallest).all(axis=2)
    most = generator.pre_nms_top_n if generator.topk_after_collect else generator.post_nms_top_n
    return [
        _suppress(boxes[image], score[image], keep[image], sizes, generator.nms_thresh, most, generator)
        for image in range(images)
    ]


def _decode(anchors: paddle.Tensor, delta: paddle.Tensor, im_shape: paddle.Tensor) -> paddle.Tensor:
    """Boxes [B, N, 4] clipped to each image; anchors and delta [B, N, 4], im_shape [B, 2]."""
    size = anchors[:, :, 2:] - anchors[:, :, :2]
    centre = delta[:, :, :2] * size + (anchors[:, :, :2] + 0.5 * size)
    half = paddle.exp(paddle.clip(delta[:, :, 2:], max=math.log(1000.0 / 16.0))) * size / 2
    limit = paddle.flip(im_shape, axis=[1]).unsqueeze(1)
    corners = [
        paddle.clip(paddle.minimum(corner, limit), min=0.0) for corner in (centre - half, centre + half)
    ]
    return paddle.concat(corners, axis=2)


def _suppress(
    boxes: paddle.Tensor,
    score: paddle.Tensor,
    keep: paddle.Tensor,
    sizes: list[int],
    threshold: float,
    most: int,
    generator: Any,
) -> paddle.Tensor:
    """One image's boxes after suppression in each level, and the best of all levels."""
    kept_boxes, kept_scores, start = [], [], 0
    for size in sizes:
        live = paddle.nonzero(keep[start : start + size]).reshape([-1]) + start
        start += size
        if live.shape[0] == 0:
            kept_boxes.append(paddle.zeros([1, 4]))
            kept_scores.append(paddle.zeros([1]))
            continue
        candidates = paddle.gather(boxes, live)
        picked = paddle.vision.ops.nms(candidates, threshold)[: most if most > 0 else None]
        kept_boxes.append(paddle.gather(candidates, picked))
        kept_scores.append(paddle.gather(score, paddle.gather(live, picked)))
    if len(sizes) == 1:
        return kept_boxes[0]
    merged = paddle.concat(kept_boxes)
    if merged.shape[0] <= generator.post_nms_top_n:
        return merged
    best = paddle.topk(paddle.concat(kept_scores), generator.post_nms_top_n)[1]
    return paddle.gather(merged, best)
