"""Tables in README and docs, made from the JSON files in docs/benchmarks.

`python -m detperf_plugins.measure.tables` rewrites all pages; with `--check` it fails where one would change.
A table stands between `<!-- bench:NAME -->` and `<!-- /bench -->`; `NAME` is a key of `regions.REGIONS`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import write_file
from detperf_plugins.measure.markdown import table
from detperf_plugins.measure.regions import REGIONS, Region, Row
from detperf_plugins.measure.train_table import gain_table

__all__ = ["BENCHMARKS", "link_from", "main", "pages", "regenerated"]

BENCHMARKS = Path("docs") / "benchmarks"
FRAMEWORKS = ("paddlepaddle-gpu", "paddlepaddle", "mindspore")
OPEN = re.compile(r"^<!-- bench:", re.MULTILINE)
MARK = re.compile(
    r"(?P<open>^<!-- bench:(?P<name>[\w.-]+) -->\n)(?P<old>.*?)(?P<close>^<!-- /bench -->)",
    re.DOTALL | re.MULTILINE,
)


def pages(root: Path) -> list[Path]:
    """README.md, its translations, and every page below docs/."""
    return [*sorted(root.glob("README*.md")), *sorted((root / "docs").glob("*.md"))]


def link_from(page: Path, root: Path) -> str:
    """The folder of the JSON files as a page links to it."""
    return os.path.relpath(root / BENCHMARKS, page.parent)


def regenerated(text: str, benchmarks: Path, link: str = "benchmarks") -> str:
    """A page with all its regions made anew; one whose JSON file does not exist is left empty.

    Args:
        text: of the page.
        benchmarks: folder of the JSON files.
        link: the same folder, as the page links to it.

    Raises:
        UnreadableInput: a region has an unknown name or is never closed, or a JSON file is no result.
    """
    opened, closed = len(OPEN.findall(text)), len(MARK.findall(text))
    if opened != closed:
        raise UnreadableInput(f"{opened} regions are opened with <!-- bench:NAME -->, {closed} closed")

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in REGIONS:
            raise UnreadableInput(f"no table is called {name!r}; there are: {', '.join(REGIONS)}")
        files = [benchmarks / file for file in REGIONS[name].files]
        whole = all(file.is_file() for file in files)
        return match["open"] + (_filled(REGIONS[name], files, link) if whole else "") + match["close"]

    return MARK.sub(fill, text)


def _filled(region: Region, files: Sequence[Path], link: str) -> str:
    rows: list[Row] = []
    conditions = []
    for file in files:
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
            found = result[region.rows] if region.rows else [result]
            # A row says under which conditions it was made, so that rows of several files can be told apart.
            rows += [{**result["conditions"], **row} for row in found if _wanted(region, row)]
            conditions.append(_conditions(result, f"{link}/{file.name}"))
            lines = [[text(row) for _, text in region.columns] for row in rows]
            header = [head for head, _ in region.columns]
            if not region.columns:
                header, lines = gain_table(rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnreadableInput(f"{file} is no result of the verb that writes it: {error!r}") from error
    text = table(*_without_empty(header, lines))
    if not region.conditions:
        return text
    return f"{text}\n" + "\n\n".join(dict.fromkeys(conditions)) + "\n"


def _without_empty(header: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The table without the columns in which no row has anything."""
    kept = [at for at in range(len(header)) if not lines or any(line[at] for line in lines)]
    return [header[at] for at in kept], [[line[at] for at in kept] for line in lines]


def _wanted(region: Region, row: Row) -> bool:
    if any(row[key] != value for key, value in region.where.items()):
        return False
    size = row[region.least_of] if region.least else None  # None: a part that only one side has
    return size is None or abs(size) >= region.least


def _conditions(result: Mapping[str, Any], link: str) -> str:
    """One line: where, with which versions, when, and by which command the table was measured."""
    conditions, versions = result["conditions"], result["versions"]
    host = next((f"{name} {versions[name]}" for name in FRAMEWORKS if name in versions), "")
    facts = [f"{conditions['processor']}, {conditions['cores']} cores", host, conditions.get("date", "")]
    command = shlex.join(_portable(result["command"]))
    where = "; ".join(fact for fact in facts if fact)
    return f"{where}; `{command}` ([figures]({link}))."


def _portable(words: Sequence[str]) -> list[str]:
    """A command without the folders of the machine it ran on."""
    return [Path(word).name if word.startswith("/") else word for word in words]


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the tables, or compare; a DetperfError ends in its sentence and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--check", action="store_true", help="change nothing, fail where a page would change")
    options = parser.parse_args(arguments)
    try:
        for path in pages(options.root):
            old = path.read_text(encoding="utf-8")
            new = regenerated(old, options.root / BENCHMARKS, link_from(path, options.root))
            if new != old and options.check:
                raise DetperfError(f"{path.name} is not what docs/benchmarks says: run this without --check")
            if new != old:
                write_file(path, new)
    except DetperfError as error:
        raise SystemExit(f"detperf: {error}") from error


if __name__ == "__main__":
    main()
