"""Scene-text annotations of other tools as MindOCR label lines: MMOCR json, ICDAR txt, Total-Text mat.

A label line is `picture<TAB>[{"transcription": text, "points": [[x, y], ...]}, ...]`; a text that metric and
loss ignore is transcribed "###". MindOCR's own converters (tools/dataset_converters) are not in its wheel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput, UnsupportedHost

__all__ = ["FORMATS", "Converted", "convert", "format_of"]

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".JPG", ".JPEG", ".PNG", ".gif")
IGNORED = "###"

# A picture's name and its words: (corners, transcription).
Record = tuple[str, list[tuple[list[list[float]], str]]]


@dataclass
class Converted:
    """What came out: the file, how many `pictures`, `words` and `ignored` words among them, and sentences
    about records that could not be taken over."""

    path: Path
    pictures: int = 0
    words: int = 0
    ignored: int = 0
    left_out: list[str] = field(default_factory=list)


def format_of(source: Path) -> str:
    """ "mmocr", "icdar" or "totaltext", from what `source` is or holds.

    Raises:
        UnreadableInput: it is none of them.
    """
    if source.is_file() and source.suffix == ".json":
        return "mmocr"
    for kind, pattern in (("totaltext", "*.mat"), ("icdar", "*.txt")):
        if source.suffix == pattern[1:] or (source.is_dir() and any(source.glob(pattern))):
            return kind
    raise UnreadableInput(
        f"{source} is no MMOCR json, no folder of ICDAR gt_*.txt and no folder of Total-Text *.mat; "
        "name the annotations themselves"
    )


def convert(source: Path, out: Path, images: Path | None = None, kind: str | None = None) -> Converted:
    """Write the annotations of `source` to `out` as label lines.

    Args:
        source: an MMOCR textdet json, or a folder of (or one) ICDAR txt or Total-Text mat files.
        out: the label file to write.
        images: the folder from which picture names shall count, and where pictures are looked for. Without
            it names are taken as annotated, or made from the annotation's name with ".jpg".
        kind: "mmocr", "icdar" or "totaltext"; recognised where None.

    Raises:
        UnreadableInput: `source` cannot be read as its format, or nothing in it can be used; or `out` exists
            and holds something else.
        UnsupportedHost: Total-Text needs scipy.
        OSError: `out` cannot be written.
    """
    kind = kind or format_of(source)
    if kind not in FORMATS:
        raise UnreadableInput(f"no format is called {kind!r}; there are {', '.join(FORMATS)}")
    result = Converted(out)
    lines = []
    for name, words in FORMATS[kind](source, images, result.left_out):
        if "\t" in name:
            result.left_out.append(f"{name!r}: a tab in a picture's name ends it; rename the picture")
            continue
        items = [{"transcription": text, "points": points} for points, text in words]
        lines.append(f"{name}\t{json.dumps(items, ensure_ascii=False)}")
        result.pictures += 1
        result.words += len(words)
        result.ignored += sum(text == IGNORED for _, text in words)
    if not lines:
        first = f": {result.left_out[0]}" if result.left_out else ""
        raise UnreadableInput(f"no record of {source} can be used{first}")
    content = ("\n".join(lines) + "\n").encode()
    if out.exists() and (not out.is_file() or out.read_bytes() != content):
        raise UnreadableInput(f"{out} exists and holds something else; delete it or name another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(content)
    return result


def _pairs(flat: Sequence[Any]) -> list[list[float]]:
    """[[x, y], ...] of x, y, x, y, ...; whole numbers stay whole.

    Raises:
        ValueError: not an even number of finite numbers, or fewer than three points.
    """
    numbers = [float(value) for value in flat]
    if (
        len(numbers) < 6
        or len(numbers) % 2
        or any(abs(value) == float("inf") or value != value for value in numbers)
    ):
        raise ValueError(f"{len(numbers)} coordinates make no polygon")
    values = [int(value) if value == int(value) else value for value in numbers]
    return [list(pair) for pair in zip(values[::2], values[1::2])]


def _mmocr(source: Path, images: Path | None, left_out: list[str]) -> Iterator[Record]:
    """MMOCR 1.x textdet json: `data_list`, each with `img_path` and `instances` of `polygon`, `ignore`."""
    try:
        content = json.loads(source.read_text(encoding="utf-8-sig"))
        records = content["data_list"]
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise UnreadableInput(f"{source} is no MMOCR textdet json (no data_list): {error}") from error
    for number, record in enumerate(records):
        where = f"{source}, record {number}"
        if not isinstance(record, dict) or not isinstance(record.get("img_path"), str):
            left_out.append(f"{where}: no img_path")
            continue
        name = record["img_path"]
        if images is not None:
            # MMOCR counts from a data root; any tail of the path may be what `images` holds.
            parts = Path(name).parts
            tails = [Path(*parts[skip:]).as_posix() for skip in range(len(parts))]
            name = next((tail for tail in tails if (images / tail).is_file()), name)
        words = []
        for index, item in enumerate(record.get("instances") or []):
            try:
                points = _pairs(item["polygon"])
            except (KeyError, TypeError, ValueError) as error:
                left_out.append(f"{where}, instance {index}: {error}")
                continue
            words.append((points, IGNORED if item.get("ignore") else str(item.get("text") or "text")))
        yield name, words


def _icdar(source: Path, images: Path | None, left_out: list[str]) -> Iterator[Record]:
    """ICDAR 2015 localisation: gt_<picture>.txt with lines x1,y1,...,x4,y4,text; "###" is ignored."""
    for path in _files(source, "*.txt"):
        name = _picture(re.sub(r"^gt_", "", path.stem), images)
        words = []
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            left_out.append(f"{path}: {error}")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            parts = line.split(",", 8)
            try:
                points = _pairs(parts[:8])
            except ValueError as error:
                left_out.append(f"{path}:{number}: {error}")
                continue
            words.append((points, parts[8].strip() if len(parts) > 8 and parts[8].strip() else "text"))
        yield name, words


def _totaltext(source: Path, images: Path | None, left_out: list[str]) -> Iterator[Record]:
    """Total-Text: poly_gt_img1.mat of img1.jpg, rows of x:, xs, y:, ys, text, orientation; "#" is ignored."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise UnsupportedHost("Total-Text mat files need scipy; pip install scipy") from error
    for path in _files(source, "*.mat"):
        name = _picture(re.sub(r"^poly_gt_|gt_", "", path.stem, count=1), images)
        try:
            content = loadmat(path)
            rows = next(content[key] for key in ("polygt", "gt") if key in content)
        except Exception as error:  # MatReadError and whatever a damaged file leads scipy into
            left_out.append(f"{path}: no Total-Text matrix ({error or type(error).__name__})")
            continue
        words = []
        for number, row in enumerate(rows, 1):
            try:
                xs, ys = (row[column].reshape(-1).tolist() for column in (1, 3))
                points = _pairs([value for pair in zip(xs, ys) for value in pair])
                text = str(row[4].reshape(-1)[0]) if row[4].size else "#"
            except (AttributeError, IndexError, TypeError, ValueError) as error:
                left_out.append(f"{path}, row {number}: {error}")
                continue
            words.append((points, IGNORED if text == "#" else text))
        yield name, words


def _files(source: Path, pattern: str) -> list[Path]:
    """The annotation files in the order of the numbers in their names."""
    files = [source] if source.is_file() else list(source.glob(pattern))
    return sorted(
        files,
        key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)],
    )


def _picture(stem: str, images: Path | None) -> str:
    for suffix in PICTURES:
        if images is not None and (images / f"{stem}{suffix}").is_file():
            return f"{stem}{suffix}"
    return f"{stem}.jpg"


FORMATS: dict[str, Callable[[Path, Path | None, list[str]], Iterator[Record]]] = {
    "mmocr": _mmocr,
    "icdar": _icdar,
    "totaltext": _totaltext,
}
