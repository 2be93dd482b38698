"""One training run of the demo, in a process of its own: `python -m detperf_plugins.paddledet.trial`.

Trains with ppdet's own Trainer, and writes what it observes as JSON lines: one a step to standard output
(for the progress bar), and a summary with all losses, times, AP and predictions to `OUT/trial.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main", "run"]

PREFIX = "DETPERF "
# Score from which on a predicted mask is kept for the picture.
THRESHOLD = 0.3


def _emit(**event: Any) -> None:
    sys.stdout.write(PREFIX + json.dumps(event) + "\n")
    sys.stdout.flush()


class _TimedAssigner:
    """A mask assigner that adds up the time spent in it."""

    def __init__(self, assigner: Any) -> None:
        self.assigner = assigner
        self.seconds = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.assigner(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start


class _Enough(Exception):
    """All wanted steps are done, in the middle of an epoch."""


def _recorder(
    trainer: Any, losses: list[dict[str, float]], times: list[dict[str, float]], last: int | None
) -> Any:
    from ppdet.engine.callbacks import Callback

    timed = _TimedAssigner(trainer.model.mask_head.mask_assigner)
    trainer.model.mask_head.mask_assigner = timed

    class Recorder(Callback):
        def on_step_end(self, status: dict[str, Any]) -> None:
            step = {name: float(meter.value) for name, meter in status["training_staus"].meters.items()}
            losses.append(step)
            times.append(
                {
                    "step": float(status["batch_time"].value),
                    "reader": float(status["data_time"].value),
                    "mask_targets": timed.seconds,
                }
            )
            timed.seconds = 0.0
            _emit(step=len(losses), loss=step["loss"])
            if len(losses) == last:
                raise _Enough

    return Recorder(trainer)


def run(
    config: Path, out: Path, plugins: bool, seed: int, evaluate: bool, steps: int | None = None
) -> dict[str, Any]:
    """Train `config` from `seed`, evaluate it, and write `out/trial.json`.

    Args:
        steps: end after so many, also within an epoch; else after the config's epochs.
    """
    import paddle

    from detperf_plugins.paddledet import runner

    cfg = runner.load(config, [f"save_dir={out}"], plugins=plugins)
    trainer = runner.build_trainer(cfg, config, seed=seed)
    losses: list[dict[str, float]] = []
    times: list[dict[str, float]] = []
    total = len(trainer.loader) * cfg.epoch
    last = steps if steps and steps < total else None
    trainer.register_callbacks([_recorder(trainer, losses, times, last)])
    _emit(steps=last or total)
    weights = str(runner.final_weights(trainer))
    try:
        trainer.train()
    except _Enough:
        paddle.save(trainer.model.state_dict(), weights)
    result: dict[str, Any] = {"losses": losses, "times": times, "ap": {}, "predictions": []}
    if evaluate:
        _emit(evaluating=True)
        os.chdir(out)  # COCOMetric writes bbox.json and mask.json into the working folder
        stats, kept = runner.evaluate(cfg, config, weights)
        result["ap"] = {kind: [float(value) for value in vector] for kind, vector in stats.items()}
        result["predictions"] = [
            {
                **mask,
                "segmentation": {**mask["segmentation"], "counts": _text(mask["segmentation"]["counts"])},
            }
            for mask in kept.get("mask", [])
            if mask["score"] >= THRESHOLD
        ]
    (out / "trial.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def _text(counts: Any) -> str:
    return counts.decode("ascii") if isinstance(counts, bytes) else counts


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run; an error ends with its status, and its sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plugins", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--no-evaluate", dest="evaluate", action="store_false")
    options = parser.parse_args(arguments)
    from detperf_plugins.errors import DetperfError
    from detperf_plugins.measure.child import give_up

    try:
        run(
            options.config.resolve(), options.out.resolve(), options.plugins, options.seed, options.evaluate,
            options.steps,
        )  # fmt: skip
    except DetperfError as error:
        give_up(error)


if __name__ == "__main__":
    main()
