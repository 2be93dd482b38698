"""The heads in NHWC against stock in NCHW, on the same weights: to the bit where Paddle's kernels are."""

from __future__ import annotations

import copy
import gc

import numpy as np
import paddle
import pytest
from ppdet.modeling.backbones.resnet import Res5Head
from ppdet.modeling.heads.bbox_head import BBoxHead, TwoFCHead, XConvNormHead
from ppdet.modeling.heads.mask_head import MaskFeat, MaskHead
from ppdet.modeling.heads.roi_extractor import RoIAlign
from ppdet.modeling.proposal_generator.rpn_head import RPNHead
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner

from detperf_plugins.measure.counters import operators
from detperf_plugins.paddledet import roi_align
from detperf_plugins.paddledet.bbox_head import PerfBBoxHead
from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from detperf_plugins.paddledet.mask_head import PerfMaskHead
from detperf_plugins.paddledet.rpn_head import PerfRPNHead
from tests.paddledet.boxes import CLASSES, batch_inputs
from tests.paddledet.layouts import (
    given,
    images,
    largest_difference,
    one_block,
    run,
    same_weights,
)

pytestmark = pytest.mark.usefixtures("activated")

LEVELS = {"spatial_scale": [0.25, 0.125, 0.0625], "end_level": 2, "resolution": 4, "aligned": True}


RPN = {
    "anchor_generator": {"anchor_sizes": [[16], [32], [64]], "strides": [4, 8, 16]},
    "rpn_target_assign": {"use_random": False, "batch_size_per_im": 32},
    "train_proposal": {"pre_nms_top_n": 50, "post_nms_top_n": 20, "topk_after_collect": True},
    "test_proposal": {"pre_nms_top_n": 40, "post_nms_top_n": 15},
    "in_channel": 8,
}


ASSIGN = {"batch_size_per_im": 6, "use_random": False, "num_classes": CLASSES}


def pyramid(batch: int, levels: int, channels: int = 8) -> list[np.ndarray]:
    return [images(batch, 24 >> level, 32 >> level, channels) for level in range(levels)]


def bbox_call(training: bool):
    inputs, stock_inputs = batch_inputs(np.random.default_rng(0), ["plain", "many", "one"], 96, 128)
    start = np.random.default_rng(1).uniform(0, 60, (3, 5, 2))
    boxes = np.concatenate([start, start + 4 + start[:, ::-1, ::-1]], axis=2).astype("float32")

    def call(layer, values):
        layer.train() if training else layer.eval()
        rois = [paddle.to_tensor(one) for one in boxes]
        number = paddle.to_tensor([5, 5, 5], dtype="int32")
        first, second = layer(
            given(layer, values), rois, number, inputs if type(layer) is PerfBBoxHead else stock_inputs
        )
        if not training:
            return first
        shared = [second] if layer.with_pool else []
        return [*(value.reshape([1]) for value in first.values()), *shared]

    return call


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["TwoFCHead", "XConvNormHead", "Res5Head"])
def test_bbox_head(kind, training):
    """Losses are sums in another order than stock's; everything else is equal."""
    settings, channels, levels = {}, 8, 3
    make = {
        "TwoFCHead": lambda: TwoFCHead(8, 16, 4),
        "XConvNormHead": lambda: XConvNormHead(8, 1, 32, 16, 4),
        "Res5Head": lambda: one_block(Res5Head(18)),
    }[kind]
    if kind == "Res5Head":
        settings, channels, levels = {"with_pool": True}, 256, 1
    extractor = {**LEVELS, "spatial_scale": LEVELS["spatial_scale"][:levels], "end_level": levels - 1}
    heads = [
        cls(make(), 512 if kind == "Res5Head" else 16, dict(extractor), assigner(**ASSIGN),
            num_classes=CLASSES, **settings, **more)
        for cls, assigner, more in (
            (BBoxHead, BBoxAssigner, {}), (PerfBBoxHead, PerfBBoxAssigner, {"data_format": "NHWC"}))
    ]  # fmt: skip
    same_weights(*heads)
    values = pyramid(3, levels, channels)
    stock, ours = (run(one, values, bbox_call(training)) for one in heads)
    assert largest_difference(ours, stock) <= (1e-5 if training else 0)


class FixedMasks:
    """A mask assigner that always gives the same RoIs, as rows of those of the box head."""

    def __init__(self, rois: np.ndarray, index: np.ndarray) -> None:
        rng = np.random.default_rng(5)
        self.rois, self.index = [paddle.to_tensor(rois)], paddle.to_tensor(index)
        self.classes = paddle.to_tensor(rng.integers(0, CLASSES, len(rois)).astype("int32"))
        self.masks = paddle.to_tensor(rng.integers(0, 2, (len(rois), 8, 8)).astype("int32"))

    def __call__(self, *args):
        count = len(self.index)
        return (
            self.rois, paddle.to_tensor([count], dtype="int32"), self.classes, self.masks, self.index,
            paddle.ones([count]),
        )  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["levels", "group norm", "shared"])
def test_mask_head(kind, training):
    """Paddle's transposed convolution rounds otherwise in NHWC, 6e-8; the mask loss is one mean."""
    shared = kind == "shared"
    feature = (
        MaskFeat(8, 32, 2, norm_type="gn") if kind == "group norm" else MaskFeat(8, 16, 0 if shared else 2)
    )
    rng = np.random.default_rng(2)
    start = rng.uniform(0, 50, (7, 2))
    rois = np.concatenate([start, start + rng.uniform(5, 60, (7, 2))], axis=1).astype("float32")
    predicted = np.concatenate([rng.integers(0, CLASSES, (7, 1)), rng.random((7, 1)), rois], axis=1)
    index = np.array([4, 0, 3, 3, 1, 6, 2])
    assigner = FixedMasks(rois, index)
    heads = [
        cls(
            copy.deepcopy(feature),
            dict(LEVELS),
            assigner,
            num_classes=CLASSES,
            share_bbox_feat=shared,
            **more,
        )
        for cls, more in ((MaskHead, {}), (PerfMaskHead, {"data_format": "NHWC"}))
    ]
    same_weights(*heads)

    def call(layer, values):
        layer.train() if training else layer.eval()
        levels = given(layer, values)
        if training:
            bbox_feat = given(layer, [values[-1]])[0] if shared else None
            return [layer(levels, None, None, {}, (None, None, None), bbox_feat)["loss_mask"].reshape([1])]
        boxes = paddle.to_tensor(predicted.astype("float32"))
        number = paddle.to_tensor([7], dtype="int32")
        same = lambda rois_feat: rois_feat * 2  # noqa: E731
        return [layer(levels, boxes, number, {"scale_factor": None}, feat_func=same)]

    values = [*pyramid(1, 3), images(7, 4, 4, 8)]
    stock, ours = (run(one, values, call) for one in heads)
    assert largest_difference(ours, stock) <= 1e-5


@pytest.mark.parametrize("training", [True, False])
def test_rpn_head_where_it_runs_as_stock(training):
    """Adaptive suppression: stock's code, on transposed logits."""
    settings = {**RPN, f"{'train' if training else 'test'}_proposal": {"eta": 0.9, "post_nms_top_n": 20}}
    stock, ours = RPNHead(**settings), PerfRPNHead(**settings, data_format="NHWC")
    same_weights(stock, ours)
    inputs, stock_inputs = batch_inputs(np.random.default_rng(0), ["plain", "many"], 96, 128)
    kept = {}

    def call(layer, values):
        layer.train() if training else layer.eval()
        rois, number, losses = layer(given(layer, values), inputs if layer is ours else stock_inputs)
        kept[layer is ours] = [one.numpy() for one in [*rois, number]]
        return (
            [one.reshape([1]) for one in losses.values()]
            if training
            else layer.rpn_feat(given(layer, values))
        )

    assert largest_difference(run(ours, pyramid(2, 3), call), run(stock, pyramid(2, 3), call)) == 0
    for one, other in zip(kept[True], kept[False]):
        assert (one == other).all()


def test_features_are_transposed_once_for_all_heads_and_then_forgotten():
    extractors = [
        roi_align.ChannelsLastRoIAlign(RoIAlign(**LEVELS), channels_last_output=last)
        for last in (False, True)
    ]
    levels = [paddle.to_tensor(one.transpose(0, 2, 3, 1), stop_gradient=False) for one in pyramid(2, 4)]
    # One for each level, by its size: Paddle 2.6 leads no gradient back to a level without RoIs.
    rois = [paddle.to_tensor([[1.0, 2, 40, 50], [0, 0, 120, 120]]), paddle.to_tensor([[0.0, 0, 250, 250]])]
    number = paddle.to_tensor([2, 1], dtype="int32")
    with paddle.no_grad():
        first = extractors[0](levels, rois, number)
    with operators() as found:
        results = [extractor(levels, rois, number) for extractor in (*extractors, *extractors)]
    # Three of the four levels, once more since gradients are now tracked, and RoI features for convolutions.
    assert found["transpose"] + found["transpose2"] == 3 + 2
    assert (first == results[0]).all()
    assert (results[1] == results[0].transpose([0, 2, 3, 1])).all()
    paddle.add_n([one.sum() for one in results]).backward()
    assert [level.grad is not None for level in levels] == [True, True, True, False]
    assert len(roi_align._transposed._kept) == 3
    del levels
    gc.collect()
    assert not roi_align._transposed._kept
