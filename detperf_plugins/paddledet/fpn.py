"""FPN in either layout."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import functional
from ppdet.modeling.necks.fpn import FPN

from detperf_plugins.paddledet.channels_last import is_channels_last, section_and_layout, set_channels_last
from detperf_plugins.paddledet.registry import arguments_of

__all__ = ["PerfFPN"]


class PerfFPN(FPN):
    """FPN, with its weights and their names; in NCHW it is FPN to the bit.

    Args:
        args, kwargs: as in FPN, whose section `FPN:` is inherited.
        data_format: NHWC for channels-last features; a top-level key of the config.
    """

    __shared__ = ["data_format"]
    channels_last = False
    stock_forward = FPN.forward

    @arguments_of(FPN)
    def __init__(self, *args: Any, data_format: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_channels_last(data_format):
            self.channels_last = True
            set_channels_last(self)

    @classmethod
    def from_config(cls, cfg: Any, input_shape: Any) -> dict[str, Any]:
        """As FPN; settings of the section `FPN:` hold where the own section has none."""
        settings = section_and_layout(cfg, "FPN")
        return {**settings, **super().from_config(cfg, input_shape)}

    def forward(self, body_feats: list[paddle.Tensor]) -> list[paddle.Tensor]:
        """Feature maps of all levels, the finest first.

        Args:
            body_feats: of the backbone, float [N, C, H, W] or [N, H, W, C] as `data_format` says; each twice
                as high and wide as the next.
        """
        if not self.channels_last:
            return self.stock_forward(body_feats)
        sums = [lateral(feature) for lateral, feature in zip(self.lateral_convs, body_feats)]
        for level in range(len(sums) - 1, 0, -1):
            sums[level - 1] = sums[level - 1] + functional.interpolate(
                sums[level], scale_factor=2.0, mode="nearest", data_format="NHWC"
            )
        levels = len(sums)
        features = [self.fpn_convs[level](sums[level]) for level in range(levels)]
        if self.extra_stage > 0 and not self.has_extra_convs:
            features.append(functional.max_pool2d(features[-1], 1, stride=2, data_format="NHWC"))
        elif self.extra_stage > 0:
            source = body_feats[-1] if self.use_c5 else features[-1]
            features.append(self.fpn_convs[levels](source))
            for extra in self.fpn_convs[levels + 1 : levels + self.extra_stage]:
                last = functional.relu(features[-1]) if self.relu_before_extra_convs else features[-1]
                features.append(extra(last))
        return features
