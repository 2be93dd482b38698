"""DBFPN's forward pass for features that come as a tuple. MindSpore compiles this source: keep it plain."""

from __future__ import annotations

from mindocr.models.necks.fpn import _resize_nn

__all__ = ["construct"]


def construct(self, features):
    """As `DBFPN.construct`, source of the method included, but on a list of its own.

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
