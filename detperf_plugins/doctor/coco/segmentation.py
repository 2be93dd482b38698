"""What an annotation's segmentation is: nothing, polygons (good and bad parts), point pairs, or RLE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Shape", "classify", "finite", "rle_problem"]

_NUMBERS = frozenset({int, float})


@dataclass
class Shape:
    """A segmentation taken apart.

    Attributes:
        kind: "none", "polygon", "pairs" or "rle".
        parts: flat coordinate lists fit to be drawn (three or more points, all finite).
        faults: (what, part index) with what in "short", "odd", "bad"; part -1 is the whole value.
    """

    kind: str
    parts: list[list[float]] = field(default_factory=list)
    faults: list[tuple[str, int]] = field(default_factory=list)


def finite(value: Any) -> bool:
    """Whether a JSON value is a real, finite number."""
    return type(value) in _NUMBERS and abs(value) < 1e300


def _flat(part: list[Any]) -> bool:
    return set(map(type, part)) <= _NUMBERS


def classify(value: Any) -> Shape:
    """Take a segmentation apart, whatever it is."""
    if isinstance(value, dict):
        return Shape("rle")
    if not isinstance(value, list):
        empty = value is None or value == ""
        return Shape("none") if empty else Shape("none", faults=[("bad", -1)])
    if not value or not any(value):
        return Shape("none") if all(part == [] for part in value) else Shape("none", faults=[("bad", -1)])
    if len(value) > 2 and all(isinstance(part, list) and len(part) == 2 and _flat(part) for part in value):
        flat = [v for point in value for v in point]
        return Shape("pairs", [flat]) if all(map(finite, flat)) else Shape("none", faults=[("bad", -1)])
    if all(type(v) in _NUMBERS for v in value):  # one part without the outer list
        if len(value) < 6 or not all(map(finite, value)):
            return Shape("none", faults=[("short" if len(value) < 6 else "bad", -1)])
        return Shape("pairs", [value])
    shape = Shape("polygon")
    for index, part in enumerate(value):
        if type(part) is list and part and set(map(type, part)) <= _NUMBERS:
            if len(part) < 6:
                shape.faults.append(("odd" if len(part) % 2 else "short", index))
            elif len(part) % 2:
                shape.faults.append(("odd", index))
            elif not all(map(finite, part)):
                shape.faults.append(("bad", index))
            else:
                shape.parts.append(part)
        elif part == []:
            shape.faults.append(("short", index))
        elif (
            isinstance(part, list)
            and len(part) > 2
            and all(isinstance(p, list) and len(p) == 2 and _flat(p) for p in part)
        ):
            shape.kind = "pairs"
            flat = [v for point in part for v in point]
            if all(map(finite, flat)):
                shape.parts.append(flat)
            else:
                shape.faults.append(("bad", index))
        else:
            shape.faults.append(("bad", index))
    return shape


def rle_problem(value: dict[str, Any], height: float, width: float) -> tuple[str, str] | None:
    """(rule, words) for an RLE that does not fit its picture or itself, or None."""
    size, counts = value.get("size"), value.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and all(type(v) is int and v >= 0 for v in size)):
        return "coco-rle-size", f"size is {size!r}"
    if width > 0 and height > 0 and size != [height, width]:
        swapped = " (width and height are exchanged)" if size == [width, height] else ""
        return "coco-rle-size", f"size is {size}, the picture is [{height:g}, {width:g}]{swapped}"
    if isinstance(counts, list):
        if not all(type(v) is int and v >= 0 for v in counts):
            return "coco-rle-counts", "counts holds something else than run lengths"
        total = sum(counts)
    elif isinstance(counts, str):
        decoded = _compressed(counts)
        if decoded is None:
            return "coco-rle-counts", "counts is no compressed RLE"
        total = sum(decoded)
    else:
        return "coco-rle-counts", f"counts is {type(counts).__name__}"
    if total != size[0] * size[1]:
        return "coco-rle-counts", f"counts add up to {total}, size {size} to {size[0] * size[1]}"
    return None


def _compressed(text: str) -> list[int] | None:
    """Run lengths of COCO's compressed RLE: 5 bits a character, sign-extended, from the fourth on as
    differences to the run before last (format: common/maskApi.c of cocoapi)."""
    runs: list[int] = []
    value = shift = 0
    for char in text:
        code = ord(char) - 48
        if not 0 <= code < 64:
            return None
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        if code & 16:
            value -= 1 << shift
        if len(runs) > 2:
            value += runs[-2]
        if value < 0:
            return None
        runs.append(value)
        value = shift = 0
    return None if shift else runs
