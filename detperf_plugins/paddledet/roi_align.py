"""RoIAlign of channels-last features: Paddle's operator has no data_format, so they are transposed for it."""

from __future__ import annotations

import weakref

import paddle
from paddle import nn

from detperf_plugins.paddledet.channels_last import to_nchw, to_nhwc

__all__ = ["ChannelsLastRoIAlign"]


class _Transposed:
    """NCHW copies of the features now alive: each is made once, for all heads and cascade stages."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref, bool, paddle.Tensor]] = {}

    def of(self, feature: paddle.Tensor) -> paddle.Tensor:
        """`feature` in NCHW; kept as long as `feature` itself."""
        if not paddle.in_dynamic_mode():
            return to_nchw(feature)
        key, tracked = id(feature), paddle.is_grad_enabled()
        kept = self._kept.get(key)
        # One made without gradients leads none back.
        if kept is None or kept[1] != tracked:
            kept = (weakref.ref(feature, lambda _: self._kept.pop(key, None)), tracked, to_nchw(feature))
            self._kept[key] = kept
        return kept[2]


_transposed = _Transposed()


class ChannelsLastRoIAlign(nn.Layer):
    """A stock RoI extractor fed with channels-last features.

    Args:
        extractor: a RoIAlign; only the levels that it reads are transposed.
        channels_last_output: transpose its result too, for a head of convolutions. A head that flattens
            RoI features takes them in NCHW, the order of its weights.
    """

    def __init__(self, extractor: nn.Layer, channels_last_output: bool) -> None:
        super().__init__()
        self.extractor = extractor
        self.channels_last_output = channels_last_output

    def forward(
        self, feats: list[paddle.Tensor], roi: list[paddle.Tensor], rois_num: paddle.Tensor
    ) -> paddle.Tensor:
        """RoI features [R, C, S, S], or [R, S, S, C].

        Args:
            feats: [N, H, W, C] of each level.
            roi: per image [n, 4], pixels.
            rois_num: int32 [N].
        """
        first = getattr(self.extractor, "start_level", 0)
        last = getattr(self.extractor, "end_level", len(feats) - 1)
        given = [_transposed.of(feat) if first <= level <= last else feat for level, feat in enumerate(feats)]
        features = self.extractor(given, roi, rois_num)
        return to_nhwc(features) if self.channels_last_output else features
