"""`detperf report`: a folder of measurements as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json

__all__ = ["report"]


@app.command()
def report(
    folder: Path = typer.Argument(
        ..., metavar="DIR", help="A folder with JSON results: of bench or profile."
    ),
    out: Optional[Path] = typer.Option(None, "--out", help="The page to write; DIR/report.html by default."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Make one self-contained HTML page of a bench or profile folder, readable offline."""
    from detperf_plugins.measure.child import write_file
    from detperf_plugins.measure.report import page, read_results

    path = write_file(out or folder / "report.html", page(folder))
    console.print(f"Report: {path}", soft_wrap=True)
    rows = [{"result": name, "rows": len(result["rows"])} for name, result in read_results(folder).items()]
    write_json(json_path, rows, {"report": str(path)})
