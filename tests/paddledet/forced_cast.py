"""Paddle's auto_cast on a CPU, where its own does nothing: every operator gets its inputs as on a GPU.

Paddle decides by operator: those of the white list run in half precision, those of the black list in
float32, any other in half precision unless one of its inputs is float32 (batch_norm: unless its first one
is). Here the Python entries of the operators are wrapped to cast so. A CPU has no kernels in half precision:
such an operator is computed in float32 from rounded inputs, and its results are rounded and handed on in half
precision. Kernels that a GPU has in float32 alone are not known here; Paddle casts for those by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import paddle
from paddle import _C_ops
from paddle.amp.amp_lists import black_list, white_list

HALF = (paddle.float16, paddle.bfloat16)
# Operators that AMP's lists know by the name of an older generation.
OLD_NAMES = {
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "divide": "elementwise_div",
    "sum": "reduce_sum",
    "mean": "reduce_mean",
    "mean_all": "mean",
    "matmul": "matmul_v2",
    "cross_entropy_with_softmax": "softmax_with_cross_entropy",
    "embedding": "lookup_table_v2",
    "nearest_interp": "nearest_interp_v2",
    "bilinear_interp": "bilinear_interp_v2",
    "generate_proposals": "generate_proposals_v2",
    "p_norm": "pnorm",
}
# Python operators of a tensor that C++ dispatches without `_C_ops`.
BINARY = {
    "add": "elementwise_add",
    "sub": "elementwise_sub",
    "mul": "elementwise_mul",
    "truediv": "elementwise_div",
    "pow": "elementwise_pow",
    "matmul": "matmul_v2",
}
METHODS = {f"__{side}{name}__": operator for name, operator in BINARY.items() for side in ("", "r")}
METHODS |= {f"__{name}__": name for name in ("neg", "lt", "le", "gt", "ge", "eq", "ne")}
# Conversions, and what makes no value from another.
UNTOUCHED = {"cast", "assign", "full", "full_like", "arange", "shape", "detach", "coalesce_tensor"}


class Forced:
    """What the wrapped operators do now, and what they did.

    Attributes:
        ran: names of operators that ran while casting was on, and the precisions in which they did.
        calls: keyword arguments of every `paddle.amp.auto_cast` that switched casting on.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.level: str | None = None
        self.white: set[str] = set()
        self.black: set[str] = set()
        self.ran: dict[str, set[str]] = {}
        self.calls: list[dict[str, Any]] = []

    def destination(self, name: str, tensors: list[paddle.Tensor]) -> str:
        """The precision in which the operator runs: float32 or the half one."""
        if name in self.white:
            return self.dtype
        if name in self.black:
            return "float32"
        looked_at = tensors[:1] if name == "batch_norm" else tensors
        return "float32" if any(one.dtype == paddle.float32 for one in looked_at) else self.dtype

    def run(self, name: str, operator: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call an operator as auto_cast would have it called."""
        name = OLD_NAMES.get(name, name)
        if name == "linear":  # in C++ two operators
            out = self.run("matmul", lambda x, w: operator(x, w, None), args[:2], {})
            if len(args) < 3 or args[2] is None:
                return out
            return self.run("elementwise_add", paddle.Tensor.__add__, (out, args[2]), {})
        tensors = [one for one in _flat([args, kwargs]) if _is_float(one)]
        if not tensors:
            return operator(*args, **kwargs)
        destination = self.destination(name, tensors)
        self.ran.setdefault(name, set()).add(destination)
        kept = tensors[1:] if name == "batch_norm" else []

        def given(one: Any) -> Any:
            if not _is_float(one) or any(one is other for other in kept):
                return one
            rounded = _cast(one, destination)
            return _cast(rounded, "float32")

        level, self.level = self.level, None
        try:
            result = operator(*_mapped(args, given), **_mapped(kwargs, given))
            if destination == "float32":
                return result
            # Statistics that a norm gives beside its result stay float32.
            if name == "batch_norm":
                first, *others = result
                return (_cast(first, destination), *others)
            return _mapped(result, lambda one: _cast(one, destination) if _is_float(one) else one)
        finally:
            self.level = level


def _is_float(one: Any) -> bool:
    return isinstance(one, paddle.Tensor) and (one.dtype == paddle.float32 or one.dtype in HALF)


def _cast(one: paddle.Tensor, dtype: str) -> paddle.Tensor:
    return one if one.dtype == getattr(paddle, dtype) else one.astype(dtype)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def _mapped(value: Any, action: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(one, action) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(one, action) for one in value)
    return action(value)


@contextlib.contextmanager
def forced_cast(dtype: str = "float16") -> Iterator[Forced]:
    """While the block runs, `paddle.amp.auto_cast` casts on a CPU too; see the module."""
    forced = Forced(dtype)

    @contextlib.contextmanager
    def auto_cast(
        enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None, level: str = "O1",
        **others: Any,
    ) -> Iterator[None]:  # fmt: skip
        before = forced.level, forced.white, forced.black
        if enable:
            forced.calls.append(
                {"white": custom_white_list, "black": custom_black_list, "level": level, **others}
            )
            white = set(white_list()[dtype][level]) | set(custom_white_list or ())
            black = set(black_list()[dtype][level]) | set(custom_black_list or ())
            forced.white = white - set(custom_black_list or ())
            forced.black = black - set(custom_white_list or ())
        forced.level = level if enable else None
        try:
            yield
        finally:
            forced.level, forced.white, forced.black = before

    def wrapped(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if forced.level is None:
                return operator(*args, **kwargs)
            return forced.run(name, operator, args, kwargs)

        return call

    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            original = getattr(owner, name)
            setattr(owner, name, value)
            stack.callback(setattr, owner, name, original)

        for name in dir(_C_ops):
            operator = getattr(_C_ops, name)
            if callable(operator) and name.strip("_") == name and name not in UNTOUCHED:
                replace(_C_ops, name, wrapped(name, operator))
        for name, operator in METHODS.items():
            if name in paddle.Tensor.__dict__:
                replace(paddle.Tensor, name, wrapped(operator, paddle.Tensor.__dict__[name]))
        replace(paddle.amp, "auto_cast", auto_cast)
        yield forced
