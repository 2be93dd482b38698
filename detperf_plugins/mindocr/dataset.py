"""`PerfDetDataset`: DetDataset with its labels mended, its pipeline rewritten, no picture lost for a label.

Stock drops a picture in every epoch for one bad box, dies where the first record is bad, and recurses
without end where all are. Here every fault of a label file is repaired or ignored alone and named once. A
picture that cannot be decoded is named once, too: in a training the next one takes its place, in an
evaluation, where that one would count twice, its record is left out.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindocr.data.base_dataset import BaseDataset
from mindocr.data.det_dataset import DetDataset
from mindocr.data.transforms.transforms_factory import create_transforms, run_transforms

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.mindocr.labels import Record, can_decode, read_labels
from detperf_plugins.mindocr.memory import keep_freed_memory
from detperf_plugins.mindocr.pipeline import Options, register, rewrite
from detperf_plugins.mindocr.seeding import Seeds
from detperf_plugins.mindocr.settings import OWN, perf_settings

__all__ = ["PerfDetDataset"]

logger = logging.getLogger("mindocr.detperf")

_FIRST_TRIES = 50  # pictures tried before a data set is given up


class PerfDetDataset(DetDataset):
    """DetDataset, whose arguments it takes, and `perf`: a mapping of

    - level: exact (default), fast or off; cache, cache_gb, reduced_decoding, mended_maps: see
      `pipeline.Options`;
    - seeding: sample (default: each sample draws from generators of its own, seeded by the run's seed, its
      place and its visit) or stock (everything draws from the workers' global generators);
    - empty_is_background: a picture without a label has no text (default: its record is left out);
    - check_pictures: compare boxes with each picture's header (default True);
    - workers: auto (default: threads where every transform releases the interpreter's lock), threads or
      processes; read by `loader.build_dataset`.

    Raises:
        UnreadableInput: no record can be used; an unknown key or value of `perf`; an output column that the
            pipeline does not make.
    """

    def __init__(
        self,
        is_train: bool = True,
        data_dir: str | Sequence[str] | None = None,
        label_file: str | Sequence[str] | None = None,
        sample_ratio: float | Sequence[float] = 1.0,
        shuffle: bool | None = None,
        transform_pipeline: Sequence[Any] | None = None,
        output_columns: Sequence[str] | None = None,
        perf: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        BaseDataset.__init__(self, data_dir=data_dir, label_file=label_file, output_columns=output_columns)
        where = f"{'train' if is_train else 'eval'}.dataset"
        if not transform_pipeline:
            raise UnreadableInput(f"{where} has no transform_pipeline")
        settings = perf_settings(perf, f"{where}.perf")
        own = {key: settings.pop(key) for key in OWN}
        self.workers = own["workers"]
        self._labels = {key: own[key] for key in ("empty_is_background", "check_pictures")}
        self._labels["ignore_orientation"] = _ignores_orientation(transform_pipeline)

        ratios = (
            [sample_ratio] * len(self.label_file) if isinstance(sample_ratio, (int, float)) else sample_ratio
        )
        self._origins: list[str] = []
        self._training = is_train
        self.data_list = self.load_data_list(
            self.label_file, ratios, is_train if shuffle is None else shuffle
        )
        register()
        minddata = kwargs.get("use_minddata", False)
        pipeline = rewrite(transform_pipeline, Options(**settings), minddata)
        self.transforms = create_transforms(pipeline, {"is_train": is_train, "use_minddata": minddata})
        count = len(self.data_list)
        self._seeds = Seeds(_run_seed(), count) if own["seeding"] == "sample" else None
        self._reported = multiprocessing.RawArray("b", count)  # shared by forked workers
        self.output_columns = _choose_columns(output_columns, self._first_sample(), where)

    @property
    def releases_gil(self) -> bool:
        """Whether every transform does its work without the interpreter's lock."""
        return all(getattr(transform, "releases_gil", False) for transform in self.transforms)

    def load_data_list(
        self, label_file: Sequence[str], sample_ratio: Sequence[float], shuffle: bool = False, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Usable records as {"img_path", "label"}; draws from `random` as stock does."""
        data_list = []
        for folder, file, ratio in zip(self.data_dir, label_file, sample_ratio):
            records, faults = read_labels(file, folder, **self._labels)
            for fault in faults:
                logger.warning(str(fault))
            if not self._training and self._labels["check_pictures"]:
                records = _decodable(file, folder, records)
            count = round(len(records) * ratio)
            for record in random.sample(records, count) if shuffle else records[:count]:
                self._origins.append(f"{file}:{record.line}")
                data_list.append({"img_path": os.path.join(folder, record.picture), "label": record.label})
        if not data_list:
            raise UnreadableInput(f"no record is left of {', '.join(label_file)}; is sample_ratio too small?")
        return data_list

    def _first_sample(self) -> dict[str, Any]:
        """The first sample that can be made: it names the columns."""
        first: Exception | None = None
        for index in range(min(len(self.data_list), _FIRST_TRIES)):
            try:
                return run_transforms(self.data_list[index].copy(), transforms=self.transforms)
            except Exception as error:
                self._report(index, error)
                first = first or error
        raise UnreadableInput(
            f"none of the first {min(len(self.data_list), _FIRST_TRIES)} samples can be made; "
            f"the first fails with: {first}"
        ) from first

    def _sample(self, index: int) -> dict[str, Any]:
        data = self.data_list[index].copy()
        if self._seeds is not None:
            data["generators"] = self._seeds.generators(index)
            if not self.releases_gil:  # so it runs in a process of its own, where the globals are its own
                Seeds.set_global(data["generators"])
        return run_transforms(data, transforms=self.transforms)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        keep_freed_memory()
        count = len(self.data_list)
        for place in range(int(index), int(index) + count):
            try:
                data = self._sample(place % count)
                return tuple(data[column] for column in self.output_columns)
            except MemoryError:
                raise
            except Exception as error:
                self._report(place % count, error)
        raise DetperfError(f"none of the {count} samples can be made; the faults were named above")

    def restart(self) -> None:
        """Forget the visits so far: the next draws are those of a new run."""
        if self._seeds is not None:
            self._seeds.start_at(0)

    def _report(self, index: int, error: Exception) -> None:
        if not self._reported[index]:
            self._reported[index] = 1
            logger.warning(
                f"{self._origins[index]}: {error or type(error).__name__}; another sample takes its place"
            )


def _choose_columns(wanted: Sequence[str] | None, sample: Mapping[str, Any], where: str) -> list[str]:
    if wanted is None:
        return list(sample)
    missing = [column for column in wanted if column not in sample]
    if missing:
        raise UnreadableInput(
            f"{where}.output_columns: the pipeline makes no {missing[0]!r}; there are {', '.join(sample)}"
        )
    return list(wanted)


def _decodable(file: str, folder: str, records: Sequence[Record]) -> list[Record]:
    """The records whose pictures can be decoded; the others are named."""
    kept = []
    for record in records:
        path = Path(folder, record.picture)
        if can_decode(path):
            kept.append(record)
        else:
            logger.warning(
                f"{file}:{record.line}: {path} is no picture that OpenCV can decode; the record is left out: "
                "replace the file"
            )
    if not kept:
        raise UnreadableInput(f"{file}: none of its pictures can be decoded")
    return kept


def _run_seed() -> int:
    seed = ms.get_seed()
    return int(seed) if seed is not None else int(np.random.SeedSequence().generate_state(1)[0])


def _ignores_orientation(transform_pipeline: Sequence[Any]) -> bool:
    for step in transform_pipeline:
        if isinstance(step, Mapping):
            for name in ("DecodeImage", "PerfDecodeImage"):
                if name in step:
                    return bool((step[name] or {}).get("ignore_orientation", False))
    return False
