"""MaskHead whose loss takes the class channel by one gather."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import functional
from ppdet.modeling.heads.mask_head import MaskHead

from detperf_plugins.paddledet.registry import inherit_section

__all__ = ["PerfMaskHead"]


class PerfMaskHead(MaskHead):
    """MaskHead; same arguments, weights and names, and the same loss.

    Stock finds the logits of each RoI's class by a one-hot mask over all of them and `nonzero`, whose size
    the host must wait for. The number of RoIs is the mask assigner's to decide; one of weight 0 counts in
    the mean, as in stock, and keeps the head's parameters in the graph where there is no foreground.

    Args: as MaskHead, whose section `MaskHead:` is inherited.
    """

    __shared__ = ["num_classes", "export_onnx"]
    __inject__ = ["mask_assigner"]

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As MaskHead; settings of the section `MaskHead:` hold where the own section has none."""
        inherited = inherit_section(cfg, "MaskHead")
        return {**inherited, **super().from_config(cfg, input_shape)}

    def get_loss(
        self,
        mask_logits: paddle.Tensor,
        mask_label: paddle.Tensor,
        mask_target: paddle.Tensor,
        mask_weight: paddle.Tensor,
    ) -> paddle.Tensor:
        """Mean binary cross entropy of each RoI's own class.

        Args:
            mask_logits: [N, num_classes, M, M].
            mask_label: integer [N], class of each RoI.
            mask_target: [N, M, M], 0 or 1.
            mask_weight: float32 [N].
        """
        count, classes, height, width = mask_logits.shape
        row = paddle.arange(0, count * classes, classes, dtype=mask_label.dtype) + mask_label
        predicted = paddle.gather(mask_logits.reshape([count * classes, height, width]), row)
        return functional.binary_cross_entropy_with_logits(
            predicted, mask_target.astype("float32"), weight=mask_weight.unsqueeze([1, 2]), reduction="mean"
        )
