"""RoI targets in fixed slots: pure Paddle, nothing read back to the host, the whole batch at once.

Method: ppdet's `generate_proposal_target`. Images and boxes of unlike number are laid out in one table by
indices that the shapes alone decide; random keys and topk stand in for nonzero and randperm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import paddle
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner

from detperf_plugins.paddledet.registry import inherit_section

__all__ = ["PerfBBoxAssigner"]


class _Table(NamedTuple):
    """The batch as one table (B images, A boxes and G ground-truth boxes at most).

    Attributes:
        boxes: float32 [B, A, 4]; rows of zeros fill up.
        lengths: boxes of each image.
        gt_boxes: float32 [B, G, 4].
        gt_pool: float32 [N + 1, 4], ground truth of all images, then a row of zeros.
        gt_class: int32 [N + 1], likewise.
        gt_counts: ground-truth boxes of each image.
        gt_first: int64 [B, 1], where an image's begin in the pools; the row of zeros where it has none.
        crowd: float32 [B, G], or None where the data has no such field.
    """

    boxes: paddle.Tensor
    lengths: list[int]
    gt_boxes: paddle.Tensor
    gt_pool: paddle.Tensor
    gt_class: paddle.Tensor
    gt_counts: list[int]
    gt_first: paddle.Tensor
    crowd: Optional[paddle.Tensor]


def _rows(firsts: Sequence[int], lengths: Sequence[int], width: int, fill: int) -> np.ndarray:
    """int64 [B, width]: firsts[b], firsts[b] + 1, ... for lengths[b] columns, then `fill`."""
    column = np.arange(width)
    index = np.asarray(firsts)[:, None] + column
    return np.where(column < np.asarray(lengths)[:, None], index, fill)


def _tabulate(rois: Sequence[paddle.Tensor], inputs: dict[str, Any], add_gt: bool) -> _Table:
    gts, classes, crowd = inputs["gt_bbox"], inputs["gt_class"], inputs.get("is_crowd")
    images = len(rois)
    gt_counts = [int(one.shape[0]) for one in gts]
    lengths = [int(one.shape[0]) + (count if add_gt else 0) for one, count in zip(rois, gt_counts)]
    zero = paddle.zeros([1, 4])
    gt_pool = paddle.concat([*gts, zero])
    gt_class = paddle.concat(
        [one.reshape([-1]) for one in classes] + [paddle.zeros([1], dtype=classes[0].dtype)]
    )
    mixed = [one for pair in zip(rois, gts) for one in pair] if add_gt else list(rois)
    box_pool = paddle.concat([*mixed, zero])
    gt_first = np.cumsum([0, *gt_counts])[:-1]
    width, gt_width = max(lengths), max(1, *gt_counts)
    box_index = _rows(np.cumsum([0, *lengths])[:-1], lengths, width, sum(lengths))
    gt_index = _rows(gt_first, gt_counts, gt_width, sum(gt_counts))
    index = paddle.to_tensor(np.concatenate([box_index.reshape(-1), gt_index.reshape(-1)]))
    box_flat, gt_flat = index.split([box_index.size, gt_index.size])
    flags = None
    if crowd is not None:
        flags = paddle.concat(
            [one.reshape([-1]) for one in crowd] + [paddle.zeros([1], dtype=crowd[0].dtype)]
        )
        flags = paddle.gather(flags.astype("float32"), gt_flat).reshape([images, gt_width])
    return _Table(
        paddle.gather(box_pool, box_flat).reshape([images, width, 4]),
        lengths,
        paddle.gather(gt_pool, gt_flat).reshape([images, gt_width, 4]),
        gt_pool,
        gt_class,
        gt_counts,
        paddle.to_tensor(np.where(np.asarray(gt_counts) > 0, gt_first, sum(gt_counts)).reshape(-1, 1)),
        flags,
    )


def _overlaps(gts: paddle.Tensor, boxes: paddle.Tensor) -> paddle.Tensor:
    """float32 [B, G, A] of [B, G, 4] and [B, A, 4], in the order of operations of ppdet's bbox_overlaps."""
    gt, box = gts.unsqueeze(2).unbind(-1), boxes.unsqueeze(1).unbind(-1)
    gt_area, box_area = ((right - left) * (bottom - top) for left, top, right, bottom in (gt, box))
    width = paddle.clip(paddle.minimum(gt[2], box[2]) - paddle.maximum(gt[0], box[0]), min=0)
    height = paddle.clip(paddle.minimum(gt[3], box[3]) - paddle.maximum(gt[1], box[1]), min=0)
    inter = width * height
    return paddle.where(inter > 0, inter / (gt_area + box_area - inter), paddle.zeros_like(inter))


def _match(
    table: _Table, fg_thresh: float, bg_thresh: float, ignore_thresh: float
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Matched ground truth, counted within its image (int64 [B, A]), and label (int32: 1, 0, -1)."""
    overlap = _overlaps(table.gt_boxes, table.boxes)
    width = overlap.shape[2]
    usable = paddle.to_tensor(np.asarray(table.gt_counts, dtype=np.float32).reshape(-1, 1))
    if table.crowd is not None:
        crowd = table.crowd.unsqueeze(2)
        usable = usable - table.crowd.sum(1, keepdim=True)
        if ignore_thresh > 0:
            ignored = (overlap * crowd > ignore_thresh).astype("float32").max(1, keepdim=True)
            overlap = overlap * (1 - ignored) - ignored
        overlap = overlap * (1 - crowd) - crowd
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
    some = (usable > 0).astype("int32")
    label = (value >= fg_thresh).astype("int32")
    # -1 where neither threshold decides, or where the box was ignored (its best overlap is -1).
    between = paddle.logical_or(paddle.logical_and(value < fg_thresh, value >= bg_thresh), value <= -1)
    label = (label - between.astype("int32")) * some
    return match * some.astype("int64"), label


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
        match, label = _match(table, fg_thresh, bg_thresh, self.ignore_thresh)
        if is_cascade:
            return self._all(table, match, label)
        return self._sampled(table, match, label)

    def _sampled(self, table: _Table, match: paddle.Tensor, label: paddle.Tensor) -> tuple:
        images, width = label.shape
        slots = min(self.batch_size_per_im, width)
        most = min(int(self.batch_size_per_im * self.fg_fraction), width)
        real = paddle.to_tensor(_rows([1] * images, table.lengths, width, 0) > 0)
        if self.use_random:
            key = paddle.rand([images, width]) + 1
        else:
            key = paddle.arange(width, 0, -1, dtype="float32").unsqueeze(0)
        key = key * real.astype("float32")
        fg_key, fg = paddle.topk(key * (label == 1).astype("float32"), max(most, 1), axis=1)
        bg_key, bg = paddle.topk(key * (label == 0).astype("float32"), slots, axis=1)
        fg_count = paddle.clip((fg_key > 0).astype("int64").sum(1, keepdim=True), max=most)
        slot = paddle.arange(slots).unsqueeze(0)
        is_fg = slot < fg_count
        # Slots count on from the foreground into the background that follows it in `candidates`.
        at = paddle.where(is_fg, slot, slot - fg_count + fg.shape[1])
        candidates, keys = paddle.concat([fg, bg], axis=1), paddle.concat([fg_key, bg_key], axis=1)
        live = paddle.take_along_axis(keys, at, axis=1) > 0
        chosen = paddle.take_along_axis(candidates, at, axis=1)
        match = paddle.take_along_axis(match, chosen, axis=1)
        row = paddle.arange(0, images * width, width).unsqueeze(1)
        rois = paddle.gather(table.boxes.reshape([-1, 4]), (chosen + row).reshape([-1]))
        rois = rois.reshape([images, slots, 4]) * live.astype("float32").unsqueeze(-1)
        return self._outputs(table, rois.unbind(0), [slots] * images, match, is_fg.astype("int32"), live)

    def _all(self, table: _Table, match: paddle.Tensor, label: paddle.Tensor) -> tuple:
        side = table.boxes[:, :, 2:] - table.boxes[:, :, :2]
        live = (side > 0).all(axis=2)
        # Stock keeps the first RoI of an image that has none with area.
        first = paddle.concat(
            [paddle.logical_or(live[:, :1], ~live.any(axis=1, keepdim=True)), live[:, 1:]], axis=1
        )
        live = paddle.logical_and(first, label >= 0)
        rois = [boxes[:length] for boxes, length in zip(table.boxes.unbind(0), table.lengths)]
        return self._outputs(table, rois, table.lengths, match, label, live)

    def _outputs(
        self,
        table: _Table,
        rois: Sequence[paddle.Tensor],
        lengths: Sequence[int],
        match: paddle.Tensor,
        label: paddle.Tensor,
        live: paddle.Tensor,
    ) -> tuple:
        shape = match.shape
        at = (match + table.gt_first).reshape([-1])
        matched = paddle.gather(table.gt_pool, at).reshape([*shape, 4])
        classes = paddle.gather(table.gt_class, at).reshape(shape).astype("int32")
        background = paddle.full_like(classes, self.num_classes)
        classes = paddle.where(label == 1, classes, background)
        classes = paddle.where(live, classes, paddle.full_like(classes, -1))

        def cut(whole: paddle.Tensor) -> list[paddle.Tensor]:
            parts = whole.unbind(0)
            return [p if n == shape[1] else p[:n] for p, n in zip(parts, lengths)]

        rois_num = paddle.to_tensor(np.asarray(lengths, dtype=np.int32))
        return list(rois), rois_num, (cut(classes), cut(matched), cut(match))
