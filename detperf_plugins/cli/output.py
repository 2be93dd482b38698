"""What every verb prints: one table for people, and one JSON object for machines (`--json PATH`).

The object has four fields, stable across versions: `command` (the words typed after `detperf`),
`versions` (package name to version), `conditions` (what the rows were made under: machine, data,
settings) and `rows` (a list of flat objects; docs/json.md lists their fields verb by verb).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from detperf_plugins import hosts
from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.child import write_file

__all__ = ["JSON_OPTION", "console", "machine", "print_table", "write_json"]

# Where the output is no terminal (a file, a CI log) tables may be wider than the usual 80 columns.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)

_STDOUT = Path("-")
_reserved: list[TextIO] = []  # with `--json -`: the real standard output, kept for the JSON


def _reserve_stdout(ctx: typer.Context, path: Optional[Path]) -> Optional[Path]:
    """With `--json -` send everything but the JSON to standard error, libraries and children too."""
    if path != _STDOUT or _reserved:
        return path
    shown = sys.stdout
    shown.flush()
    try:
        real = shown.fileno() == 1
    except (OSError, ValueError):  # captured inside this process
        real = False
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8") if real else shown
    if real:
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    _reserved.append(stream)

    def restore() -> None:
        _reserved.clear()
        sys.stdout = shown
        if real:
            os.dup2(stream.fileno(), 1)
            with suppress(OSError):  # what could not be written was reported by write_json
                stream.close()

    ctx.call_on_close(restore)
    return path


JSON_OPTION = typer.Option(
    None,
    "--json",
    metavar="PATH",
    help="Also write the result as one JSON object; - is standard output, for it alone.",
    callback=_reserve_stdout,
    is_eager=True,
)


def machine() -> dict[str, Any]:
    """The conditions that every figure depends on: processor, cores, system, Python."""
    return {
        "processor": hosts.processor_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def write_json(
    path: Path | None,
    rows: Sequence[Mapping[str, Any]],
    conditions: Mapping[str, Any] | None = None,
    **extra: Any,
) -> None:
    """Write the result object to `path`; nothing where `path` is None.

    Args:
        path: where to write; its folder is made if missing. "-" is standard output.
        rows: flat JSON-ready objects, one a row of the printed table.
        conditions: what the rows depend on beside `machine()`.
        extra: further top-level fields that the verb documents.

    Raises:
        DetperfError: the file cannot be written.
    """
    if path is None:
        return
    result = {
        "command": ["detperf", *sys.argv[1:]],
        "versions": hosts.versions(),
        "conditions": {**machine(), **(conditions or {})},
        "rows": [dict(row) for row in rows],
        **extra,
    }
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    try:
        if path == _STDOUT:
            stream = _reserved[0] if _reserved else sys.stdout
            stream.write(text)
            stream.flush()
            return
        if path.exists() and not path.is_file():  # a pipe or a device is written to, never replaced
            path.write_text(text, encoding="utf-8")
            return
    except OSError as error:
        name = "the JSON to standard output" if path == _STDOUT else path
        raise DetperfError(f"cannot write {name}: {error.strerror or error}") from error
    write_file(path.resolve(), text)  # behind a link, which stays one


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
    """Print `rows` under `columns`; numbers are right-aligned, `note` follows below."""
    table = Table(title=title, title_justify="left", title_style="bold", caption=escape(note) or None)
    table.caption_justify = "left"
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(
            isinstance(row[index], (int, float)) or _looks_numeric(str(row[index])) for row in rows
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[escape(str(cell)) for cell in row])
    console.print(table)


def _looks_numeric(text: str) -> bool:
    text = text.strip().rstrip("x%").strip()
    try:
        float(text or "nan")
    except ValueError:
        return text in {"", "-"}
    return True
