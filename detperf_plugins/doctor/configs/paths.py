"""Data paths of a config: whether they and the annotated pictures exist, and Windows' separators."""

from __future__ import annotations

import os
import re
from pathlib import Path

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.names import mindocr, paddledet
from detperf_plugins.doctor.reading import read_text
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node
from detperf_plugins.errors import DetperfError

__all__ = ["LARGEST_JSON", "check", "picture_folders", "resolve"]

MISSING = rule(
    "config-path-missing",
    "error",
    "correctness",
    "a data path does not exist here",
    why="PaddleDetection stops with 'is not valid for reason above' (where it knows a data set of that name "
    "it downloads it), MindOCR with 'does not existed'. Relative paths count from the folder in which the "
    "trainer is started.",
    fix="Correct the path, or run the check where the data lies.",
    source="mindspore-lab/mindocr/issues/139",
    room="yaml",
    weight=1,
)
PICTURES = rule(
    "config-pictures-missing",
    "error",
    "correctness",
    "pictures that the config's annotation file names are not in its picture folder",
    why="PaddleDetection leaves each of them out with a warning and trains on the rest; where all are "
    "missing it stops with 'not found any coco record'. MindOCR stops with 'does not exist!'.",
    fix="Correct image_dir (MindOCR: data_dir), or the names in the annotations, which count from it, or "
    "copy the pictures there.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/data/source/coco.py",
    room="yaml",
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


_DATASETS = ("TrainDataset", "EvalDataset", "TestDataset", "UnsupTrainDataset")
_MINDOCR = ("train.dataset", "eval.dataset")
LARGEST_JSON = 64 * 2**20  # a larger json is left to `detperf lint FILE.json`


def resolve(config: Config, *parts: str) -> tuple[Path, bool]:
    """The first existing reading of a data path, or the most likely one, and whether it exists.

    Relative paths are tried from the current folder, the host's checkout around the config, and the config's
    own folder.
    """
    joined = Path(*[part.replace("\\", "/") for part in parts if part])
    if joined.is_absolute():
        return joined, _exists(joined)
    tries = [start / joined for start in _starts(config)]
    for place in tries:
        if _exists(place):
            return place, True
    return tries[0], False


def _starts(config: Config) -> list[Path]:
    """The folders from which a relative data path may count."""
    starts = [Path.cwd(), *config.folders]
    if config.path is not None:
        folder = config.path.resolve().parent
        starts += [p for p in folder.parents if (p / "tools" / "train.py").is_file()] + [folder]
    return starts


def _exists(path: Path) -> bool:
    try:
        return os.path.exists(path)
    except (OSError, ValueError):
        return False


def check(config: Config) -> None:
    """Report missing data paths and back-slashes."""
    if config.host == "paddledet":
        for section in _DATASETS:
            _paddledet(config, section)
    elif config.host == "mindocr":
        for section in _MINDOCR:
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
    stock = _stock(config.host, root)
    if section == "TestDataset":  # inference takes its pictures from the command line
        pictures = _text(config, f"{section}.image_dir")
        if pictures and not stock and not resolve(config, pictures)[1]:
            _picture_folder(config, section, "hint")
        return
    if anno:
        path, exists = resolve(config, root, anno)
        if exists:
            folder = _picture_folder(config, section)
            if folder is not None:
                _pictures(config, section, path, folder)
            return
        if stock:
            why = f"{path} is not there; the trainer downloads the data set of that name where it knows one"
            config.report(MISSING, f"{section}.dataset_dir", why, severity="hint")
            return
        config.report(MISSING, f"{section}.anno_path", f"the annotation file {path} does not exist")
    if not root or resolve(config, root)[1]:
        _picture_folder(config, section, "hint" if stock else "")
    elif not anno:
        message = f"the folder {resolve(config, root)[0]} does not exist"
        config.report(MISSING, f"{section}.dataset_dir", message, severity="hint")


def _picture_folder(config: Config, section: str, severity: str = "") -> Path | None:
    """The folder from which the pictures of a data set count; None, and a finding, where it is not there.

    PaddleDetection reads annotations and pictures from one `dataset_dir`: the one that has the annotations.
    """
    root, anno, pictures = (
        _text(config, f"{section}.{k}") for k in ("dataset_dir", "anno_path", "image_dir")
    )
    if pictures == "" and config.get(f"{section}.image_dir"):  # a list of folders
        return None
    root, anno, pictures = (part.replace("\\", "/") for part in (root, anno, pictures))
    folder, exists = resolve(config, root, pictures or ".")
    if anno and not Path(anno).is_absolute():
        start = next((start for start in _starts(config) if _exists(start / root / anno)), None)
        if start is not None:
            folder = start / root / pictures
            exists = _exists(folder)
    if exists:
        return folder
    message = f"{section}.image_dir: the folder {folder} does not exist"
    config.report(MISSING, f"{section}.image_dir", message, severity=severity)
    return None


def _pictures(config: Config, section: str, annotations: Path, folder: Path) -> None:
    """Report the pictures that a COCO file names and the folder does not have."""
    from detperf_plugins.doctor.coco.reader import open_coco

    try:
        if annotations.suffix != ".json" or annotations.stat().st_size > LARGEST_JSON:
            return
        with open_coco(annotations) as data:
            rows = [row.get("file_name") for row in data.images if isinstance(row, dict)]
    except (DetperfError, OSError, ValueError):
        return
    names = [name for name in rows if isinstance(name, str)]
    _report_missing(config, f"{section}.image_dir", annotations, names, folder)


def _label_pictures(config: Config, at: Node, labels: Path, folder: Path) -> None:
    """Report the pictures that a label file names and the folder does not have."""
    try:
        if not labels.is_file() or labels.stat().st_size > LARGEST_JSON:
            return
        lines = read_text(labels).text.splitlines()
    except (DetperfError, OSError):
        return
    names = [line.split("\t", 1)[0].strip() for line in lines if "\t" in line]
    _report_missing(config, at, labels, names, folder)


def _report_missing(config: Config, at: str | Node, source: Path, names: list[str], folder: Path) -> None:
    from detperf_plugins.doctor.coco.pictures import missing_pictures

    try:
        missing = missing_pictures(names, folder)
    except (OSError, ValueError):
        return
    if missing:
        message = (
            f"{len(missing)} of the {len(names)} pictures that {source} names are not in {folder}: "
            f"{names[missing[0]]}" + (", ..." if len(missing) > 1 else "")
        )
        config.report(PICTURES, at, message)


def picture_folders(config: Config) -> dict[Path, Path]:
    """For each annotation or label file that a config names and that exists, the folder of its pictures."""
    found: dict[Path, Path] = {}
    if config.host == "paddledet":
        pairs = [(f"{s}.dataset_dir", f"{s}.anno_path", f"{s}.image_dir") for s in _DATASETS]
    elif config.host == "mindocr":
        pairs = [(f"{s}.dataset_root", f"{s}.label_file", f"{s}.data_dir") for s in _MINDOCR]
    else:
        return found
    for keys in pairs:
        root, file, pictures = (_text(config, key).replace("\\", "/") for key in keys)
        if not file or not (pictures or not config.get(keys[2])):
            continue
        for start in _starts(config):
            path, folder = start / root / file, start / root / pictures
            if _exists(path) and _exists(folder):
                found.setdefault(path.resolve(), folder)
                break
    return found


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
    folders, files = (_strings(config.node(f"{section}.{key}")) for key in ("data_dir", "label_file"))
    for folder, file in zip(folders, files) if len(folders) == len(files) else ():
        (pictures, there), (labels, _) = (resolve(config, root, str(n.value)) for n in (folder, file))
        if there and pictures.is_dir() and any(pictures.iterdir()):
            _label_pictures(config, folder, labels, pictures)


def _strings(node: Node | None) -> list[Node]:
    if node is None:
        return []
    nodes = node.items if node.kind == "list" else [node]
    return [item for item in nodes if isinstance(item.value, str) and item.value]
