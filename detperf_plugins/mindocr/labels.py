"""Label files read so that no label is lost in silence: each fault is mended or ignored alone, named once.

A record's label leaves here as JSON that MindOCR's own DetLabelEncode takes. An ignored polygon keeps its
place with the transcription ###, so that it is masked out of the loss; its picture stays.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.labels.lines import parse_line
from detperf_plugins.doctor.labels.pictures import read_header, suggest
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.label_items import clean_items, mend_item

__all__ = ["Fault", "Record", "can_decode", "read_labels"]

_FORM = {
    "no-tab": "no tab between picture and label",
    "extra-tab": "tabs in the label",
    "glued-records": "two records on one line",
    "bad-json": "the label is not a JSON list of boxes",
    "empty": "no label",
}
_DONE = {
    "no-tab": "split there",
    "extra-tab": "taken as blanks",
    "glued-records": "separated",
    "bad-json": "the rest of the line is left out",
}


@dataclass(frozen=True)
class Fault:
    """What is wrong, where, and what was done about it.

    Attributes:
        file, line: line 0 means the file as a whole.
        box: position in the line's list counted from 1, or 0 for the line as a whole.
        what, done: words.
    """

    file: str
    line: int
    box: int
    what: str
    done: str

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        box = f" box {self.box}" if self.box else ""
        return f"{self.file}{line}{box}: {self.what}; {self.done}"


@dataclass(frozen=True)
class Record:
    """A picture and its label (JSON), from line `line` of its file."""

    picture: str
    label: str
    line: int


def read_labels(
    file: str,
    folder: str,
    empty_is_background: bool = False,
    ignore_orientation: bool = False,
    check_pictures: bool = True,
) -> tuple[list[Record], list[Fault]]:
    """The usable records of a label file, in its order.

    Args:
        file: lines of picture, tab, JSON list of {"transcription": text, "points": [[x, y], ...]}; UTF-8 or
            GBK.
        folder: where the pictures lie.
        empty_is_background: a picture without a label has no text (else its record is left out).
        ignore_orientation: pictures are decoded as stored, whatever their EXIF mark says.
        check_pictures: read each picture's header, to find boxes outside it.

    Raises:
        UnreadableInput: the file cannot be read, or no record of it can be used.
    """
    faults: list[Fault] = []
    reader = _Reader(file, folder, empty_is_background, ignore_orientation, check_pictures, faults)
    text = _decode(file, faults)
    records: list[Record] = []
    for number, row in enumerate(io.StringIO(text, newline=None), start=1):
        if row.strip():
            records += reader.records(row.rstrip("\n"), number)
    if not records:
        first = f"; the first fault: {faults[0]}" if faults else ""
        raise UnreadableInput(
            f"{file} has no record that can be used{first}. `detperf lint {file}` names every fault"
        )
    return records, faults


def can_decode(path: Path) -> bool:
    """Whether a file is a picture: a header of a known kind is believed, else the file is decoded."""
    if read_header(path) is not None:
        return True
    import cv2

    return cv2.imread(str(path)) is not None


def _decode(file: str, faults: list[Fault]) -> str:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise UnreadableInput(f"cannot read {file}: {error.strerror or error}") from error
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            faults.append(Fault(file, 0, 0, "is UTF-16", "read as such; convert it to UTF-8"))
            return content.decode(encoding, "replace")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = content.decode("gb18030")
        except UnicodeDecodeError:
            faults.append(Fault(file, 0, 0, "is neither UTF-8 nor GBK", "its unreadable bytes were replaced"))
            return content.decode("utf-8", "replace")
        faults.append(Fault(file, 0, 0, "is not UTF-8 but GBK", "read as such; convert it to UTF-8"))
        return text
    if text.startswith("\ufeff"):
        faults.append(Fault(file, 0, 0, "begins with a byte-order mark", "left out"))
        text = text[1:]
    return text


class _Reader:
    def __init__(
        self,
        file: str,
        folder: str,
        empty_is_background: bool,
        ignore_orientation: bool,
        check_pictures: bool,
        faults: list[Fault],
    ) -> None:
        self._file, self._folder = file, folder
        self._empty_is_background, self._check = empty_is_background, check_pictures
        self._ignore_orientation, self._faults = ignore_orientation, faults

    def records(self, row: str, number: int) -> Iterator[Record]:
        """The records of one line: one, none where it cannot be used, more where some were glued together."""
        picture, tab, label = row.strip().partition("\t")
        items = clean_items(label) if tab else None
        if items is not None:
            yield from self._record(picture, items, label, number)
            return
        line = parse_line(row, number)
        rules = {rule: words for rule, box, words in line.faults if box < 0}
        found = line.raw
        if "empty" in rules and self._empty_is_background:
            self._note(number, 0, "the picture has no label", "taken as a picture without text")
            found = []
        elif not isinstance(found, list):
            what = "; ".join(f"{_FORM.get(rule, rule)} ({words})" for rule, words in rules.items())
            self._note(number, 0, what, "the record is left out: mend the line")
            return
        else:
            for rule, words in rules.items():
                self._note(
                    number, 0, f"{_FORM.get(rule, rule)} ({words})", _DONE.get(rule, "read all the same")
                )
        yield from self._record(line.picture, found, "", number)
        if "glued-records" in rules:
            yield from self.records(line.split, number)

    def _record(self, picture: str, items: list[Any], label: str, number: int) -> Iterator[Record]:
        """One record; `label` is its text where the items are known to be clean, else empty."""
        name = self._find(picture, number)
        if name is None:
            return
        kept = items if label else self._mended(items, number)
        inside = self._inside(kept, name, number) if self._check else kept
        if not label or len(inside) < len(items):
            label = json.dumps(inside, ensure_ascii=False)
        yield Record(name, label, number)

    def _mended(self, items: list[Any], number: int) -> list[dict[str, Any]]:
        kept = []
        for index, item in enumerate(items, start=1):
            mended, notes = mend_item(item)
            for what, done in notes:
                self._note(number, index, what, done)
            if mended is not None:
                kept.append(mended)
        return kept

    def _find(self, picture: str, number: int) -> str | None:
        path = os.path.join(self._folder, picture)
        if picture and os.path.isfile(path):
            return picture
        near = suggest(picture, Path(self._folder)) if picture else ""
        if near:
            self._note(number, 0, f"{path} does not exist", f"read as {near}")
            return near
        self._note(number, 0, f"{path} does not exist", "the record is left out: correct its path")
        return None

    def _inside(self, items: list[dict[str, Any]], picture: str, number: int) -> list[dict[str, Any]]:
        """The items that touch their picture."""
        header = read_header(Path(self._folder, picture)) if items else None
        if header is None:
            return items
        size = header.width, header.height
        turned = header.orientation >= 5
        if turned and not self._ignore_orientation:
            size = size[::-1]
        kept = []
        for index, item in enumerate(items, start=1):
            if _touches(item["points"], size):
                kept.append(item)
                continue
            hint = ""
            if turned and _touches(item["points"], size[::-1]):
                other = str(not self._ignore_orientation)
                hint = f" (EXIF rotation: it fits with DecodeImage's ignore_orientation: {other})"
            what = f"outside {picture}, which has {size[0]} x {size[1]} pixels{hint}"
            self._note(number, index, what, "the box is left out")
        return kept

    def _note(self, line: int, box: int, what: str, done: str) -> None:
        self._faults.append(Fault(self._file, line, box, what, done))


def _touches(points: Sequence[Sequence[float]], size: tuple[int, int]) -> bool:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return max(xs) > 0 and max(ys) > 0 and min(xs) < size[0] and min(ys) < size[1]
