"""`detperf bench train`: whole training steps of a baseline config and of tuned ones, as a gain table."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable, Optional

import typer

from detperf_plugins import hosts
from detperf_plugins.cli.bench import bench
from detperf_plugins.cli.configs import describe, find_config
from detperf_plugins.cli.output import JSON_OPTION, console, machine, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import run_child, write_file
from detperf_plugins.measure.matrix import Run, interleaved, keep, kept

__all__ = ["train"]

BASELINE = "baseline"
PRECISIONS = ("fp32", "amp")
COLUMNS = ("avg", "max", "min", "median")


@bench.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": True})
def train(
    context: typer.Context,
    config: Optional[Path] = typer.Option(
        None, "-c", "--config", help="The baseline; without one the demo's tiny model."
    ),
    tuned: list[str] = typer.Option(
        ["exact_targets", "exact_parts"],
        metavar="[NAME=]CONFIG",
        help="A config to compare, or an overlay to put over the baseline (see detperf configs); repeat it.",
    ),
    overrides: list[str] = typer.Option(
        [], "-o", "--opt", metavar="KEY=VALUE", help="Change a setting in all."
    ),
    batch_size: list[int] = typer.Option([2, 4, 8], min=1, help="Images a step; may be repeated."),
    precision: list[str] = typer.Option(["fp32"], help="fp32 or amp; may be repeated."),
    steps: int = typer.Option(20, min=1, help="Measured steps of each run."),
    warm_up: int = typer.Option(5, min=0, help="Steps before them that are left out."),
    repeats: int = typer.Option(3, min=1, help="Runs of each setting."),
    seed: int = typer.Option(0, help="Initial weights, order and augmentation of every run."),
    out: Path = typer.Option(Path("out/bench-train"), help="Folder of results, table, chart and logs."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Time training, each run in its own process; runs that are in the folder already are not run again."""
    from detperf_plugins.measure.train_table import summarise
    from detperf_plugins.paddledet import variants

    hosts.require_paddledet()
    for one in precision:
        if one not in PRECISIONS:
            raise UnreadableInput(f"--precision {one} is unknown; there are: {', '.join(PRECISIONS)}")
    out = out.resolve()
    words = [*overrides, *context.args]
    files = _named(config or variants.sample_config(out / "data"), tuned)
    for path in files.values():
        variants.require_host(path)
    configs = {name: _trainable(path, files[BASELINE], out) for name, path in files.items()}
    for path in configs.values():
        _require_data(path, words)
    settings = {"overrides": words, "steps": steps, "warm_up": warm_up, "seed": seed}
    # What was measured under other versions or on another machine is no part of this table.
    marks = {
        name: variants.fingerprint(path, [settings, hosts.versions(), machine()])
        for name, path in configs.items()
    }
    results: dict[Run, Mapping[str, Any]] = {}
    missing = []
    runs = interleaved(
        list(configs), list(dict.fromkeys(batch_size)), list(dict.fromkeys(precision)), repeats
    )
    for run in runs:
        result = kept(out / "runs", run, marks[run.name])
        if result is None:
            missing.append(run)
        else:
            results[run] = result
    if results:
        console.print(f"{len(results)} of {len(runs)} runs are in {out} already.", soft_wrap=True)
    stopped = _measure(missing, configs, marks, settings, out, results)
    if not results:
        raise DetperfError(stopped or "nothing was measured")
    contents = {name: describe(files[name]) or files[name].stem for name in configs}
    ordered = {run: results[run] for run in runs if run in results}
    rows = summarise(ordered, contents)
    if not stopped and all(row["status"] == "failed" for row in rows):
        raise DetperfError(f"every run failed: {_errors(rows)} (logs: {out / 'logs'})")
    _write(rows, ordered, configs, settings, out, json_path)
    failed = [row for row in rows if row["status"] == "failed"]
    if stopped:
        raise DetperfError(
            f"{stopped}; {len(results)} of {len(runs)} runs are kept in {out}: the same command goes on"
        )
    if failed:
        raise DetperfError(_errors(failed))


def _errors(rows: list[dict[str, Any]]) -> str:
    """What failed, each error once, behind the names of those that it ended."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["error"], []).append(row["direction"])
    return "; ".join(f"{', '.join(dict.fromkeys(names))}: {error}" for error, names in found.items())


def _require_data(file: Path, words: list[str]) -> None:
    """Ask for a config's training set before any process is started for it."""
    from detperf_plugins.doctor.configs.check import load_config
    from detperf_plugins.doctor.configs.overrides import parse_override
    from detperf_plugins.paddledet.datasets import require_data

    given = dict(word for word in map(parse_override, words) if word is not None)
    config = load_config(file.read_text(encoding="utf-8"), str(file), file, given)
    keys = ("dataset_dir", "anno_path", "image_dir")
    require_data({"TrainDataset": {key: config.get(f"TrainDataset.{key}") for key in keys}}, file)


def _named(baseline: Path, tuned: list[str]) -> dict[str, Path]:
    """File of each config or overlay by its name, the baseline first."""
    files = {BASELINE: baseline}
    for word in tuned:
        name, equals, value = word.partition("=")
        value = value if equals else word
        file = Path(value) if Path(value).is_file() else find_config(value)
        name = name if equals else file.stem
        if name in files:
            raise UnreadableInput(f"two configs are called {name!r}: name one with --tuned OTHER={value}")
        files[name] = file
    return files


def _trainable(file: Path, baseline: Path, out: Path) -> Path:
    """The file itself, or, where it is an overlay, a config with it over the baseline."""
    from detperf_plugins.paddledet import variants

    if variants.is_complete(file):
        return file.resolve()
    if file == baseline:
        raise UnreadableInput(f"{baseline} has no `architecture`: it is no PaddleDetection config")
    return variants.over(baseline, file, out / "configs")


def _measure(
    missing: list[Run],
    configs: Mapping[str, Path],
    marks: Mapping[str, str],
    settings: Mapping[str, Any],
    out: Path,
    results: dict[Run, Mapping[str, Any]],
) -> Optional[str]:
    """Run what is missing and put it into `results`; says why it stopped before the end, if it did."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    each = settings["warm_up"] + settings["steps"]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=each * len(missing))
        for index, run in enumerate(missing):
            progress.update(task, completed=index * each, description=run.key)

            def on_step(done: int, before: int = index * each) -> None:
                progress.update(task, completed=before + done)

            try:
                result, fault = _run(run, configs[run.name], settings, out, on_step)
                results[run] = result
                if result["status"] != "failed":
                    keep(out / "runs", run, marks[run.name], result)
            except KeyboardInterrupt:
                return "interrupted"
            except DetperfError as error:
                return str(error)
            if fault:
                return fault
    return None


def _run(
    run: Run, config: Path, settings: Mapping[str, Any], out: Path, on_step: Callable[[int], None]
) -> tuple[Mapping[str, Any], Optional[str]]:
    """One run in its own process, and why its log is not whole; a failure is a result too.

    Ctrl-C is raised when the process has ended.
    """
    found: dict[str, Any] = {}

    def on_event(event: dict[str, Any]) -> None:
        if "step" in event:
            on_step(event["step"])
        else:
            found.update(event)

    arguments = [
        "--config", str(config), "--out", str(out / "work"), "--batch-size", str(run.batch_size),
        "--precision", run.precision, "--overrides", json.dumps(settings["overrides"]),
        "--warm-up", str(settings["warm_up"]), "--steps", str(settings["steps"]),
        "--seed", str(settings["seed"]),
    ]  # fmt: skip
    log = out / "logs" / f"{run.key}.log"
    ended = run_child("detperf_plugins.paddledet.train_bench", arguments, log, on_event)
    if ended.interrupted:
        raise KeyboardInterrupt
    if "result" in found:
        return found["result"], ended.fault
    if ended.status == -9:
        killed = "killed by the system, as where memory ends"
        return {"status": "out of memory", "error": killed}, ended.fault
    return {"status": "failed", "error": ended.sentence or ended.last_line}, ended.fault


def _write(
    rows: list[dict[str, Any]],
    results: Mapping[Run, Mapping[str, Any]],
    configs: Mapping[str, Path],
    settings: Mapping[str, Any],
    out: Path,
    json_path: Optional[Path],
) -> None:
    """Print the tables, and write JSON, CSV, Markdown and chart."""
    from detperf_plugins.measure import markdown, train_table
    from detperf_plugins.measure.charts import bars
    from detperf_plugins.paddledet import variants

    header, lines = train_table.gain_table(rows)
    print_table("Training speed", header, lines, note="ips: median, images a second; gain over the baseline")
    print_table(
        "Timers and memory",
        ("direction", "precision", "BS", "timer", *COLUMNS, "CPU s a step",
         "host MiB", "device MiB", "loader KiB a step"),
        [
            (row["direction"], row["precision"], row["batch_size"], timer,
             *(f"{row[f'{timer}_{key}']:.5f}" for key in COLUMNS),
             f"{row['cpu_cost_median']:.3f}", _whole(row["host_mb"]), _whole(row["device_mb"]),
             _whole(row["loader_bytes"], 1024))
            for row in rows if row["ips_avg"] is not None for timer in ("reader_cost", "batch_cost", "ips")
        ],
    )  # fmt: skip
    for row in rows:
        if row["status"] != "ok":
            setting = f"{row['direction']}, {row['precision']}, BS={row['batch_size']}"
            console.print(f"{setting}: {row['status']}: {row['error']}", soft_wrap=True)
    conditions = {
        **settings, "configs": {name: variants.shown(path) for name, path in configs.items()},
        "repeats": 1 + max(run.repeat for run in results), "date": datetime.date.today().isoformat(),
    }  # fmt: skip
    gains = [dict(zip(header, line)) for line in lines]
    for path in (out / "bench_train.json", json_path):
        write_json(path, rows, conditions, gains=gains)
    write_file(out / "bench_train.csv", train_table.as_csv(rows))
    facts = {**hosts.versions(), **machine(), **conditions}
    text = markdown.table(header, lines) + "\n" + markdown.table(("condition", "value"), list(facts.items()))
    write_file(out / "bench_train.md", text)
    settings_of = list(dict.fromkeys((row["batch_size"], row["precision"]) for row in rows))
    ips = {(row["direction"], row["batch_size"], row["precision"]): row["ips_median"] for row in rows}
    bars(
        out / "bench_train.png",
        "Training speed",
        "images/s, median",
        [f"BS={size} {precision}" for size, precision in settings_of],
        {name: [ips.get((name, *one)) for one in settings_of] for name in configs},
    )
    console.print(f"Table, CSV, chart and logs: {out}", soft_wrap=True)


def _whole(value: Optional[float], unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.0f}"
