"""Errors while a config is read and its data, model and optimizer are built, each in one sentence.

ppdet stops with what its code met, such as "should be a class or name of a class"; here the key is named.
What happens in the training loop is not touched.
"""

from __future__ import annotations

import contextlib
import difflib
import linecache
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["TRACEBACK", "building"]

# Set to 1 in the environment, it lets errors through as they are.
TRACEBACK = "DETPERF_TRACEBACK"


@contextlib.contextmanager
def building(config: Path, cfg: Mapping[str, Any], but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn what goes wrong in the block into one sentence that names the key, where it can be known.

    Args:
        config: the file, for the sentence.
        cfg: ppdet's global config.
        but: errors that the caller knows what to say about.

    Raises:
        UnreadableInput: for any error but those, the ones that are a sentence, and exhausted memory.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (DetperfError, MemoryError, *but)) or "ResourceExhausted" in str(error):
            raise
        if os.environ.get(TRACEBACK, "0") not in ("", "0"):
            raise
        cause = _unknown_name(error, cfg) or _null_part(error) or _download(error, cfg) or _plain(error)
        raise UnreadableInput(
            f"{config} cannot be built: {cause}; `detperf lint {config}` checks its keys, and "
            f"{TRACEBACK}=1 in the environment shows the traceback"
        ) from error


def _unknown_name(error: Exception, cfg: Mapping[str, Any]) -> str:
    """A class that no registry knows: where it is named, and what was meant."""
    text = " ".join(str(part) for part in error.args)
    found = (
        re.search(r"Missing injection config: (\S+)", text)
        or re.search(r"The module (\S+) is not registered", text)
        or re.search(r"module 'ppdet\.data\.transform' has no attribute '(\w+)'", text)
        or re.search(r"module 'paddle\.optimizer[\w.]*' has no attribute '(\w+)'", text)
    )
    if not found:
        return ""
    name = found[1]
    places = ", ".join(_places(cfg, name)) or "a key"
    known = [key for key, value in cfg.items() if hasattr(value, "pymodule")]
    if "has no attribute" in text:
        from ppdet.data import transform

        known = [key for key, value in vars(transform).items() if isinstance(value, type)]
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; is {near[0]} meant?" if near else ""
    return f"{places} names {name}, a class that is not known{meant}"


def _places(values: Any, name: str, path: str = "") -> Iterator[str]:
    """Keys of a config below which `name` stands, as a value or as the key of a list's entry."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            below = f"{path}.{key}" if path else str(key)
            if key == name and path:
                yield path
            yield from _places(value, name, below)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _places(value, name, path)
    elif isinstance(values, str) and values == name:
        yield path


def _null_part(error: Exception) -> str:
    """A part that is null where the class cannot do without: the key stands in the line that asked for it."""
    if "should be a class or name of a class" not in str(error):
        return ""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        line = linecache.getline(frame.f_code.co_filename, number)
        asked = re.search(r"create\(\s*(?:cfg|config)\[['\"](\w+)['\"]\]", line)
        if asked:
            owner = getattr(frame.f_locals.get("cls"), "__name__", "")
            values = frame.f_locals.get("cfg")
            value = values.get(asked[1]) if isinstance(values, Mapping) else None
            shown = "null" if value is None else repr(value)
            return f"{owner}.{asked[1]} is {shown}, where the name of a class is needed"
    return "a part is null where the name of a class is needed"


def _download(error: Exception, cfg: Mapping[str, Any]) -> str:
    """Weights that have to come from the network, and do not."""
    offline = type(error).__module__.startswith(("requests", "urllib3")) or "Download" in str(error)
    weights = cfg.get("pretrain_weights")
    if not offline or not weights:
        return ""
    return (
        f"pretrain_weights names {weights}, which cannot be downloaded ({_last_line(error)[:120]}); put the "
        "file here and train with -o pretrain_weights=PATH, or with -o pretrain_weights= from scratch"
    )


def _plain(error: Exception) -> str:
    return f"{type(error).__name__}: {_last_line(error)}"


def _last_line(error: Exception) -> str:
    """What an error says: Paddle puts a C++ traceback before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error:" in line] or lines or [""]
    return telling[-1][:300]
