"""What was found, as text for people, JSON, SARIF 2.1.0, and GitHub workflow commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from detperf_plugins import __version__
from detperf_plugins.doctor.findings import Finding, Report
from detperf_plugins.doctor.rules import SEVERITIES, Rule

__all__ = ["dumps", "github", "print_reports", "print_rules", "sarif", "summary", "to_json"]

_COLOURS = {"error": "bold red", "warning": "yellow", "hint": "cyan"}


def summary(findings: Sequence[Finding]) -> str:
    """ "2 errors, 1 warning, 3 hints"."""
    counts = Counter(finding.severity for finding in findings)
    words = [f"{counts[name]} {name}{'s' if counts[name] > 1 else ''}" for name in SEVERITIES if counts[name]]
    return ", ".join(words) or "nothing to object to"


def print_reports(reports: Sequence[Report], console: Console, verbose: bool = False) -> None:
    """One paragraph a finding: place, severity, what, and what to do; `verbose` adds why and the source."""
    for report in reports:
        if report.unreadable:
            console.print(f"[bold red]unreadable[/] {escape(report.unreadable)}", soft_wrap=True)
            continue
        console.print(
            f"[bold]{escape(report.file)}[/]: {escape(report.kind)}, {summary(report.findings)}",
            soft_wrap=True,
        )
        for note in report.notes:
            console.print(f"  [dim]{escape(note)}[/]", soft_wrap=True)
        for finding in report.findings:
            colour = _COLOURS[finding.severity]
            place = finding.place
            tail = f"[dim]{finding.rule.id}[/]"
            console.print(
                f"  [{colour}]{finding.severity}[/] {escape(place)}  {escape(finding.message)}  {tail}",
                soft_wrap=True,
            )
            console.print(f"      {escape(finding.fix)}", soft_wrap=True)
            if verbose:
                console.print(f"      [dim]why: {escape(finding.rule.why)}[/]", soft_wrap=True)
                console.print(f"      [dim]see: {escape(finding.rule.source)}[/]", soft_wrap=True)


def print_rules(rules: Sequence[Rule], console: Console) -> None:
    """The catalogue, a line a rule."""
    for rule in rules:
        colour = _COLOURS[rule.severity]
        console.print(
            f"[bold]{rule.id}[/]  [{colour}]{rule.severity}[/]  {rule.kind}  {escape(rule.message)}",
            soft_wrap=True,
        )


def to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """An object with `findings` (see `Finding.as_row`), `files` and `unreadable`."""
    return {
        "findings": [finding.as_row() for report in reports for finding in report.findings],
        "files": [
            {"file": r.file, "kind": r.kind, "notes": r.notes, "summary": summary(r.findings)}
            for r in reports
        ],
        "unreadable": [{"file": r.file, "reason": r.unreadable} for r in reports if r.unreadable],
    }


def sarif(reports: Sequence[Report]) -> dict[str, Any]:
    """A SARIF 2.1.0 log, as code hosts read it."""
    levels = {"error": "error", "warning": "warning", "hint": "note"}
    findings = [finding for report in reports for finding in report.findings]
    rules = {finding.rule.id: finding.rule for finding in findings}
    results = []
    for finding in findings:
        region = {"startLine": finding.line, **({"startColumn": finding.column} if finding.column else {})}
        location: dict[str, Any] = {"artifactLocation": {"uri": finding.file.replace("\\", "/")}}
        if finding.line:
            location["region"] = region
        results.append(
            {
                "ruleId": finding.rule.id,
                "level": levels[finding.severity],
                "message": {"text": f"{finding.message} {finding.fix}"},
                "locations": [{"physicalLocation": location}],
                "properties": {"class": finding.rule.kind, "count": finding.count},
            }
        )
    driver = {
        "name": "detperf",
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.message},
                "fullDescription": {"text": rule.why},
                "help": {"text": rule.fix},
                "helpUri": rule.source,
                "defaultConfiguration": {"level": levels[rule.severity]},
            }
            for rule in rules.values()
        ],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def github(reports: Sequence[Report]) -> str:
    """GitHub workflow commands, one a finding."""
    levels = {"error": "error", "warning": "warning", "hint": "notice"}
    lines = []
    for report in reports:
        if report.unreadable:
            lines.append(f"::error file={_property(report.file)}::{_data(report.unreadable)}")
        for finding in report.findings:
            where = f"file={_property(finding.file)}"
            where += f",line={finding.line}" if finding.line else ""
            where += f",col={finding.column}" if finding.line and finding.column else ""
            text = _data(f"{finding.message} {finding.fix}")
            lines.append(f"::{levels[finding.severity]} {where},title={_property(finding.rule.id)}::{text}")
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def dumps(value: Any) -> str:
    """JSON text for the terminal or a file; NaN cannot occur in findings."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
