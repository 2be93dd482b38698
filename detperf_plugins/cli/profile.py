"""`detperf profile`: where a training step spends its time, part by part and operator by operator."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.configs import find_config
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["profile"]

SPREAD = ("total", "avg", "max", "min", "ratio")


@app.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": True})
def profile(
    context: typer.Context,
    config: Optional[Path] = typer.Option(
        None, "-c", "--config", help="The config to train; without one the demo's tiny model is profiled."
    ),
    overrides: list[str] = typer.Option([], "-o", "--opt", metavar="KEY=VALUE", help="Change a setting."),
    first: int = typer.Option(6, "--from", min=1, help="First profiled step, counted from 1."),
    last: int = typer.Option(15, "--to", min=1, help="Last profiled step."),
    op_steps: int = typer.Option(3, min=0, help="Steps under Paddle's profiler, after those; 0 for none."),
    against: Optional[str] = typer.Option(
        None, help="Compare: another profile's folder, a config, or an overlay (see detperf configs)."
    ),
    amp: bool = typer.Option(False, "--amp", help="Automatic mixed precision (does nothing on a CPU)."),
    replace: bool = typer.Option(False, "--replace", help="Use the exact parts in place of stock ones."),
    stock: bool = typer.Option(False, "--stock", help="Train without the plugins."),
    seed: int = typer.Option(0, help="Initial weights, order and augmentation."),
    overhead: bool = typer.Option(
        False, "--overhead", help="Record every second step only, to measure what the ranges cost."
    ),
    ops: int = typer.Option(15, min=1, help="Rows of the printed operator table; the JSON has all."),
    out: Path = typer.Option(Path("out/profile"), help="Folder of profile.json, traces, chart and log."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train a few steps of a PaddleDetection config with its parts named, and say what takes how long."""
    from detperf_plugins.hosts import require_paddledet
    from detperf_plugins.paddledet import profiles, variants

    require_paddledet()
    if last < first:
        raise UnreadableInput(f"--to {last} comes before --from {first}")
    if replace and stock:
        raise UnreadableInput("--replace and --stock exclude each other: give one of them")
    if overhead and last == first:
        raise UnreadableInput("--overhead needs two profiled steps at least")
    words = [*overrides, *context.args]
    out = out.resolve()
    config = config or variants.sample_config(out / "data")
    if not variants.is_complete(config):
        raise UnreadableInput(f"{config} has no `architecture`: it is no PaddleDetection config")
    flags = [f"--{name}" for name, on in (("amp", amp), ("replace", replace), ("stock", stock)) if on]
    flags += ["--alternate"] if overhead else []

    def make(which: Path, folder: Path) -> dict[str, Any]:
        return _with_bar(
            profiles.make, which, folder, first=first, last=last, op_steps=op_steps, overrides=words,
            flags=flags, seed=seed,
        )  # fmt: skip

    other, other_config = _other(against, config, out / "against")
    result = make(config, out)
    conditions: dict[str, Any] = {
        "config": variants.shown(config), "overrides": words, "first_step": first, "last_step": last,
        "seed": seed, "amp": amp, "replace": replace, "plugins": not stock,
        "batch_size": result["batch_size"], "date": datetime.date.today().isoformat(),
    }  # fmt: skip
    _show(result, ops, out)
    paths = [out / "profile.json", json_path]
    for path in paths:
        write_json(path, result["modules"], conditions, **_extra(result))
    _chart(result, out)
    _raise_if_stopped(result, out)
    if other_config is not None:
        other = make(other_config, out / "against")
        theirs = {**conditions, "config": variants.shown(other_config)}
        write_json(out / "against" / "profile.json", other["modules"], theirs, **_extra(other))
        _raise_if_stopped(other, out / "against")
    if other is not None:
        rows = profiles.compare(result, other)
        sentence = profiles.moved(rows)
        print_table("Side by side, ms a step", ("part", "this", "other", "other - this", "of that its own"), [
            (_indented(row["part"], row["depth"]), _ms(row["this_ms"]), _ms(row["other_ms"]),
             f"{row['difference_ms']:+.2f}", f"{row['self_difference_ms']:+.2f}") for row in rows
        ])  # fmt: skip
        console.print(sentence, soft_wrap=True)
        conditions["against"] = variants.shown(other_config) if other_config else against
        for path in paths:
            write_json(path, result["modules"], conditions, **_extra(result), compared=rows, moved=sentence)


def _extra(result: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside the rows in profile.json."""
    return {key: value for key, value in result.items() if key not in ("modules", "batch_size")}


def _raise_if_stopped(result: Mapping[str, Any], out: Path) -> None:
    if result["stopped"]:
        raise DetperfError(f"{result['stopped']}; {result['steps']} steps were measured and are in {out}")


def _other(
    against: Optional[str], config: Path, folder: Path
) -> tuple[Optional[dict[str, Any]], Optional[Path]]:
    """What `--against` means: a profile that exists, or a config that is to be profiled."""
    from detperf_plugins.paddledet import profiles, variants

    if against is None:
        return None, None
    path = Path(against)
    if path.is_dir() or path.suffix == ".json":
        return profiles.read(path), None
    file = variants.require_host(path if path.is_file() else find_config(against))
    return None, file if variants.is_complete(file) else variants.over(config, file, folder)


def _with_bar(make: Any, config: Path, folder: Path, **options: Any) -> dict[str, Any]:
    if not console.is_interactive:  # where rich would leave an empty line
        return make(config, folder, **options)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(config.stem, total=None)
        return make(
            config,
            folder,
            on_step=lambda done, total: progress.update(task, completed=done, total=total),
            **options,
        )


def _show(result: Mapping[str, Any], ops: int, out: Path) -> None:
    _spread_table("Parts", "name", result["modules"])
    if result["ops"]:
        _spread_table(f"Operators, the slowest {ops} of {len(result['ops'])}", "op", result["ops"][:ops])
    print_table(
        "Timers (s; ips in images/s)",
        ("", "avg", "max", "min", "median"),
        [
            (row["timer"], *(f"{row[key]:.5f}" for key in ("avg", "max", "min", "median")))
            for row in result["timers"]
        ],
    )
    if result["advice"]:
        print_table(
            "Advice",
            ("part", "ms a step", "host reads", "waiting ops", "advice"),
            [
                (
                    row["part"],
                    _ms(row["cpu_ms"]),
                    *("-" if row[key] is None else f"{row[key]:g}" for key in ("host_reads", "waiting_ops")),
                    row["advice"],
                )
                for row in result["advice"]
            ],
        )
    cost = result["overhead"]
    text = (
        f"{result['steps']} steps of {result['step_ms']:.1f} ms (median); {100 * result['coverage']:.1f}% of "
        f"their time lies in named ranges; the ranges cost {cost['percent']:.3f}% "
        f"({cost['calls_per_step']:.0f} a step)"
    )
    if "alternate_percent" in cost:
        text += f", {cost['alternate_percent']:+.2f}% against steps without them"
    if result["outside_percent"] is not None:
        text += f"; against a clock outside the process the steps differ by {result['outside_percent']:+.2f}%"
    console.print(f"{text}. Traces, chart and log: {out}", soft_wrap=True)


def _spread_table(title: str, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The table of the issue: calls, then total / avg / max / min / ratio of CPU and, where known, GPU."""
    kinds = ["cpu"] + (["gpu"] if any(row["gpu_total_ms"] is not None for row in rows) else [])
    columns = [key, "calls", *(f"{kind.upper()} {what}" for kind in kinds for what in SPREAD)]
    table = [
        (
            _indented(row[key], row.get("depth", 0)),
            row["calls"],
            *(
                _ms(row[f"{kind}_ratio" if what == "ratio" else f"{kind}_{what}_ms"])
                for kind in kinds
                for what in SPREAD
            ),
        )
        for row in rows
    ]
    print_table(f"{title} (ms; ratio in %)", columns, table)


def _indented(name: str, depth: int) -> str:
    return "  " * depth + name


def _ms(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def _chart(result: Mapping[str, Any], out: Path) -> None:
    from detperf_plugins.measure.charts import bars

    rows = [row for row in result["modules"] if row["cpu_self_ms"] is not None]
    rows = sorted(rows, key=lambda row: -row["cpu_self_ms"])[:16]
    own = [row["cpu_self_ms"] / result["steps"] for row in rows]
    bars(
        out / "profile.png",
        "A training step, part by part",
        "ms a step, without the parts inside",
        [row["name"] for row in rows],
        {"own time": own},
    )
