"""Frozen batch norms folded into their convolutions: `fold_frozen_norm: true` at the top of a config.

A norm with frozen statistics and parameters is an affine of each channel: scale * x + shift with
scale = gamma / sqrt(variance + epsilon) and shift = beta - mean * scale. So the convolution runs with the
weights scale * w, and shift is added to its result. The parameters stay as they are: scale * w is made anew
in every step, and the gradient reaches w through the product. Stock keeps a norm's input for its backward
pass; here nothing but the activation's result is kept, since adding a constant has no backward pass.

Method: affine folding as in NVIDIA's frozen batch norm and MMDetection's efficient conv-bn-eval. The weights
of a stage are multiplied together, in one buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import paddle
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional
from ppdet.modeling.backbones.resnet import Blocks, ConvNormLayer

__all__ = ["FoldedBlocks", "FoldedConvNorm", "fold_frozen_norms"]


def fold_frozen_norms(layer: nn.Layer) -> int:
    """Fold every frozen norm within `layer`; returns how many there are.

    A norm that trains, sync BN and deformable convolutions are left as they are. Parameters, buffers and
    their names do not change. Static graphs (`to_static`, export) run the stock layers.
    """
    count = 0
    for one in layer.sublayers(include_self=True):
        if type(one) is ConvNormLayer and _is_affine(one):
            one.__class__ = FoldedConvNorm
            one.fold = _Fold()
            count += 1
        elif type(one) is Blocks:
            one.__class__ = FoldedBlocks
            one.together = _Together()
    return count


def _is_affine(layer: ConvNormLayer) -> bool:
    """Whether the norm is constant and follows a plain convolution."""
    conv, norm = layer.conv, layer.norm
    return (
        type(conv) is nn.Conv2D
        and conv.bias is None
        and type(norm) is nn.BatchNorm2D
        and bool(norm._use_global_stats)
        and norm.weight is not None
        and norm.bias is not None
        and norm.weight.stop_gradient
        and norm.bias.stop_gradient
    )


class _Constants:
    """What a norm comes to: scale [C, 1, 1, 1] for the weights, shift for the features, by dtype."""

    def __init__(self, layer: ConvNormLayer) -> None:
        norm, conv = layer.norm, layer.conv
        gamma, beta, mean, variance = (
            one.detach().astype("float64") for one in (norm.weight, norm.bias, norm._mean, norm._variance)
        )
        scale = gamma / paddle.sqrt(variance + norm._epsilon)
        self.scale = scale.reshape([-1, 1, 1, 1]).astype(conv.weight.dtype)
        self._shift = (beta - mean * scale).reshape(
            [1, 1, 1, -1] if conv._data_format == "NHWC" else [1, -1, 1, 1]
        )
        self._shifts: dict[Any, paddle.Tensor] = {}
        self.weight = conv.weight.detach() * self.scale if conv.weight.stop_gradient else None

    def shift(self, dtype: Any) -> paddle.Tensor:
        """To be added to features of this dtype (half precision under AMP)."""
        if dtype not in self._shifts:
            self._shifts[dtype] = self._shift.astype(dtype)
        return self._shifts[dtype]


class _Fold:
    """The constants of one layer, made anew where its norm has changed; and its weights of this step."""

    def __init__(self) -> None:
        self._constants: Optional[_Constants] = None
        self._state: Any = None
        self.scaled: Optional[paddle.Tensor] = None

    def __deepcopy__(self, memo: Any) -> _Fold:
        return _Fold()

    def forget(self) -> None:
        """Take the norm's values anew: they are about to be read or set through a state dict.

        Setting a value so changes neither a tensor's address nor its version.
        """
        self._constants = None

    def constants(self, layer: ConvNormLayer) -> _Constants:
        """Of `layer`, the layer that holds this object."""
        norm, weight = layer.norm, layer.conv.weight
        sources = [norm.weight, norm.bias, norm._mean, norm._variance]
        if weight.stop_gradient:
            sources.append(weight)
        state = (*[(one.data_ptr(), one.inplace_version) for one in sources], weight.dtype)
        if self._constants is None or state != self._state:
            with paddle.no_grad(), paddle.amp.auto_cast(enable=False):
                self._constants, self._state = _Constants(layer), state
        return self._constants


class FoldedConvNorm(ConvNormLayer):
    """A ConvNormLayer that runs its convolution with the norm in it."""

    fold: _Fold
    stock_forward = ConvNormLayer.forward

    def forward(self, inputs: paddle.Tensor) -> paddle.Tensor:
        """As ConvNormLayer, up to rounding: float [N, C, H, W] (or channels last) in and out."""
        if paddle.in_dynamic_mode() and _is_affine(self):
            return self._folded(inputs)
        return self.stock_forward(inputs)

    def _folded(self, inputs: paddle.Tensor) -> paddle.Tensor:
        constants, conv = self.fold.constants(self), self.conv
        weight = self.fold.scaled
        if weight is None:
            weight = constants.weight if constants.weight is not None else conv.weight * constants.scale
        out = functional.conv2d(
            inputs,
            weight,
            stride=conv._stride,
            padding=conv._padding,
            dilation=conv._dilation,
            groups=conv._groups,
            data_format=conv._data_format,
        )
        # Its gradient is that of `out`, so the graph need not know.
        with paddle.no_grad(), paddle.amp.auto_cast(enable=False):
            out.add_(constants.shift(out.dtype))
        return getattr(functional, self.act)(out) if self.act else out

    def _state_dict_impl(self, *args: Any, **kwargs: Any) -> Any:
        self.fold.forget()
        return super()._state_dict_impl(*args, **kwargs)


class FoldedBlocks(Blocks):
    """A stage whose convolution weights are scaled together."""

    together: _Together
    stock_forward = Blocks.forward

    def forward(self, inputs: paddle.Tensor) -> paddle.Tensor:
        """As Blocks: float [N, C, H, W] (or channels last) in and out."""
        return self._folded(inputs) if paddle.in_dynamic_mode() else self.stock_forward(inputs)

    def _folded(self, inputs: paddle.Tensor) -> paddle.Tensor:
        layers = [
            one
            for one in self.sublayers()
            if type(one) is FoldedConvNorm and _is_affine(one) and not one.conv.weight.stop_gradient
        ]
        try:
            for layer, weight in zip(layers, self.together.scaled(layers)):
                layer.fold.scaled = weight
            return self.stock_forward(inputs)
        finally:
            for layer in layers:
                layer.fold.scaled = None


class _Together:
    """Scales of several layers as one column, made anew with any of them."""

    def __init__(self) -> None:
        self._made_of: list[_Constants] = []
        self._column: Optional[paddle.Tensor] = None

    def __deepcopy__(self, memo: Any) -> _Together:
        return _Together()

    def scaled(self, layers: Sequence[FoldedConvNorm]) -> Sequence[paddle.Tensor]:
        """scale * w of each layer; nothing where they cannot be multiplied together."""
        weights = [layer.conv.weight for layer in layers]
        if len(layers) < 2 or len({weight.dtype for weight in weights}) > 1:
            return []
        made_of = [layer.fold.constants(layer) for layer in layers]
        # A row of the buffer lies within one output channel of one weight.
        width = math.gcd(*[int(weight.size) // int(weight.shape[0]) for weight in weights])
        if (
            self._column is None
            or any(one is not other for one, other in zip(made_of, self._made_of))
            or len(made_of) != len(self._made_of)
        ):
            with paddle.no_grad(), paddle.amp.auto_cast(enable=False):
                self._column = paddle.concat(
                    [
                        one.scale.reshape([-1, 1])
                        .expand([-1, weight.size // weight.shape[0] // width])
                        .reshape([-1, 1])
                        for one, weight in zip(made_of, weights)
                    ]
                )
            self._made_of = made_of
        return _Scaled.apply(self._column, width, *weights)


class _Scaled(PyLayer):
    """Weights times the scales of their output channels, in one buffer; so are their gradients."""

    @staticmethod
    def forward(ctx: Any, column: paddle.Tensor, width: int, *weights: paddle.Tensor) -> Any:
        """scale * w of each of `weights`; `column` is [rows, 1], a row being `width` values."""
        ctx.column, ctx.width = column, width
        return _multiplied(column, width, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: paddle.Tensor) -> Any:
        """The gradient of each weight; the column has none."""
        return (None, *_multiplied(ctx.column, ctx.width, gradients))


def _multiplied(column: paddle.Tensor, width: int, values: Sequence[paddle.Tensor]) -> tuple:
    with paddle.amp.auto_cast(enable=False):
        parts, buffer = paddle._C_ops.coalesce_tensor(
            list(values), values[0].dtype, True, False, False, 0.0, False, -1, -1, [], []
        )
        buffer.reshape_([-1, width]).multiply_(column)
    return tuple(parts)
