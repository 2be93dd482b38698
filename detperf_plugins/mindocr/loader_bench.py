"""What `detperf bench transforms --loader` and `--probe` measure: whole loaders, stock beside ours."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.mindocr.loader import choose, probe
from detperf_plugins.mindocr.transform_bench import COLUMNS, PIPELINE

__all__ = ["probe_loader", "time_loaders"]


def time_loaders(
    label_file: Path,
    folder: Path,
    perf: dict[str, Any],
    workers: int = 2,
    batch_size: int = 8,
    seconds: float = 4.0,
    rounds: int = 3,
    kinds: Sequence[str] = ("threads", "processes"),
    pipeline: Sequence[Any] = PIPELINE,
) -> Iterator[dict[str, Any]]:
    """Samples a second through GeneratorDataset: stock with processes, ours by each kind, in turns.

    Yields rows: part (stock, threads or processes), workers, batch_size, samples_per_s (median over the
    rounds), ratio to stock (median over the rounds).
    """
    from mindocr.data.det_dataset import DetDataset

    from detperf_plugins.mindocr.dataset import PerfDetDataset

    common: dict[str, Any] = {
        "data_dir": str(folder),
        "label_file": str(label_file),
        "output_columns": COLUMNS,
    }
    stock = DetDataset(transform_pipeline=copy.deepcopy(list(pipeline)), **common)
    ours = PerfDetDataset(transform_pipeline=copy.deepcopy(list(pipeline)), perf=perf, **common)
    rates: dict[str, list[float]] = {"stock": [], **{kind: [] for kind in kinds}}
    for _ in range(rounds):
        for part in rates:
            kind = "processes" if part == "stock" else part
            source = stock if part == "stock" else ours
            rates[part].append(probe(source, [workers], [kind], batch_size, seconds)[0]["samples_per_s"])
    for part, values in rates.items():
        ratios = [value / base for value, base in zip(values, rates["stock"])]
        yield {
            "part": part,
            "workers": workers,
            "batch_size": batch_size,
            "samples_per_s": round(statistics.median(values), 2),
            "ratio": round(statistics.median(ratios), 3),
        }


def probe_loader(
    label_file: Path,
    folder: Path,
    perf: dict[str, Any],
    workers: Sequence[int] | None,
    kinds: Sequence[str],
    batch_size: int,
    pipeline: Sequence[Any] = PIPELINE,
) -> list[dict[str, Any]]:
    """Rows of `loader.probe` over our data set, `chosen` in the one that `num_workers: auto` would take."""
    from detperf_plugins.mindocr.dataset import PerfDetDataset

    source = PerfDetDataset(
        data_dir=str(folder),
        label_file=str(label_file),
        transform_pipeline=copy.deepcopy(list(pipeline)),
        output_columns=COLUMNS,
        perf=perf,
    )
    rows = probe(source, workers, kinds, batch_size)
    best = choose(rows)
    return [{**row, "chosen": row is best} for row in rows]
