"""A patch as `git format-patch` writes it: its subject, its message, and what it does to which file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser
from pathlib import Path

from detperf_plugins.errors import UnreadableInput

__all__ = ["Change", "Hunk", "Mail", "read_mail"]

_SECTION = re.compile(rb"^diff --git a/(.+) b/(.+)\n", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Hunk:
    """Lines that stand in the file from line `start` on, and what comes into their place; no line ends."""

    start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    new_start: int
    context: int  # the longest run of unchanged lines at its head or tail


@dataclass(frozen=True)
class Change:
    """One file's part of a patch.

    `text` is that part as bytes, for `git apply`. `old` and `new` are git's blob names, perhaps abbreviated;
    `old` is None where the file is created, `new` where it is deleted.
    """

    path: str
    text: bytes
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


@dataclass(frozen=True)
class Mail:
    """A whole patch. `subject` is without `[PATCH ...]`, `message` is the body above the diff."""

    path: Path
    headers: dict[str, str]
    subject: str
    message: str
    changes: tuple[Change, ...]

    @property
    def added(self) -> int:
        """Added lines, over all files."""
        return sum(change.added for change in self.changes)


def read_mail(path: Path) -> Mail:
    """Read one patch file.

    Raises:
        UnreadableInput: it is missing, or no mail patch of plain text changes without renames.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
    head, _, body = data.partition(b"\n\n")
    if head.startswith(b"From "):
        head = head.partition(b"\n")[2]
    parsed = BytesHeaderParser().parsebytes(head)
    headers = {
        name: str(make_header(decode_header(" ".join(value.split())))) for name, value in parsed.items()
    }
    first = _SECTION.search(body)
    if "Subject" not in headers or not first:
        raise UnreadableInput(f"{path} is no mail patch: it has no Subject or no `diff --git` line")
    message = body[: first.start()].decode("utf-8", "replace")
    message = re.split(r"^---\s*$", message, flags=re.MULTILINE)[0].strip()
    starts = [match.start() for match in _SECTION.finditer(body)]
    parts = [body[start:end] for start, end in zip(starts, [*starts[1:], len(body)])]
    return Mail(
        path=path,
        headers=headers,
        subject=re.sub(r"^\[[^\]]*\]\s*", "", headers["Subject"]),
        message=message,
        changes=tuple(_change(path, part) for part in parts),
    )


def _change(path: Path, text: bytes) -> Change:
    names = _SECTION.match(text)
    index = re.search(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)", text, re.MULTILINE)
    old, new = (name.decode() for name in index.groups()) if index else ("", "")
    hunks = tuple(_hunks(text))
    added = sum(line.startswith(b"+") for hunk in _raw_hunks(text) for line in hunk[1])
    removed = sum(line.startswith(b"-") for hunk in _raw_hunks(text) for line in hunk[1])
    assert names is not None
    if names[1] != names[2] or b"\nGIT binary patch\n" in text or b".." in names[1].split(b"/"):
        raise UnreadableInput(f"{path} renames a file, holds a binary one or leaves the tree: not supported")
    return Change(
        path=names[1].decode("utf-8", "surrogateescape"),
        text=text,
        old=None if re.search(rb"^new file mode ", text, re.MULTILINE) else old,
        new=None if re.search(rb"^deleted file mode ", text, re.MULTILINE) else new,
        hunks=hunks,
        added=added,
        removed=removed,
    )


def _raw_hunks(text: bytes) -> list[tuple[re.Match[bytes], list[bytes]]]:
    """Header and lines of each hunk; the header's counts say where it ends, whatever follows."""
    found: list[tuple[re.Match[bytes], list[bytes]]] = []
    lines = text.split(b"\n")
    position = 0
    while position < len(lines):
        header = _HUNK.match(lines[position])
        position += 1
        if not header:
            continue
        old, new = (1 if header[group] is None else int(header[group]) for group in (2, 4))
        body: list[bytes] = []
        while (old > 0 or new > 0) and position < len(lines):
            line = lines[position]
            position += 1
            if line[:1] == b"\\":
                continue
            old -= line[:1] in (b" ", b"-", b"")
            new -= line[:1] in (b" ", b"+", b"")
            body.append(line)
        found.append((header, body))
    return found


def _hunks(text: bytes) -> list[Hunk]:
    hunks = []
    for header, lines in _raw_hunks(text):
        same = [line[:1] in (b" ", b"") for line in lines]
        if False in same:
            head, tail = same.index(False), same[::-1].index(False)
        else:
            head = tail = len(same)
        hunks.append(
            Hunk(
                start=int(header[1]),
                before=tuple(line[1:] for line in lines if line[:1] != b"+"),
                after=tuple(line[1:] for line in lines if line[:1] != b"-"),
                new_start=int(header[3]),
                context=max(head, tail),
            )
        )
    return hunks
