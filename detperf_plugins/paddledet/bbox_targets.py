"""RoI targets in fixed slots: pure Paddle, nothing read back to the host, the whole batch at once.

Method: ppdet's `generate_proposal_target`. Images and boxes of unlike number are laid out in one table by
indices that the shapes alone decide; random keys and topk stand in for nonzero and randperm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle.nn import functional
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner

from detperf_plugins.paddledet.registry import inherit_section

__all__ = ["PerfBBoxAssigner"]

# What a row of ground truth holds, and in which columns class and crowd flag stand.
FIELDS = ("gt_bbox", "gt_class", "is_crowd")
CLASS, CROWD = 4, 5


class _Table(NamedTuple):
    """The batch as one table (B images, A boxes and G ground-truth boxes at most, N of them in all).

    Attributes:
        boxes: float32 [B, A, 4]; rows of zeros fill up.
        box_pool: float32 [M + 1, 4], the boxes of all images, then a row of zeros.
        box_at: int64 [B, A], each box's row of `box_pool`; the last one where `boxes` is filled up.
        lengths: boxes of each image.
        gts: float32 [B, G, 5 or 6], ground truth: box, class and, where the data has it, the crowd flag.
        gt_pool: float32 [N + 1, 5 or 6], likewise of all images, then a row of zeros.
        gt_counts: ground-truth boxes of each image.
        gt_first: int64 [B, 1], an image's first row of `gt_pool`; the last one where it has none.
    """

    boxes: paddle.Tensor
    box_pool: paddle.Tensor
    box_at: paddle.Tensor
    lengths: list[int]
    gts: paddle.Tensor
    gt_pool: paddle.Tensor
    gt_counts: list[int]
    gt_first: paddle.Tensor


class _Matched(NamedTuple):
    """Each box's ground truth, counted within its image (int64 [B, A]), and its kind (bool [B, A])."""

    match: paddle.Tensor
    foreground: paddle.Tensor
    background: paddle.Tensor


def _table_index(lengths: Sequence[int]) -> np.ndarray:
    """int64 [B, max(1, *lengths)]: rows of a pool, image after image; the row past all of them fills up."""
    column = np.arange(max(1, *lengths))
    index = np.cumsum([0, *lengths])[:-1, None] + column
    return np.where(column < np.asarray(lengths)[:, None], index, sum(lengths))


def _tabulate(rois: Sequence[paddle.Tensor], inputs: dict[str, Any], add_gt: bool) -> _Table:
    gts = inputs["gt_bbox"]
    fields = []
    for key in FIELDS:
        if inputs.get(key) is not None:
            rows = list(inputs[key])
            zero = paddle.zeros([1, rows[0].shape[1]], dtype=rows[0].dtype)
            fields.append(paddle.concat([*rows, zero]).astype("float32"))
    gt_pool = paddle.concat(fields, axis=1)
    mixed = [one for pair in zip(rois, gts) for one in pair] if add_gt else list(rois)
    box_pool = paddle.concat([*mixed, paddle.zeros([1, 4])])
    gt_counts = [int(one.shape[0]) for one in gts]
    lengths = [int(one.shape[0]) + (count if add_gt else 0) for one, count in zip(rois, gt_counts)]
    box_at = paddle.to_tensor(_table_index(lengths))
    gt_at = _table_index(gt_counts)
    # embedding: rows of a table by an index of any shape, in one operator.
    return _Table(
        functional.embedding(box_at, box_pool),
        box_pool,
        box_at,
        lengths,
        functional.embedding(paddle.to_tensor(gt_at), gt_pool),
        gt_pool,
        gt_counts,
        paddle.to_tensor(gt_at[:, :1]),
    )


def _overlaps(gts: paddle.Tensor, boxes: paddle.Tensor) -> paddle.Tensor:
    """float32 [B, G, A] of [B, G, 4] and [B, A, 4], in the order of operations of ppdet's bbox_overlaps."""
    shape = [gts.shape[0], gts.shape[1], boxes.shape[1]]
    gx0, gy0, gx1, gy1 = gts.unsqueeze(2).unbind(-1)
    bx0, by0, bx1, by1 = boxes.unsqueeze(1).unbind(-1)
    # Expanded first, and in place after: on a CPU an operator whose two sides both broadcast takes 30
    # times as long, and fresh memory of this size costs more than the arithmetic.
    inter = paddle.minimum(bx1.expand(shape), gx1)
    inter.subtract_(paddle.maximum(bx0.expand(shape), gx0)).clip_(min=0)
    height = paddle.minimum(by1.expand(shape), gy1)
    inter.multiply_(height.subtract_(paddle.maximum(by0.expand(shape), gy0)).clip_(min=0))
    union = ((bx1 - bx0) * (by1 - by0)).expand(shape) + (gx1 - gx0) * (gy1 - gy0)
    # The least divisor only keeps 0 / 0 from two boxes without area.
    return inter.divide_(union.subtract_(inter).clip_(min=1e-30))


def _match(table: _Table, fg_thresh: float, bg_thresh: float, ignore_thresh: float) -> _Matched:
    overlap = _overlaps(table.gts[:, :, :4], table.boxes)
    width = overlap.shape[2]
    ignored = some = None
    if table.gts.shape[2] > CROWD:
        crowd = table.gts[:, :, CROWD:]
        counts = paddle.to_tensor(np.asarray(table.gt_counts, dtype=np.float32).reshape(-1, 1))
        some = crowd.sum(1) < counts
        if ignore_thresh > 0:
            ignored = (overlap * crowd > ignore_thresh).any(1)
        overlap = overlap.multiply_(1 - crowd).subtract_(crowd)
    values, matches = [], []
    for image, count in enumerate(table.gt_counts):
        # Image by image, so that topk sees the column stock shows it and breaks ties alike.
        if count == 0:
            values.append(paddle.zeros([1, width]))
            matches.append(paddle.zeros([1, width], dtype="int64"))
            continue
        value, index = paddle.topk(overlap[image, :count], k=1, axis=0)
        values.append(value)
        matches.append(index)
    value, match = paddle.concat(values), paddle.concat(matches)
    foreground = value >= fg_thresh
    background = ~foreground
    if bg_thresh < fg_thresh:
        background = value < bg_thresh
    if some is not None:
        # Without a usable box stock makes all RoIs background, matched to the first.
        match = match * some.astype("int64")
        if ignored is not None:
            # Stock sets all overlaps of an ignored RoI to -1, whatever it matched.
            ignored = paddle.logical_and(ignored, some)
            tied = paddle.concat([_tied_match(count, width) for count in table.gt_counts])
            match = paddle.where(ignored, tied, match)
            foreground = paddle.logical_and(foreground, ~ignored)
            background = paddle.logical_and(background, ~ignored)
    return _Matched(match, foreground, background)


def _tied_match(count: int, width: int) -> paddle.Tensor:
    """int64 [1, width], what topk picks from `count` equal overlaps."""
    picked = paddle.topk(paddle.zeros([max(count, 1), 1]), k=1, axis=0)[1]
    return picked.expand([1, width])


class PerfBBoxAssigner(BBoxAssigner):
    """BBoxAssigner with `batch_size_per_im` slots for every image, and no host read.

    Foreground slots come first, then background, then dead ones: label -1, a box of zeros. With use_random
    off the live slots are stock's RoIs in stock's order; with it on, the same number drawn from the same
    distribution. An image has fewer slots only where there are fewer RoIs in all. Where neither
    foreground nor background exists, stock adds one RoI labelled -1, on which its loss then fails; here
    all slots are dead. In the later cascade stages every RoI keeps its place, and one without area is dead.

    Args: as BBoxAssigner, whose section `BBoxAssigner:` is inherited.
    """

    __shared__ = ["num_classes", "assign_on_cpu"]

    @classmethod
    def from_config(cls, cfg: Any) -> dict[str, Any]:
        """Settings of the section `BBoxAssigner:` hold where the own section has none."""
        return inherit_section(cfg, "BBoxAssigner")

    @paddle.no_grad()
    def __call__(
        self,
        rpn_rois: Sequence[paddle.Tensor],
        rpn_rois_num: paddle.Tensor,
        inputs: dict[str, Any],
        stage: int = 0,
        is_cascade: bool = False,
        add_gt_as_proposals: bool = True,
    ) -> tuple[list[paddle.Tensor], paddle.Tensor, tuple[list, list, list]]:
        """Sampled RoIs and their targets (n slots an image; in a cascade stage, the image's RoIs).

        Args:
            rpn_rois: per image float32 [R, 4].
            rpn_rois_num: int32 [B]; not used, the shapes say it.
            inputs: the batch: `gt_bbox`, `gt_class`, perhaps `is_crowd`, per image.
            stage: cascade stage, choosing from `cascade_iou`.
            is_cascade: label every RoI by `cascade_iou`, sampling none.
            add_gt_as_proposals: let the ground-truth boxes stand among the RoIs.

        Returns:
            rois per image float32 [n, 4]; rois_num int32 [B]; and per image labels int32 [n], matched
            boxes float32 [n, 4], matched ground-truth indices int64 [n].
        """
        table = _tabulate(rpn_rois, inputs, add_gt_as_proposals)
        fg_thresh = self.cascade_iou[stage] if is_cascade else self.fg_thresh
        bg_thresh = self.cascade_iou[stage] if is_cascade else self.bg_thresh
        matched = _match(table, fg_thresh, bg_thresh, self.ignore_thresh)
        return self._all(table, matched) if is_cascade else self._sampled(table, matched)

    def _sampled(self, table: _Table, matched: _Matched) -> tuple:
        images, width = matched.match.shape
        slots = min(self.batch_size_per_im, width)
        most = min(int(self.batch_size_per_im * self.fg_fraction), width)
        if self.use_random:
            key = paddle.rand([images, width]) + 1
        else:
            key = paddle.arange(width, 0, -1, dtype="float32").unsqueeze(0)
        if min(table.lengths) < width:
            key = key * (table.box_at < sum(table.lengths)).astype("float32")
        fg_key, fg = paddle.topk(key * matched.foreground.astype("float32"), max(most, 1), axis=1)
        bg_key, bg = paddle.topk(key * matched.background.astype("float32"), slots, axis=1)
        fg_count = paddle.clip((fg_key > 0).astype("int64").sum(1, keepdim=True), max=most)
        slot = paddle.arange(slots).unsqueeze(0)
        is_fg = slot < fg_count
        # Past the foreground, slots go on with the first background candidate.
        at = paddle.where(is_fg, slot, slot - fg_count + fg.shape[1])
        live = paddle.take_along_axis(paddle.concat([fg_key, bg_key], axis=1), at, axis=1) > 0
        chosen = paddle.take_along_axis(paddle.concat([fg, bg], axis=1), at, axis=1)
        match = paddle.take_along_axis(matched.match, chosen, axis=1)
        row = paddle.take_along_axis(table.box_at, chosen, axis=1)
        row = paddle.where(live, row, paddle.full_like(row, sum(table.lengths)))
        rois = functional.embedding(row, table.box_pool).unbind(0)
        return self._outputs(table, rois, [slots] * images, match, is_fg, live)

    def _all(self, table: _Table, matched: _Matched) -> tuple:
        sized = (table.boxes[:, :, 2:] > table.boxes[:, :, :2]).all(axis=2)
        # Stock keeps the first RoI of an image in which none has area.
        kept = paddle.logical_or(sized[:, :1], ~sized.any(axis=1, keepdim=True))
        live = paddle.concat([kept, sized[:, 1:]], axis=1)
        live = paddle.logical_and(live, paddle.logical_or(matched.foreground, matched.background))
        rois = [boxes[:length] for boxes, length in zip(table.boxes.unbind(0), table.lengths)]
        return self._outputs(table, rois, table.lengths, matched.match, matched.foreground, live)

    def _outputs(
        self,
        table: _Table,
        rois: Sequence[paddle.Tensor],
        lengths: Sequence[int],
        match: paddle.Tensor,
        foreground: paddle.Tensor,
        live: paddle.Tensor,
    ) -> tuple:
        gts = functional.embedding(match + table.gt_first, table.gt_pool)
        classes = gts[:, :, CLASS].astype("int32")
        classes = paddle.where(foreground, classes, paddle.full_like(classes, self.num_classes))
        classes = paddle.where(live, classes, paddle.full_like(classes, -1))

        def cut(whole: paddle.Tensor) -> list[paddle.Tensor]:
            parts = whole.unbind(0)
            return [part if n == whole.shape[1] else part[:n] for part, n in zip(parts, lengths)]

        rois_num = paddle.to_tensor(np.asarray(lengths, dtype=np.int32))
        return list(rois), rois_num, (cut(classes), cut(gts[:, :, :4]), cut(match))
