"""What was found: one finding a kind of fault and place, its records, and the order of importance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from detperf_plugins.doctor.rules import CLASSES, SEVERITIES, Rule

__all__ = ["Change", "Finding", "Report", "by_importance"]


@dataclass
class Finding:
    """One fault.

    Attributes:
        rule: the rule that was broken.
        file: the file it is in (for a `_BASE_` chain, the file that holds the line).
        message: what is wrong here, with the particulars.
        line, column: 1-based place, where the fault has one.
        fix: what to do here; the rule's general remedy if empty.
        records: the data records concerned, each with its ids; at most `MAX_RECORDS` are kept.
        count: how many records (or lines) are concerned.
        severity: the rule's, unless this case weighs differently.
    """

    MAX_RECORDS = 1000

    rule: Rule
    file: str
    message: str
    line: int | None = None
    column: int | None = None
    fix: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)
    count: int = 1
    severity: str = ""

    def __post_init__(self) -> None:
        self.severity = self.severity or self.rule.severity
        self.fix = self.fix or self.rule.fix

    @property
    def place(self) -> str:
        """`file`, `file:line` or `file:line:column`."""
        parts = [self.file, self.line, self.column if self.line else None]
        return ":".join(str(part) for part in parts if part is not None)

    def as_row(self) -> dict[str, Any]:
        """The finding as a JSON-ready object."""
        row: dict[str, Any] = {
            "rule": self.rule.id,
            "severity": self.severity,
            "class": self.rule.kind,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "why": self.rule.why,
            "fix": self.fix,
            "source": self.rule.source,
            "count": self.count,
        }
        if self.records:
            row["records"] = self.records
        return row


@dataclass
class Change:
    """One change that `--fix` made: where, what it was, what it is now."""

    file: str
    what: str
    line: int | None = None


@dataclass
class Report:
    """All that was learnt of one file.

    Attributes:
        file: the file as the user named it.
        kind: what it was recognised as, in words.
        findings: in the order of importance.
        notes: facts that are no faults (how many images, which host).
        unreadable: why nothing could be checked; None when something could.
    """

    file: str
    kind: str = ""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: str | None = None


def by_importance(findings: Iterable[Finding]) -> list[Finding]:
    """Errors before warnings before hints; then correctness, measurement, performance; then by place."""
    return sorted(
        findings,
        key=lambda f: (
            SEVERITIES.index(f.severity),
            CLASSES.index(f.rule.kind),
            f.rule.weight,
            f.file,
            f.line or 0,
            f.column or 0,
            f.rule.id,
        ),
    )
