"""`detperf log`: what a training log says about speed, compile time, data loading and loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import FAILED, app
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.doctor.findings import Report
from detperf_plugins.doctor.logs.analyse import Analysis, analyse
from detperf_plugins.doctor.logs.read import read_log
from detperf_plugins.doctor.report import print_reports
from detperf_plugins.errors import UnreadableInput

__all__ = ["log"]

_ROWS = (
    ("format", "format", "{}"),
    ("step lines", "step_lines", "{}"),
    ("epoch lines", "epoch_lines", "{}"),
    ("evaluations", "evaluations", "{}"),
    ("images/s, steady", "images_per_s", "{:.2f}"),
    ("seconds a step, steady", "batch_cost_s", "{:.4f}"),
    ("waiting for data", "reader_share", "{:.1%}"),
    ("compile, s", "compile_s", "{:.1f}"),
    ("start to first line, s", "startup_s", "{:.0f}"),
    ("elapsed, s", "elapsed_s", "{:.0f}"),
    ("evaluation, s", "eval_s", "{:.0f}"),
    ("first loss", "first_loss", "{:.4g}"),
    ("last finite loss", "last_finite_loss", "{:.4g}"),
    ("starts", "starts", "{}"),
    ("device memory, MB", "memory_mb", "{:.0f}"),
)


@app.command()
def log(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Logs of PaddleDetection, PaddleOCR, MindOCR, MindSpore."
    ),
    compare: bool = typer.Option(
        False, "--compare", help="Put two logs side by side, with the ratio of each figure."
    ),
    chart: Optional[Path] = typer.Option(
        None, "--chart", metavar="PNG", help="Draw loss, learning rate and speed."
    ),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Read training logs: steady speed, compile time, time spent waiting for data, losses, faults.

    Exit status: 0 no error or warning in the log, 1 there is one, 2 a file cannot be read.
    """
    if compare and len(files) != 2:
        raise UnreadableInput("--compare takes two files: detperf log --compare A B")
    analyses = [_analyse(path) for path in files]
    if compare:
        _compare(*analyses)
    else:
        for analysis in analyses:
            _print(analysis)
    reports = [Report(a.file, "a training log", a.findings) for a in analyses]
    print_reports([report for report in reports if report.findings], console)
    if chart is not None:
        from detperf_plugins.doctor.logs.chart import draw

        draw(analyses, chart)
        console.print(f"chart written to {chart}", markup=False, soft_wrap=True)
    findings = [finding.as_row() for a in analyses for finding in a.findings]
    curves = [
        {"file": a.file, "loss": _pairs(a.losses), "learning_rate": _pairs(a.learning_rates)}
        for a in analyses
    ]
    write_json(json_path, [a.as_row() for a in analyses], {}, findings=findings, curves=curves)
    if any(finding.severity != "hint" for a in analyses for finding in a.findings):
        raise typer.Exit(FAILED)


def _analyse(path: Path) -> Analysis:
    """Measure one log; a file in which no trainer wrote a line is none, unless it holds a known error."""
    found = read_log(path)
    analysis = analyse(found)
    if not found.is_training and not any(f.rule.id == "log-known-error" for f in analysis.findings):
        raise UnreadableInput(
            f"{path} is no training log: no line in it is one that PaddleDetection, PaddleOCR, MindOCR or "
            "MindSpore prints"
        )
    return analysis


def _pairs(points: list[tuple[float, float]]) -> list[list[Any]]:
    """Points as JSON: a loss that is no finite number is written as text."""
    return [[x, y if y == y and abs(y) != float("inf") else str(y)] for x, y in points]


def _show(row: dict[str, Any], key: str, form: str) -> str:
    value = row[key]
    if value is None:
        return "cannot tell"
    return form.format(value) if value != "" else "none"


def _print(analysis: Analysis) -> None:
    row = analysis.as_row()
    table = []
    for label, key, form in _ROWS:
        why = analysis.reasons.get({"compile_s": "compile", "elapsed_s": "elapsed"}.get(key, key), "")
        if row[key] is None and not why:
            continue
        note = row["images_per_s_from"] if key == "images_per_s" and row[key] is not None else why
        table.append((label, _show(row, key, form), note))
    print_table(analysis.file, ("", "value", "from, or why not"), table)
    for name, value in analysis.phases:
        console.print(f"  start-up: {value:.0f} s {name}", markup=False, soft_wrap=True)
    if "steps" in analysis.reasons:
        console.print(f"  {analysis.reasons['steps']}", markup=False, soft_wrap=True)


def _compare(a: Analysis, b: Analysis) -> None:
    first, second = a.as_row(), b.as_row()
    table = []
    for label, key, form in _ROWS:
        x, y = first[key], second[key]
        if x is None and y is None:
            continue
        ratio = f"{y / x:.2f}x" if isinstance(x, (int, float)) and isinstance(y, (int, float)) and x else "-"
        table.append((label, _show(first, key, form), _show(second, key, form), ratio))
    print_table(
        f"{a.file} against {b.file}", ("", Path(a.file).name, Path(b.file).name, "second / first"), table
    )
    for analysis in (a, b):
        for key, why in analysis.reasons.items():
            console.print(
                f"  {Path(analysis.file).name}: cannot tell {key}: {why}", markup=False, soft_wrap=True
            )
