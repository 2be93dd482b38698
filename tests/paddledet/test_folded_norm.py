"""Folded norms against stock: values, gradients, operators, memory, and when constants are renewed."""

from __future__ import annotations

import copy

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paddle import nn
from ppdet.modeling.backbones.name_adapter import NameAdapter
from ppdet.modeling.backbones.resnet import Blocks, BottleNeck, ConvNormLayer, Res5Head, ResNet

from detperf_plugins.measure.counters import count
from detperf_plugins.paddledet.channels_last import set_channels_last
from detperf_plugins.paddledet.folded_norm import FoldedBlocks, FoldedConvNorm, fold_frozen_norms
from detperf_plugins.paddledet.resnet import PerfRes5Head, PerfResNet
from tests.paddledet.layouts import largest_difference, overall_difference, random_state, run

pytestmark = pytest.mark.usefixtures("activated")

SMALL = {"depth": 18, "num_stages": 2, "return_idx": [0, 1]}


@pytest.fixture()
def float64():
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


def images(batch: int, height: int, width: int, channels: int = 3, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, channels, height, width)).astype(dtype)


def backbone(layer, inputs):
    return layer({"image": inputs[0]})


def single(layer, inputs):
    return [layer(inputs[0])]


def same_weights(*layers: nn.Layer, dtype: str = "float32") -> None:
    state = random_state(layers[0], dtype=dtype)
    for layer in layers:
        assert list(layer.state_dict()) == list(state)
        layer.set_state_dict(state)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "changes",
    [
        {"variant": "a", "freeze_at": -1},
        {"variant": "d", "std_senet": True},
        {"depth": 50, "variant": "c", "freeze_at": -1},
        {"depth": 50, "groups": 32, "base_width": 4, "freeze_at": 0},
    ],
)
def test_float64(changes, data_format, float64):
    kind = {**SMALL, **changes}
    stock, ours = ResNet(**kind), PerfResNet(**kind, fold_frozen_norm=True, data_format=data_format)
    same_weights(stock, ours, dtype="float64")
    for batch, height, width in ((1, 29, 37), (3, 24, 19)):
        values = [images(batch, height, width, dtype="float64")]
        assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) <= 1e-10


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    channels=st.sampled_from([1, 2, 3, 8, 24]),
    width=st.sampled_from([1, 3, 8]),
    size=st.sampled_from([1, 3, 7]),
    stride=st.sampled_from([1, 2]),
    act=st.sampled_from([None, "relu", "leaky_relu"]),
    frozen=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_one_layer(channels, width, size, stride, act, frozen, seed):
    """Gammas of both signs and 0, variances from 1e-6 to 100, alone and with frozen weights."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([one for one in (1, 2, 3) if channels % one == 0]))
    made = {"ch_in": channels, "ch_out": width * groups, "filter_size": size, "stride": stride, "act": act}
    stock, ours = (ConvNormLayer(**made, groups=groups) for _ in range(2))
    state = random_state(stock, seed)
    count = state["norm.weight"].size
    state["norm.weight"] = (rng.standard_normal(count) * rng.integers(0, 2, count)).astype("float32")
    state["norm._variance"] = (10.0 ** rng.uniform(-6, 2, count)).astype("float32")
    for layer in (stock, ours):
        layer.set_state_dict(state)
        layer.conv.weight.stop_gradient = frozen
    assert fold_frozen_norms(ours) == 1
    values = [images(2, int(rng.integers(1, 9)), int(rng.integers(1, 9)), channels)]
    mine, theirs = run(ours, values, single), run(stock, values, single)
    assert mine[1].keys() == theirs[1].keys() == ({"input 0"} if frozen else {"input 0", "conv.weight"})
    close = np.abs(mine[0][0] - theirs[0][0]) <= 1e-5 * max(1e-3, np.abs(theirs[0][0]).max())
    assert close.all()
    if act is None:  # where a value is next to 0, the activation's slope may be another
        assert largest_difference(mine, theirs) <= 1e-4


def r50_c4(fold: bool) -> nn.Layer:
    """The backbone and the RoI head of Mask R-CNN R50-C4, stock or ours."""
    kind = {"depth": 50, "num_stages": 3, "return_idx": [2]}
    both = [PerfResNet(**kind, fold_frozen_norm=True), PerfRes5Head(fold_frozen_norm=True)]
    return nn.LayerList(both if fold else [ResNet(**kind), Res5Head()])


def c4_call(layers, inputs):
    feature = layers[0]({"image": inputs[0]})[0]
    return [feature, layers[1](inputs[1])]


def test_resnet50_c4():
    """Forward within 1e-5, gradients within 1e-3 of stock in float32, 1e-10 in float64; fewer operators."""
    stock, ours = r50_c4(fold=False), r50_c4(fold=True)
    same_weights(stock, ours)
    values = [images(1, 39, 33), images(1, 4, 3, 1024)]
    mine, theirs = run(ours, values, c4_call), run(stock, values, c4_call)
    trained = [name for name, one in ours.named_parameters() if not one.stop_gradient]
    assert set(mine[1]) == {*trained, "input 0", "input 1"}
    # All together: a ReLU input rounded to the other side of 0 changes single gradients by more.
    assert overall_difference(mine, theirs) <= 1e-3
    for one, other in zip(mine[0], theirs[0]):
        assert np.abs(one - other).max() <= 1e-5 * np.abs(other).max()

    counts = [
        count(lambda model=model: run(model, values, c4_call), backward=True) for model in (ours, stock)
    ]
    assert counts[0].ops < counts[1].ops
    # A frozen stage's weights never change; those of a trained one are scaled together, forth and back.
    assert counts[0].operators["coalesce_tensor"] == 2 * 3
    assert "batch_norm" in counts[1].operators
    assert "batch_norm" not in counts[0].operators

    for model in (stock, ours):
        model.to(dtype="float64")
    values = [value.astype("float64") for value in values]
    assert largest_difference(run(ours, values, c4_call), run(stock, values, c4_call)) <= 1e-10


def memory(model: nn.Layer, given: paddle.Tensor) -> tuple[int, int]:
    """Bytes that Paddle holds between a forward and its backward pass, and at the most, above the start."""
    core = paddle.base.core
    for _ in range(2):  # the first pass makes what is made only once
        current, peak = (
            stat("Allocated", 0)
            for stat in (core.host_memory_stat_current_value, core.host_memory_stat_peak_value)
        )
        # Fills up to the peak of all before, which Paddle 2.6 cannot set back; untouched, it takes no memory.
        ballast = paddle.empty([peak - current + 1], dtype="uint8")
        before = core.host_memory_stat_current_value("Allocated", 0)
        outputs = model(given)
        kept = core.host_memory_stat_current_value("Allocated", 0) - before
        outputs.sum().backward()
        highest = core.host_memory_stat_peak_value("Allocated", 0) - before
        model.clear_gradients()
        del ballast, outputs
    return kept, highest


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_a_norms_input_is_not_kept(data_format):
    """Stock keeps each convolution's result for its norm; here only what follows the activation is kept."""
    stock = Blocks(BottleNeck, 64, 16, 3, NameAdapter(None), 3)
    ours = copy.deepcopy(stock)
    assert fold_frozen_norms(ours) == 10
    size = 96
    value = images(1, size, size, 64)
    if data_format == "NHWC":
        for model in (stock, ours):
            set_channels_last(model)
        value = value.transpose(0, 2, 3, 1)
    (stock_kept, stock_peak), (kept, peak) = (memory(one, paddle.to_tensor(value)) for one in (stock, ours))
    half = (size // 2) ** 2
    results = 16 * size**2 + (16 + 64 + 64) * half + 2 * (16 + 16 + 64) * half
    weights = sum(one.conv.weight.size for one in ours.sublayers() if hasattr(one, "norm"))
    # All ten results of convolutions, but for a copy of the weights, and small change.
    assert stock_kept - kept == pytest.approx(4 * (results - weights), rel=0.02)
    assert stock_peak - peak > 0.5 * 4 * results


def test_trained_norms_are_left_alone(float64):
    model = PerfResNet(**SMALL, freeze_norm=False, fold_frozen_norm=True)
    assert not [one for one in model.sublayers() if isinstance(one, FoldedConvNorm)]
    mixed = PerfResNet(**SMALL, fold_frozen_norm=True)
    folded = [one for one in mixed.sublayers() if isinstance(one, FoldedConvNorm)]
    assert len(folded) == 11 and isinstance(mixed.res_layers[0], FoldedBlocks)
    stock = ResNet(**SMALL)
    same_weights(stock, mixed, dtype="float64")
    # A norm that begins to train later runs as in stock.
    for model in (mixed, stock):
        norm = model.res_layers[1].blocks[0].branch2a.norm
        norm._use_global_stats = None
        norm.weight.stop_gradient = norm.bias.stop_gradient = False
    values = [images(2, 40, 33, dtype="float64")]
    mine, theirs = run(mixed, values, backbone), run(stock, values, backbone)
    assert "res3.res3a.branch2a.norm.weight" in mine[1]
    assert largest_difference(mine, theirs) <= 1e-10


def test_deformable_convolutions_are_left_alone(float64):
    kind = {**SMALL, "dcn_v2_stages": [1]}
    stock, ours = ResNet(**kind), PerfResNet(**kind, fold_frozen_norm=True)
    same_weights(stock, ours, dtype="float64")
    values = [images(1, 40, 33, dtype="float64")]
    assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) <= 1e-10


RENEWALS = {
    "state dict": lambda model, state, folder: model.set_state_dict(state),
    "saved and loaded": lambda model, state, folder: load(model, state, folder / "w.pdparams"),
    "values set through a state dict": lambda model, state, folder: [
        one.set_value(state[name]) for name, one in model.state_dict().items()
    ],
    "in place": lambda model, state, folder: in_place(model, state),
}


def load(model, state, path):
    paddle.save({name: paddle.to_tensor(value) for name, value in state.items()}, str(path))
    model.set_dict(paddle.load(str(path)))


@paddle.no_grad()
def in_place(model, state):
    tensors = model.state_dict()
    model({"image": paddle.zeros([1, 3, 16, 16])})  # the constants are there again
    for name, one in tensors.items():
        paddle.assign(paddle.to_tensor(state[name]), one)


@pytest.mark.parametrize("how", RENEWALS)
def test_constants_follow_the_norms(how, tmp_path, float64):
    """Loading a checkpoint after a forward pass, in training and in evaluation; frozen weights as well."""
    stock, ours = ResNet(**SMALL), PerfResNet(**SMALL, fold_frozen_norm=True)
    values = [images(1, 33, 40, dtype="float64")]
    for seed in (1, 2):
        state = random_state(stock, seed, dtype="float64")
        for model in (stock, ours):
            RENEWALS[how](model, state, tmp_path)
        assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) <= 1e-10
        for model in (stock, ours):
            model.eval()
        with paddle.no_grad():
            pairs = list(zip(*(backbone(model, [paddle.to_tensor(values[0])]) for model in (ours, stock))))
        assert all((one - other).abs().max() <= 1e-10 * other.abs().max() for one, other in pairs)


def test_weights_that_train_are_taken_anew_in_every_step(float64):
    stock, ours = ResNet(**SMALL), PerfResNet(**SMALL, fold_frozen_norm=True)
    same_weights(stock, ours, dtype="float64")
    start = {name: one.numpy() for name, one in ours.state_dict().items()}
    value = images(2, 33, 40, dtype="float64")
    for model in (stock, ours):
        optimizer = paddle.optimizer.Momentum(
            1e-3, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)
        )
        for _ in range(4):
            sum(one.mean() for one in model({"image": paddle.to_tensor(value)})).backward()
            optimizer.step()
            optimizer.clear_grad()
    moved = 0.0
    for (name, one), other in zip(ours.state_dict().items(), stock.state_dict().values()):
        assert np.abs(one.numpy() - other.numpy()).max() <= 1e-10
        moved = max(moved, float(np.abs(one.numpy() - start[name]).max()))
    assert moved > 1e-4


def test_another_dtype():
    model = PerfResNet(**SMALL, fold_frozen_norm=True)
    stock = ResNet(**SMALL)
    same_weights(stock, model)
    backbone(model, [paddle.to_tensor(images(1, 33, 40))])
    for one in (model, stock):
        one.to(dtype="float64")
    values = [images(1, 33, 40, dtype="float64")]
    assert largest_difference(run(model, values, backbone), run(stock, values, backbone)) <= 1e-6
