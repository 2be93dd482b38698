"""Backbone and neck in NHWC against stock in NCHW, on the same weights: to the bit where norms are frozen."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from ppdet.modeling.backbones.resnet import Res5Head, ResNet
from ppdet.modeling.necks.fpn import FPN

from detperf_plugins.paddledet.fpn import PerfFPN
from detperf_plugins.paddledet.resnet import PerfRes5Head, PerfResNet
from tests.paddledet.layouts import (
    SMALL,
    backbone,
    given,
    images,
    largest_difference,
    one_block,
    run,
    same_weights,
)

pytestmark = pytest.mark.usefixtures("activated")

RESNETS = {
    "18 a": {"depth": 18, "variant": "a", **SMALL},
    "18 d": {"depth": 18, "variant": "d", "freeze_at": -1, "num_stages": 3, "return_idx": [2]},
    "18 d with squeeze and excitation": {"depth": 18, "variant": "d", "std_senet": True, **SMALL},
    "50 c": {"depth": 50, "variant": "c", "freeze_at": -1, **SMALL},
    "50 d": {"depth": 50, "variant": "d", "lr_mult_list": [0.05, 0.05, 0.1, 0.15], **SMALL},
    "ResNeXt": {"depth": 50, "groups": 32, "base_width": 4, "freeze_at": -1, **SMALL},
}


@pytest.fixture()
def float64():
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


def neck(layer, inputs):
    return layer(given(layer, inputs))


def head(layer, inputs):
    return [layer(given(layer, inputs)[0])]


@pytest.mark.parametrize("name", RESNETS)
def test_resnet_with_frozen_norms_to_the_bit(name):
    stock, ours = ResNet(**RESNETS[name]), PerfResNet(**RESNETS[name], data_format="NHWC")
    same_weights(stock, ours)
    for batch, height, width in ((1, 45, 37), (3, 33, 64)):
        values = [images(batch, height, width)]
        assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) == 0


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["18 d with squeeze and excitation", "50 d"])
def test_resnet_with_trainable_norms(name, data_format, float64):
    settings = {**RESNETS[name], "freeze_norm": False, "freeze_at": -1}
    stock, ours = ResNet(**settings), PerfResNet(**settings, data_format=data_format)
    same_weights(stock, ours, "float64")
    values = [images(3, 45, 37, dtype="float64")]
    tolerance = 1e-10 if data_format == "NHWC" else 0
    assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) <= tolerance
    # Running statistics as well.
    for one, other in zip(ours.state_dict().values(), stock.state_dict().values()):
        assert np.abs(one.numpy() - other.numpy()).max() <= tolerance


@pytest.mark.parametrize("depth", [18, 50])
def test_res5_head_to_the_bit(depth):
    stock, ours = one_block(Res5Head(depth)), one_block(PerfRes5Head(depth, data_format="NHWC"))
    same_weights(stock, ours)
    values = [images(2, 7, 5, channels=256 if depth < 50 else 1024)]
    assert largest_difference(run(ours, values, head), run(stock, values, head)) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_type": "gn", "out_channel": 32},
        {"norm_type": "bn", "freeze_norm": True},
        {"has_extra_convs": True, "extra_stage": 2, "use_c5": True},
        {"has_extra_convs": True, "extra_stage": 3, "use_c5": False, "relu_before_extra_convs": True},
        {"has_extra_convs": True, "extra_stage": 2, "use_c5": False, "relu_before_extra_convs": False},
        {"extra_stage": 0},
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_fpn_to_the_bit(settings, batch):
    channels = [8, 12, 16, 24]
    settings = {"in_channels": channels, "out_channel": 8, **settings}
    stock, ours = FPN(**settings), PerfFPN(**settings, data_format="NHWC")
    same_weights(stock, ours)
    values = [images(batch, 24 >> level, 40 >> level, count) for level, count in enumerate(channels)]
    # Norms that train (this one is frozen by its learning rate alone) sum in another order.
    tolerance = 1e-5 if settings.get("norm_type") == "bn" else 0
    assert largest_difference(run(ours, values, neck), run(stock, values, neck)) <= tolerance
