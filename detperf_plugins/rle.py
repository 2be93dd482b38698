"""COCO run-length encodings checked before pycocotools decodes them, and read as bitmaps.

pycocotools writes as many pixels as the runs say, whatever the image's size: runs that do not add up to
height x width overrun its buffer. So they are counted first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["decode_rle", "rle_fault", "run_lengths"]


def run_lengths(counts: Any) -> list[int]:
    """The runs of an RLE, uncompressed (a list) or in COCO's compressed text form.

    Method: the variable-length code of cocoapi's rleFrString: six bits a character, the sixth says "more
    follows", the fifth bit of the last one is the sign; from the fourth run on, differences to the run two
    before.

    Raises:
        ValueError: the text breaks off inside a run or holds a foreign character.
    """
    if isinstance(counts, (list, tuple, np.ndarray)):
        return [int(count) for count in counts]
    text = counts.encode("ascii") if isinstance(counts, str) else bytes(counts)
    runs: list[int] = []
    value = shift = 0
    for byte in text:
        code = byte - 48
        if not 0 <= code < 64:
            raise ValueError("a character that no compressed RLE has")
        value |= (code & 0x1F) << shift
        shift += 5
        if code & 0x20:
            continue
        if code & 0x10:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("it breaks off inside a run")
    return runs


def rle_fault(rle: Mapping[str, Any], height: int | None = None, width: int | None = None) -> str:
    """What is wrong with an RLE; an empty string where it can be decoded.

    Args:
        rle: {"size": [h, w], "counts": ...}.
        height, width: the image it belongs to, where known.
    """
    size = rle.get("size")
    if not (isinstance(size, (list, tuple, np.ndarray)) and len(size) == 2):
        return "an RLE without its size"
    try:
        h, w = int(size[0]), int(size[1])
        runs = run_lengths(rle["counts"])
    except (TypeError, ValueError, OverflowError, UnicodeError) as error:
        return f"an RLE that cannot be read ({error})"
    if h <= 0 or w <= 0 or min(runs, default=0) < 0 or sum(runs) != h * w:
        return f"an RLE whose runs add up to {sum(runs)} pixels, not {h} x {w}"
    if height is not None and width is not None and (h, w) != (height, width):
        return f"an RLE of {h} x {w} pixels (height x width) for an image of {height} x {width}"
    return ""


def decode_rle(rle: Mapping[str, Any]) -> np.ndarray:
    """uint8 [h, w] bitmap of an RLE that `rle_fault` has found no fault with."""
    h, w = int(rle["size"][0]), int(rle["size"][1])
    runs = np.asarray(run_lengths(rle["counts"]), dtype=np.int64)
    values = np.arange(len(runs), dtype=np.uint8) & 1
    return np.repeat(values, runs).reshape(w, h).T
