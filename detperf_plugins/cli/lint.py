"""`detperf lint`: check configs, annotations, labels and training commands before the training is started."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import FAILED, UNREADABLE, app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json
from detperf_plugins.doctor import report as reporting
from detperf_plugins.doctor.configs.overrides import parse_override
from detperf_plugins.doctor.findings import Report
from detperf_plugins.doctor.lint import Options, lint_file, picture_folders_of
from detperf_plugins.doctor.words import counted
from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["lint"]


class Format(str, Enum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


@app.command()
def lint(
    files: Optional[list[Path]] = typer.Argument(
        None, metavar="FILE...", help="Configs, COCO json, label files, shell commands."
    ),
    fix: Optional[Path] = typer.Option(
        None, "--fix", metavar="OUT", help="Write a repaired copy of the one FILE here."
    ),
    output: Format = typer.Option(Format.TEXT, "--format", help="How to print what was found."),
    images: Optional[Path] = typer.Option(
        None, "--images", metavar="DIR", help="The folder that picture paths count from."
    ),
    opt: Optional[list[str]] = typer.Option(
        None, "--opt", "-o", metavar="KEY=VALUE", help="As the trainers' -o; repeatable."
    ),
    cards: Optional[int] = typer.Option(None, "--cards", min=1, help="How many devices will train."),
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Also print why, and the source, of each finding."
    ),
    show_rules: bool = typer.Option(False, "--list", help="List every rule and leave."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Check FILEs and say what is wrong, where, and what to do.

    Exit status: 0 nothing found beyond hints, 1 errors or warnings, 2 a file cannot be read.
    """
    if show_rules:
        _list(output, json_path)
        return
    if not files:
        raise UnreadableInput("name at least one file, or --list")
    if fix is not None and len(files) != 1:
        raise UnreadableInput("--fix OUT takes exactly one file")
    overrides = {}
    for text in opt or []:
        pair = parse_override(text)
        if pair is None:
            raise UnreadableInput(f"-o {text}: write KEY=VALUE")
        overrides[pair[0]] = pair[1]
    folders = picture_folders_of(files, overrides) if len(files) > 1 else {}
    reports = [
        _check(path, images or folders.get(path.resolve()), overrides, cards, output) for path in files
    ]
    _print(reports, output, verbose)
    changes: list[dict[str, Any]] = []
    if fix is not None and not reports[0].unreadable:
        changes = _fix(files[0], fix, images, output)
    result = reporting.to_json(reports)
    write_json(json_path, result.pop("findings"), {"files": result.pop("files")}, changes=changes, **result)
    if any(report.unreadable for report in reports):
        raise typer.Exit(UNREADABLE)
    if any(finding.severity != "hint" for report in reports for finding in report.findings):
        raise typer.Exit(FAILED)


def _check(
    path: Path, images: Optional[Path], overrides: dict[str, str], cards: Optional[int], output: Format
) -> Report:
    size = path.stat().st_size if path.is_file() else 0
    if output is not Format.TEXT or size < 20 * 2**20 or not console.is_terminal:
        return lint_file(path, Options(images, overrides, cards))
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"checking {path.name}", total=None)
        return lint_file(
            path,
            Options(
                images, overrides, cards, lambda done, total: bar.update(task, completed=done, total=total)
            ),
        )


def _print(reports: list[Report], output: Format, verbose: bool) -> None:
    if output is Format.TEXT:
        reporting.print_reports(reports, console, verbose)
    elif output is Format.JSON:
        typer.echo(reporting.dumps(reporting.to_json(reports)))
    elif output is Format.SARIF:
        typer.echo(reporting.dumps(reporting.sarif(reports)))
    else:
        typer.echo(reporting.github(reports))


def _fix(path: Path, out: Path, images: Optional[Path], output: Format) -> list[dict[str, Any]]:
    from detperf_plugins.doctor.repair import repair_file

    changes = repair_file(path, out, images)
    if output is Format.TEXT:
        console.print(f"{counted(len(changes), 'change')} written to {out}", markup=False, soft_wrap=True)
        for change in changes[:200]:
            place = f"line {change.line}: " if change.line else ""
            console.print(f"  {place}{change.what}", markup=False, soft_wrap=True)
        if len(changes) > 200:
            console.print(f"  ... and {len(changes) - 200} more (all of them with --json)", markup=False)
    return [{"line": change.line, "what": change.what} for change in changes]


def _list(output: Format, json_path: Optional[Path]) -> None:
    from detperf_plugins.doctor.pages import rule_rows
    from detperf_plugins.doctor.rules import all_rules

    rows = rule_rows()
    if output is Format.TEXT:
        reporting.print_rules(all_rules(), console)
    elif output is Format.JSON:
        typer.echo(reporting.dumps({"rules": rows}))
    else:
        raise DetperfError(f"--list prints as text or json, not as {output.value}")
    write_json(json_path, rows)
