"""What `detperf bench transforms` measures: a pipeline's stock and rewritten transforms, side by side."""

from __future__ import annotations

import copy
import multiprocessing
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.memory import peak_since, resident_mb
from detperf_plugins.mindocr.memory import keep_freed_memory
from detperf_plugins.mindocr.pipeline import Options, register, rewrite

__all__ = [
    "COLUMNS",
    "PIPELINE",
    "differences",
    "stock_names",
    "time_transforms",
]

# The training pipeline of DBNet on ICDAR 2015, as MindOCR's configs have it.
PIPELINE: list[dict[str, Any]] = [
    {"DecodeImage": {"img_mode": "RGB", "to_float32": False}},
    {"DetLabelEncode": None},
    {"RandomColorAdjust": {"brightness": 0.1255, "saturation": 0.5}},
    {"RandomHorizontalFlip": {"p": 0.5}},
    {"RandomRotate": {"degrees": [-10, 10], "expand_canvas": False, "p": 1.0}},
    {"RandomScale": {"scale_range": [0.5, 3.0], "p": 1.0}},
    {"RandomCropWithBBox": {"max_tries": 10, "min_crop_ratio": 0.1, "crop_size": [640, 640], "p": 1.0}},
    {"ValidatePolygons": None},
    {"ShrinkBinaryMap": {"min_text_size": 8, "shrink_ratio": 0.4}},
    {"BorderMap": {"shrink_ratio": 0.4, "thresh_min": 0.3, "thresh_max": 0.7}},
    {"NormalizeImage": {"bgr_to_rgb": False, "is_hwc": True, "mean": "imagenet", "std": "imagenet"}},
    {"ToCHWImage": None},
]
COLUMNS = ["image", "binary_map", "mask", "thresh_map", "thresh_mask"]

_STANDS_FOR = {
    "PerfDecodeImage": ["DecodeImage"],
    "PerfDetLabelEncode": ["DetLabelEncode"],
    "PerfValidatePolygons": ["ValidatePolygons"],
    "PerfDetTargets": ["ShrinkBinaryMap", "BorderMap"],
    "PerfNormalizeToCHW": ["NormalizeImage", "ToCHWImage"],
}


def stock_names(step: Any) -> list[str]:
    """The stock transforms that a step of a rewritten pipeline stands for (itself where it is stock)."""
    name, arguments = next(iter(step.items()))
    if name in ("PerfExactGeometry", "PerfRandomGeometry"):
        moves = [next(iter(move)) for move in arguments["steps"]]
        return ["RandomColorAdjust", *moves] if arguments["colour"] is not None else moves
    return _STANDS_FOR.get(name, [name])


def time_transforms(
    label_file: Path,
    folder: Path,
    perf: dict[str, Any],
    pipeline: Sequence[Any] = PIPELINE,
    passes: int = 7,
) -> list[dict[str, Any]]:
    """Stock and rewritten transforms in turns, sample by sample, with the same draws.

    Args:
        label_file, folder: records, and where their pictures lie.
        perf: how the pipeline is rewritten; the attributes of `pipeline.Options`.
        pipeline: stock transforms.
        passes: over all records; the first one is not counted.

    Returns:
        One row a step of the rewritten pipeline, and `sample` for their sum: part, stands_for, stock_ms and
        plugin_ms (mean over the records, median over the passes), ratio (median over the passes), ratio_low,
        ratio_high (quartiles), samples, mismatches (values that differ between the two; -1 where the level is
        not exact); and in `sample` stock_peak_mb, plugin_peak_mb: most memory of either process above its
        start, MiB (None in the other rows, and where the system cannot tell).

    Raises:
        DetperfError: either side fails on a record.
    """
    register()
    options = Options(**perf)
    rewritten = rewrite(pipeline, options)
    groups = [stock_names(step) for step in rewritten]
    lines = label_file.read_text(encoding="utf-8").split("\n")
    records = [line.split("\t", 1) for line in lines if line]
    stock_times, our_times = [], []
    mismatches = 0 if options.level == "exact" else -1
    with (
        _Side(list(pipeline), [len(names) for names in groups], False) as stock,
        _Side(rewritten, [1] * len(groups), True) as ours,
    ):
        for turn in range(passes + 1):
            spent = {stock: np.zeros(len(groups)), ours: np.zeros(len(groups))}
            for index, (name, label) in enumerate(records):
                job = {"img_path": str(folder / name), "label": label}, turn * 1_000_003 + index
                compared = turn == 0 and mismatches >= 0
                made = {}
                for side in (stock, ours) if (turn + index) % 2 else (ours, stock):
                    made[side], times = side.run(*job, compared)
                    spent[side] += times
                if compared:
                    mismatches += differences(made[stock], made[ours])
            if turn:
                stock_times.append(spent[stock] / len(records))
                our_times.append(spent[ours] / len(records))
    peaks = {}
    for name, steps, mine in (("stock", list(pipeline), False), ("plugin", rewritten, True)):
        with _Side(steps, [len(steps)], mine) as side:  # one that has handed over no sample
            for index, (picture, label) in enumerate(records):
                side.run({"img_path": str(folder / picture), "label": label}, index, False)
            peaks[f"{name}_peak_mb"] = side.peak_mb()
    rows = _rows(rewritten, groups, np.array(stock_times), np.array(our_times), len(records), mismatches)
    return [{**row, **(peaks if row["part"] == "sample" else dict.fromkeys(peaks))} for row in rows]


class _Side:
    """One of the two pipelines in a process of its own, as a loader worker is: each with its own memory.

    Args:
        pipeline: steps to build.
        sizes: how many of them form each row.
        ours: keep freed memory, as PerfDetDataset does.
    """

    def __init__(self, pipeline: list[Any], sizes: list[int], ours: bool) -> None:
        context = multiprocessing.get_context("fork")
        self._ours = ours
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, pipeline, sizes, ours), daemon=True)

    def __enter__(self) -> _Side:
        self._process.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()

    def run(self, data: dict[str, Any], seed: int, keep: bool) -> tuple[dict[str, Any], np.ndarray]:
        self._pipe.send((data, seed, keep))
        made, times = self._pipe.recv()
        if isinstance(made, UnreadableInput):
            raise made
        if isinstance(made, Exception):
            side = "the plugin" if self._ours else "stock"
            raise DetperfError(
                f"{side} fails on {data['img_path']}: {made or type(made).__name__}; leave it out of --labels"
            ) from made
        return made, times

    def peak_mb(self) -> Optional[float]:
        """Most resident memory above what the process had when it began, MiB."""
        self._pipe.send(None)
        return self._pipe.recv()


def _serve(pipe: Any, pipeline: list[Any], sizes: list[int], ours: bool) -> None:
    from mindocr.data.transforms.transforms_factory import create_transforms

    try:
        transforms = create_transforms(copy.deepcopy(pipeline), {"is_train": True, "use_minddata": False})
    except UnreadableInput as error:  # a cache that cannot be written
        pipe.recv()
        pipe.send((error, None))
        return
    if ours:
        keep_freed_memory()
    before = resident_mb()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        if job is None:
            pipe.send(None if before is None else round(peak_since(before), 1))
            continue
        data, seed, keep = job
        random.seed(seed)
        np.random.seed(seed % 2**32)
        times, at = np.zeros(len(sizes)), iter(transforms)
        try:
            for index, size in enumerate(sizes):
                for _ in range(size):
                    transform = next(at)
                    begin = time.perf_counter()
                    data = transform(data)
                    times[index] += time.perf_counter() - begin
            pipe.send(({column: data[column] for column in COLUMNS} if keep else {}, times))
        except Exception as error:
            pipe.send((error, times))


def differences(stock: dict[str, Any], ours: dict[str, Any], columns: Sequence[str] = COLUMNS) -> int:
    """Values that differ, in thresh_map by more than 2e-7."""
    count = 0
    for column in columns:
        a, b = stock[column], ours[column]
        if column == "thresh_map":
            count += int((np.abs(a - b) > 2e-7).sum())
        elif column != "image":
            count += int((a != b).sum())
    return count


def _rows(
    rewritten: list[Any],
    groups: list[list[str]],
    stock: np.ndarray,
    ours: np.ndarray,
    samples: int,
    mismatches: int,
) -> list[dict[str, Any]]:
    names = [next(iter(step)) for step in rewritten] + ["sample"]
    joined = [" + ".join(group) for group in groups] + ["all of them"]
    stock = np.column_stack([stock, stock.sum(axis=1)])
    ours = np.column_stack([ours, ours.sum(axis=1)])
    rows = []
    for index, (name, stands_for) in enumerate(zip(names, joined)):
        ratios = (stock[:, index] / ours[:, index]).tolist()
        low, middle, high = statistics.quantiles(ratios, n=4)
        rows.append(
            {
                "part": name,
                "stands_for": stands_for,
                "stock_ms": round(float(np.median(stock[:, index])) * 1e3, 3),
                "plugin_ms": round(float(np.median(ours[:, index])) * 1e3, 3),
                "ratio": round(middle, 3),
                "ratio_low": round(low, 3),
                "ratio_high": round(high, 3),
                "samples": samples,
                "mismatches": mismatches if name == "sample" else 0,
            }
        )
    return rows
