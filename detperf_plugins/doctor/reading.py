"""From bytes to text: encodings, byte-order marks and lines, with a finding for what is not plain UTF-8."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.rules import rule
from detperf_plugins.errors import UnreadableInput

__all__ = ["Text", "decode", "read_bytes", "read_text"]

NOT_UTF8 = rule(
    "encoding-not-utf8",
    "error",
    "correctness",
    "the file is not UTF-8",
    why="The hosts open YAML with the locale's codec and label files as UTF-8: on another machine the "
    "file dies "
    "with UnicodeDecodeError, or its text is read as other characters.",
    fix="Save the file as UTF-8 without a byte-order mark; `detperf lint FILE --fix OUT` converts it.",
    source="PaddlePaddle/PaddleDetection/issues/1470",
    room="yaml",
)
BOM = rule(
    "encoding-bom",
    "warning",
    "correctness",
    "the file starts with a byte-order mark",
    why="The mark becomes part of the first key, image name or coordinate, which then does not parse "
    "or match.",
    fix="Save as UTF-8 without a byte-order mark; `detperf lint FILE --fix OUT` removes it.",
    source="PaddlePaddle/PaddleOCR/pull/749",
    room="yaml",
)

_LEGACY = ("gb18030", "shift_jis", "latin-1")


@dataclass
class Text:
    """A decoded file: its text, the codec that read it, and what was wrong with the bytes."""

    text: str
    codec: str = "utf-8"
    findings: list[Finding] = field(default_factory=list)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        UnreadableInput: it does not exist, is a folder, or may not be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"cannot read {path}: {error.strerror or error}") from error


def decode(data: bytes, file: str) -> Text:
    """Text of any bytes: UTF-8, else UTF-16 by its mark, else a legacy codec, never an exception."""
    findings = []
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
        message = "UTF-16 (it starts with the bytes ff fe or fe ff); the hosts read UTF-8"
        return Text(text, "utf-16", [Finding(NOT_UTF8, file, message, 1, 1)])
    if data.startswith(b"\xef\xbb\xbf"):
        findings.append(Finding(BOM, file, "a byte-order mark (ef bb bf) precedes the first character", 1, 1))
        data = data[3:]
    try:
        return Text(data.decode("utf-8"), "utf-8", findings)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        for codec in _LEGACY:
            try:
                text = data.decode(codec)
                break
            except UnicodeDecodeError:
                continue
        if data.count(b"\0") > len(data) // 20:
            message = (
                f"byte {error.start} is not UTF-8 and the file holds zero bytes: it looks like a binary file"
            )
        else:
            name = {"gb18030": "GBK", "shift_jis": "Shift-JIS", "latin-1": "Latin-1"}[codec]
            bad = data[error.start : error.start + 4].hex(" ")
            message = f"byte {error.start} ({bad}) is not UTF-8; the file decodes as {name}"
        findings.append(Finding(NOT_UTF8, file, message, line, column))
        return Text(text, codec, findings)


def read_text(path: Path, file: str | None = None) -> Text:
    """`decode` of a file's bytes; raises UnreadableInput as `read_bytes` does."""
    return decode(read_bytes(path), file or str(path))
