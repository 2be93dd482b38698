"""One timed training run, in a process of its own: `python -m detperf_plugins.paddledet.train_bench`."""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable, Optional

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.child import emit, give_up
from detperf_plugins.paddledet import short_run

__all__ = ["OUT_OF_MEMORY", "main", "run", "size_of"]

OUT_OF_MEMORY = "out of memory"


def size_of(batch: Any) -> int:
    """Bytes of what the loader hands over: of tensors and arrays their elements, of all else its pickle."""
    if isinstance(batch, Mapping):
        return sum(size_of(value) for value in batch.values())
    if hasattr(batch, "nbytes"):
        return int(batch.nbytes)
    if hasattr(batch, "element_size"):
        return int(batch.size) * int(batch.element_size())
    if isinstance(batch, (list, tuple)) and any(_holds_arrays(one) for one in batch):
        return sum(size_of(one) for one in batch)
    return len(pickle.dumps(batch, protocol=pickle.HIGHEST_PROTOCOL))


def _holds_arrays(value: Any) -> bool:
    if hasattr(value, "nbytes") or hasattr(value, "element_size"):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and _holds_arrays(value[0])


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Train `warm_up` steps unmeasured and `steps` measured ones.

    Returns:
        status: "ok", "out of memory", "skipped" or "failed", with `error` where it is not "ok"; and, where
        any step was measured, reader_s and batch_s (seconds of each step), cpu_s (processor seconds of each
        step, all threads of this process, which other work on the machine hardly changes), loader_bytes (of
        the median step); host_mb and device_mb (peaks, MiB, of this process and of the device's allocator;
        None on a CPU).
    """
    amp = options.precision == "amp"
    words = [*options.overrides, f"TrainReader.batch_size={options.batch_size}"]
    try:
        cfg, trainer = short_run.prepare(
            options.config, words, options.out, amp=amp, seed=options.seed, plugins=not options.stock
        )
    except MemoryError as error:
        return {"status": OUT_OF_MEMORY, "error": short_run.sentence(error)}
    if amp and not any(cfg.get(f"use_{device}") for device in ("gpu", "npu", "xpu", "mlu")):
        return {"status": "skipped", "error": "AMP does nothing on a CPU"}
    times: list[tuple[float, float]] = []
    sizes: list[int] = []
    cpu_s: list[float] = []
    state: dict[str, Any] = {"step": 0, "batch": None, "cpu": 0.0}

    def fetch(function: Callable[[Any], Any], reader: Any) -> Any:
        if state["step"] >= options.warm_up + options.steps:
            raise short_run.Finished
        state["cpu"] = time.process_time()
        state["batch"] = function(reader)
        return state["batch"]

    def note(reader_s: float, batch_s: float) -> None:
        state["step"] += 1
        if state["step"] > options.warm_up:
            cpu_s.append(time.process_time() - state["cpu"])
            times.append((reader_s, batch_s))
            sizes.append(size_of({key: value for key, value in state["batch"].items() if key != "epoch_id"}))
        emit(step=state["step"])

    short_run.on_each_step(trainer, note)
    ended = short_run.train(trainer, fetch)
    result: dict[str, Any] = {"status": "ok", "error": None}
    if ended is not None:
        status = OUT_OF_MEMORY if short_run.out_of_memory(ended) else "failed"
        result = {"status": status, "error": short_run.sentence(ended)}
    if times:
        result["reader_s"], result["batch_s"] = (list(column) for column in zip(*times))
        result["cpu_s"] = cpu_s
        result["loader_bytes"] = sorted(sizes)[len(sizes) // 2]
    return {**result, **_peaks(bool(cfg.get("use_gpu")))}


def _peaks(on_gpu: bool) -> dict[str, Optional[float]]:
    import paddle

    unit = 2**20 if sys.platform == "darwin" else 2**10
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    device = paddle.device.cuda.max_memory_allocated() / 2**20 if on_gpu else None
    return {"host_mb": host, "device_mb": device}


def main(arguments: Optional[list[str]] = None) -> None:
    """Parse the command line and run; an error ends with its status, and its sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "amp"), default="fp32")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--overrides", type=json.loads, default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stock", action="store_true")
    options = parser.parse_args(arguments)
    options.config, options.out = options.config.resolve(), options.out.resolve()
    try:
        emit(result=run(options))
    except DetperfError as error:
        give_up(error)


if __name__ == "__main__":
    main()
