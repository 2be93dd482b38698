"""MindOCR's YAML with what PaddleDetection's has: `_BASE_` lists, and `-o` with new keys.

MindOCR itself reads one file and lets `-o` change only keys that exist. Here a config is merged as
PaddleDetection merges it (`_load_config_with_base` and `dict_merge` of ppdet/core/workspace.py), so that an
overlay works the same way on either side: later entries of `_BASE_` win over earlier ones and the file
itself over all of them; mappings merge key by key, anything else, lists above all, replaces what was there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.overrides import parse_overrides

__all__ = ["BASE_KEY", "is_mindocr_config", "is_mindocr_file", "load", "merge", "read"]

BASE_KEY = "_BASE_"
DEEPEST = 50


def is_mindocr_config(config: Any) -> bool:
    """Whether a merged config is one of MindOCR (PaddleDetection's have `architecture` instead)."""
    return isinstance(config, dict) and "architecture" not in config and {"model", "train"} <= config.keys()


def is_mindocr_file(path: Path, _depth: int = 0) -> bool:
    """Whether a file, or one of its `_BASE_` chain, has MindOCR's sections. No value is constructed, so that
    PaddleDetection's tags do no harm; a file that cannot be read is none."""
    import yaml

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    if not isinstance(root, yaml.MappingNode):
        return False
    entries = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    if "architecture" in entries:
        return False
    if {"model", "train"} <= entries.keys():
        return True
    bases = entries.get(BASE_KEY)
    nodes = bases.value if isinstance(bases, yaml.SequenceNode) else [bases] if bases is not None else []
    return _depth < DEEPEST and any(
        is_mindocr_file(path.parent / os.path.expanduser(node.value), _depth + 1)
        for node in nodes
        if isinstance(node, yaml.ScalarNode)
    )


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` merged over `below`; neither is changed, and the result shares no mapping with them."""
    made = {key: merge({}, value) if isinstance(value, Mapping) else value for key, value in below.items()}
    for key, value in above.items():
        old = made.get(key)
        if isinstance(value, Mapping):
            made[key] = merge(old if isinstance(old, Mapping) else {}, value)
        else:
            made[key] = value
    return made


def read(path: Path, _parents: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A config file merged over its `_BASE_` chain.

    Args:
        path: the file; `_BASE_` entries count from its folder, `~` is the home folder.

    Returns:
        The merged mapping, without `_BASE_`.

    Raises:
        UnreadableInput: a file is missing, no YAML, no mapping, or includes itself.
    """
    import yaml

    real = path.resolve()
    if real in _parents or len(_parents) > DEEPEST:
        raise UnreadableInput(
            f"{_parents[-1]}: {BASE_KEY} leads back to {path}; remove one of the two entries"
        )
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        where = f"{BASE_KEY} of {_parents[-1]} names" if _parents else "there is no config file"
        raise UnreadableInput(f"{where} {path}" + (", which does not exist" if _parents else "")) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableInput(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UnreadableInput(f"{path} holds no settings: a config is a mapping of sections")
    bases = content.pop(BASE_KEY, None) or []
    below: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        if not isinstance(base, str):
            raise UnreadableInput(f"{path}: {BASE_KEY} holds {base!r}, which is no path")
        below = merge(below, read(path.parent / os.path.expanduser(base), (*_parents, real)))
    return merge(below, content)


def load(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """A MindOCR config with its bases, and `-o key.sub=value` words merged over it.

    Raises:
        UnreadableInput: as `read` and `parse_overrides`; or the config is none of MindOCR.
    """
    config = merge(read(path), parse_overrides(overrides))
    if not is_mindocr_config(config):
        raise UnreadableInput(f"{path} has no `model` and `train`: it is no MindOCR config")
    return config
