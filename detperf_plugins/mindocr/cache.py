"""Decoded pictures kept for later epochs, in files that all workers map into memory.

One file a picture, its pixels as they are, in a folder on a disk or, for "memory", in the system's memory
file system. A file is written under another name and renamed when whole: a killed run leaves nothing that a
later one could mistake for a picture. The cache fills up to its bound and then stays: an epoch visits every
picture once, so that anything evicted for a newcomer would be missed before the newcomer is.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import mmap
import os
import shutil
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detperf_plugins.errors import UnreadableInput

__all__ = ["DecodedCache"]

logger = logging.getLogger("mindocr.detperf")

_HEADER = struct.Struct("<8sII")  # mark, height, width; the pixels follow
_MARK = b"DETPERF1"
_SUFFIX, _PARTIAL = ".pixels", ".part"
_KEEP_FREE = 0.05  # of the file system
_MEMORY = Path("/dev/shm")


class DecodedCache:
    """A folder of decoded pictures, shared by the threads and processes of a training.

    Args:
        folder: made if missing; files of killed runs in it are removed.
        limit: the most bytes that it may hold.
        variant: how pictures were decoded; pictures of another variant are other pictures.

    Raises:
        UnreadableInput: the folder cannot be made or written.
    """

    def __init__(self, folder: Path, limit: int, variant: str) -> None:
        self._folder, self._limit, self._variant = folder, limit, variant
        self._account = folder / "bytes"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._take_stock()
        except OSError as error:
            raise UnreadableInput(
                f"perf.cache: decoded pictures cannot be kept in {folder}: {error.strerror or error}"
            ) from error

    def _take_stock(self) -> None:
        """Count what the folder holds, and remove what killed runs left half-written."""
        with self._locked() as account:
            held = 0
            for entry in os.scandir(self._folder):
                if entry.name.endswith(_PARTIAL) and not _alive(entry.name.rsplit(".", 3)[-3]):
                    os.unlink(entry.path)
                elif entry.name.endswith(_SUFFIX):
                    held += entry.stat().st_size
            _write_number(account, held)

    @classmethod
    def open(cls, where: str, limit: int, variant: str) -> DecodedCache:
        """The cache for a setting: a folder, or "memory" for one that goes with this process."""
        if where != "memory":
            return cls(Path(where), limit, variant)
        base = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        prefix = "detperf-decoded-"
        for left in base.glob(f"{prefix}*"):  # of killed runs
            if not _alive(left.name[len(prefix) :].split("-")[0]):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))
        atexit.register(_remove, folder, os.getpid())
        return cls(folder, limit, variant)

    def get(self, path: str) -> np.ndarray | None:
        """The picture as uint8 [H, W, 3], not to be written to, or None where it is not held."""
        try:
            with open(self._file(path), "rb") as stream:
                content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            mark, height, width = _HEADER.unpack_from(content)
        except (OSError, ValueError, struct.error):
            return None
        if mark != _MARK or len(content) != _HEADER.size + height * width * 3:
            return None
        pixels = np.frombuffer(content, dtype=np.uint8, offset=_HEADER.size)
        return pixels.reshape(height, width, 3)

    def put(self, path: str, image: np.ndarray) -> bool:
        """Keep a picture, uint8 [H, W, 3], unless the bound or the disk forbids; whether it was kept."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            return False
        size = _HEADER.size + image.size
        try:
            name = self._file(path)
            if not self._reserve(size):
                return False
            partial = Path(f"{name}.{os.getpid()}.{threading.get_ident()}{_PARTIAL}")
            try:
                with open(partial, "wb") as stream:
                    stream.write(_HEADER.pack(_MARK, *image.shape[:2]))
                    stream.write(np.ascontiguousarray(image).data)
                os.replace(partial, name)
            except BaseException:
                partial.unlink(missing_ok=True)
                self._reserve(-size)
                raise
        except OSError as error:
            logger.warning(f"the cache of decoded pictures cannot take {path}: {error.strerror or error}")
            self._limit = 0
            return False
        return True

    def _file(self, path: str) -> Path:
        state = os.stat(path)
        key = f"{os.path.abspath(path)}\0{state.st_size}\0{state.st_mtime_ns}\0{self._variant}"
        digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return self._folder / (digest + _SUFFIX)

    def _reserve(self, size: int) -> bool:
        if self._limit <= 0:
            return False
        if size > 0:
            system = os.statvfs(self._folder)
            if system.f_bavail * system.f_frsize < size + _KEEP_FREE * system.f_blocks * system.f_frsize:
                return False
        with self._locked() as account:
            held = _read_number(account) + size
            if held > self._limit:
                return False
            _write_number(account, held)
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The account file, open and locked against all other threads and processes."""
        import fcntl

        handle = os.open(self._account, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)


def _read_number(handle: int) -> int:
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _write_number(handle: int, value: int) -> None:
    os.pwrite(handle, f"{max(value, 0):<31d}\n".encode(), 0)


def _alive(process: str) -> bool:
    if not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
