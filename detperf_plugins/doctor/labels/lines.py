"""One line of a label file taken apart: picture, boxes, and what is wrong with its form."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Box", "Line", "is_icdar", "is_label_text", "parse_icdar", "parse_line"]

IGNORED = ("###", "*")
_SPACES = re.compile(r"^(?P<picture>\S.*?\S?)\s+(?P<label>\[.*)$")
_ICDAR = re.compile(r"^\ufeff?\s*-?\d+(?:\.\d+)?(?:\s*,\s*-?\d+(?:\.\d+)?){7}\s*(?:,|$)")


@dataclass
class Box:
    """A text: its points, its transcription, and whether the loss ignores it."""

    points: list[tuple[float, float]]
    text: str
    ignored: bool


@dataclass
class Line:
    """A record.

    Attributes:
        number: 1-based line.
        picture: its path as written.
        boxes: those that can be used, with their position in the list.
        faults: (rule, box position or -1, words).
        raw: the decoded label (None where it is no JSON).
    """

    number: int
    picture: str = ""
    boxes: list[tuple[int, Box]] = field(default_factory=list)
    faults: list[tuple[str, int, str]] = field(default_factory=list)
    raw: Any = None
    split: str = ""


def is_label_text(text: str) -> bool:
    """Whether some of the first lines look like `picture<blank>[...]`, or the picture's label is empty."""
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    hits = sum(
        bool(re.match(r"^[^\t]{1,500}\t\s*(\[|\{|$)", line) or re.match(r"^\S.{0,500}?\s+\[\s*(\{|\])", line))
        for line in lines
    )
    return bool(lines) and hits >= max(1, len(lines) // 4)


def is_icdar(text: str) -> bool:
    """Whether most of the first lines are `x1,y1,...,x4,y4[,text]`."""
    lines = [line for line in text.split("\n")[:50] if line.strip()]
    return bool(lines) and 2 * sum(bool(_ICDAR.match(line)) for line in lines) > len(lines)


def parse_icdar(line: str) -> bool:
    """Whether a line holds 8 whole numbers."""
    parts = line.lstrip("\ufeff").split(",")
    return len(parts) >= 8 and all(re.fullmatch(r"\s*-?\d+\s*", part) for part in parts[:8])


def parse_line(text: str, number: int) -> Line:
    """A record of any text; it never fails."""
    line = Line(number)
    body = text.strip("\r\n")
    if not body.strip():
        line.faults.append(("blank-line", -1, ""))
        return line
    if "\t" in body.strip() or re.match(r"^[^\t]+\t\s*$", body):
        picture, label = body.strip(" ").split("\t", 1)
        if "\t" in label.strip():
            line.faults.append(("extra-tab", -1, f"{label.strip().count(chr(9)) + 1} tabs"))
    else:
        match = _SPACES.match(body)
        if match is None:
            what = (
                "the line holds a picture alone"
                if re.search(r"\.(jpe?g|png|bmp|tiff?|webp|gif)\s*$", body, re.I)
                else ""
            )
            line.faults.append(
                ("empty" if what else "no-tab", -1, what or f"`{body[:50]}` has no tab and no label")
            )
            line.picture = body.strip()
            return line
        picture, label = match["picture"], match["label"]
        line.faults.append(
            ("no-tab", -1, f"split it after `{picture[-60:]}` (column {match.end('picture')})")
        )
        line.split = f"{picture}\t{label}"
    line.picture = picture.strip()
    if not label.strip():
        line.faults.append(("empty", -1, line.picture))
        return line
    _label(line, label.strip())
    return line


def _label(line: Line, label: str) -> None:
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(label)
    except (ValueError, RecursionError) as error:
        column = getattr(error, "pos", 0) + 1
        quotes = " (single quotes are no JSON)" if label.startswith("[{'") else ""
        line.faults.append(
            (
                "bad-json",
                -1,
                f"{getattr(error, 'msg', 'nested too deeply')} at character {column} of the label{quotes}",
            )
        )
        return
    rest = label[end:].strip()
    if rest:
        second = re.match(r"^(\S+?)\s*\t", rest) or re.match(r"^(\S+?\.\w{2,5})(?=\s|\[|$)", rest)
        if second:
            line.faults = [fault for fault in line.faults if fault[0] != "extra-tab"]
            line.faults.append(("glued-records", -1, f"the second picture is {second.group(1)[:100]}"))
            line.split = rest
        else:
            line.faults.append(("bad-json", -1, f"extra text after the list: `{rest[:40]}`"))
    line.raw = value
    if not isinstance(value, list):
        line.faults.append(("bad-json", -1, f"the label is {type(value).__name__}, not a list"))
        return
    for index, item in enumerate(value):
        _box(line, index, item)


def _box(line: Line, index: int, item: Any) -> None:
    if not isinstance(item, dict):
        line.faults.append(("bad-box", index, f"{str(item)[:40]} is no object"))
        return
    missing = [key for key in ("transcription", "points") if key not in item]
    if missing:
        line.faults.append(("bad-box", index, f"no {' and no '.join(missing)}"))
        return
    points = item["points"]
    fit = isinstance(points, list) and all(
        isinstance(p, list) and len(p) == 2 and all(map(_number, p)) for p in points
    )
    if not fit:
        flat = isinstance(points, list) and bool(points) and all(map(_number, points))
        line.faults.append(
            ("bad-box", index, "points is one flat list" if flat else f"points is {str(points)[:60]}")
        )
        return
    if len(points) < 3:
        line.faults.append(("few-points", index, f"{len(points)} point{'s' if len(points) != 1 else ''}"))
        return
    text = item["transcription"]
    if not isinstance(text, str):
        line.faults.append(("bad-box", index, f"transcription is {str(text)[:40]}"))
        return
    line.boxes.append((index, Box([(float(x), float(y)) for x, y in points], text, text in IGNORED)))


def _number(value: Any) -> bool:
    if type(value) not in (int, float):
        return False
    try:
        return math.isfinite(value) and abs(value) < 1e9
    except OverflowError:
        return False
