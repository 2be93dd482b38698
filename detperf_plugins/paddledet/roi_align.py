"""RoIAlign for dead RoIs, and of channels-last features, which Paddle's operator does not have."""

from __future__ import annotations

import weakref

import paddle
from paddle import nn
from ppdet.modeling.heads.roi_extractor import RoIAlign

from detperf_plugins.paddledet.channels_last import to_nchw, to_nhwc

__all__ = ["ChannelsLastRoIAlign", "take_dead_rois"]


def take_dead_rois(extractor: nn.Layer) -> None:
    """Let a stock extractor give finite features for RoIs without area, as dead slots are.

    With `aligned`, Paddle's CPU kernel divides by a number of samples that is 0 there (the GPU's takes at
    least 1). Such features count with weight 0 only, but 0 * NaN is NaN in the weights' gradients.
    """
    if type(extractor) is RoIAlign:
        extractor.__class__ = _FiniteRoIAlign


class _FiniteRoIAlign(RoIAlign):
    """RoIAlign that, in training on a CPU, takes a RoI without area for one of a pixel at the origin."""

    def forward(
        self, feats: list[paddle.Tensor], roi: list[paddle.Tensor], rois_num: paddle.Tensor
    ) -> paddle.Tensor:
        """As RoIAlign."""
        if self.training and self.aligned and paddle.in_dynamic_mode() and roi[0].place.is_cpu_place():
            boxes = paddle.concat(list(roi))
            sized = (boxes[:, 2:] > boxes[:, :2]).all(axis=1, keepdim=True)
            pixel = paddle.to_tensor([0, 0, 1, 1], dtype=boxes.dtype)
            roi = [paddle.where(sized, boxes, pixel.expand(boxes.shape))]
        return super().forward(feats, roi, rois_num)


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
