"""Read a COCO json of any size: the file is mapped, its annotations stay raw bytes until their turn.

`msgspec.Raw` keeps a view of an annotation instead of Python objects, so memory grows by some 100 bytes an
annotation beside the mapped file. `NaN` and `Infinity`, which Python's json writes and the standard forbids,
are read as the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from detperf_plugins.errors import UnreadableInput

__all__ = ["CocoData", "decode_record", "is_coco", "open_coco"]

_NONFINITE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b')
_RAW_DICT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()


@dataclass
class CocoData:
    """A COCO file.

    Attributes:
        images, categories: their decoded entries (anything, where the file holds nonsense).
        annotations: the raw entries; `decode_record` gives one.
        sections: names of all top-level keys.
        problems: sections that are missing or not lists, in words.
        nonfinite: whether the file holds NaN or Infinity literals.
        others: the raw bytes of the other sections, by name.
    """

    images: list[Any]
    categories: list[Any]
    annotations: list[msgspec.Raw]
    sections: list[str]
    problems: list[str] = field(default_factory=list)
    nonfinite: bool = False
    others: dict[str, msgspec.Raw] = field(default_factory=dict)


def decode_record(raw: msgspec.Raw) -> Any:
    """One annotation as Python data; text where a number is too large for JSON readers."""
    try:
        return _ANY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_coco(head: bytes) -> bool:
    """Whether the first bytes of a json look like an object (COCO or not), in contrast to a list or text."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


@contextmanager
def open_coco(path: Path) -> Iterator[CocoData]:
    """The file's content, valid inside the `with` block.

    Raises:
        UnreadableInput: the file is missing, is no JSON (with line and column), or no object.
    """
    try:
        if path.stat().st_size == 0:
            raise UnreadableInput(f"{path} is empty")
        with path.open("rb") as stream:
            # Never closed by hand: raw records refer to the map, and it goes when the last of them does.
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    start = 3 if mapped[:3] == b"\xef\xbb\xbf" else 0
    yield _read(memoryview(mapped)[start:], path)


def _read(view: memoryview, path: Path) -> CocoData:
    try:
        return _sections(view, path)
    except msgspec.DecodeError as error:
        if not _has_nonfinite(view):
            raise UnreadableInput(_explain(error, view, path)) from error
    except RecursionError as error:
        raise UnreadableInput(f"{path}: nested too deeply to be an annotation file") from error
    mended = _NONFINITE.sub(_quote, bytes(view))
    try:
        data = _sections(memoryview(mended), path)
    except msgspec.DecodeError as error:
        raise UnreadableInput(_explain(error, memoryview(mended), path)) from error
    data.nonfinite = True
    return data


def _quote(match: re.Match[bytes]) -> bytes:
    text = match.group(0)
    return text if text.startswith(b'"') else b'"' + text + b'"'


def _has_nonfinite(view: memoryview) -> bool:
    return re.search(rb"\bNaN\b|\bInfinity\b", view) is not None


def _sections(view: memoryview, path: Path) -> CocoData:
    try:
        top = _RAW_DICT.decode(view)
    except msgspec.ValidationError as error:
        raise UnreadableInput(
            f"{path} is JSON, but no object with images, annotations and categories"
        ) from error
    data = CocoData([], [], [], list(top))
    for name in ("images", "annotations", "categories"):
        if name not in top:
            data.problems.append(f"`{name}` is missing")
            continue
        try:
            rows = _RAW_LIST.decode(top[name])
        except msgspec.ValidationError:
            data.problems.append(f"`{name}` is not a list")
            continue
        if name == "annotations":
            data.annotations = rows
        else:
            setattr(data, name, [decode_record(row) for row in rows])
    data.others = {
        name: raw for name, raw in top.items() if name not in ("images", "annotations", "categories")
    }
    return data


def _explain(error: Exception, view: memoryview, path: Path) -> str:
    """The decoder's complaint with line and column instead of a byte count."""
    match = re.search(r"byte (\d+)", str(error))
    if "truncated" in str(error).lower():
        return (
            f"{path} ends in the middle of the JSON ({len(view)} bytes): it was cut off while written "
            "or copied"
        )
    if match is None:
        return f"{path} is not JSON: {error}"
    offset = int(match.group(1))
    head = bytes(view[:offset])
    line, column = head.count(b"\n") + 1, offset - head.rfind(b"\n")
    problem = str(error).split(":", 1)[-1].split("(byte")[0].strip()
    return f"{path}:{line}:{column} is not JSON: {problem}"
