"""MindOCR's YAML with what PaddleDetection's has: `_BASE_` lists, and `-o` with new keys.

MindOCR itself reads one file and lets `-o` change only keys that exist. Here a config is merged as
PaddleDetection merges it (`_load_config_with_base` and `dict_merge` of ppdet/core/workspace.py), so that an
overlay works the same way on either side: later entries of `_BASE_` win over earlier ones and the file
itself over all of them; mappings merge key by key, anything else, lists above all, replaces what was there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.overrides import parse_overrides

__all__ = ["BASE_KEY", "MINDOCR", "PADDLEDET", "host_of", "is_mindocr_config", "load", "merge", "read"]

BASE_KEY = "_BASE_"
DEEPEST = 50
MINDOCR, PADDLEDET = "mindocr", "paddledet"
NO_MAPPING = "holds no settings: a config is a mapping of sections"
# What the plugins' entry in a PaddleDetection config, and that host's own tags (!PiecewiseDecay), look like.
PADDLEDET_TAGS = ("detperf_plugins.paddledet", "the tag '!")


def is_mindocr_config(config: Any) -> bool:
    """Whether a merged config is one of MindOCR (PaddleDetection's have `architecture` instead)."""
    return isinstance(config, dict) and "architecture" not in config and {"model", "train"} <= config.keys()


def host_of(path: Path) -> str:
    """The host that a config is for, told by the sections of the file and its `_BASE_` chain. No value is
    constructed, so that PaddleDetection's tags do no harm.

    Returns:
        `MINDOCR` or `PADDLEDET`.

    Raises:
        UnreadableInput: a file is missing, no YAML, no mapping, or includes itself; or none has the sections
            of either host.
    """
    sections = _sections(path)
    if "architecture" in sections:
        return PADDLEDET
    if {"model", "train"} <= sections:
        return MINDOCR
    raise UnreadableInput(
        f"{path}, its {BASE_KEY} counted, has neither MindOCR's sections `model` and `train` nor "
        f"PaddleDetection's `architecture`: put a complete config first into {BASE_KEY}"
    )


def _sections(path: Path, parents: tuple[Path, ...] = ()) -> set[str]:
    """The names of the sections of a file and of its `_BASE_` chain."""
    import yaml

    real = _check_chain(path, parents)
    root = _parsed(path, parents, lambda text: yaml.compose(text, Loader=yaml.SafeLoader))
    if not isinstance(root, yaml.MappingNode):
        raise UnreadableInput(f"{path} {NO_MAPPING}")
    entries = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    bases = entries.pop(BASE_KEY, None)
    nodes = bases.value if isinstance(bases, yaml.SequenceNode) else [bases]
    sections = set(entries)
    for node in nodes:
        if isinstance(node, yaml.ScalarNode) and node.value:
            sections |= _sections(path.parent / os.path.expanduser(node.value), (*parents, real))
    return sections


def _check_chain(path: Path, parents: tuple[Path, ...]) -> Path:
    """The real path of a file, unless the `_BASE_` chain `parents` has led to it before."""
    real = path.resolve()
    if real in parents or len(parents) > DEEPEST:
        raise UnreadableInput(
            f"{parents[-1]}: {BASE_KEY} leads back to {path}; remove one of the two entries"
        )
    return real


def _parsed(path: Path, parents: tuple[Path, ...], parse: Callable[[str], Any]) -> Any:
    """What `parse` makes of a file's text; each fault is one sentence."""
    import yaml

    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        where = f"{BASE_KEY} of {parents[-1]} names" if parents else "there is no config file"
        raise UnreadableInput(f"{where} {path}" + (", which does not exist" if parents else "")) from error
    except yaml.constructor.ConstructorError as error:
        if any(word in str(error) for word in PADDLEDET_TAGS):
            kind = "an overlay" if parents else "a config"
            raise UnreadableInput(
                f"{path} is {kind} for PaddleDetection, not for MindOCR; `detperf configs` lists MindOCR's "
                "below mindocr/"
            ) from error
        raise UnreadableInput(_no_yaml(path, error)) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableInput(_no_yaml(path, error)) from error


def _no_yaml(path: Path, error: Exception) -> str:
    return f"{path} cannot be read as YAML: {' '.join(str(error).split())}"


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
        UnreadableInput: a file is missing, no YAML, no mapping, includes itself, or is PaddleDetection's.
    """
    import yaml

    real = _check_chain(path, _parents)
    content = _parsed(path, _parents, yaml.safe_load)
    if not isinstance(content, dict):
        raise UnreadableInput(f"{path} {NO_MAPPING}")
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
