"""Data paths of a config: whether they exist, and separators that only Windows knows."""

from __future__ import annotations

import os
import re
from pathlib import Path

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.names import mindocr, paddledet
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node

__all__ = ["check", "resolve"]

MISSING = rule(
    "config-path-missing",
    "error",
    "correctness",
    "a data path does not exist here",
    why="PaddleDetection tries to download a data set of that name, MindOCR stops with 'does not existed'. "
    "Relative paths count from the folder in which the trainer is started.",
    fix="Correct the path, or run the check where the data lies.",
    source="mindspore-lab/mindocr/issues/139",
    room="yaml",
    weight=1,
)
SEPARATOR = rule(
    "config-path-separator",
    "warning",
    "correctness",
    "a path is written with back-slashes",
    why="Off Windows a back-slash is a letter of the name; the folder is not found, and PaddleDetection "
    "tries to "
    "download a data set of that name.",
    fix="Write forward slashes; they work on Windows too.",
    source="PaddlePaddle/PaddleDetection/issues/4267",
    room="yaml",
)


def resolve(config: Config, *parts: str) -> tuple[Path, bool]:
    """The first existing reading of a data path, or the most likely one, and whether it exists.

    Relative paths are tried from the current folder, the host's checkout around the config, and the config's
    own folder.
    """
    joined = Path(*[part.replace("\\", "/") for part in parts if part])
    if joined.is_absolute():
        return joined, _exists(joined)
    starts = [Path.cwd(), *config.folders]
    if config.path is not None:
        folder = config.path.resolve().parent
        starts += [p for p in folder.parents if (p / "tools" / "train.py").is_file()] + [folder]
    tries = [start / joined for start in starts]
    for place in tries:
        if _exists(place):
            return place, True
    return tries[0], False


def _exists(path: Path) -> bool:
    try:
        return os.path.exists(path)
    except (OSError, ValueError):
        return False


def check(config: Config) -> None:
    """Report missing data paths and back-slashes."""
    if config.host == "paddledet":
        for section in ("TrainDataset", "EvalDataset", "TestDataset", "UnsupTrainDataset"):
            _paddledet(config, section)
    elif config.host == "mindocr":
        for section in ("train.dataset", "eval.dataset"):
            _mindocr(config, section)


def _text(config: Config, path: str) -> str:
    value = config.get(path)
    return value if isinstance(value, str) else ""


def _separators(config: Config, path: str) -> None:
    value = _text(config, path)
    if "\\" in value:
        better = value.replace("\\", "/")
        config.report(SEPARATOR, path, f"{path}: `{value}` holds back-slashes", f"Write {better}.")


def _stock(host: str, root: str) -> bool:
    """Whether this is the folder that the host's own configs name: it is filled, or downloaded, later."""
    table = paddledet() if host == "paddledet" else mindocr()
    placeholder = re.match(r"/?(?:dir|path)/to(/|$)", root)
    return bool(placeholder) or root.rstrip("/") in table["stock_roots"]


def _paddledet(config: Config, section: str) -> None:
    for key in ("dataset_dir", "anno_path", "image_dir"):
        _separators(config, f"{section}.{key}")
    root = _text(config, f"{section}.dataset_dir")
    anno = _text(config, f"{section}.anno_path")
    if not anno or section == "TestDataset":  # inference takes its pictures from the command line
        return
    path, exists = resolve(config, root, anno)
    if exists:
        return
    if _stock(config.host, root):
        why = f"{path} is not there; the trainer downloads the data set of that name where it knows one"
        config.report(MISSING, f"{section}.dataset_dir", why, severity="hint")
    else:
        config.report(MISSING, f"{section}.anno_path", f"the annotation file {path} does not exist")


def _mindocr(config: Config, section: str) -> None:
    root = _text(config, f"{section}.dataset_root")
    for key in ("dataset_root", "data_dir", "label_file"):
        _separators(config, f"{section}.{key}")
    if root:
        path, exists = resolve(config, root)
        if not exists:
            kind = "absolute path" if Path(root).is_absolute() else "folder"
            stock = _stock(config.host, root)
            message = f"the {kind} {path} does not exist" + (
                " (it is the stock config's own)" if stock else ""
            )
            if section == "train.dataset" or root != config.get("train.dataset.dataset_root"):
                config.report(MISSING, f"{section}.dataset_root", message, severity="hint" if stock else "")
            return
    for key in ("data_dir", "label_file"):
        node = config.node(f"{section}.{key}")
        for item in _strings(node):
            path, exists = resolve(config, root, str(item.value))
            if not exists:
                severity = "hint" if _stock(config.host, str(item.value)) else ""
                config.report(MISSING, item, f"{section}.{key}: {path} does not exist", severity=severity)
            elif path.is_dir() and not any(path.iterdir()):
                config.report(MISSING, item, f"{section}.{key}: the folder {path} is empty")


def _strings(node: Node | None) -> list[Node]:
    if node is None:
        return []
    nodes = node.items if node.kind == "list" else [node]
    return [item for item in nodes if isinstance(item.value, str) and item.value]
