"""Whether a config's data sets are there, asked before ppdet is: it would download all of COCO, or stop
with a traceback that leaves the reason to a warning above it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput

__all__ = ["require_data"]


def require_data(cfg: Any, config: Path, sections: Sequence[str] = ("TrainDataset",)) -> None:
    """Check folder, annotation file and image folder of each section, as ppdet joins and seeks them.

    Args:
        cfg: the merged config.
        config: its file, for the sentence.
        sections: of TrainDataset, EvalDataset.

    Raises:
        UnreadableInput: one of them is neither where the config says nor in ppdet's cache of data sets.
    """
    for name in sections:
        section = cfg.get(name)
        values = section if isinstance(section, dict) else getattr(section, "__dict__", {})
        root = values.get("dataset_dir") or ""
        if not isinstance(root, str):
            continue
        missing = _missing(Path(root), values)
        if missing and _missing(_cached(root), values):
            raise UnreadableInput(f"no data set: {name} of {config} names {missing}, which does not exist")


def _missing(root: Path, values: Any) -> str:
    """The first path of a section below `root` that is not there, in words; empty where all are."""
    file, images = values.get("anno_path"), values.get("image_dir")
    if isinstance(file, str) and file and not (root / file).is_file():
        return str(root / file)
    if isinstance(images, str) and images and not (root / images).is_dir():
        return f"the image folder {root / images}"
    return ""


def _cached(root: str) -> Path:
    from ppdet.utils.download import DATASET_HOME

    return Path(DATASET_HOME) / Path(root.strip().lower()).name
