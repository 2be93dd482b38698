"""Time stamps of log lines, in seconds since the first one; dates without a year may cross New Year."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

__all__ = ["Clock"]

_FULL = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T-](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_SHORT = re.compile(r"\[(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)\]")


class Clock:
    """Reads the stamps of one log in order."""

    def __init__(self) -> None:
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.year = 2024  # a leap year, so that 02/29 exists
        self.month = 0

    def read(self, text: str) -> float | None:
        """Seconds from the first stamp of the log to that of `text`; None where it has none."""
        stamp = self._stamp(text[:400])
        if stamp is None:
            return None
        if self.first is None:
            self.first = stamp
        self.last = stamp
        return (stamp - self.first) / timedelta(seconds=1)

    def _stamp(self, text: str) -> datetime | None:
        try:
            match = _FULL.search(text)
            if match:
                parts = [int(part) for part in match.groups()[:6]]
                micro = int((match[7] or "0").ljust(6, "0"))
                return datetime(*parts, micro)  # type: ignore[arg-type,call-arg]
            match = _SHORT.search(text)
            if match:
                month, day, hour, minute, second = (int(part) for part in match.groups())
                if self.month - month > 6:
                    self.year += 1
                self.month = month
                return datetime(self.year, month, day, hour, minute, second)
        except ValueError:
            return None
        return None
