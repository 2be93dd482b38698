"""Checkpoints that are whole or absent, written as often as wanted, and resumed with a clear word."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.settings import RESUME_NAME

__all__ = ["Interval", "atomic", "check_fit", "check_resume"]


def atomic(save: Callable[..., Any]) -> Callable[..., Any]:
    """`mindspore.save_checkpoint` so that a file of the given name is always whole.

    MindSpore removes the old checkpoint before it writes the new one: a run killed in between has neither.
    Here the new one is written beside it, and takes its place in one step.
    """

    @functools.wraps(save)
    def save_checkpoint(save_obj: Any, ckpt_file_name: Any, *args: Any, **kwargs: Any) -> Any:
        path = Path(ckpt_file_name)
        plain = kwargs.get("format", "ckpt") == "ckpt" and not kwargs.get("async_save")
        if not plain or path.suffix not in {"", ".ckpt"}:
            return save(save_obj, ckpt_file_name, *args, **kwargs)
        final = path.with_name(path.name if path.suffix else f"{path.name}.ckpt")
        partial = final.with_name(f"{final.stem}-part-{os.getpid()}.ckpt")
        try:
            result = save(save_obj, str(partial), *args, **kwargs)
            os.replace(partial, final)
        finally:
            for left in (partial, partial.with_suffix(".tmp")):
                left.unlink(missing_ok=True)
        return result

    return save_checkpoint


class Interval:
    """Decides which epochs write their checkpoint and the resume file.

    Args:
        every: epochs from one to the next; the last epoch always writes.
        last_epoch: number of the last epoch, counted from 1.
    """

    def __init__(self, every: int, last_epoch: int) -> None:
        self.every, self.last_epoch = max(1, int(every)), last_epoch

    def due(self, epoch: int) -> bool:
        """Whether epoch number `epoch` writes."""
        return epoch % self.every == 0 or epoch >= self.last_epoch

    def wants(self, file: Any, append_dict: dict[str, Any] | None = None) -> bool:
        """Whether a checkpoint is to be written: `best.ckpt` always, the others when their epoch is due."""
        name = Path(file).name
        numbered = re.fullmatch(r"e(\d+)\.ckpt", name)
        if numbered:
            return self.due(int(numbered[1]))
        if name == RESUME_NAME and append_dict and "epoch_num" in append_dict:
            return self.due(int(append_dict["epoch_num"]))
        return True


def check_resume(path: str) -> dict[str, Any]:
    """See that a checkpoint to resume from is there and whole, before the run depends on it.

    Returns:
        Its parameters by name.

    Raises:
        UnreadableInput: it is missing, or breaks off.
    """
    import mindspore as ms

    if not Path(path).is_file():
        raise UnreadableInput(f"nothing to resume from: there is no {path}; set model.resume to a checkpoint")
    try:
        content = ms.load_checkpoint(path)
    except (ValueError, TypeError, OSError) as error:
        raise UnreadableInput(
            f"{path} is no whole checkpoint; name another one in model.resume, or train on from weights "
            f"with model.pretrained"
        ) from error
    if "epoch_num" not in content:
        raise UnreadableInput(
            f"{path} holds weights only, without the state of the training; name it in model.pretrained, "
            f"or resume from {RESUME_NAME}"
        )
    return dict(content)


def check_fit(path: str, content: Mapping[str, Any], network: Any, optimizer: Any, epochs: Any) -> None:
    """See that a checkpoint belongs to this training, and leaves something of it to do.

    Args:
        path, content: the checkpoint, as `check_resume` gave it.
        network, optimizer: what takes its parameters.
        epochs: of this training, or None where it is not known.

    Raises:
        UnreadableInput: its schedule has another number of steps, its model has other parameters, or its
            training is over.
    """
    anew = "go on with that training's settings, or begin a new one from its weights with model.pretrained"
    for parameter in [*optimizer.get_parameters(), *network.get_parameters()]:
        old = content.get(parameter.name)
        if old is None or tuple(old.shape) == tuple(parameter.shape):
            continue
        if parameter.name.startswith("learning_rate"):
            raise UnreadableInput(
                f"{path} is of a training of {old.shape[0]} steps, and this one has {parameter.shape[0]} "
                f"({epochs} epochs), which makes another schedule; {anew}"
            )
        raise UnreadableInput(
            f"{path} is of another model: {parameter.name} has the shape {tuple(old.shape)} there and "
            f"{tuple(parameter.shape)} here; {anew}"
        )
    done = int(content["epoch_num"].asnumpy())
    if isinstance(epochs, int) and done >= epochs:
        raise UnreadableInput(
            f"{path}: this training is over, {done} of {epochs} epochs are done; begin a new one from its "
            "weights with model.pretrained"
        )
