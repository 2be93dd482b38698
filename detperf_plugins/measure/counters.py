"""What a piece of Paddle code dispatches and what it reads back to the host: figures that no clock blurs.

Forward operators are counted by Paddle itself, inside every generated API (FLAGS_low_precision_op_list,
which passes over gradients); gradient operators by its profiler. Host reads are counted at the Python
calls through which a value leaves a tensor. All work on a CPU, where a read costs nothing, as a
stand-in for a GPU, where each one waits for the device.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

__all__ = ["Counts", "count", "gradients", "host_reads", "operators"]

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
    """Forward operators, gradient operators and host reads of one run, by name."""

    operators: dict[str, int] = field(default_factory=dict)
    gradients: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)

    @property
    def ops(self) -> int:
        """Operators dispatched; those of the backward pass too where they were counted."""
        return sum(self.operators.values()) + sum(self.gradients.values())

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
    from paddle.utils import dlpack

    found: Counter[str] = Counter()
    depth = 0

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0:
                found[name] += 1
            depth += 1
            try:
                return method(*args, **kwargs)
            finally:
                depth -= 1

        return counted

    missing = object()
    originals = []
    for owner, name in [*((paddle.Tensor, name) for name in READING), (dlpack, "to_dlpack")]:
        method = getattr(owner, name, None)
        if method is None or method is getattr(object, name, None):
            continue
        originals.append((owner, name, vars(owner).get(name, missing)))
        setattr(owner, name, counting(name, method))
    try:
        yield found
    finally:
        for owner, name, method in originals:
            if method is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, method)


@contextlib.contextmanager
def operators() -> Iterator[Counter[str]]:
    """Count forward operators dispatched while the block runs, by name; filled when it ends."""
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


@contextlib.contextmanager
def gradients() -> Iterator[Counter[str]]:
    """Count gradient operators run while the block runs, by the name of their node; filled when it ends."""
    from paddle import profiler

    found: Counter[str] = Counter()
    # Without a handler of its own the profiler writes its trace into the working folder.
    watch = profiler.Profiler(targets=[profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None)
    watch.start()
    try:
        yield found
    finally:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints a summary of its own
            watch.stop()
        nodes = list(watch.profiler_result.get_data().values())
        while nodes:
            node = nodes.pop()
            nodes += node.children_node
            # Paddle 3 calls them Global_ExpGradNode, 2.6 ExpGradNode; both say Final after those written by
            # hand, which are the convolutions'. GradNodeAccumulation only adds a gradient to a parameter.
            if str(node.type).endswith("Operator") and node.name.endswith(("GradNode", "GradNodeFinal")):
                found[node.name.replace("Global_", "")] += 1


def count(run: Callable[[], Any], backward: bool = False) -> Counts:
    """Operators and host reads of one call of `run`; call it once before, so that caches are warm.

    Args:
        run: called once.
        backward: count gradient operators as well, for a run that has a backward pass.
    """
    with contextlib.ExitStack() as stack:
        reads = stack.enter_context(host_reads())
        ops = stack.enter_context(operators())
        grads: Counter[str] = stack.enter_context(gradients()) if backward else Counter()
        run()
    return Counts({name: number for name, number in ops.items() if number}, dict(grads), dict(reads))
