"""Running a stock module in NCHW and ours in NHWC on the same weights and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

import numpy as np
import paddle
from paddle import nn
from ppdet.modeling.backbones.resnet import Res5Head

# A backbone of two stages.
SMALL = {"num_stages": 2, "return_idx": [0, 1]}


def random_state(layer: nn.Layer, seed: int = 0, dtype: str = "float32") -> dict[str, np.ndarray]:
    """Values for `layer.state_dict()` at which no norm is trivial: gammas of both signs, shifted means."""
    rng = np.random.default_rng(seed)
    state = {}
    for name, value in layer.state_dict().items():
        if name.endswith("_variance"):
            new = rng.uniform(0.5, 2.0, value.shape)
        elif name.endswith("norm.weight"):
            new = rng.uniform(0.2, 1.2, value.shape) * rng.choice([-1.0, 1.0, 1.0, 1.0], value.shape)
        elif name.endswith(("_mean", "bias")):
            new = rng.standard_normal(value.shape) * 0.2
        else:
            # [out, in, h, w] of a convolution, [in, out] of a linear layer.
            inputs = np.prod(value.shape[1:]) if len(value.shape) == 4 else value.shape[0]
            new = rng.standard_normal(value.shape) / np.sqrt(inputs)
        state[name] = new.astype(dtype)
    return state


def given(layer: nn.Layer, values: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
    """[N, C, H, W] in the layout that `layer` takes."""
    last = getattr(layer, "channels_last", False)
    return [one.transpose([0, 2, 3, 1]) if last else one for one in values]


def run(
    layer: nn.Layer,
    values: Sequence[np.ndarray],
    call: Callable[[nn.Layer, list[paddle.Tensor]], Sequence[paddle.Tensor]],
    seed: int = 1,
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Outputs, and the gradients of inputs and parameters for random gradients of the outputs, all in NCHW.

    Args:
        layer: gives 4-D outputs in its own layout.
        values: inputs [N, C, H, W].
        call: `call(layer, inputs)` gives outputs; inputs are in NCHW.
    """
    rng = np.random.default_rng(seed)
    inputs = [paddle.to_tensor(value, stop_gradient=False) for value in values]
    outputs = list(call(layer, inputs))
    if getattr(layer, "channels_last", False):
        outputs = [one.transpose([0, 3, 1, 2]) if one.ndim == 4 else one for one in outputs]
    weights = [
        paddle.to_tensor(rng.standard_normal(one.shape).astype(str(values[0].dtype))) for one in outputs
    ]
    paddle.add_n([(one * weight).sum() for one, weight in zip(outputs, weights)]).backward()
    gradients = {name: one.grad for name, one in layer.named_parameters() if one.grad is not None}
    gradients.update({f"input {index}": one.grad for index, one in enumerate(inputs) if one.grad is not None})
    layer.clear_gradients()
    return [one.numpy() for one in outputs], {name: one.numpy() for name, one in gradients.items()}


def overall_difference(ours: tuple, stock: tuple) -> float:
    """Norm of the difference of all gradients together, relative to that of stock's."""
    assert ours[1].keys() == stock[1].keys()
    squares = [
        sum(float((one.astype("float64") ** 2).sum()) for one in gradients)
        for gradients in ([ours[1][name] - stock[1][name] for name in stock[1]], stock[1].values())
    ]
    return float(np.sqrt(squares[0] / squares[1]))


def largest_difference(ours: tuple, stock: tuple) -> float:
    """Of outputs and gradients, each relative to its largest value."""
    assert ours[1].keys() == stock[1].keys()
    assert ours[1]
    pairs = [*zip(ours[0], stock[0]), *((ours[1][name], stock[1][name]) for name in stock[1])]
    return max(
        float(np.abs(one - other).max()) / max(float(np.abs(other).max()), 1e-30) for one, other in pairs
    )


def same_weights(stock: nn.Layer, ours: nn.Layer, dtype: str = "float32") -> None:
    """Give both the values of `random_state`, after a look at the names of their parameters."""
    assert list(stock.state_dict()) == list(ours.state_dict())
    assert [p.name.split("_")[0] for p in stock.parameters()] == [
        p.name.split("_")[0] for p in ours.parameters()
    ]
    state = random_state(stock, dtype=dtype)
    for layer in (stock, ours):
        layer.set_state_dict(state)


def images(batch: int, height: int, width: int, channels: int = 3, dtype: str = "float32") -> np.ndarray:
    """Normal values [batch, channels, height, width]."""
    rng = np.random.default_rng(batch)
    return rng.standard_normal((batch, channels, height, width)).astype(dtype)


def backbone(layer, inputs):
    """For `run`: a ResNet on the first of the values."""
    return layer({"image": inputs[0]})


def one_block(head: Res5Head) -> Res5Head:
    """Without its second and third block, for the time they take."""
    for name in list(head.res5._sub_layers)[1:]:
        del head.res5._sub_layers[name]
    del head.res5.blocks[1:]
    return head
