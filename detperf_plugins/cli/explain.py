"""`detperf explain`: the cause of an error text, and the remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

import typer

from detperf_plugins.cli import FAILED, app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json
from detperf_plugins.doctor.explain import Answer
from detperf_plugins.doctor.explain import explain as find
from detperf_plugins.doctor.knowledge import ENTRIES
from detperf_plugins.doctor.reading import decode, read_text
from detperf_plugins.errors import UnreadableInput

__all__ = ["explain"]


def _text(error: str) -> str:
    if error == "-":
        return decode(sys.stdin.buffer.read(), "standard input").text
    path = Path(error)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # an error text may be too long for a path, or hold a zero byte
        is_file = False
    if is_file:
        return read_text(path).text
    if "\n" not in error and len(error) < 200 and path.suffix in (".log", ".txt") and " " not in error:
        raise UnreadableInput(f"there is no file {error}")
    return error


@app.command()
def explain(
    error: Optional[str] = typer.Argument(
        None, metavar="ERROR-OR-FILE", help="An error text, a file that holds it, or - for standard input."
    ),
    show: bool = typer.Option(False, "--list", help="List every known error and leave."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Say what causes an error of PaddleDetection, PaddleOCR, MindOCR or MindSpore, and what to do.

    Exit status: 0 explained, 1 the error is not known, 2 the file cannot be read.
    """
    if show:
        for entry in ENTRIES:
            console.print(f"{entry.id}: {entry.title}", markup=False, soft_wrap=True)
        write_json(json_path, [entry.as_row() for entry in ENTRIES])
        return
    if error is None:
        raise UnreadableInput("name an error text, a file that holds it, or --list")
    answers = find(_text(error))
    for answer in answers:
        _print(answer)
    write_json(json_path, [answer.as_row() for answer in answers])
    if not answers:
        console.print(
            "This text holds no error that is known here; `detperf explain --list` names those that are, and "
            "`detperf lint` finds faults of configs and annotations before they are errors.",
            soft_wrap=True,
        )
        raise typer.Exit(FAILED)


def _print(answer: Answer) -> None:
    times = f" ({answer.count} times)" if answer.count > 1 else ""
    console.print(f"{answer.entry.title}{times}", style="bold", markup=False, soft_wrap=True)
    for label, text in (
        (f"line {answer.line}", answer.quote),
        ("cause", answer.entry.cause),
        ("remedy", answer.entry.remedy),
        ("see", answer.entry.source),
    ):
        console.print(f"  {label}: {text}", markup=False, soft_wrap=True)
