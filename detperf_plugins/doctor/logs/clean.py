"""Log text made readable: colours, progress bars, launcher prefixes and line wraps taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Line", "clean_lines"]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BAR = re.compile(r"(?P<name>[\w .:-]{0,60}?):?\s*\d{1,3}%\s*\|[^|\n]*\|\s*\S*\s*\[[^\]]*\]")
_BARE_BAR = re.compile(r"\b\d+it \[\d\d:\d\d[^\]]*\]")
_RANK = re.compile(
    r"^\s*(?:\[\d+,(\d+)\]<std(?:out|err)>:\s?|\[?rank[ :_-]?(\d+)\]?\s*[:|]?\s|"
    r"\[?trainer[ :_-](\d+)\]?\s*[:|]\s)",
    re.I,
)
_WRAPPED_CI = re.compile(r"^\[\d\d:\d\d:\d\d\][^\[]*\[[^\]]*\]\s*\[\"(.*?)\"?\]?\s*$")
_START = re.compile(
    r"^\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d|\[\d\d/\d\d \d\d:|\[\d\d:\d\d:\d\d\]|\[(?:WARNING|ERROR|INFO|"
    r"CRITICAL|TRACE)\]|INFO\b|"
    r"WARNING\b|ERROR\b|Epoch: \[|epoch: ?\[?\d|Found inf|Traceback|\w*Error\b|=+\s*$|Save checkpoint|"
    r"eval model)"
)
_RECORD = re.compile(r"Epoch:? \[|Epoch \d+/\d+,|\bepoch: ?\[|\bepoch: ?\d+,? |\biter: \d+")
_COMPLETE = re.compile(
    r"(?:images|imgs?|samples|steps)/s(?:ec)?\b|\btime: ?\d[\d.]*\s*(?:ms|s)?\"?\]?\s*$|loss is \S+\s*$|"
    r"cur_lr: \S+\s*$|max_mem_allocated: \d+ MB"
)
_RUN = re.compile(r"(?<=\S) {8,}(?=\S)")

_LONGEST = 20_000  # no log line is longer; a dump of weights on one line may be


@dataclass
class Line:
    """A logical line: its 1-based first physical line, its text, its rank (None if unknown)."""

    number: int
    text: str
    rank: int | None = None
    bar: str = ""
    ended: bool = True


def clean_lines(text: str) -> Iterator[Line]:
    """Logical lines of a log; wrapped records are joined, progress bars are cut out.

    `bar` is the name of the last progress bar on the line ("eval model"), `ended` is False for a last line
    without a line end.
    """
    pending: Line | None = None
    rows = text.split("\n")
    closed = not rows[-1]
    for number, row in enumerate(rows):
        last = number == len(rows) - 1
        if last and not row:
            break
        for piece in _ANSI.sub("", row).split("\r"):
            line = _unwrap(piece, number + 1)
            line.ended = closed or not last
            if pending is not None:
                if _continues(pending, line):
                    pending.text += line.text
                    pending.ended = line.ended
                    if _COMPLETE.search(pending.text):
                        yield pending
                        pending = None
                    continue
                yield pending
                pending = None
            if _RECORD.search(line.text) and not _COMPLETE.search(line.text):
                pending = line
            elif line.text.strip() or line.bar:
                yield line
    if pending is not None:
        yield pending


def _continues(record: Line, line: Line) -> bool:
    """Whether a line is the rest of a record that a terminal broke in two."""
    begins = _START.match(line.text) or _RECORD.search(line.text)
    return bool(line.text.strip()) and not begins and len(record.text) < 4000


def _unwrap(piece: str, number: int) -> Line:
    piece = piece[:_LONGEST]
    line = Line(number, piece)
    bars = list(_BAR.finditer(piece)) if "%|" in piece.replace(" ", "") else []
    if bars:
        line.bar = bars[-1]["name"].strip(" :")
        line.text = _BAR.sub("", piece)
    line.text = _BARE_BAR.sub("", line.text)
    match = _RANK.match(line.text)
    if match:
        line.rank = int(next(group for group in match.groups() if group))
        line.text = line.text[match.end() :]
    inner = _WRAPPED_CI.match(line.text)
    if inner:
        line.text = inner.group(1)
    if _RECORD.search(line.text) or "global_step" in line.text:
        line.text = _RUN.sub("", line.text)
    return line
