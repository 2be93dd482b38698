"""A few steps of ppdet's own trainer, watched from outside: what profile and bench train share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.paddledet.datasets import require_data

__all__ = ["Finished", "on_each_step", "out_of_memory", "prepare", "sentence", "train"]

# A run ends after so many steps, not epochs; every step is logged, none is saved.
ENDLESS = ("epoch=1000000", "snapshot_epoch=1000000", "log_iter=1")


class Finished(Exception):
    """All wanted steps have been seen: raised where the next batch would be fetched."""


def prepare(
    config: Path,
    overrides: Sequence[str],
    out: Path,
    *,
    amp: bool = False,
    seed: int | None = None,
    plugins: bool = True,
    replace: bool = False,
) -> tuple[Any, Any]:
    """Config and trainer, ready to train without ever ending or saving.

    Raises:
        UnreadableInput: the config cannot be read, or its data set is not there.
        DetperfError: `out` cannot be written, or the data set is smaller than a batch.
    """
    from detperf_plugins.paddledet import runner

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DetperfError(f"cannot write {out}: {error.strerror or error}") from error
    words = [*overrides, *ENDLESS, f"save_dir={out}"]
    cfg = runner.load(config, words, plugins=plugins, replace=replace)
    cfg["amp"] = amp or cfg.get("amp", False)
    require_data(cfg, config)
    trainer = runner.build_trainer(cfg, config, seed=seed)
    if len(trainer.loader) < 1:
        size = cfg.TrainReader["batch_size"]
        raise UnreadableInput(f"the data set of {config} has fewer images than one batch of {size}")
    runner.load_pretrained(trainer, config)
    return cfg, trainer


def train(trainer: Any, fetch: Callable[[Callable[[Any], Any], Any], Any]) -> BaseException | None:
    """Run the trainer's loop until `fetch` raises Finished.

    Args:
        fetch: called for each batch with the stock function and the reader, returns the batch.

    Returns:
        None, or the exception that ended the loop early (KeyboardInterrupt among them).
    """
    reader = type(trainer.loader)
    own = vars(reader).get("__next__")
    stock = reader.__next__
    reader.__next__ = lambda self: fetch(stock, self)
    try:
        trainer.train()
    except Finished:
        return None
    except (Exception, KeyboardInterrupt) as error:
        return error
    finally:
        if own is None:
            del reader.__next__
        else:
            reader.__next__ = own
    return RuntimeError("the trainer ended by itself")


def on_each_step(trainer: Any, action: Callable[[float, float], None]) -> None:
    """Let `action` be called after each step with its reader and batch cost, seconds."""
    from ppdet.engine.callbacks import Callback

    class Watcher(Callback):
        def on_step_end(self, status: dict[str, Any]) -> None:
            action(float(status["data_time"].value), float(status["batch_time"].value))

    trainer.register_callbacks([Watcher(trainer)])


def sentence(error: BaseException) -> str:
    """An error in one line: Paddle puts a C++ traceback before what it has to say."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error:" in line] or lines or [""]
    return f"{type(error).__name__}: {telling[-1][:300]}"


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory, the host's or the device's, is exhausted."""
    text = str(error)
    return isinstance(error, MemoryError) or "ResourceExhausted" in text or "out of memory" in text.lower()
