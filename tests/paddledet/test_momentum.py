"""PerfMomentum: the same parameters and state as Momentum's, to the bit, in a tenth of its operators."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle.regularizer import L1Decay, L2Decay

from detperf_plugins.measure.counters import operators
from detperf_plugins.paddledet.momentum import PerfMomentum

STOCK = paddle.optimizer.Momentum
CLIP = {"global norm": paddle.nn.ClipGradByGlobalNorm(0.3), "value": paddle.nn.ClipGradByValue(0.01)}


class Net(paddle.nn.Layer):
    """What a detector's parameters differ in: slower layers, norms without decay, L1 decay, a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        attr = paddle.ParamAttr
        self.slow = [
            self.add_sublayer(f"slow{i}", paddle.nn.Conv2D(3, 3, 3, weight_attr=attr(learning_rate=0.25)))
            for i in range(4)
        ]
        no_decay, odd = attr(regularizer=L2Decay(0.0)), attr(regularizer=L1Decay(0.01), learning_rate=2.0)
        self.norm = paddle.nn.BatchNorm2D(3, weight_attr=no_decay, bias_attr=no_decay)
        self.frozen = paddle.nn.Conv2D(3, 3, 1, weight_attr=attr(trainable=False), bias_attr=False)
        self.one = paddle.nn.Linear(3, 5, weight_attr=odd)
        self.other = paddle.nn.Linear(3, 5)

    def forward(self, x: paddle.Tensor, both: bool) -> paddle.Tensor:
        for layer in self.slow:
            x = paddle.nn.functional.relu(layer(x))
        x = self.frozen(self.norm(x)).mean([2, 3])
        loss = self.one(x).square().mean()
        return loss + self.other(x).square().mean() if both else loss


def made(optimizer: type, groups: bool = False, **settings) -> tuple[Net, paddle.optimizer.Optimizer]:
    paddle.seed(3)
    with paddle.utils.unique_name.guard():
        net = Net()
        parameters = [p for p in net.parameters() if p.trainable]
        if groups:
            parameters = [
                {"params": parameters[:5], "learning_rate": 0.1, "weight_decay": 0.05},
                {"params": parameters[5:], "momentum": 0.5},
            ]
        rate = paddle.optimizer.lr.PiecewiseDecay([2], [0.1, 0.02])
        settings.setdefault("weight_decay", L2Decay(0.01))
        return net, optimizer(learning_rate=rate, momentum=0.9, parameters=parameters, **settings)


def steps(net: Net, optimizer: paddle.optimizer.Optimizer, which: range, lacking: int = -1) -> dict[str, int]:
    """Train; in step `lacking` one layer gets no gradient. Operators of the last optimizer step."""
    for step in which:
        x = np.random.default_rng(step).standard_normal((2, 3, 14, 14)).astype(np.float32)
        net(paddle.to_tensor(x), step != lacking).backward()
        # Names of the state count up within a process; ppdet trains once in each.
        with operators() as found, paddle.utils.unique_name.guard():
            optimizer.step()
        optimizer.clear_grad()
        optimizer._learning_rate.step()
    return {name: number for name, number in found.items() if number}


def assert_same(ours: tuple, stock: tuple) -> None:
    for one, other in zip(ours[0].parameters(), stock[0].parameters()):
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.name)
    pairs = zip(ours[1]._accumulators["velocity"].items(), stock[1]._accumulators["velocity"].items())
    for (name, one), (stock_name, other) in pairs:
        assert name == stock_name
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=name)


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({}, -1),
        ({}, 0),
        ({"weight_decay": None}, 2),
        ({"use_nesterov": True}, -1),
        ({"groups": True}, -1),
        ({"grad_clip": CLIP["global norm"]}, -1),
        ({"grad_clip": CLIP["value"], "weight_decay": 0.02}, 1),
    ],
)
def test_parameters_and_velocities_are_stocks(settings, lacking):
    pair = made(PerfMomentum, **settings), made(STOCK, **settings)
    for net, optimizer in pair:
        steps(net, optimizer, range(4), lacking)
    assert_same(*pair)


def test_paddles_own_multi_tensor_stops_where_ours_goes_on():
    """Why there is a PerfMomentum at all: a first step without the gradient of one layer."""
    net, optimizer = made(STOCK, use_multi_tensor=True)
    with pytest.raises(ValueError, match="must be equal to Input"):
        steps(net, optimizer, range(2), lacking=0)


def test_operators_of_a_step():
    stock, ours = (steps(*made(one), range(2)) for one in (STOCK, PerfMomentum))
    net = Net()
    assert stock["momentum_"] == len([p for p in net.parameters() if p.trainable])
    assert ours["merged_momentum_"] == 1 and "momentum_" not in ours
    # Four layers share one learning rate beside the common one: it is computed once.
    assert stock["scale"] - ours["scale"] == 3


@pytest.mark.parametrize("first", [STOCK, PerfMomentum])
def test_either_resumes_from_the_other(first, tmp_path):
    """As ppdet saves and loads: through a file, set before the first step."""
    whole = made(STOCK)
    steps(*whole, range(5))
    begun = made(first)
    steps(*begun, range(3))
    assert list(begun[1].state_dict()) == list(whole[1].state_dict())
    file = str(tmp_path / "a.pdopt")
    paddle.save(begun[1].state_dict(), file)
    second = made(PerfMomentum if first is STOCK else STOCK)
    second[0].set_state_dict(begun[0].state_dict())
    second[1].set_state_dict(paddle.load(file))
    steps(*second, range(3, 5))
    assert_same(second, whole)
