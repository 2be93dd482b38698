"""The two callbacks that time a MindSpore training: one before all others, one after them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from detperf_plugins.mindocr.phases import Phases, Step

__all__ = ["step_timers"]


def step_timers(
    phases: Phases,
    on_first_step: Callable[[], None],
    on_step: Callable[[int, float], None] | None = None,
) -> tuple[Any, Any]:
    """A callback to stand before and one to stand after the user's own.

    Args:
        phases: filled with steps, losses and the time of the callbacks in between.
        on_first_step: called once when the first step is over.
        on_step: called with (number, loss) after each; the loss is waited for then.

    In sink mode MindSpore calls back once an epoch (or sink_size): a `Step` then stands for all of them.
    Only the first step and, on a CPU, every step is waited for: elsewhere the device runs ahead, and a
    step's time is the interval at which the host issues steps, which equals the device's over an epoch.
    """
    import mindspore as ms

    on_cpu = ms.get_context("device_target") == "CPU"

    class Head(ms.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.idle_since = 0.0
            self.began = 0.0
            self.data = 0.0
            self.pending: list[Any] = []
            self.block: AbstractContextManager[None] | None = None

        def on_train_begin(self, run_context: Any) -> None:
            self.idle_since = time.perf_counter()

        def on_train_epoch_begin(self, run_context: Any) -> None:
            self.idle_since = time.perf_counter()

        def on_train_step_begin(self, run_context: Any) -> None:
            self.began = time.perf_counter()
            self.data = self.began - self.idle_since
            if not phases.steps:
                phases.first_step_begins(self.data)

        def on_train_step_end(self, run_context: Any) -> None:
            params = run_context.original_args()
            loss = params.net_outputs
            loss = loss[0] if isinstance(loss, (tuple, list)) else loss
            first = not phases.steps
            if first or on_cpu or on_step is not None:
                loss = float(loss.asnumpy())
            self.pending.append(loss)
            count = params.batch_num if params.dataset_sink_mode else 1
            step = Step(params.cur_epoch_num, count, self.data, time.perf_counter() - self.began)
            phases.steps.append(step)
            if on_step is not None:
                on_step(len(phases.steps), loss)
            if first:
                phases.facts["sinks"] = bool(params.dataset_sink_mode)
                on_first_step()
            self.enter()

        def on_train_epoch_end(self, run_context: Any) -> None:
            phases.losses += [one if isinstance(one, float) else float(one.asnumpy()) for one in self.pending]
            self.pending.clear()
            self.enter()

        def enter(self) -> None:
            self.block = phases.measure("callbacks")
            self.block.__enter__()

        def leave(self) -> None:
            if self.block is not None:
                self.block.__exit__(None, None, None)
            self.block = None
            self.idle_since = time.perf_counter()

    head = Head()

    class Tail(ms.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            head.leave()

        def on_train_epoch_end(self, run_context: Any) -> None:
            head.leave()

    return head, Tail()
