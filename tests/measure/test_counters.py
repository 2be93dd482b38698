"""Counting operators and host reads."""

from __future__ import annotations

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from paddle.utils import dlpack  # noqa: E402

from detperf_plugins.measure.counters import READING, count, host_reads, operators  # noqa: E402


def test_operators_forward_and_backward():
    x = paddle.ones([3])
    x.stop_gradient = False

    def step():
        (paddle.exp(x) * x).sum().backward()

    step()
    forward, both = count(step), count(step, backward=True)
    assert forward.operators == both.operators
    assert forward.operators["exp"] == forward.operators["elementwise_mul"] == 1
    assert forward.gradients == {}
    assert both.gradients == {"SumGradNode": 1, "MultiplyGradNode": 1, "ExpGradNode": 1}
    assert both.ops == forward.ops + 3
    assert both.host_reads == 0


def test_gradients_of_a_network_have_a_node_for_each_operator():
    """Convolutions too, whose nodes are written by hand and named otherwise."""
    layer, image = paddle.nn.Conv2D(1, 2, 3), paddle.rand([1, 1, 8, 8])
    image.stop_gradient = False

    def step():
        paddle.nn.functional.relu(layer(image)).sum().backward()

    step()
    found = count(step, backward=True).gradients
    assert {name.replace("Final", ""): number for name, number in found.items()} == {
        "Conv2dGradNode": 1,
        "AddGradNode": 1,  # the bias,
        "ReshapeGradNode": 1,  # which Paddle brings into shape first
        "ReluGradNode": 1,
        "SumGradNode": 1,
    }


def test_reads_count_once_each():
    x = paddle.to_tensor([2.0])
    with host_reads() as found:
        x.numpy()
        x.item()
        float(x)
        bool(x > 1)
        np.asarray(x)
        dlpack.to_dlpack(x)
    assert sum(found.values()) == 6
    assert found["item"] == found["to_dlpack"] == 1


def test_the_agreement_with_the_profiler():
    """The same number of forward operators as Paddle's own profiler sees."""
    import paddle.profiler as profiler

    x = paddle.rand([4, 4])

    def step():
        y = paddle.matmul(x, x)
        return paddle.concat([paddle.nn.functional.relu(y), paddle.tanh(y)])

    step()
    watch = profiler.Profiler(targets=[profiler.ProfilerTarget.CPU])
    watch.start()
    step()
    watch.stop()

    def operators_below(node) -> int:
        return str(node.type).endswith("Operator") + sum(map(operators_below, node.children_node))

    seen = sum(map(operators_below, watch.profiler_result.get_data().values()))
    assert count(step).ops == seen == 4


def test_everything_is_put_back():
    before = {name: getattr(paddle.Tensor, name, None) for name in READING}
    own = {name for name in READING if name in paddle.Tensor.__dict__}
    with pytest.raises(KeyError), host_reads(), operators():
        raise KeyError
    assert {name: getattr(paddle.Tensor, name, None) for name in READING} == before
    assert {name for name in READING if name in paddle.Tensor.__dict__} == own
    assert paddle.get_flags("FLAGS_low_precision_op_list")["FLAGS_low_precision_op_list"] == 0
