"""Size and EXIF orientation of pictures from their first bytes, and where missing files may be."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Header", "find_folder", "read_header", "suggest"]

_BESIDE = ("", "images", "imgs", "train_images", "train_imgs", "test_images", "train", "test", "data")


@dataclass(frozen=True)
class Header:
    """Stored width and height, and the EXIF orientation (1 where there is none)."""

    width: int
    height: int
    orientation: int = 1


def read_header(path: Path) -> Header | None:
    """The header of a picture file; None where it is no picture of a known kind."""
    try:
        with path.open("rb") as stream:
            head = stream.read(256 * 1024)
    except OSError:
        return None
    try:
        return _parse(head)
    except (struct.error, IndexError, ValueError):
        return None


def _parse(head: bytes) -> Header | None:
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return Header(*struct.unpack(">II", head[16:24]))
    if head[:3] == b"GIF":
        return Header(*struct.unpack("<HH", head[6:10]))
    if head[:2] == b"BM":
        width, height = struct.unpack("<ii", head[18:26])
        return Header(width, abs(height))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head[:2] == b"\xff\xd8":
        return _jpeg(head)
    return None


def _webp(head: bytes) -> Header | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return Header(1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little"))
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return Header(width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return Header(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    return None


def _jpeg(head: bytes) -> Header | None:
    at, orientation = 2, 1
    while at + 9 < len(head):
        if head[at] != 0xFF:
            at += 1
            continue
        marker = head[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 0x01:
            at += 1 if marker == 0xFF else 2
            continue
        size = struct.unpack(">H", head[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return Header(width, height, orientation)
        if marker == 0xE1 and head[at + 4 : at + 10] == b"Exif\0\0":
            orientation = _orientation(head[at + 10 : at + 2 + size])
        at += 2 + size
    return None


def _orientation(tiff: bytes) -> int:
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    offset = struct.unpack(order + "I", tiff[4:8])[0]
    count = struct.unpack(order + "H", tiff[offset : offset + 2])[0]
    for index in range(min(count, 200)):
        entry = tiff[offset + 2 + 12 * index : offset + 14 + 12 * index]
        if struct.unpack(order + "H", entry[:2])[0] == 0x0112:
            value = struct.unpack(order + "H", entry[8:10])[0]
            return value if 1 <= value <= 8 else 1
    return 1


def find_folder(names: list[str], label: Path) -> Path | None:
    """The folder beside the label file, or beside its parent, that holds one of the first pictures."""
    for base in (label.parent, label.parent.parent):
        for name in _BESIDE:
            if any(_is_file(base / name / n) for n in names[:5]):
                return base / name
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def suggest(name: str, folder: Path) -> str:
    """Where a missing picture may be: a lost slash, another separator, another case, or another folder."""
    slashed = name.replace("\\", "/")
    if slashed != name and _is_file(folder / slashed):
        return slashed
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return ""
    for entry in entries:
        if name.startswith(entry) and _is_file(folder / entry / name[len(entry) :].lstrip("/")):
            return f"{entry}/{name[len(entry) :].lstrip('/')}"
    base = slashed.rsplit("/", 1)[-1]
    for entry in entries:
        if entry.lower() == base.lower():
            return entry
        if _is_file(folder / entry / base):
            return f"{entry}/{base}"
    return ""
