"""What makes a change of a tree all or nothing, and reversible: originals, and a journal for the swap itself.

Both lie in `.detperf-patches/<package>/` at the root of the tree, for as long as a patch is applied:

    state.json   the patches applied, each touched file's state before the first and after the last of them,
                 and, while files are being swapped, `pending`: their states just before
    originals/   the touched files as they were before the first patch
    undo/        the files as they were just before the swap that is under way

state.json is replaced as a whole. A process that dies during a swap leaves `pending` behind, and the next
command puts `undo/` back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import msgspec

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching import files
from detperf_plugins.patching.files import ABSENT, FileState, plainly, state_of
from detperf_plugins.patching.workbench import Content

__all__ = ["FOLDER", "Applied", "Store"]

FOLDER = ".detperf-patches"


class Applied(msgspec.Struct, frozen=True):
    """A patch in the tree: its number, its title and the hash of its file."""

    number: str
    title: str
    sha256: str


class _State(msgspec.Struct):
    version: str
    applied: list[Applied]
    before: dict[str, FileState]
    after: dict[str, FileState]
    pending: Optional[dict[str, FileState]] = None


class Store:
    """The record of what is applied to the tree at `root`; a context manager that holds the tree's lock.

    Entering it puts a tree right that a killed command left half changed; `healed` then says so.

    Raises:
        DetperfError: another command is at work in the tree, or the record cannot be read or written.
    """

    def __init__(self, root: Path, package: str) -> None:
        self.root, self.package = root, package
        self.folder = root / FOLDER / package
        self.healed = False
        self._state: _State | None = None

    def __enter__(self) -> Store:
        with plainly(self.root):
            self._lock = _lock(self.root)
            try:
                self._load()
            except BaseException:
                os.close(self._lock)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    @property
    def applied(self) -> list[Applied]:
        """Patches in the tree, bottom first."""
        return list(self._state.applied) if self._state else []

    @property
    def version(self) -> str | None:
        """The series that they are of."""
        return self._state.version if self._state else None

    @property
    def paths(self) -> list[str]:
        """Files that they touch."""
        return list(self._state.before) if self._state else []

    def original(self, path: str) -> Content | None:
        """A touched file as it was before the first patch; KeyError for a path that is not touched."""
        before = self._state.before[path] if self._state else None
        if before is None:
            raise KeyError(path)
        if before.kind == ABSENT:
            return None
        place = self.folder / "originals" / path
        return Content(place.read_bytes(), bool(place.stat().st_mode & 0o100))

    def changed_since(self) -> list[str]:
        """Touched files that are neither as the patches left them nor as they were before."""
        return [path for path, original in self._moved() if not original]

    def refuse_if_changed(self) -> None:
        """Raise DetperfError where `changed_since` names a file."""
        changed = self.changed_since()
        if changed:
            raise DetperfError(
                f"changed since the patches were applied, so nothing was done: {', '.join(changed)} in "
                f"{self.root}; undo those changes first (the files before the patches are in "
                f"{self.folder / 'originals'}), or delete {self.folder} to keep the tree as it is"
            )

    def put_back(self) -> list[str]:
        """Touched files that something else put back to what they were before the patches."""
        return [path for path, original in self._moved() if original]

    def _moved(self) -> Iterator[tuple[str, bool]]:
        """Touched files that are not as the patches left them, and whether each is as before the first."""
        for path in self.paths:
            assert self._state is not None
            now = state_of(self.root, path)
            if not now.same(self._state.after[path]):
                yield path, now.same(self._state.before[path])

    def change(self, version: str, applied: list[Applied], contents: Mapping[str, Content | None]) -> None:
        """Bring the tree to `applied`: all of it, or, whatever happens, none.

        Args:
            contents: every file that `applied` touches, as it shall be. Files that only the present patches
                touch go back to what they were.
        """
        with plainly(self.root):
            self._change(version, applied, contents)

    def _change(self, version: str, applied: list[Applied], contents: Mapping[str, Content | None]) -> None:
        old = self._state or _State(version, [], {}, {})
        before = {**{p: state_of(self.root, p) for p in contents if p not in old.before}, **old.before}
        new = {path: before[path] for path in contents if path not in old.before}
        pending = {path: state_of(self.root, path) for path in before}
        started = False
        try:
            self._make_folder()
            files.keep(self.root, self.folder / "originals", new)
            _drop(self.folder / "undo")
            files.keep(self.root, self.folder / "undo", pending)
            self._write(_State(version, old.applied, old.before, old.after, pending))
            started = True
            for path in before:
                if path not in contents:
                    files.restore(self.root, self.folder / "originals", path, before[path])
                else:
                    files.replace(self.root, path, contents[path], before[path])
            files.prune(self.root, before.values())
            after = {path: state_of(self.root, path) for path in contents}
        except BaseException:
            self._heal(pending if started else {}, old if old.applied else None)
            raise
        kept = {path: before[path] for path in contents}
        self._finish(_State(version, applied, kept, after) if applied else None)

    def _load(self) -> None:
        place = self.folder / "state.json"
        if not place.is_file():
            # Killed before anything was changed, or after the last patch was out.
            self._finish(None)
            return
        try:
            self._state = msgspec.json.decode(place.read_bytes(), type=_State)
        except msgspec.MsgspecError as error:
            raise DetperfError(
                f"{place} cannot be read ({error}); the files as they were are in {self.folder / 'originals'}"
            ) from error
        if self._state.pending is not None:
            old = self._state if self._state.applied else None
            self._heal(self._state.pending, old)
            self.healed = True

    def _heal(self, pending: Mapping[str, FileState], old: _State | None) -> None:
        for path, state in pending.items():
            files.restore(self.root, self.folder / "undo", path, state)
        files.prune(self.root, [*pending.values(), *(old.before.values() if old else ())])
        self._finish(old)

    def _finish(self, state: _State | None) -> None:
        """The swap is over: write the record without `pending`, then drop what it does not need."""
        self._state = state
        if state is not None:
            state.pending = None
            self._write(state)
            _drop(self.folder / "undo")
            for place in list((self.folder / "originals").rglob("*")):
                path = place.relative_to(self.folder / "originals").as_posix()
                if not place.is_dir() and path not in state.before:
                    place.unlink()
            return
        if self.folder.exists():
            (self.folder / "state.json").unlink(missing_ok=True)
            _drop(self.folder)
        with contextlib.suppress(OSError):
            if set(os.listdir(self.folder.parent)) <= {".gitignore"}:
                _drop(self.folder.parent)

    def _make_folder(self) -> None:
        if not self.folder.parent.exists():
            self.folder.parent.mkdir()
            (self.folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        self.folder.mkdir(exist_ok=True)

    def _write(self, state: _State) -> None:
        files.write_safely(self.folder / "state.json", msgspec.json.format(msgspec.json.encode(state)))


def _drop(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _lock(root: Path) -> int:
    """A lock on the folder itself, which leaves no file behind and ends with the process."""
    handle = os.open(root, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except BlockingIOError as error:
        os.close(handle)
        raise DetperfError(f"another `detperf patch` is at work in {root}; wait for it to end") from error
    return handle
