"""BBoxHead and CascadeHead with losses of fixed shape: dead RoIs weigh 0 instead of being taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional
from ppdet.modeling.bbox_utils import bbox2delta
from ppdet.modeling.heads.bbox_head import BBoxHead, TwoFCHead, XConvNormHead
from ppdet.modeling.heads.cascade_head import CascadeHead, CascadeTwoFCHead, CascadeXConvNormHead

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.amp import as_float32
from detperf_plugins.paddledet.channels_last import is_channels_last, section_and_layout, set_channels_last
from detperf_plugins.paddledet.registry import arguments_of
from detperf_plugins.paddledet.roi_align import ChannelsLastRoIAlign, take_dead_rois

__all__ = ["PerfBBoxHead", "PerfCascadeHead", "bbox_losses"]


def bbox_losses(
    scores: paddle.Tensor,
    deltas: paddle.Tensor,
    labels: paddle.Tensor,
    matched: paddle.Tensor,
    rois: paddle.Tensor,
    bbox_weight: Sequence[float],
    num_classes: int,
    epsilon: float = 0.0,
) -> dict[str, paddle.Tensor]:
    """The losses of BBoxHead.get_loss, averaged over the live RoIs (label >= 0).

    Without a live RoI, or without foreground, a loss is 0 and still reaches every parameter.

    Args:
        scores: [N, num_classes + 1], logits; half precision is taken to float32.
        deltas: [N, 4 * num_classes], or [N, 4] where all classes share them; likewise.
        labels: integer [N]; num_classes is background, -1 dead.
        matched, rois: float32 [N, 4], pixels.
        bbox_weight: factors of the four deltas.
        num_classes: number of classes, background not counted.
        epsilon: added to the number of live RoIs.
    """
    scores, deltas = as_float32(scores), as_float32(deltas)
    labels = labels.astype("int64")
    live = (labels >= 0).astype("float32").sum()
    divisor = paddle.clip(live, min=1.0) + epsilon if epsilon else paddle.clip(live, min=1.0)
    cls = functional.cross_entropy(scores, labels, ignore_index=-1, reduction="none").sum() / divisor

    foreground = paddle.logical_and(labels >= 0, labels < num_classes).unsqueeze(1)
    if deltas.shape[1] != 4:
        count, classes = deltas.shape[0], deltas.shape[1] // 4
        row = paddle.arange(0, count * classes, classes)
        own = paddle.clip(labels, min=0, max=classes - 1) + row
        deltas = paddle.gather(deltas.reshape([-1, 4]), own)
    target = bbox2delta(rois, matched, bbox_weight)
    # A dead RoI has no size, so its target may be NaN: it is put away before it meets a gradient.
    target = paddle.where(foreground, target, paddle.zeros_like(target))
    target.stop_gradient = True
    reg = (paddle.abs(deltas - target) * foreground.astype("float32")).sum() / divisor
    return {"loss_bbox_cls": cls, "loss_bbox_reg": reg}


class _FixedShapeLoss:
    """`get_loss` of both heads."""

    num_classes: int
    bbox_loss: Any

    def get_loss(
        self,
        scores: paddle.Tensor,
        deltas: paddle.Tensor,
        targets: tuple[list, list, list],
        rois: list[paddle.Tensor],
        bbox_weight: Sequence[float],
        loss_normalize_pos: bool = False,
    ) -> dict[str, paddle.Tensor]:
        """As BBoxHead.get_loss; a `bbox_loss` set in the config is applied by stock to the live RoIs."""
        labels, matched, boxes = (_joined(one) for one in (targets[0], targets[1], rois))
        if self.bbox_loss is None:
            epsilon = 1e-7 if loss_normalize_pos else 0.0
            return bbox_losses(scores, deltas, labels, matched, boxes, bbox_weight, self.num_classes, epsilon)
        scores, deltas = as_float32(scores), as_float32(deltas)
        # Added to the losses, so that a step without foreground still reaches every parameter.
        connected = {"loss_bbox_cls": scores.sum() * 0.0, "loss_bbox_reg": deltas.sum() * 0.0}
        live = paddle.nonzero(labels >= 0).reshape([-1])
        if live.shape[0] == 0:
            return connected
        scores, deltas, labels, matched, boxes = (
            paddle.gather(one, live) for one in (scores, deltas, labels, matched, boxes)
        )
        losses = super().get_loss(  # type: ignore[misc]
            scores, deltas, ([labels], [matched], []), [boxes], bbox_weight, loss_normalize_pos
        )
        return {name: value + connected[name] for name, value in losses.items()}


def _joined(parts: Sequence[paddle.Tensor]) -> paddle.Tensor:
    return paddle.concat(list(parts)) if len(parts) > 1 else parts[0]


class _LiveRoIs(nn.Layer):
    """A label-cotuning loss that sees dead RoIs as background, which it leaves out."""

    def __init__(self, loss: nn.Layer, num_classes: int) -> None:
        super().__init__()
        self.loss = loss
        self.num_classes = num_classes

    def forward(self, scores: paddle.Tensor, targets: tuple, relation: Any) -> dict[str, paddle.Tensor]:
        """As the loss it holds."""
        labels = [paddle.where(one < 0, paddle.full_like(one, self.num_classes), one) for one in targets[0]]
        return self.loss(scores, (labels, *targets[1:]), relation)


# Heads whose first fully connected layer has the order of NCHW features in its weights; RoIAlign gives these.
FLATTENING = (TwoFCHead, XConvNormHead, CascadeTwoFCHead, CascadeXConvNormHead)


def _take_channels_last(head: Any) -> None:
    """Let a BBoxHead take NHWC features: transposed for RoIAlign, and back for a head of convolutions."""
    flattens = isinstance(head.head, FLATTENING)
    if not flattens:
        set_channels_last(head.head)
    head.roi_extractor = ChannelsLastRoIAlign(head.roi_extractor, channels_last_output=not flattens)
    head.channels_last = True


class PerfBBoxHead(_FixedShapeLoss, BBoxHead):
    """BBoxHead whose losses have fixed shapes; same arguments, weights and names, and the same losses.

    Args:
        args, kwargs: as in BBoxHead, whose section `BBoxHead:` is inherited.
        data_format: NHWC for channels-last features; a top-level key of the config.

    Raises:
        DetperfError: NHWC below a head that does not flatten, without `with_pool`.
    """

    __shared__ = ["num_classes", "use_cot", "data_format"]
    __inject__ = ["bbox_assigner", "bbox_loss", "loss_cot"]
    channels_last = False
    stock_forward = BBoxHead.forward

    @arguments_of(BBoxHead)
    def __init__(self, *args: Any, data_format: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        take_dead_rois(self.roi_extractor)
        if is_channels_last(data_format):
            _take_channels_last(self)
            if not (self.with_pool or isinstance(self.head, FLATTENING)):
                raise DetperfError(
                    f"data_format: NHWC needs with_pool: true below {type(self.head).__name__}"
                )

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As BBoxHead; settings of the section `BBoxHead:` hold where the own section has none."""
        settings = section_and_layout(cfg, "BBoxHead")
        return {**settings, **super().from_config(cfg, input_shape)}

    def forward(
        self,
        body_feats: Any = None,
        rois: Any = None,
        rois_num: Any = None,
        inputs: Any = None,
        cot: bool = False,
    ) -> tuple[Any, Any]:
        """As BBoxHead: losses and RoI features in training, predictions and the head else."""
        if not (self.channels_last and self.with_pool):
            return self.stock_forward(body_feats, rois, rois_num, inputs, cot)
        if self.training:
            rois, rois_num, targets = self.bbox_assigner(rois, rois_num, inputs)
            self.assigned_rois, self.assigned_targets = (rois, rois_num), targets
        bbox_feat = self.head(self.roi_extractor(body_feats, rois, rois_num))
        pooled = functional.adaptive_avg_pool2d(bbox_feat, output_size=1, data_format="NHWC")
        feat = paddle.squeeze(pooled, axis=[1, 2])
        scores = self.cot_bbox_score(feat) if self.use_cot else self.bbox_score(feat)
        cot_scores = self.bbox_score(feat) if self.use_cot else scores
        deltas = self.bbox_delta(feat)
        if not self.training:
            return self.get_prediction(cot_scores if cot else scores, deltas), self.head
        loss = self.get_loss(scores, deltas, targets, rois, self.bbox_weight, self.loss_normalize_pos)
        if self.cot_relation is not None:
            loss.update(self.loss_cot(cot_scores, targets, self.cot_relation))
        return loss, bbox_feat

    def init_cot_head(self, relationship: Any) -> None:
        """As BBoxHead, for label cotuning."""
        super().init_cot_head(relationship)
        stock: nn.Layer = self._sub_layers["loss_cot"]
        self.loss_cot = _LiveRoIs(stock, self.num_classes)


class PerfCascadeHead(_FixedShapeLoss, CascadeHead):
    """CascadeHead in which every RoI keeps its place through the stages; otherwise as PerfBBoxHead.

    A box that its stage leaves without area is dropped by stock; here its label is -1 in the next stage
    (PerfBBoxAssigner gives it), so that it counts nowhere.

    Args:
        args, kwargs: as in CascadeHead, whose section `CascadeHead:` is inherited.
        data_format: NHWC for channels-last features; a top-level key of the config.
    """

    __shared__ = ["num_classes", "num_cascade_stages", "data_format"]
    __inject__ = ["bbox_assigner", "bbox_loss"]
    channels_last = False
    _stock_pred_bbox = CascadeHead._get_pred_bbox
    _stock_rois_from_boxes = CascadeHead._get_rois_from_boxes

    @arguments_of(CascadeHead)
    def __init__(self, *args: Any, data_format: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        take_dead_rois(self.roi_extractor)
        if is_channels_last(data_format):
            _take_channels_last(self)

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As CascadeHead; settings of the section `CascadeHead:` hold where the own section has none."""
        settings = section_and_layout(cfg, "CascadeHead")
        return {**settings, **super().from_config(cfg, input_shape)}

    def _get_pred_bbox(
        self, deltas: paddle.Tensor, proposals: Sequence[paddle.Tensor], weights: Sequence[float]
    ) -> list[paddle.Tensor]:
        return self._stock_pred_bbox(as_float32(deltas), proposals, weights)

    def _get_rois_from_boxes(
        self, boxes: Sequence[paddle.Tensor], im_shape: paddle.Tensor
    ) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        if not self.training:
            return self._stock_rois_from_boxes(boxes, im_shape)
        lengths = [int(one.shape[0]) for one in boxes]
        image = paddle.to_tensor(np.repeat(np.arange(len(lengths)), lengths))
        limit = paddle.gather(paddle.flip(im_shape[:, :2], axis=[1]), image)
        clipped = paddle.minimum(paddle.clip(paddle.concat(list(boxes)), min=0), paddle.tile(limit, [1, 2]))
        clipped.stop_gradient = True
        return clipped.split(lengths), paddle.to_tensor(np.asarray(lengths, dtype=np.int32))
