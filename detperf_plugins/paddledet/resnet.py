"""ResNet and Res5Head in either layout, with frozen norms folded into their convolutions on demand."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import functional
from ppdet.modeling.backbones.resnet import Res5Head, ResNet

from detperf_plugins.paddledet.channels_last import (
    is_channels_last,
    section_and_layout,
    set_channels_last,
    to_nhwc,
)
from detperf_plugins.paddledet.folded_norm import fold_frozen_norms
from detperf_plugins.paddledet.registry import arguments_of

__all__ = ["PerfRes5Head", "PerfResNet"]


def _lay_out(layer: Any, data_format: str, fold_frozen_norm: bool) -> None:
    """Set a stock ResNet or Res5Head, just built, to both keys."""
    if is_channels_last(data_format):
        layer.channels_last = True
        set_channels_last(layer)
    if fold_frozen_norm:
        fold_frozen_norms(layer)


class PerfResNet(ResNet):
    """ResNet, with its weights and their names; with neither key set it is ResNet to the bit.

    Deformable convolutions (`dcn_v2_stages`) have NCHW alone.

    Args:
        args, kwargs: as in ResNet, whose section `ResNet:` is inherited.
        data_format: NHWC for channels-last features; a top-level key of the config. The image stays NCHW.
        fold_frozen_norm: fold frozen norms, see `folded_norm`; a top-level key of the config.
    """

    __shared__ = ["norm_type", "data_format", "fold_frozen_norm"]
    channels_last = False
    # A bound method of this name, unlike super(), is compiled by to_static on every Paddle version.
    stock_forward = ResNet.forward

    @arguments_of(ResNet)
    def __init__(
        self, *args: Any, data_format: str = "NCHW", fold_frozen_norm: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        _lay_out(self, data_format, fold_frozen_norm)

    @classmethod
    def from_config(cls, cfg: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Settings of the section `ResNet:` hold where the own section has none."""
        return section_and_layout(cfg, "ResNet", fold_frozen_norm=False)

    def forward(self, inputs: dict[str, Any]) -> list[paddle.Tensor]:
        """Feature maps of the stages in `return_idx`.

        Args:
            inputs: the batch; `image` is [N, 3, H, W] in either layout.
        """
        if not self.channels_last:
            return self.stock_forward(inputs)
        value = self.conv1(to_nhwc(inputs["image"]))
        value = functional.max_pool2d(value, kernel_size=3, stride=2, padding=1, data_format="NHWC")
        features = []
        for index, stage in enumerate(self.res_layers):
            value = stage(value)
            if index in self.return_idx:
                features.append(value)
        return features


class PerfRes5Head(Res5Head):
    """Res5Head, with its weights and their names; with neither key set it is Res5Head to the bit.

    Args: as PerfResNet, for Res5Head and its section `Res5Head:`.
    """

    __shared__ = ["data_format", "fold_frozen_norm"]
    channels_last = False

    @arguments_of(Res5Head)
    def __init__(
        self, *args: Any, data_format: str = "NCHW", fold_frozen_norm: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        _lay_out(self, data_format, fold_frozen_norm)

    @classmethod
    def from_config(cls, cfg: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Settings of the section `Res5Head:` hold where the own section has none."""
        return section_and_layout(cfg, "Res5Head", fold_frozen_norm=False)
