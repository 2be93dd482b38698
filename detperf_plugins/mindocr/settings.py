"""Settings of a MindOCR config, checked before anything is imported or built, each fault one sentence.

MindOCR finds most of them too, some after the network was compiled, all of them with a traceback.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.pipeline import Options

__all__ = [
    "check",
    "check_paths",
    "check_weights",
    "other_weights",
    "perf_settings",
    "resume_path",
    "unknown",
]

AUTO = "auto"
AMP_LEVELS = ("O0", "O1", "O2", "O3")
# Keys of `perf` beside the fields of `Options`.
OWN = {"seeding": "sample", "empty_is_background": False, "check_pictures": True, "workers": AUTO}
CHOICES = {"seeding": ("sample", "stock"), "workers": (AUTO, "threads", "processes")}
# What msrun, a rank table or mpirun leave in the environment of the processes that they start.
LAUNCHED = ("MS_WORKER_NUM", "MS_ROLE", "RANK_TABLE_FILE", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
RESUME_NAME = "train_resume.ckpt"


def check(config: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> None:
    """Check what a training or an evaluation takes from a merged config. Absent settings are no fault.

    Raises:
        UnreadableInput: a value that cannot work; the sentence names its key.
    """
    for section in ("train", "eval"):
        data, loader = _part(config, section, "dataset"), _part(config, section, "loader")
        perf_settings(data.get("perf"), f"{section}.dataset.perf")
        if "transform_pipeline" in data:
            steps = data["transform_pipeline"]
            if not isinstance(steps, list) or not steps:
                raise UnreadableInput(
                    f"{section}.dataset.transform_pipeline is {steps!r}: list the transforms, as the "
                    "config that `detperf configs db_r18_icdar15` names does"
                )
        _whole(loader, "batch_size", f"{section}.loader")
        if loader.get("num_workers") != AUTO:
            _whole(loader, "num_workers", f"{section}.loader", "; num_workers: auto chooses")
    _whole(_part(config, "scheduler"), "num_epochs", "scheduler")
    system = _part(config, "system")
    for key in ("amp_level", "amp_level_infer"):
        if system.get(key, AMP_LEVELS[0]) not in AMP_LEVELS:
            raise UnreadableInput(f"system.{key} is {system[key]!r}; there are {', '.join(AMP_LEVELS)}")
    if system.get("distribute") and not any(name in environ for name in LAUNCHED):
        raise UnreadableInput(
            "system.distribute is true, and no launcher has started this process: start it with "
            "msrun --worker_num=N --local_worker_num=N --join=True $(which detperf) train ..., or set "
            "system.distribute=False"
        )


def perf_settings(given: Any, where: str) -> dict[str, Any]:
    """All settings of a `perf` mapping, those that are not given at their defaults.

    Args:
        given: what the config has, or None. `level: off` is a false value in YAML and means "off".
        where: its key, for messages.

    Raises:
        UnreadableInput: it is no mapping, or a key or a value is unknown.
    """
    if given is not None and not isinstance(given, Mapping):
        raise UnreadableInput(f"{where} is {given!r}; write it as {where}.level={given}, its level")
    defaults = {**{field.name: field.default for field in fields(Options)}, **OWN}
    settings = {**defaults, **(given or {})}
    for key in settings:
        if key not in defaults:
            raise UnreadableInput(f"{where} has no key {unknown(key, defaults)}")
    if settings["level"] is False:
        settings["level"] = "off"
    for key, known in CHOICES.items():
        if settings[key] not in known:
            raise UnreadableInput(f"{where}.{key} is {settings[key]!r}; there are {', '.join(known)}")
    try:
        Options(**{key: value for key, value in settings.items() if key not in OWN})
    except UnreadableInput as error:
        raise UnreadableInput(f"{where}: {error}") from error
    return settings


def check_paths(section: str, dataset_config: Mapping[str, Any]) -> None:
    """Check that the pictures and the labels of a data set are there.

    Raises:
        UnreadableInput: a folder or a label file is missing; the sentence names its key.
    """
    root = dataset_config.get("dataset_root") or ""
    for key in ("data_dir", "label_file"):
        value = dataset_config.get(key) or []
        for one in [value] if isinstance(value, (str, os.PathLike)) else value:
            path = os.path.join(root, one)
            if not os.path.exists(path):
                raise UnreadableInput(
                    f"{section}.dataset.{key}: there is no {path} (dataset_root is {str(root)!r}; "
                    f"-o {section}.dataset.dataset_root=DIR sets it)"
                )


def check_weights(config: Mapping[str, Any]) -> None:
    """Raise `UnreadableInput` where an evaluation has no weights to load."""
    path = _part(config, "eval").get("ckpt_load_path")
    if not isinstance(path, str) or not path:
        raise UnreadableInput("eval.ckpt_load_path is not set: it names the checkpoint to evaluate")
    if not path.startswith("http") and not os.path.isfile(path):
        raise UnreadableInput(f"eval.ckpt_load_path: there is no {path}")


def other_weights(config: Mapping[str, Any]) -> str | None:
    """A sentence where the weights to evaluate lie elsewhere than this config's training writes its own."""
    weights, folder = _part(config, "eval").get("ckpt_load_path"), _part(config, "train").get("ckpt_save_dir")
    if not folder or str(weights).startswith("http"):
        return None
    if os.path.realpath(os.path.dirname(str(weights))) == os.path.realpath(str(folder)):
        return None
    return (
        f"eval.ckpt_load_path is {weights}, train.ckpt_save_dir is {folder}: weights of another training? "
        f"-o eval.ckpt_load_path={os.path.join(str(folder), 'best.ckpt')} takes this one's"
    )


def resume_path(given: Any) -> Any:
    """`model.resume` as MindOCR takes it: a folder stands for its resume file, and `.ckpt` may be left out.

    What is no path (True, None) and what leads to no file stay as they are.
    """
    if not isinstance(given, str) or os.path.isfile(given):
        return given
    for path in (Path(given, RESUME_NAME), Path(f"{given}.ckpt")):
        if path.is_file():
            return str(path)
    return given


def unknown(name: Any, known: Iterable[str]) -> str:
    """An unknown name in words: with what it may have meant, else with all that there are."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"{name}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}")


def _part(config: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A section by its path; empty where it is absent."""
    part: Any = config
    for number, key in enumerate(path, start=1):
        part = part.get(key)
        if part is None:
            return {}
        if not isinstance(part, Mapping):
            raise UnreadableInput(f"{'.'.join(path[:number])} is {part!r}; it is a section of settings")
    return part


def _whole(section: Mapping[str, Any], key: str, where: str, hint: str = "") -> None:
    """See that a setting, where it is given, is a whole number from 1 on."""
    value = section.get(key, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        shown = "empty" if value is None else repr(value)
        raise UnreadableInput(f"{where}.{key} is {shown}; it is a whole number from 1 on{hint}")
