"""Loader workers: threads or processes, how many, and MindOCR's build_dataset made to use them.

MindOCR always asks for processes, which copy every sample (11 MB of maps at 640 pixels) into shared memory.
Threads spare the copy, where the transforms release the interpreter's lock, as ours do; a probe can tell.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from typing import Any

from detperf_plugins.mindocr.settings import AUTO, perf_settings

__all__ = ["build_dataset", "choose", "generator_workers", "probe"]

logger = logging.getLogger("mindocr.detperf")

_GOOD_ENOUGH = 0.95  # of the best rate: fewer workers are then worth more


# What a data set without `perf` gets: the exact path, with the draws and the processes of stock.
AS_STOCK = {"level": "exact", "seeding": "stock", "workers": "processes"}


def build_dataset(original: Any, dataset_config: Any, loader_config: Any, *args: Any, **kwargs: Any) -> Any:
    """MindOCR's `build_dataset` (`original`) over PerfDetDataset.

    `dataset_config["perf"]` says how (see `PerfDetDataset`); with level off, and for other data sets,
    everything is left to MindOCR. `loader_config["num_workers"]` may be auto: then a probe chooses.
    """
    perf = perf_settings(dataset_config.get("perf"), "dataset.perf")
    if dataset_config.get("type") not in ("DetDataset", "PerfDetDataset") or perf["level"] == "off":
        dataset_config.pop("perf", None)
        return original(dataset_config, loader_config, *args, **kwargs)
    from detperf_plugins.mindocr.pipeline import register

    register()
    dataset_config["type"] = "PerfDetDataset"
    automatic = loader_config.get("num_workers") == AUTO
    if automatic:
        loader_config["num_workers"] = 1  # until the data set exists and can be probed
    with generator_workers(automatic):
        return original(dataset_config, loader_config, *args, **kwargs)


@contextlib.contextmanager
def generator_workers(automatic: bool = False) -> Iterator[None]:
    """Within, a GeneratorDataset over a PerfDetDataset takes the kind of workers that the data set prefers.

    Args:
        automatic: probe for their number and kind as well.
    """
    import mindspore.dataset as msd

    original = msd.GeneratorDataset

    def generator_dataset(source: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = getattr(source, "workers", None)
        if wanted is not None:
            threads = wanted == "threads" or (wanted == AUTO and source.releases_gil)
            if automatic:
                row = choose(probe(source, make=original))
                source.restart()
                kwargs["num_parallel_workers"], threads = row["workers"], row["kind"] == "threads"
                logger.info(
                    f"loader: {row['workers']} {row['kind']} give {row['samples_per_s']:.1f} samples/s"
                )
            kwargs["python_multiprocessing"] = not threads
        return original(source, *args, **kwargs)

    msd.GeneratorDataset = generator_dataset
    try:
        yield
    finally:
        msd.GeneratorDataset = original


def probe(
    source: Any,
    counts: Sequence[int] | None = None,
    kinds: Sequence[str] = ("threads", "processes"),
    batch_size: int = 4,
    seconds: float = 2.0,
    make: Any = None,
) -> list[dict[str, Any]]:
    """Time the loader itself, without any training, at several numbers and kinds of workers.

    Args:
        source: a data set that GeneratorDataset takes, with output_columns.
        counts: numbers of workers; powers of two up to the cores where None.
        kinds: threads, processes.
        batch_size: samples a batch.
        seconds: how long each setting is measured, after as long a start.
        make: MindSpore's GeneratorDataset, where that name is taken by a wrapper.

    Returns:
        One row a setting: kind, workers, batch_size, samples, seconds, samples_per_s.
    """
    import mindspore.dataset as msd

    cores = multiprocessing.cpu_count()
    counts = counts or [count for count in (1, 2, 4, 8, 16, 32) if count <= cores]
    rows = []
    for kind in kinds:
        for count in counts:
            data = (make or msd.GeneratorDataset)(
                source,
                column_names=list(source.output_columns),
                num_parallel_workers=count,
                python_multiprocessing=kind == "processes",
                shuffle=False,
            ).batch(batch_size, drop_remainder=len(source) >= batch_size)
            # One iterator over many epochs, as in a training: its workers live on between them.
            batches = data.create_tuple_iterator(num_epochs=-1, output_numpy=True)
            samples, started, begin, spent = 0, 0.0, 0.0, 0.0
            while spent <= seconds:
                for batch in batches:
                    now = time.perf_counter()
                    started = started or now  # the workers start with the first batch
                    if begin:
                        samples, spent = samples + len(batch[0]), now - begin
                    elif now - started > seconds:  # queues and shared memory are filled by now
                        begin = now
                    if spent > seconds:
                        break
            batches.release()
            rows.append(
                {
                    "kind": kind,
                    "workers": count,
                    "batch_size": batch_size,
                    "samples": samples,
                    "seconds": round(spent, 3),
                    "samples_per_s": round(samples / spent, 2),
                }
            )
    return rows


def choose(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row with the fewest workers that comes near the best rate; threads before processes."""
    best = max(row["samples_per_s"] for row in rows)
    near = [row for row in rows if row["samples_per_s"] >= _GOOD_ENOUGH * best]
    return min(near, key=lambda row: (row["workers"], row["kind"] != "threads"))
