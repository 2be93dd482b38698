"""Numbers with their nouns, as sentences need them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str = "") -> str:
    """ "1 line", "2 lines"; `many` where the plural is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
