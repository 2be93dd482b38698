"""MaskHead whose loss takes the class channel by one gather, in either layout."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional
from ppdet.modeling.heads.mask_head import MaskHead

from detperf_plugins.paddledet.amp import as_float32
from detperf_plugins.paddledet.channels_last import (
    is_channels_last,
    section_and_layout,
    set_channels_last,
    to_nchw,
)
from detperf_plugins.paddledet.registry import arguments_of
from detperf_plugins.paddledet.roi_align import ChannelsLastRoIAlign, take_dead_rois

__all__ = ["PerfMaskHead"]


class PerfMaskHead(MaskHead):
    """MaskHead; same arguments, weights and names, and the same loss.

    Stock finds the logits of each RoI's class by a one-hot mask over all of them and `nonzero`, whose size
    the host must wait for. The number of RoIs is the mask assigner's to decide; one of weight 0 counts in
    the mean, as in stock, and keeps the head's parameters in the graph where there is no foreground.

    In NHWC the loss gathers its M * M values an RoI from the logits as they are, which moves less than a
    transpose of all classes would. Predictions are cut out by stock's code: for them the logits, the
    smallest features of the head, are transposed.

    Args:
        args, kwargs: as in MaskHead, whose section `MaskHead:` is inherited.
        data_format: NHWC for channels-last features; a top-level key of the config.
    """

    __shared__ = ["num_classes", "export_onnx", "data_format"]
    __inject__ = ["mask_assigner"]
    channels_last = False

    @arguments_of(MaskHead)
    def __init__(self, *args: Any, data_format: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        extractor: nn.Layer = self._sub_layers["roi_extractor"]
        take_dead_rois(extractor)
        if is_channels_last(data_format):
            self.channels_last = True
            self.roi_extractor = ChannelsLastRoIAlign(extractor, channels_last_output=True)
            set_channels_last(self.head)
            set_channels_last(self.mask_fcn_logits)
            self.mask_fcn_logits.__class__ = _Logits

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As MaskHead; settings of the section `MaskHead:` hold where the own section has none."""
        settings = section_and_layout(cfg, "MaskHead")
        return {**settings, **super().from_config(cfg, input_shape)}

    def get_loss(
        self,
        mask_logits: paddle.Tensor,
        mask_label: paddle.Tensor,
        mask_target: paddle.Tensor,
        mask_weight: paddle.Tensor,
    ) -> paddle.Tensor:
        """Mean binary cross entropy of each RoI's own class.

        Args:
            mask_logits: [N, num_classes, M, M], or in NHWC [N, M, M, num_classes].
            mask_label: integer [N], class of each RoI.
            mask_target: [N, M, M], 0 or 1.
            mask_weight: float32 [N].
        """
        if self.channels_last:
            count, height, width, classes = mask_logits.shape
            cell = paddle.arange(0, mask_logits.size, classes, dtype=mask_label.dtype)
            index = cell.reshape([count, height * width]) + mask_label.unsqueeze(1)
            predicted = paddle.gather(mask_logits.reshape([-1]), index.reshape([-1]))
            predicted = predicted.reshape([count, height, width])
        else:
            count, classes, height, width = mask_logits.shape
            row = paddle.arange(0, count * classes, classes, dtype=mask_label.dtype) + mask_label
            predicted = paddle.gather(mask_logits.reshape([count * classes, height, width]), row)
        return functional.binary_cross_entropy_with_logits(
            as_float32(predicted),
            mask_target.astype("float32"),
            weight=mask_weight.unsqueeze([1, 2]),
            reduction="mean",
        )


class _Logits(nn.Conv2D):
    """The last convolution: of [N, H, W, C], giving the same for the loss and [N, classes, H, W] else."""

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """As Conv2D."""
        logits = nn.Conv2D.forward(self, x)
        return logits if self.training else to_nchw(logits)
