"""Tables in README and docs, made from the JSON files in docs/benchmarks.

`python -m detperf_plugins.measure.tables` rewrites all pages; with `--check` it fails where one would change.
A table stands between `<!-- bench:NAME -->` and `<!-- /bench -->`; `NAME` is a key of `REGIONS`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import write_file
from detperf_plugins.measure.markdown import table
from detperf_plugins.measure.train_table import gain_table

__all__ = ["BENCHMARKS", "REGIONS", "Region", "link_from", "main", "pages", "regenerated"]

BENCHMARKS = Path("docs") / "benchmarks"
FRAMEWORKS = ("paddlepaddle-gpu", "paddlepaddle", "mindspore")
Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]
OPEN = re.compile(r"^<!-- bench:", re.MULTILINE)
MARK = re.compile(
    r"(?P<open>^<!-- bench:(?P<name>[\w.-]+) -->\n)(?P<old>.*?)(?P<close>^<!-- /bench -->)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Region:
    """What stands in one marked region.

    Attributes:
        file: below docs/benchmarks; written by a verb's `--json`.
        columns: header and text of each column; empty for the gain table of `bench train`.
        where: fields that a row must have for it to be shown.
        rows: the top-level field that holds the rows; empty for the top level itself as the only row.
        least: rows are left out whose `least_of` is nearer to 0.
        least_of: by default the % of a step.
        conditions: whether a line below says where, when and by which command it was measured.
        more: further files whose rows follow; the table is left empty until all are there.
    """

    file: str
    columns: tuple[Column, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    rows: str = "rows"
    least: float = 0.0
    least_of: str = "cpu_ratio"
    conditions: bool = True
    more: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All its files."""
        return (self.file, *self.more)


def _number(key: str, digits: int, per: str = "") -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value = row[key]
        return "-" if value is None else f"{value / (row[per] if per else 1):.{digits}f}"

    return text


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: str(row[key])


def _peak(row: Row) -> str:
    """Stock's and the plugin's; nothing where the machine could not tell."""
    stock, plugin = row.get("stock_peak_mb"), row.get("plugin_peak_mb")
    return "" if stock is None or plugin is None else f"{stock:.1f} to {plugin:.1f}"


def _pair(one: str, other: str) -> Callable[[Row], str]:
    return lambda row: f"{row[one]} to {row[other]}"


_TARGETS: tuple[Column, ...] = (
    ("model", _text("model")),
    ("batch size", _text("batch_size")),
    ("stock, ms", _number("stock_ms", 1)),
    ("plugin, ms", _number("plugin_ms", 1)),
    (
        "times faster (quartiles)",
        lambda row: f"{row['ratio']:.1f} ({row['ratio_low']:.1f} to {row['ratio_high']:.1f})",
    ),
    ("operators", _pair("stock_ops", "plugin_ops")),
    ("host reads", _pair("stock_host_reads", "plugin_host_reads")),
    ("peak memory, MiB", _peak),
    ("values that differ", _text("mismatches")),
)
_BITMAP: tuple[Column, ...] = (
    ("M", _text("mask_size")),
    ("`crop_size`", _text("crop_size")),
    ("cells that differ, %", _number("differing_percent", 2)),
    ("mean IoU with stock's mask", _number("mean_iou", 3)),
    ("KiB an instance", _text("bitmap_kb")),
    ("stock, ms", _number("stock_ms", 1)),
    ("plugin, ms", _number("plugin_ms", 1)),
    ("operators", _pair("stock_ops", "plugin_ops")),
    ("host reads", _pair("stock_host_reads", "plugin_host_reads")),
)
_MODULES: tuple[Column, ...] = (
    ("part", lambda row: "&nbsp;&nbsp;" * row["depth"] + row["name"]),
    ("calls", _text("calls")),
    ("CPU total, ms", _number("cpu_total_ms", 1)),
    ("avg", _number("cpu_avg_ms", 2)),
    ("max", _number("cpu_max_ms", 2)),
    ("min", _number("cpu_min_ms", 2)),
    ("ratio, %", _number("cpu_ratio", 2)),
)
_OPS: tuple[Column, ...] = (("operator", _text("op")), *_MODULES[1:])
_TIMERS: tuple[Column, ...] = (
    ("", _text("timer")), *((key, _number(key, 5)) for key in ("avg", "max", "min", "median"))
)  # fmt: skip
_TRUST: tuple[Column, ...] = (
    ("steps", _text("steps")),
    ("median step, ms", _number("step_ms", 1)),
    ("in named ranges, %", lambda row: f"{100 * row['coverage']:.2f}"),
    ("against an outside clock, %", lambda row: f"{row['outside_percent']:+.2f}"),
    ("ranges a step", lambda row: f"{row['overhead']['calls_per_step']:.0f}"),
    ("cost of a range, microseconds", lambda row: f"{row['overhead']['call_us']:.2f}"),
    ("cost of the ranges, %", lambda row: f"{row['overhead']['percent']:.4f}"),
)
_ADVICE: tuple[Column, ...] = (
    ("part", _text("part")),
    ("ms a step", _number("cpu_ms", 2)),
    ("host reads", _text("host_reads")),
    ("waiting operators", _number("waiting_ops", 0)),
    ("advice", _text("advice")),
)

_MOVED: tuple[Column, ...] = (
    ("part", lambda row: "&nbsp;&nbsp;" * row["depth"] + row["part"]),
    ("ms a step", _number("this_ms", 2)),
    ("with the other config", _number("other_ms", 2)),
    ("difference", _number("difference_ms", 2)),
)

_ALL_TARGETS = (("part", _text("part")), *_TARGETS)

REGIONS: dict[str, Region] = {
    "targets": Region("targets.json", _ALL_TARGETS),
    "targets-paddle-3.3": Region("targets-paddle-3.3.json", _ALL_TARGETS),
    **{
        part: Region("targets.json", _TARGETS, {"part": part})
        for part in ("mask", "rpn", "bbox", "proposals", "all")
    },
    "bitmap": Region("bitmap.json", _BITMAP, {"part": "bitmap"}),
    "train": Region("bench_train.json"),
    "profile-parts": Region("profile.json", _MODULES, least=0.1, conditions=False),
    "profile-ops": Region("profile.json", _OPS, rows="ops", least=1.0, conditions=False),
    "profile-timers": Region("profile.json", _TIMERS, rows="timers", conditions=False),
    "profile-trust": Region("profile.json", _TRUST, rows=""),
    "profile-moved": Region(
        "profile-against.json", _MOVED, rows="compared", least=0.1, least_of="difference_ms"
    ),
    "profile-advice": Region("profile.json", _ADVICE, rows="advice", conditions=False),
}


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
    """Rewrite the tables, or compare; exit status 1 where `--check` finds a difference."""
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
