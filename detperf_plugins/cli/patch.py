"""`detperf patch`: the patches that this project would send to its hosts, put into a tree and taken out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import FAILED, app
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.doctor.words import counted
from detperf_plugins.patching import engine
from detperf_plugins.patching.engine import Job, Row, open_job, revert_all
from detperf_plugins.patching.export import export as write_export
from detperf_plugins.patching.series import read_all, read_series

__all__ = ["patch"]

patch = typer.Typer(
    name="patch", help="Patches for the hosts: list, check, apply, revert, export.", no_args_is_help=True
)
app.add_typer(patch)

DIR = typer.Argument(..., metavar="DIR", help="A checkout, a site-packages folder, or the package's folder.")
NAMES = typer.Argument(None, metavar="[PATCH]...", help="Numbers or names; all without one.")
HOST = typer.Option(None, "--host", help="paddledetection or mindocr, where DIR holds both.")
SERIES = typer.Option(None, "--series", help="Version of the host; recognised by its files without it.")
WORDS = {
    engine.APPLIES: "applies",
    engine.IN: "already in",
    engine.CONFLICTS: "conflicts",
    engine.OUTSIDE: "left out",
}


@patch.command("list")
def list_patches(
    host: Optional[str] = typer.Option(None, "--host", help="Only those for paddledetection or mindocr."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """List the patches of every series, in the order in which they are applied."""
    rows: list[dict[str, Any]] = []
    table = []
    for series in [read_series(host)] if host else read_all():
        for entry in series.patches:
            stacks = [stack for stack in series.stacks.values() if entry.number in stack.numbers]
            added = {stack.name: stack.mails[entry.number].added for stack in stacks}
            about = {field: getattr(entry, field) for field in ("file", "title", "purpose", "depends")}
            about.update(tests=entry.tests, measured=entry.measured)
            rows.append({"host": series.key, "patch": entry.number, **about, "added": added})
            needs = " ".join(entry.depends)
            table.append(
                (series.key, entry.number, entry.title, " ".join(added), _span(added.values()), needs)
            )
    columns = ("host", "patch", "title", "for", "lines added", "needs")
    print_table("Patches for the hosts", columns, table)
    write_json(json_path, rows)


@patch.command()
def check(
    folder: Path = DIR,
    names: Optional[list[str]] = NAMES,
    host: Optional[str] = HOST,
    series: Optional[str] = SERIES,
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Say of each patch whether it applies, is already in, or conflicts and where.

    Exit status: 0 no conflict, 1 a conflict, 2 DIR cannot be read.
    """
    with open_job(folder, host, series) as job:
        rows = job.check(names or [])
        _say_where(job)
        _print(rows)
        for label, paths in (
            ("changed since the patches were applied", job.store.changed_since()),
            ("put back since to what it was before the patches", job.store.put_back()),
        ):
            for path in paths:
                console.print(f"{label}: {path}", style="yellow", markup=False, soft_wrap=True)
        _write(json_path, job, rows)
    if any(row.state == engine.CONFLICTS for row in rows):
        raise typer.Exit(FAILED)


@patch.command()
def apply(
    folder: Path = DIR,
    names: Optional[list[str]] = NAMES,
    host: Optional[str] = HOST,
    series: Optional[str] = SERIES,
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Put in the whole series, or the patches named and what they need; all of them or none."""
    with open_job(folder, host, series) as job:
        rows = job.apply(names or [])
        _say_where(job)
        _print(rows, {engine.APPLIES: "applied"})
        new = sum(row.state == engine.APPLIES for row in rows)
        how = f"; `detperf patch revert {folder}` takes them out again" if new else ""
        console.print(f"{counted(new, 'patch', 'patches')} applied{how}", soft_wrap=True)
        _write(json_path, job, rows, {engine.APPLIES: "applied"})


@patch.command()
def revert(
    folder: Path = DIR,
    names: Optional[list[str]] = NAMES,
    host: Optional[str] = HOST,
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Take out what `apply` put in, or the patches named and those that need them: every file as it was."""
    if names:
        with open_job(folder, host) as job:
            gone = job.revert(names)
            tree, healed = job.tree, job.store.healed
    else:
        tree, gone, healed = revert_all(folder, host)
    _say_healed(healed)
    for entry in gone:
        console.print(f"{entry.number} {entry.title}: taken out", markup=False, soft_wrap=True)
    if not gone:
        console.print(f"No patch was put into {tree.root} by `detperf patch apply`", soft_wrap=True)
    rows = [{"patch": entry.number, "title": entry.title, "state": "taken out"} for entry in gone]
    conditions = {"folder": str(tree.root), "host": tree.series.key, "installed": tree.installed}
    write_json(json_path, rows, {**conditions, "healed": healed})


@patch.command()
def export(
    folder: Path = typer.Argument(..., metavar="DIR", help="The folder to write; it may hold no patches."),
    names: Optional[list[str]] = NAMES,
    host: str = typer.Option(..., "--host", help="paddledetection or mindocr."),
    series: Optional[str] = typer.Option(None, "--series", help="Version; the host's branch without it."),
    sender: Optional[str] = typer.Option(None, "--from", metavar="'NAME <MAIL>'", help="Author to name."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Write patches, with what they need, as mail for `git am`, and a cover letter."""
    all_stacks = read_series(host).stacks
    stack = read_series(host).stack(series or list(all_stacks)[-1])
    files = write_export(stack, names or [], folder, sender)
    console.print(
        f"{counted(len(files) - 1, 'patch', 'patches')} for {stack} and {files[0].name}: {folder}",
        soft_wrap=True,
    )
    rows = [{"path": str(path)} for path in files]
    write_json(json_path, rows, {"host": host, "series": stack.name, "commit": stack.commit})


def _span(numbers: Iterable[int]) -> str:
    values = sorted(set(numbers))
    return " to ".join(str(value) for value in values[:: max(1, len(values) - 1)])


def _say_where(job: Job) -> None:
    console.print(f"{job.tree}, {job.choice}", markup=False, soft_wrap=True)
    _say_healed(job.store.healed)


def _say_healed(healed: bool) -> None:
    if healed:
        console.print(
            "An earlier command was killed while it changed files; they were put back first.", style="yellow"
        )


def _print(rows: list[Row], words: Optional[dict[str, str]] = None) -> None:
    table = []
    for row in rows:
        remarks = [str(conflict) for conflict in row.conflicts]
        if row.left_out:
            remarks.append(f"not in an installed package: {', '.join(row.left_out)}")
        state = {**WORDS, **(words or {})}[row.state]
        table.append((row.patch.number, row.patch.title, state, "; ".join(remarks)))
    print_table("Patches", ("patch", "title", "state", "remarks"), table)


def _conditions(job: Job) -> dict[str, Any]:
    return {
        "folder": str(job.tree.root),
        "host": job.tree.series.key,
        "installed": job.tree.installed,
        "series": job.stack.name,
        "commit": job.stack.commit,
        "matched_files": job.choice.matched,
        "touched_files": job.choice.total,
        "healed": job.store.healed,
    }


def _write(path: Optional[Path], job: Job, rows: list[Row], words: Optional[dict[str, str]] = None) -> None:
    flat = [
        {
            "patch": row.patch.number,
            "file": row.patch.file,
            "title": row.patch.title,
            "state": {**WORDS, **(words or {})}[row.state],
            "by_this_command": row.ours,
            "conflicts": [vars(conflict) for conflict in row.conflicts],
            "left_out": row.left_out,
        }
        for row in rows
    ]
    changed = {"changed_since": job.store.changed_since(), "put_back": job.store.put_back()}
    write_json(path, flat, _conditions(job), **changed)
