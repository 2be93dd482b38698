"""Ctrl-C in a training: MindSpore answers it in C++ with SIGTERM to itself, and ends without a word.

Here either signal raises KeyboardInterrupt in the main thread as soon as that comes back from MindSpore.
Where it does not in some seconds, as in the middle of compiling, another thread says what there is to say and
ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["STATUS", "Interrupts"]

STATUS = 130  # of a command that Ctrl-C has ended
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A block in which Ctrl-C is KeyboardInterrupt; outside the main thread, nothing.

    Args:
        tell: called from another thread before the process is ended there.
        patience: seconds that the main thread has to leave the block.

    Attributes:
        asked: whether a signal has come. MindSpore may have made another exception of the KeyboardInterrupt.
    """

    def __init__(self, tell: Callable[[], None], patience: float = 5.0) -> None:
        self.asked = False
        self._tell, self._patience = tell, patience
        self._over = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._raise)
        # The number of a signal is written there as it comes, whatever the main thread is busy with.
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._restore)  # loader workers have their own ways
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._before:
            self._restore()
            os.write(self._write, b"\0")  # ends `_watch`, which closes the pipe once this is over
        self._over.set()

    def _restore(self) -> None:
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._before = {}

    def _raise(self, number: int, frame: Any) -> None:
        self.asked = True
        raise KeyboardInterrupt

    def _watch(self) -> None:
        numbers = os.read(self._read, 1)
        while numbers and numbers[0] not in (0, *SIGNALS):
            numbers = os.read(self._read, 1)
        if numbers and numbers[0]:
            self.asked = True
            if not self._over.wait(self._patience):
                self._tell()
                os._exit(STATUS)
        self._over.wait()
        os.close(self._read)
        os.close(self._write)
