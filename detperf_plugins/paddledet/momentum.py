"""Momentum with one operator for all parameters: Paddle's `merged_momentum_` behind the stock optimizer.

Method: `paddle.optimizer.Momentum` picks the parameters, their learning rates, regularisers and velocities,
as ever; here its updates are collected and handed over together. Paddle's own `use_multi_tensor` keeps the
parameters of the first step, and stops with "The size of Input(Grad) must be equal to Input(Param)" as soon
as another step has other gradients, which Mask R-CNN with stock heads can have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import paddle
from paddle import _C_ops
from paddle.regularizer import L2Decay

__all__ = ["PerfMomentum"]


class _Update(NamedTuple):
    """One parameter's part in the step; `master` is its float32 copy under AMP O2, else None."""

    param: paddle.Tensor
    grad: paddle.Tensor
    velocity: paddle.Tensor
    rate: paddle.Tensor
    master: Any
    method: str
    factor: float


class PerfMomentum(paddle.optimizer.Momentum):
    """paddle.optimizer.Momentum, to the bit, in one operator a step and parameter type.

    The state has stock's names and shapes, so checkpoints resume in either. Learning rates that several
    parameters share are computed once. bfloat16 parameters, for which Paddle has no merged kernel, sparse
    gradients and static graphs are updated as in stock. `use_multi_tensor` is not taken: it is what this is.

    On a GPU the merged kernel goes parameter by parameter where there is weight decay, which saves the
    dispatch of each operator, not its launch; without weight decay up to 110 parameters share a launch.

    Args: as paddle.optimizer.Momentum.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("use_multi_tensor", None)
        super().__init__(*args, **kwargs)
        self._updates: list[_Update] = []
        self._rates: dict[float, paddle.Tensor] = {}

    def _create_param_lr(self, param_and_grad: Any) -> Any:
        rate = (getattr(param_and_grad[0], "optimize_attr", None) or {}).get("learning_rate", 1.0)
        if not paddle.in_dynamic_mode() or not isinstance(rate, (int, float)):
            return super()._create_param_lr(param_and_grad)
        if rate not in self._rates:
            self._rates[rate] = super()._create_param_lr(param_and_grad)
        return self._rates[rate]

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        pair = param_and_grad
        if isinstance(pair, dict):
            pair = self._update_param_group(pair)
        param, grad = pair
        merged = (paddle.float32, paddle.float64, paddle.float16)
        if not paddle.in_dynamic_mode() or param.dtype not in merged or not grad.is_dense():
            return super()._append_optimize_op(block, param_and_grad)
        method, factor = self._regularization_method, self._regularization_coeff
        own = getattr(param, "regularizer", None)
        if isinstance(own, L2Decay):
            method, factor = "l2_decay", own._coeff
        elif own is not None:  # already added to the gradient
            method, factor = "", 0.0
        master = None
        if self._multi_precision and param.dtype == paddle.float16:
            master = self._master_weights[param.name]
        self._updates.append(
            _Update(
                param,
                grad,
                self._get_accumulator_master(self._velocity_acc_str, param),
                self._create_param_lr(pair),
                master,
                method,
                factor,
            )
        )
        return None

    def _finish_update(self, block: Any, parameters_and_grads: Any) -> None:
        """Called by stock once all updates of a parameter group have been appended."""
        kinds: dict[Any, list[_Update]] = {}
        for update in self._updates:
            kinds.setdefault((update.param.dtype, update.master is None), []).append(update)
        self._updates = []
        self._rates = {}
        for updates in kinds.values():
            self._merge(updates)
        super()._finish_update(block, parameters_and_grads)

    def _merge(self, updates: list[_Update]) -> None:
        params, grads, velocities, rates, masters, methods, factors = (list(one) for one in zip(*updates))
        if all(rate is rates[0] for rate in rates):
            rates = rates[:1]
        if not any(methods) and all(one.dtype == params[0].dtype for one in grads):
            methods, factors = [], []  # lets the kernel merge its launches
        has_master = masters[0] is not None
        _C_ops.merged_momentum_(
            params,
            grads,
            velocities,
            rates,
            masters if has_master else None,
            self._momentum,
            self._use_nesterov,
            methods,
            factors,
            has_master,
            self._rescale_grad,
        )
