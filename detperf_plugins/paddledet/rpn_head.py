"""RPNHead with its losses by fixed-shape gathers and its proposals straight from the logits."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Optional

import paddle
from paddle.nn import functional
from ppdet.modeling.cls_utils import _get_class_default_kwargs
from ppdet.modeling.proposal_generator.anchor_generator import AnchorGenerator
from ppdet.modeling.proposal_generator.proposal_generator import ProposalGenerator
from ppdet.modeling.proposal_generator.rpn_head import RPNHead
from ppdet.modeling.proposal_generator.target_layer import RPNTargetAssign

from detperf_plugins import native
from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.anchors import AnchorSettings, Grids, difference
from detperf_plugins.paddledet.channels_last import (
    is_channels_last,
    section_and_layout,
    set_channels_last,
    to_nchw,
)
from detperf_plugins.paddledet.proposals import LogitLayout, flat_logits, propose_on_device, propose_on_host
from detperf_plugins.paddledet.rpn_targets import PerfRPNTargetAssign, RPNSample
from detperf_plugins.paddledet.rpn_transform import RPN_KEYS, target_text

__all__ = ["PerfRPNHead", "rpn_losses"]

# RPNHead's own defaults.
_ANCHORS = _get_class_default_kwargs(AnchorGenerator)
_TARGETS = _get_class_default_kwargs(RPNTargetAssign)
_TRAIN_PROPOSAL = _get_class_default_kwargs(ProposalGenerator, 12000, 2000)
_TEST_PROPOSAL = _get_class_default_kwargs(ProposalGenerator)


class _Grid:
    """What depends on the feature map sizes alone: computed once for each size met."""

    def __init__(self, settings: AnchorSettings, grids: Grids, channels_last: bool, assign: Any) -> None:
        self.anchors = settings.anchors(grids)
        self.layout = LogitLayout.of(settings, grids, channels_last)
        self.positions = paddle.to_tensor(self.layout.positions())
        self.text = target_text(settings.text(grids), assign)
        self._anchor_tensor: Optional[paddle.Tensor] = None

    @property
    def anchor_tensor(self) -> paddle.Tensor:
        if self._anchor_tensor is None:
            self._anchor_tensor = paddle.to_tensor(self.anchors.copy())
        return self._anchor_tensor


def rpn_losses(
    logits: paddle.Tensor, positions: paddle.Tensor, sample: RPNSample, norm: int, bbox_loss: Any = None
) -> dict[str, paddle.Tensor]:
    """The losses of RPNHead.get_loss over the sampled anchors alone.

    Dead slots count with weight 0, so no shape depends on a value; sums run in another order than stock's.

    Args:
        logits: float32 [B, L + 2], see `flat_logits`.
        positions: int32 [A, 5], see `LogitLayout.positions`.
        sample: tensors, see `RPNSample`.
        norm: number by which both losses are divided.
        bbox_loss: replaces the absolute difference; called with predicted and target deltas [N, 4].

    Returns:
        loss_rpn_cls and loss_rpn_reg, float32 [].

    Raises:
        DetperfError: `bbox_loss` gives one value for all boxes.
    """
    images, slots = sample.index.shape
    at = paddle.gather(positions, sample.index.reshape([-1])).reshape([images, slots * 5])
    at = at + paddle.arange(0, images * logits.shape[1], logits.shape[1], dtype="int32").unsqueeze(1)
    predicted = paddle.gather(logits.reshape([-1]), at.reshape([-1])).reshape([images, slots, 5])
    label = sample.label.astype("float32")
    live = (label >= 0).astype("float32")
    cls = functional.binary_cross_entropy_with_logits(
        predicted[:, :, 0], label * live, weight=live, reduction="sum"
    )

    positives = sample.delta.shape[1]
    rows = [images * positives, 4]
    foreground = (label[:, :positives] == 1).astype("float32").reshape([-1, 1])
    deltas = predicted[:, :positives, 1:].reshape(rows)
    target = sample.delta.reshape(rows)
    if bbox_loss is None:
        reg = (paddle.abs(deltas - target) * foreground).sum()
    else:
        value = bbox_loss(deltas * foreground, target)
        if value.ndim == 0 or value.shape[0] != rows[0]:
            raise DetperfError(f"{type(bbox_loss).__name__} reduces over boxes; PerfRPNHead needs one a row")
        reg = (value.reshape([rows[0], -1]) * foreground).sum()
    return {"loss_rpn_cls": cls / norm, "loss_rpn_reg": reg / norm}


class PerfRPNHead(RPNHead):
    """RPNHead, faster; its weights, their names and its results, losses up to the order of float32 sums.

    Targets come from the batch where `AssignRPNTargets` put them, else from PerfRPNTargetAssign, which
    reads the boxes once a batch. On a CPU the proposals are one kernel call after one read of the logits;
    on a GPU they are made there (`propose_on_device`). Export, adaptive suppression (eta < 1) and an
    assigner of the user's own run as in stock, after a transpose of the logits where these are NHWC.

    Args:
        anchor_generator, rpn_target_assign: as in RPNHead, whose section `RPNHead:` is inherited.
        train_proposal, test_proposal: as in RPNHead.
        in_channel, export_onnx, loss_rpn_bbox: as in RPNHead.
        data_format: NHWC for channels-last features; a top-level key of the config. The weights are the same.
    """

    __shared__ = ["export_onnx", "data_format"]
    __inject__ = ["loss_rpn_bbox"]
    channels_last = False
    stock_forward = RPNHead.forward
    KEPT_GRIDS = 16

    def __init__(
        self,
        anchor_generator: Any = _ANCHORS,
        rpn_target_assign: Any = _TARGETS,
        train_proposal: Any = _TRAIN_PROPOSAL,
        test_proposal: Any = _TEST_PROPOSAL,
        in_channel: int = 1024,
        export_onnx: bool = False,
        loss_rpn_bbox: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            anchor_generator,
            rpn_target_assign,
            train_proposal,
            test_proposal,
            in_channel,
            export_onnx,
            loss_rpn_bbox,
        )
        assign: Any = vars(self).get("rpn_target_assign")
        if type(assign) is RPNTargetAssign:
            self.rpn_target_assign = PerfRPNTargetAssign(**vars(assign))
        if is_channels_last(data_format):
            self.channels_last = True
            for layer in (self.rpn_feat, self.rpn_rois_score, self.rpn_rois_delta):
                set_channels_last(layer)
        self.settings = AnchorSettings.of(self.anchor_generator)
        self._grids: OrderedDict[Grids, _Grid] = OrderedDict()

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As RPNHead; settings of the section `RPNHead:` hold where the own section has none."""
        settings = section_and_layout(cfg, "RPNHead")
        return {**settings, **super().from_config(cfg, input_shape)}

    def forward(
        self, feats: list[paddle.Tensor], inputs: dict[str, Any]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor, Optional[dict[str, paddle.Tensor]]]:
        """Proposals, their number in each image (int32 [B]) and, in training, the losses.

        Args:
            feats: feature maps of the levels.
            inputs: the batch, with `im_shape` and in training the ground truth.

        Raises:
            DetperfError: the loader's targets were made for other anchors or another rule.
        """
        generator = self.train_proposal if self.training else self.test_proposal
        own_rule = isinstance(self.rpn_target_assign, PerfRPNTargetAssign)
        stock = self.export_onnx or not paddle.in_dynamic_mode() or generator.eta < 1 or not own_rule
        if stock and not self.channels_last:
            return self.stock_forward(feats, inputs)
        features = self.rpn_feat(feats)
        scores = [self.rpn_rois_score(feature) for feature in features]
        deltas = [self.rpn_rois_delta(feature) for feature in features]
        if stock:
            return self._from_stock(
                [to_nchw(one) for one in scores], [to_nchw(one) for one in deltas], inputs
            )
        logits = flat_logits(scores, deltas, inputs["im_shape"])
        grid = self.grid(scores)
        rois = self.propose(logits, grid, generator)
        rois_num = paddle.to_tensor([one.shape[0] for one in rois], dtype="int32")
        if not self.training:
            return rois, rois_num, None
        return rois, rois_num, self._losses(logits, grid, inputs)

    def _from_stock(
        self, scores: list[paddle.Tensor], deltas: list[paddle.Tensor], inputs: dict[str, Any]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor, Optional[dict[str, paddle.Tensor]]]:
        """Stock's proposals and losses; scores [N, k, H, W] and deltas [N, 4k, H, W] of each level."""
        anchors = self.anchor_generator(scores)
        rois, rois_num = self._gen_proposal(scores, deltas, anchors, inputs)
        if not self.training:
            return rois, rois_num, None
        return rois, rois_num, self.get_loss(scores, deltas, anchors, inputs)

    @paddle.no_grad()
    def propose(self, logits: paddle.Tensor, grid: _Grid, generator: Any) -> list[paddle.Tensor]:
        """Proposals of the batch, per image float32 [n, 4], best first.

        Args:
            logits: see `flat_logits`.
            grid: of these feature maps.
            generator: a ProposalGenerator.
        """
        if logits.place.is_cpu_place() and native.available():
            return propose_on_host(logits, grid.layout, grid.anchors, generator)
        return propose_on_device(logits, grid.layout, grid.positions, grid.anchor_tensor, generator)

    def _losses(self, logits: paddle.Tensor, grid: _Grid, inputs: dict[str, Any]) -> dict[str, paddle.Tensor]:
        if RPN_KEYS[0] in inputs:
            for text in inputs[RPN_KEYS[3]]:
                if text != grid.text:
                    raise DetperfError(
                        f"{difference(text, grid.text)}: AssignRPNTargets must have the settings of the "
                        "model's RPN head and stand after PadBatch"
                    )
            sample = RPNSample(*[_stacked(inputs[key]) for key in RPN_KEYS[:3]])
        else:
            sample = self.rpn_target_assign.sample(inputs, grid.anchors)
        norm = self.rpn_target_assign.batch_size_per_im * sample.index.shape[0]
        return rpn_losses(logits, grid.positions, sample, norm, self.loss_rpn_bbox)

    def grid(self, scores: list[paddle.Tensor]) -> _Grid:
        """What depends on the sizes of these score maps alone: [N, A, H, W] or [N, H, W, A] of each level."""
        first = 1 if self.channels_last else 2
        grids = tuple((int(score.shape[first]), int(score.shape[first + 1])) for score in scores)
        if grids not in self._grids:
            self._grids[grids] = _Grid(self.settings, grids, self.channels_last, self.rpn_target_assign)
            if len(self._grids) > self.KEPT_GRIDS:
                self._grids.popitem(last=False)
        self._grids.move_to_end(grids)
        return self._grids[grids]


def _stacked(values: Any) -> paddle.Tensor:
    return values if isinstance(values, paddle.Tensor) else paddle.stack(list(values))
