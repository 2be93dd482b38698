"""A throw-away folder with copies of files, on which `git apply` works: the tree itself is never touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching.mail import Change, Hunk

__all__ = ["Conflict", "Content", "Workbench"]


@dataclass(frozen=True)
class Content:
    """Bytes of a file and whether it may be executed."""

    data: bytes
    executable: bool = False


@dataclass(frozen=True)
class Conflict:
    """Where a patch does not fit: `line` counts from 1 in the file as it is, 0 for the file as a whole."""

    path: str
    line: int
    found: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}" if self.line else f"{self.path}: {self.found}"


class Workbench:
    """A context manager; files are put in by `put`, changed by `apply`, taken out by `get`."""

    def __enter__(self) -> Workbench:
        self._holder = tempfile.TemporaryDirectory(prefix="detperf-patch-")
        self._root = Path(self._holder.name).resolve() / "files"
        self._root.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.cleanup()

    def put(self, path: str, content: Content | None) -> None:
        """Let the bench hold `content` at `path`; nothing for None."""
        place = self._root / path
        if content is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.data)
        place.chmod(0o755 if content.executable else 0o644)

    def get(self, path: str) -> Content | None:
        """What the bench holds at `path`."""
        place = self._root / path
        if not place.is_file():
            return None
        return Content(place.read_bytes(), bool(place.stat().st_mode & 0o100))

    def apply(self, changes: Iterable[Change], reverse: bool = False, keep: bool = True) -> list[Conflict]:
        """Apply all of `changes`, or none of them: then the conflicts are returned.

        Args:
            reverse: take them out instead.
            keep: False to try only.

        Raises:
            DetperfError: git is not installed.
        """
        changes = list(changes)
        if not changes:
            return []
        words = ["--reverse"] * reverse + ["--check"] * (not keep)
        status, errors = self._git_apply(words, b"".join(change.text for change in changes))
        if status == 0:
            return []
        conflicts = [] if reverse else [self._explain(change) for change in changes]
        return [conflict for conflict in conflicts if conflict] or self._reported(errors, changes)

    def _git_apply(self, words: list[str], patch: bytes) -> tuple[int, str]:
        if shutil.which("git") is None:
            raise DetperfError("git is not installed, and `detperf patch` applies hunks by `git apply`")
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", *words, "-"],
            input=patch,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._root,
            env=self._environment(),
        )
        return done.returncode, done.stderr.decode("utf-8", "replace").strip()

    def _environment(self) -> dict[str, str]:
        """No repository round the folder, and no configuration of the user's, has a say."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return {
            **clean,
            "LC_ALL": "C",
            "HOME": self._holder.name,
            "XDG_CONFIG_HOME": self._holder.name,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self._root.parent),
        }

    def _explain(self, change: Change) -> Conflict | None:
        """The conflict of one file, or None where it fits by itself."""
        if self._git_apply(["--check"], change.text)[0] == 0:
            return None
        content = self.get(change.path)
        if content is None:
            return Conflict(change.path, 0, "there is no such file")
        if change.old is None:
            return Conflict(change.path, 0, "the patch creates this file, and it is there already")
        lines = content.data.split(b"\n")
        faults = [fault for fault in (_misfit(hunk, lines) for hunk in change.hunks) if fault]
        line, found = faults[0] if faults else (0, "its content is not what the patch starts from")
        return Conflict(change.path, line, found)

    @staticmethod
    def _reported(errors: str, changes: list[Change]) -> list[Conflict]:
        """Conflicts in git's words, where no file by itself explains them."""
        places = re.findall(r"^error: patch failed: (.+):(\d+)$", errors, re.MULTILINE)
        if places:
            return [Conflict(path, int(line), "the lines there differ") for path, line in places]
        return [Conflict(changes[0].path, 0, errors.splitlines()[-1] if errors else "git apply failed")]


def _misfit(hunk: Hunk, lines: list[bytes]) -> tuple[int, str] | None:
    """Line number and text of the first difference where the hunk comes nearest; None where it fits."""
    size = len(hunk.before)
    if not size:
        return None
    wanted = hunk.start - 1
    places = sorted(range(max(1, len(lines) - size + 1)), key=lambda place: abs(place - wanted))
    best, score = min(wanted, max(0, len(lines) - 1)), -1
    for place in places:
        same = sum(a == b for a, b in zip(hunk.before, lines[place : place + size]))
        if same == size:
            return None
        if same > score:
            best, score = place, same
    for offset, expected in enumerate(hunk.before):
        found = lines[best + offset] if best + offset < len(lines) else None
        if found != expected:
            what = "the end of the file" if found is None else _quote(found)
            return best + offset + 1, f"{_quote(expected)} was expected, {what} was found"
    return None


def _quote(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return repr(text if len(text) <= 80 else text[:77] + "...")
