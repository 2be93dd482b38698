"""Forward passes in the place of MindOCR's under AMP O2 and O3; MindSpore compiles this source as it is."""

from __future__ import annotations

from mindocr.models.necks.fpn import _resize_nn

__all__ = ["enhanced_head", "neck"]


def neck(self, features):
    """`DBFPN.construct` (source of the method) for features that come as a tuple.

    Args:
        features: four maps, float [N, C_i, H_i, W_i], the largest first.

    Returns:
        float [N, out_channels, H_0, W_0].
    """
    features = list(features)
    for i, uc_op in enumerate(self.unify_channels):
        features[i] = uc_op(features[i])
    for i in range(2, -1, -1):
        features[i] += _resize_nn(features[i + 1], shape=features[i].shape[2:])
    for i, out in enumerate(self.out):
        features[i] = _resize_nn(out(features[i]), shape=features[0].shape[2:])
    return self.fuse(features[::-1])


def enhanced_head(self, features):
    """`DBHeadEnhance.construct` with 1 / (1 + exp(-k (x - y))) as the sigmoid that it is, in float32.

    Args:
        features: float [N, C, H, W].

    Returns:
        As stock: the binary map [N, 1, 4 H, 4 W], in training with threshold and approximate binary maps.
    """
    binary = self.segm(features)
    if self.adaptive and self.training:
        thresh = self.thresh(features)
        return binary, thresh, self.diff_bin(self.k * (binary - thresh))
    return binary
