"""What a piece of Paddle code dispatches and what it reads back to the host: figures that no clock blurs.

Operators are counted by Paddle itself, inside every generated API (FLAGS_low_precision_op_list); its
profiler's Operator events give the same numbers. Host reads are counted at the Python methods through
which a value leaves a tensor. Both work on a CPU, where a read costs nothing, as a stand-in for a GPU,
where each one waits for the device.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

__all__ = ["Counts", "count", "host_reads", "operators"]

# Methods of paddle.Tensor that hand a value to Python.
READING = (
    "numpy",
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__array__",
    "__nonzero__",
    "__long__",
)


@dataclass(frozen=True)
class Counts:
    """Operators and host reads of one run, by name."""

    operators: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)

    @property
    def ops(self) -> int:
        """Operators dispatched, forward and backward."""
        return sum(self.operators.values())

    @property
    def host_reads(self) -> int:
        """Values read back to the host."""
        return sum(self.reads.values())


@contextlib.contextmanager
def host_reads() -> Iterator[Counter[str]]:
    """Count host reads while the block runs, by method; one that calls another counts once.

    Reads inside Paddle's own C++ (`nms` and `nonzero` wait for their sizes) are not seen.
    """
    import paddle

    tensor = paddle.Tensor
    found: Counter[str] = Counter()
    depth = 0

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0:
                found[name] += 1
            depth += 1
            try:
                return method(self, *args, **kwargs)
            finally:
                depth -= 1

        return counted

    missing = object()
    originals = {}
    for name in READING:
        method = getattr(tensor, name, None)
        if method is None or method is getattr(object, name, None):
            continue
        originals[name] = tensor.__dict__.get(name, missing)
        setattr(tensor, name, counting(name, method))
    try:
        yield found
    finally:
        for name, method in originals.items():
            if method is missing:
                delattr(tensor, name)
            else:
                setattr(tensor, name, method)


@contextlib.contextmanager
def operators() -> Iterator[Counter[str]]:
    """Count operators dispatched while the block runs, by name; the counter is filled when it ends."""
    import paddle

    core = paddle.base.core
    found: Counter[str] = Counter()
    core.clear_low_precision_op_list()
    paddle.set_flags({"FLAGS_low_precision_op_list": 1})
    try:
        yield found
    finally:
        paddle.set_flags({"FLAGS_low_precision_op_list": 0})
        # Each value is "fp16,bf16,fp32,other": how often the operator ran in each precision.
        for name, calls in core.get_low_precision_op_list().items():
            found[name] = sum(int(number) for number in str(calls).split(","))


def count(run: Callable[[], Any]) -> Counts:
    """Operators and host reads of one call of `run`; call it once before, so that caches are warm."""
    with host_reads() as reads, operators() as ops:
        run()
    return Counts({name: number for name, number in ops.items() if number}, dict(reads))
