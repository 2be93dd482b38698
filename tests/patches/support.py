"""Made-up hosts and series for the tests of `detperf patch`."""

from __future__ import annotations

import difflib
import json
import os
import stat
from pathlib import Path

from detperf_plugins.patching.engine import open_job, revert_all
from detperf_plugins.patching.tree import blob_name

__all__ = [
    "BASE",
    "FIRST",
    "OLDER",
    "PLAIN",
    "SECOND",
    "THIRD",
    "Files",
    "apply",
    "mail",
    "patch_text",
    "picture",
    "revert",
    "states",
    "write_series",
    "write_tree",
]

# Content by path; None for no such file.
Files = dict[str, bytes]
SENDER = "detperf-plugins developers <detperf-plugins@users.noreply.github.com>"

# Trees of a made-up host: before the series, after each of its three patches, and those of an older version.
PLAIN = b"".join(b"line %d\n" % number for number in range(1, 21))
BASE = {"host/a.py": PLAIN, "host/b.py": PLAIN, "tools/run.py": PLAIN}
FIRST = {**BASE, "host/a.py": PLAIN.replace(b"line 3\n", b"line 3\nthree and a half\n")}
SECOND = {
    **FIRST,
    "host/a.py": FIRST["host/a.py"].replace(b"half\n", b"half, changed\n"),
    "host/new/c.py": b"created\n",
}
THIRD = {
    **SECOND,
    "host/b.py": PLAIN.replace(b"line 9\n", b""),
    "tools/run.py": PLAIN.replace(b"line 5\n", b"five\n"),
}
OLDER = [{**tree, "host/a.py": b"older\n" + tree["host/a.py"]} for tree in (BASE, FIRST, SECOND, THIRD)]


def picture(root: Path) -> dict[str, tuple]:
    """Everything below a folder: kind, mode and content of each path, folders too."""
    seen: dict[str, tuple] = {}
    for place in sorted(root.rglob("*")):
        info = place.lstat()
        name, mode = place.relative_to(root).as_posix(), stat.S_IMODE(info.st_mode)
        if place.is_symlink():
            seen[name] = ("link", os.readlink(place))
        elif place.is_dir():
            seen[name] = ("folder", mode)
        else:
            seen[name] = ("file", mode, place.read_bytes())
    return seen


def write_tree(root: Path, files: Files, package: str = "host") -> Path:
    for path, data in {f"{package}/__init__.py": b"", **files}.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return root


def _lines(data: bytes) -> list[str]:
    return data.decode("latin-1").splitlines(keepends=True) if data else []


def patch_text(old: Files, new: Files) -> bytes:
    """The difference of two trees as git writes it, with one line of context."""
    parts = []
    for path in sorted(set(old) | set(new)):
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        names = [blob_name(data) if data is not None else "0" * 40 for data in (before, after)]
        parts.append(f"diff --git a/{path} b/{path}\n")
        if before is None:
            parts.append("new file mode 100644\n")
        if after is None:
            parts.append("deleted file mode 100644\n")
        parts.append(f"index {names[0]}..{names[1]}" + (" 100644\n" if None not in (before, after) else "\n"))
        source = "/dev/null" if before is None else f"a/{path}"
        target = "/dev/null" if after is None else f"b/{path}"
        for line in difflib.unified_diff(_lines(before or b""), _lines(after or b""), source, target, n=1):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts).encode("latin-1")


def mail(subject: str, diff: bytes, message: str = "Why and what.") -> bytes:
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: {SENDER}\nDate: Sun, 1 Jun 2025 12:00:00 +0000\n"
    return f"{head}Subject: [PATCH] {subject}\n\n{message}\n---\n\n".encode() + diff


def write_series(
    root: Path,
    versions: dict[str, list[Files]],
    depends: dict[int, list[int]] | None = None,
    package: str = "host",
) -> Path:
    """`<root>/made-up/` with, for each version, the patches between its successive trees."""
    folder = root / "made-up"
    count = len(next(iter(versions.values()))) - 1
    entries = [
        {
            "file": f"{number:04}-step.patch",
            "title": f"Step {number}",
            "purpose": "It shows the tool at work.",
            "depends": [f"{needed:04}" for needed in (depends or {}).get(number, [])],
            "tests": "none",
            "measured": "correctness",
        }
        for number in range(1, count + 1)
    ]
    for name, trees in versions.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, (old, new) in enumerate(zip(trees, trees[1:]), 1):
            content = mail(f"Step {number}", patch_text(old, new))
            (folder / name / f"{number:04}-step.patch").write_bytes(content)
    text = {
        "host": "Made-up",
        "package": package,
        "distribution": package,
        "repository": "nobody/nothing",
        "versions": {name: {"commit": "0" * 40, "about": "nothing"} for name in versions},
        "patches": entries,
    }
    (folder / "series.yml").write_text(json.dumps(text), encoding="utf-8")
    return root


def states(root, **options):
    with open_job(root, **options) as job:
        return {row.patch.number: row.state for row in job.check([])}


def apply(root, *names, **options):
    with open_job(root, **options) as job:
        return [row.patch.number for row in job.apply(list(names)) if row.state == "applies"]


def revert(root, *names):
    if not names:
        return [entry.number for entry in revert_all(root)[1]]
    with open_job(root) as job:
        return [entry.number for entry in job.revert(list(names))]
