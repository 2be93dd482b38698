"""`detperf train`: a config trained with the plugins loaded, without the host's tools/ folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json
from detperf_plugins.doctor.words import counted
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.config import MINDOCR, host_of

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
        None, "-r", "--resume", help="Checkpoint to go on from, without its suffix; MindOCR: or its folder."
    ),
    amp: bool = typer.Option(
        False,
        "--amp",
        help="Automatic mixed precision: does nothing on a CPU; MindOCR: system.amp_level=O2 alone, which "
        "differs from amp_o2.yml, that clips gradients too.",
    ),
    seed: Optional[int] = typer.Option(None, help="Fix initial weights, sampling and augmentation."),
    replace: bool = typer.Option(False, "--replace", help="Use the exact parts in place of stock ones."),
    stock: bool = typer.Option(
        False, "--stock", help="Train without the plugins, to compare; MindOCR: with its own data path."
    ),
    eval_only: bool = typer.Option(
        False, "--eval-only", help="MindOCR: evaluate eval.ckpt_load_path, train nothing."
    ),
    phases_json: Optional[Path] = typer.Option(
        None, "--phases-json", metavar="PATH", help="MindOCR: also write where the time went to PATH."
    ),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train a PaddleDetection or MindOCR config as its tools/train.py does, from the wheel alone."""
    if replace and stock:
        raise UnreadableInput("--replace and --stock exclude each other: give one of them")
    stray = [word for word in context.args if "=" not in word]
    if stray:
        raise UnreadableInput(f"{stray[0]!r} is neither an option nor a setting, which is KEY=VALUE after -o")
    if json_path is not None and json_path.is_dir():
        raise UnreadableInput(f"--json {json_path} is a folder; name a file in it")
    words = [*overrides, *context.args]
    if host_of(config) == MINDOCR:
        words += ["system.val_while_train=True"] * evaluate + ["system.amp_level=O2"] * amp
        words += [f"model.resume={resume}"] if resume is not None else []
        words += [f"system.seed={seed}"] if seed is not None else []
        _mindocr(config, words, eval_only, replace, stock, phases_json, json_path)
        return
    from detperf_plugins.paddledet import runner

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
    trained = max(0, trainer.cfg.epoch - trainer.start_epoch)
    row: dict[str, Any] = {
        "config": str(config),
        "epochs": trainer.cfg.epoch,
        "trained_epochs": trained,
        "steps_per_epoch": trainer.status["steps_per_epoch"],
        "weights": str(runner.final_weights(trainer)),
        "step_ms": 1000 * float(trainer.status["batch_time"].avg) if trained else None,
        "reader_ms": 1000 * float(trainer.status["data_time"].avg) if trained else None,
        **{name: float(meter.value) for name, meter in meters.items()},
    }
    row.update({f"{kind}_ap": float(vector[0]) for kind, vector in stats.items()})
    outcome = f"Trained {counted(trained, 'epoch')}; weights in {row['weights']}"
    if not trained:
        held = f"{resume} has {trainer.start_epoch}, and " if resume else ""
        outcome = f"Nothing was trained: {held}the config asks for {trainer.cfg.epoch} epochs (-o epoch=N)"
    console.print(outcome, soft_wrap=True)
    write_json(json_path, [row], {"overrides": words, "plugins": not stock, "replace": replace, "seed": seed})


def _interrupted(session: Any) -> None:
    """Say what Ctrl-C has ended."""
    typer.secho(f"detperf: {session.interrupted()}", err=True, fg="red")


def _mindocr(
    config: Path,
    words: list[str],
    eval_only: bool,
    replace: bool,
    stock: bool,
    phases_json: Optional[Path],
    json_path: Optional[Path],
) -> None:
    """Train or evaluate a MindOCR config; keys that nothing reads are reported first."""
    from detperf_plugins.mindocr import runner
    from detperf_plugins.mindocr.interrupts import STATUS, Interrupts
    from detperf_plugins.mindocr.session import SESSION
    from detperf_plugins.unread import warn_of_unread_keys

    os.environ.setdefault("GLOG_v", "3")  # MindSpore's warnings about its own graph rewriting
    SESSION.lint = warn_of_unread_keys
    SESSION.replace, SESSION.stock, SESSION.phases_json = replace, stock, phases_json
    conditions = {"overrides": words, "replace": replace, "plugins": not stock}
    if eval_only:
        metrics = runner.evaluate(config, words)
        figures = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        console.print(f"{SESSION.setting('eval.ckpt_load_path')}: {figures}", soft_wrap=True)
        write_json(json_path, [{"config": str(config), **metrics}], conditions)
        return
    with Interrupts(lambda: _interrupted(SESSION)) as interrupts:
        try:
            result = runner.train(config, words)
        except BaseException:
            if not interrupts.asked:
                raise
            _interrupted(SESSION)
            raise typer.Exit(STATUS) from None
    losses = result.pop("losses")
    row = {
        "config": str(config),
        **{key: value for key, value in result.items() if not isinstance(value, dict)},
    }
    for group in ("start_up", "during"):
        row.update({f"{name.replace(' ', '_')}_s": value for name, value in result[group].items()})
    write_json(json_path, [row], {**conditions, **result["facts"]}, losses=losses, notes=result["notes"])
