"""`detperf train`: a config trained with the plugins loaded, without the host's tools/ folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json

__all__ = ["train"]


@app.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": True})
def train(
    context: typer.Context,
    config: Path = typer.Option(..., "-c", "--config", help="The config to train."),
    overrides: list[str] = typer.Option(
        [],
        "-o",
        "--opt",
        metavar="KEY=VALUE",
        help="Change a setting; as in tools/train.py, several may follow.",
    ),
    evaluate: bool = typer.Option(False, "--eval", help="Evaluate at every snapshot, keep the best model."),
    resume: Optional[str] = typer.Option(
        None, "-r", "--resume", help="Checkpoint to go on from (no suffix)."
    ),
    amp: bool = typer.Option(False, "--amp", help="Automatic mixed precision (does nothing on a CPU)."),
    seed: Optional[int] = typer.Option(None, help="Fix initial weights, sampling and augmentation."),
    replace: bool = typer.Option(False, "--replace", help="Use the exact parts in place of stock ones."),
    stock: bool = typer.Option(False, "--stock", help="Train without the plugins, to compare."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train a PaddleDetection config as tools/train.py does, from the installed wheel alone."""
    from detperf_plugins.paddledet import runner

    words = [*overrides, *context.args]
    trainer, stats = runner.train(
        config,
        words,
        eval_while_training=evaluate,
        resume=resume,
        amp=amp,
        seed=seed,
        plugins=not stock,
        replace=replace,
    )
    meters = trainer.status["training_staus"].meters or {}
    row: dict[str, Any] = {
        "config": str(config),
        "epochs": trainer.cfg.epoch,
        "steps_per_epoch": trainer.status["steps_per_epoch"],
        "weights": str(Path(trainer.cfg.save_dir) / trainer.cfg.filename / "model_final.pdparams"),
        "step_ms": 1000 * float(trainer.status["batch_time"].avg),
        "reader_ms": 1000 * float(trainer.status["data_time"].avg),
        **{name: float(meter.value) for name, meter in meters.items()},
    }
    row.update({f"{kind}_ap": float(vector[0]) for kind, vector in stats.items()})
    console.print(f"Trained {row['epochs']} epochs; weights in {row['weights']}", soft_wrap=True)
    write_json(json_path, [row], {"overrides": words, "plugins": not stock, "replace": replace, "seed": seed})
