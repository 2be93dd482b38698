"""A baseline config and what is compared with it, as files that a process of its own can load."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detperf_plugins import configs_dir
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure.child import write_file

__all__ = ["config_files", "fingerprint", "is_complete", "over", "require_host", "sample_config", "shown"]

TINY = Path("paddledet") / "tiny" / "mask_rcnn_r18_fpn_shapes.yml"


def sample_config(folder: Path, images: int = 64) -> Path:
    """The demo's tiny Mask R-CNN on generated shapes: what is measured where no config is given.

    Raises:
        UnreadableInput: `folder` cannot be written.
    """
    from detperf_plugins.samples.coco_shapes import write_coco_shapes

    folder = folder.resolve()
    try:
        annotations = write_coco_shapes(folder / "shapes", images=images, size=128, seed=0)
    except OSError as error:
        raise UnreadableInput(f"cannot write {folder}: {error.strerror or error}") from error
    data = {"dataset_dir": str(annotations.parent)}
    sections = {"_BASE_": [str(configs_dir() / TINY)], "TrainDataset": data, "EvalDataset": data}
    return write_file(folder / "mask_rcnn_r18_fpn_shapes.yml", _yaml(sections))


def over(baseline: Path, overlay: Path, folder: Path) -> Path:
    """A config below `folder` that has `overlay` as the last entry of its `_BASE_`."""
    bases = [str(path.resolve()) for path in (baseline, overlay)]
    return write_file(folder / f"{baseline.stem}+{overlay.stem}.yml", _yaml({"_BASE_": bases}))


def shown(path: Path) -> str:
    """A path for a result file: relative where it lies below the working folder, so that no home is named."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _yaml(sections: dict[str, Any]) -> str:
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items())


def config_files(path: Path, _above: tuple[Path, ...] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """A config and the files of its `_BASE_` chain, each with its top level as plain text values.

    Raises:
        UnreadableInput: a file is missing, is no YAML mapping, or includes itself.
    """
    import yaml

    path = Path(os.path.expanduser(path)).absolute()
    if path.resolve() in [one.resolve() for one in _above]:
        raise UnreadableInput(f"{path} includes itself through _BASE_")
    try:
        # BaseLoader constructs no tag, and so runs nothing that the file names.
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except FileNotFoundError as error:
        named = f", which {_above[-1]} names in _BASE_" if _above else ""
        raise UnreadableInput(f"no config file {path}{named}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableInput(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UnreadableInput(f"{path} holds no YAML mapping")
    bases = content.get("_BASE_") or []
    found = [(path, content)]
    for base in [bases] if isinstance(bases, str) else bases:
        found += config_files(path.parent / os.path.expanduser(base), (*_above, path))
    return found


def require_host(path: Path, host: str = "paddledet") -> Path:
    """The path, where neither it nor a file of its `_BASE_` chain is shipped for the other host.

    Raises:
        UnreadableInput: one is, so that it would change nothing here; or see `config_files`.
    """
    root = configs_dir().resolve()
    titles = {"paddledet": "PaddleDetection", "mindocr": "MindOCR"}
    for file in [file.resolve() for file, _ in config_files(path)]:
        if root in file.parents and file.relative_to(root).parts[0] != host:
            name = file.relative_to(root).as_posix()
            other = titles[name.split("/")[0]]
            raise UnreadableInput(
                f"{name} is a config for {other}, and nothing of {titles[host]} reads it; `detperf configs` "
                f"lists those for {titles[host]} below {host}/"
            )
    return path


def is_complete(path: Path) -> bool:
    """Whether a config can be trained by itself; an overlay names no `architecture`."""
    return any("architecture" in content for _, content in config_files(path))


def fingerprint(path: Path, settings: Sequence[Any]) -> str:
    """Changes with any file of the config's chain and with `settings`."""
    digest = hashlib.sha256(json.dumps(list(settings), sort_keys=True, default=str).encode())
    for file, _ in config_files(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
