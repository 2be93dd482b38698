"""A measurement in a process of its own: it reports JSON lines, its other output goes to a log."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NoReturn

from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["Ended", "emit", "give_up", "run_child", "write_file"]

PREFIX = "DETPERF "
# How long an interrupted child may take to hand over what it has measured, seconds.
PATIENCE = 20


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        status: its exit status, negative for a signal.
        last_line: of its log.
        interrupted: whether Ctrl-C was passed on to it.
        fault: why its log is not whole, as on a full disk; else None.
    """

    status: int
    last_line: str
    interrupted: bool
    fault: str | None = None

    @property
    def sentence(self) -> str | None:
        """The error that the child ended with as one sentence, where it had one."""
        mark = "detperf: "
        return self.last_line[len(mark) :] if self.last_line.startswith(mark) else None

    @property
    def error(self) -> DetperfError | None:
        """The error that the child ended with, of the same status, where it had a sentence for it."""
        if self.sentence is None:
            return None
        unreadable = self.status == UnreadableInput.status
        return UnreadableInput(self.sentence) if unreadable else DetperfError(self.sentence)


class _Log:
    """A file that a full disk cuts off, without ending what it logs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise DetperfError(f"cannot write {path}: {error.strerror or error}") from error

    def write(self, line: str) -> None:
        """Append a line, if the file still takes any."""
        if self.fault is None:
            try:
                self._file.write(line.encode())
            except OSError as error:
                self.fault = f"cannot write {self.path}: {error.strerror or error}"

    def close(self) -> None:
        """No line follows."""
        self._file.close()


def emit(**event: Any) -> None:
    """Report an event to the parent, from inside a child."""
    sys.stdout.write("\n" + PREFIX + json.dumps(event) + "\n")
    sys.stdout.flush()


def give_up(error: DetperfError) -> NoReturn:
    """End a child with an error's sentence on standard error, and its status."""
    sys.stdout.flush()
    print(f"detperf: {error}", file=sys.stderr, flush=True)
    raise SystemExit(error.status) from error


def run_child(
    module: str, arguments: Sequence[str], log: Path, on_event: Callable[[dict[str, Any]], None]
) -> Ended:
    """Run `python -m module arguments`; every event is handed on, all other lines are written to `log`.

    Ctrl-C reaches this process alone; it is passed on once, so that the child can report what it has.

    Raises:
        DetperfError: the log cannot be opened.
    """
    command = [sys.executable, "-m", module, *arguments]
    last_line = "no output"
    interrupted = False
    output = _Log(log)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = iter(process.stdout)
    try:
        while True:
            try:
                line = next(lines, None)
                if line is None:
                    break
                if line.startswith(PREFIX):
                    on_event(json.loads(line[len(PREFIX) :]))
                elif line.strip():
                    last_line = line.strip()
                    output.write(line)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    finally:
        output.close()
        if process.poll() is None:
            process.kill()
            process.wait()
    return Ended(process.returncode, last_line, interrupted, output.fault)


def write_file(path: Path, text: str) -> Path:
    """Write `path` whole or not at all; its folder is made.

    Raises:
        DetperfError: it cannot be written, as on a full disk.
    """
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise DetperfError(f"cannot write {path}: {error.strerror or error}") from error
    return path
