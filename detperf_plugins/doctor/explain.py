"""`explain`: the causes of the error texts in a paste, each once, with how often it occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from detperf_plugins.doctor.knowledge import ENTRIES, Entry

__all__ = ["Answer", "explain"]


@dataclass
class Answer:
    """A known error found in a text: the entry, its first line, the text found there, and how often."""

    entry: Entry
    line: int
    quote: str
    count: int

    def as_row(self) -> dict[str, Any]:
        """The answer as a flat JSON-ready object."""
        return {**self.entry.as_row(), "line": self.line, "quote": self.quote, "count": self.count}


def explain(text: str) -> list[Answer]:
    """The known errors in a text, in the order of their first line; an empty list where none is known.

    An error printed by every worker or rank is one answer with a count.
    """
    answers = []
    for entry in ENTRIES:
        matches = list(entry.pattern.finditer(text))
        if not matches:
            continue
        first = matches[0].start()
        begin = text.rfind("\n", 0, first) + 1
        end = text.find("\n", first)
        quote = text[begin : end if end >= 0 else len(text)].strip()
        lines = {text.count("\n", 0, match.start()) for match in matches[:5000]}
        answers.append(Answer(entry, text.count("\n", 0, first) + 1, quote[:300], len(lines)))
    return sorted(answers, key=lambda answer: answer.line)
