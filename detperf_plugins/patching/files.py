"""Files of a tree: the state that each is in, kept copies, and new content swapped in.

Content is never written in place: a new file takes the old one's name, so that a copy which shares its data
on disk (uv links packages to its cache) keeps its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching.workbench import Content

__all__ = ["FileState", "keep", "plainly", "prune", "replace", "restore", "state_of", "write_safely"]

ABSENT, FILE, LINK = "absent", "file", "link"


class FileState(msgspec.Struct, frozen=True):
    """A path at one moment; `mtime_ns` and `new_folders` (parents that were not there) are not compared."""

    kind: str
    sha256: str = ""
    mode: int = 0
    target: str = ""
    mtime_ns: int = 0
    new_folders: list[str] = []

    def same(self, other: FileState) -> bool:
        """Whether the other has the same kind, content, mode and target."""
        mine, theirs = ((s.kind, s.sha256, s.mode, s.target) for s in (self, other))
        return mine == theirs


def state_of(root: Path, path: str) -> FileState:
    """The state of `path` below `root`; of a link, content and target both.

    Raises:
        DetperfError: something else stands there, as a folder.
    """
    place = root / path
    try:
        info = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        parents = [parent.as_posix() for parent in list(Path(path).parents)[:-1]]
        return FileState(ABSENT, new_folders=[parent for parent in parents if not (root / parent).exists()])
    if stat.S_ISLNK(info.st_mode):
        content = place.read_bytes() if place.is_file() else b""
        return FileState(LINK, hashlib.sha256(content).hexdigest(), target=os.readlink(place))
    if not stat.S_ISREG(info.st_mode):
        raise DetperfError(f"{place} is neither a file nor a link to one")
    digest = hashlib.sha256(place.read_bytes()).hexdigest()
    return FileState(FILE, digest, stat.S_IMODE(info.st_mode), mtime_ns=info.st_mtime_ns)


def keep(root: Path, folder: Path, states: Mapping[str, FileState]) -> None:
    """Copy files into `folder`, on disk for certain; a link is kept as the file that it points to."""
    for path, state in states.items():
        if state.kind != ABSENT:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, place)
            _sync(place)


def restore(root: Path, folder: Path, path: str, state: FileState) -> None:
    """Put back what `keep` copied, with mode and time; remove what was not there.

    Raises:
        DetperfError: the copy is not what was kept.
    """
    if state.kind == ABSENT:
        _remove(root / path)
    elif not state_of(root, path).same(state):
        if state.kind == LINK:
            _swap_in(root / path, None, target=state.target)
        else:
            data = (folder / path).read_bytes()
            if hashlib.sha256(data).hexdigest() != state.sha256:
                raise DetperfError(f"{folder / path} was changed: {root / path} cannot be put back from it")
            _swap_in(root / path, data, state.mode, state.mtime_ns)
    _unlink(_beside(root / path))


def replace(root: Path, path: str, content: Content | None, before: FileState) -> None:
    """Give a file new content and the mode of `before`, save that `content` says who may execute it."""
    if content is None:
        (root / path).unlink(missing_ok=True)
        return
    mode = before.mode if before.kind == FILE else 0o666 & ~_umask()
    mode = mode | (mode & 0o444) >> 2 if content.executable else mode & ~0o111
    _swap_in(root / path, content.data, mode)


def prune(root: Path, states: Iterable[FileState]) -> None:
    """Remove folders that came with a file, the deepest first, where they are empty again."""
    folders = {folder for state in states for folder in state.new_folders}
    for folder in sorted(folders, key=lambda name: -name.count("/")):
        with contextlib.suppress(OSError):
            (root / folder).rmdir()


def write_safely(place: Path, data: bytes) -> None:
    """Replace a file as a whole, on disk for certain."""
    partial = place.with_name(place.name + ".part")
    partial.write_bytes(data)
    _sync(partial)
    os.replace(partial, place)


@contextlib.contextmanager
def plainly(root: Path) -> Iterator[None]:
    """An error of the file system as one sentence.

    Raises:
        DetperfError: in the place of an OSError.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or root
        raise DetperfError(f"{where} cannot be changed: {error.strerror or error}") from error


def _swap_in(
    place: Path, data: bytes | None, mode: int = 0, mtime_ns: int | None = None, target: str = ""
) -> None:
    """A file with `data`, or for None a link to `target`, takes the place of what is there."""
    partial = _beside(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    try:
        if data is None:
            partial.symlink_to(target)
        else:
            partial.write_bytes(data)
            _same_owner(partial, place)
            partial.chmod(mode)
            if mtime_ns is not None:
                os.utime(partial, ns=(mtime_ns, mtime_ns))
        os.replace(partial, place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _same_owner(new: Path, old: Path) -> None:
    """Leave a file to its owner where another user, as root, changes it."""
    with contextlib.suppress(OSError):
        was, now = old.stat(), new.stat()
        if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
            os.chown(new, was.st_uid, was.st_gid)


def _unlink(place: Path) -> None:
    # missing_ok does not cover a parent that is a file.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        place.unlink()


def _remove(place: Path) -> None:
    """Remove a file that was not there before, and what Python compiled of it."""
    _unlink(place)
    cache = place.parent / "__pycache__"
    compiled = list(cache.glob(f"{place.stem}.*.pyc")) if place.suffix == ".py" else []
    for file in compiled:
        file.unlink()
    if compiled:
        with contextlib.suppress(OSError):
            cache.rmdir()


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.detperf")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(place: Path) -> None:
    with open(place, "rb") as file:
        os.fsync(file.fileno())
