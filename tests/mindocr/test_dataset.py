"""PerfDetDataset and the loader: stock's samples, draws that repeat, and what no fault can stop."""

from __future__ import annotations

import copy
import inspect
import json
import logging
import subprocess
import sys
import time

import numpy as np
import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.samples.text_pictures import write_pictures
from tests.mindocr.support import COLUMNS, PIPELINE, box, seeded, write_set

SMALL = copy.deepcopy(PIPELINE)
SMALL[6]["RandomCropWithBBox"]["crop_size"] = [96, 96]


def test_it_may_be_imported_before_mindocr():
    script = (
        "from detperf_plugins.mindocr import activate; activate(); import detperf_plugins.mindocr.dataset"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def dataset(path, pipeline=SMALL, columns=COLUMNS, **perf):
    from detperf_plugins.mindocr.dataset import PerfDetDataset

    return PerfDetDataset(
        data_dir=str(path.parent), label_file=str(path), transform_pipeline=copy.deepcopy(pipeline),
        output_columns=columns, shuffle=False, perf=perf,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures"), 8, (2, 6), 4, (180, 240))


def test_the_samples_are_stock_s(pictures):
    from mindocr.data.det_dataset import DetDataset

    pipeline = [
        step for step in SMALL if "RandomColorAdjust" not in step
    ]  # draws from a generator of its own
    theirs = DetDataset(
        data_dir=str(pictures.parent), label_file=str(pictures), transform_pipeline=copy.deepcopy(pipeline),
        output_columns=COLUMNS, shuffle=False,
    )  # fmt: skip
    ours = dataset(pictures, pipeline, seeding="stock")
    assert ours.releases_gil and [r["img_path"] for r in ours.data_list] == [
        r["img_path"] for r in theirs.data_list
    ]
    for index in range(24):
        expected, got = (seeded(index, source.__getitem__, index % 8) for source in (theirs, ours))
        for column, a, b in zip(COLUMNS, expected, got):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=0, atol=2e-7 if column == "thresh_map" else 0)


def test_a_shuffled_and_sampled_list_is_stock_s(pictures):
    from mindocr.data.det_dataset import DetDataset

    from detperf_plugins.mindocr.dataset import PerfDetDataset

    common = {
        "data_dir": str(pictures.parent), "label_file": str(pictures), "transform_pipeline": SMALL[:2],
        "shuffle": True, "sample_ratio": 0.6,
    }  # fmt: skip
    a, b = (
        seeded(3, lambda kind=kind: kind(**copy.deepcopy(common))) for kind in (DetDataset, PerfDetDataset)
    )
    assert [r["img_path"] for r in a.data_list] == [r["img_path"] for r in b.data_list] and len(
        b.data_list
    ) == 5
    assert [json.loads(r["label"]) for r in a.data_list] == [json.loads(r["label"]) for r in b.data_list]


def rows(source, workers, kind, epochs=1, batch=2):
    import mindspore.dataset as msd

    from detperf_plugins.mindocr.loader import generator_workers

    source.workers = kind
    with generator_workers():
        data = msd.GeneratorDataset(
            source, source.output_columns, num_parallel_workers=workers, shuffle=False
        )
    data = data.batch(batch)
    iterator = data.create_tuple_iterator(num_epochs=epochs, output_numpy=True)
    return [list(iterator) for _ in range(epochs)]


def test_draws_depend_on_the_seed_the_sample_and_the_visit_alone(pictures):
    """Threads or processes, one worker or two: the same; two samples, two visits or two seeds: different."""
    import mindspore as ms

    before = ms.get_seed()
    pipeline = [step for step in SMALL if "RandomColorAdjust" not in step]
    made = {}
    try:
        for seed in (1, 2):
            ms.set_seed(seed)
            for workers, kind in ((1, "threads"), (2, "threads"), (2, "processes")):
                source = dataset(pictures, pipeline, columns=["image"])
                made[seed, workers, kind] = np.array(
                    [[b[0] for b in e] for e in rows(source, workers, kind, 2)]
                )
    finally:
        ms.set_seed(before or 1)
    np.testing.assert_array_equal(made[1, 1, "threads"], made[1, 2, "threads"])
    np.testing.assert_array_equal(made[1, 1, "threads"], made[1, 2, "processes"])
    assert (made[1, 1, "threads"] != made[2, 1, "threads"]).any(axis=(-1, -2, -3)).all()
    first, second = made[1, 1, "threads"]
    assert (first != second).any(axis=(-1, -2, -3)).all()


def test_no_two_workers_draw_alike(tmp_path):
    """The same picture four times: stock's forked workers repeat each other's draws, ours do not."""
    line = f"0.jpg\t{json.dumps([box(10, 10, 60, 30)])}\n".encode()
    path = write_set(tmp_path, [line] * 4, (180, 240))
    for kind in ("threads", "processes"):
        (epoch,) = rows(dataset(path, columns=["image"]), 2, kind, batch=4)
        images = epoch[0][0].reshape(4, -1)
        assert len({image.tobytes() for image in images}) == 4


BAD = [
    {"transcription": "a", "points": [[70, 10], [110, 10], [70, 30], [110, 30]]},
    {"transcription": "a", "points": [[10, 50], [60, 45], [20, 80], [15, 60], [70, 70], [10, 75]]},
    {"transcription": "a", "points": [[10, 50], [30, 60], [50, 70]]},
    {"transcription": "a", "points": [[70, 10], [110, 30]]},
    {"transcription": "a", "points": [[70, 10]]},
    {"transcription": "a", "points": [[70, 10], [None, 10], [110, 30], [70, 30]]},
    {"transcription": "a", "points": [["70", "10"], ["110", "10"], ["110", "30"], ["70", "30"]]},
    {"points": [[70, 10], [110, 10], [110, 30], [70, 30]]},
    box(500, 500, 600, 540),
]


def bad_set(folder, first_bad):
    """Each kind of bad box beside a good one, a broken picture, broken lines, and one clean record."""
    good = [box(10, 60, 60, 80)]
    clean = f"0.jpg\t{json.dumps(good)}\n".encode()
    labels = [clean, *([*good, bad] for bad in BAD)]
    path = write_set(folder, labels, (96, 128))
    count = len(labels)
    (folder / f"{count}.jpg").write_bytes(b"no picture")
    broken = [f"{count}.jpg\t{json.dumps(good)}\n", "gone.jpg\t[]\n", "0.jpg\t[{\n"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*broken, *lines] if first_bad else [*lines, *broken]))
    return path, count, len(BAD) + len(broken)


@pytest.mark.parametrize("first_bad", [False, True])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_every_good_picture_is_used_in_every_epoch_and_each_fault_named_once(tmp_path, first_bad, kind):
    path, count, faults = bad_set(tmp_path, first_bad)
    pipeline = [SMALL[0], SMALL[1], {"RandomCropWithBBox": {"crop_size": [96, 96], "p": 0}}, *SMALL[7:]]
    handler = logging.FileHandler(tmp_path / "log.txt")  # which forked workers write to as well
    logging.getLogger("mindocr.detperf").addHandler(handler)
    try:
        source = dataset(path, pipeline, columns=["image", "mask"])
        epochs = rows(source, 2, kind, 3, batch=1)
    finally:
        logging.getLogger("mindocr.detperf").removeHandler(handler)
        handler.close()
    assert len(source.data_list) == count + 1  # the broken picture has a good label
    whole = dataset(
        write_set(tmp_path / "good", [[box(10, 60, 60, 80)]] * count, (96, 128)), pipeline, ["image"]
    )
    expected = {whole[i][0].tobytes() for i in range(count)}
    for epoch in epochs:
        assert {batch[0][0].tobytes() for batch in epoch} == expected
    said = (tmp_path / "log.txt").read_text().splitlines()
    assert len(said) == faults and all(line.startswith(f"{path}:") for line in said)


@pytest.mark.parametrize("pictures_too", [False, True])
def test_where_everything_is_bad_there_is_an_error_within_a_second(tmp_path, pictures_too):
    lines = [b"%d.jpg\tnull\n" % index for index in range(300)]
    if pictures_too:
        lines = [b"0.jpg\t" + json.dumps([box(1, 1, 20, 20)]).encode() + b"\n"] * 300
    path = write_set(tmp_path, lines[:1])
    path.write_bytes(b"".join(lines))
    (tmp_path / "0.jpg").write_bytes(b"no picture")
    begin = time.perf_counter()
    with pytest.raises(UnreadableInput, match="can be"):
        dataset(path)
    assert time.perf_counter() - begin < 5  # one second on a quiet machine


def test_wrong_settings_are_named(pictures):
    for perf, words in (
        ({"levels": "exact"}, "no key levels"), ({"level": "fastest"}, "level is 'fastest'"),
        ({"seeding": "none"}, "seeding is 'none'"), ({"workers": 3}, "workers is 3"),
    ):  # fmt: skip
        with pytest.raises(UnreadableInput, match=words):
            dataset(pictures, **perf)
    with pytest.raises(UnreadableInput, match=r"train\.dataset\.output_columns: .* no 'heat'"):
        dataset(pictures, columns=["heat"])


def build(path, loader=None, perf=None, columns=COLUMNS):
    import mindocr.data.builder

    from detperf_plugins.mindocr.loader import build_dataset

    original = inspect.unwrap(mindocr.data.builder.build_dataset)  # MindOCR's own, without the session

    config = {
        "type": "DetDataset", "dataset_root": str(path.parent), "data_dir": ".", "label_file": path.name,
        "sample_ratio": 1.0, "transform_pipeline": copy.deepcopy(SMALL), "output_columns": columns,
    }  # fmt: skip
    if perf is not None:
        config["perf"] = perf
    return build_dataset(
        original, config, {"shuffle": False, "batch_size": 4, "num_workers": 1, **(loader or {})}
    )


def test_build_dataset_takes_our_data_set_and_its_workers(pictures):
    from detperf_plugins.mindocr.dataset import PerfDetDataset

    def source_of(data):
        return data.children[0]

    ours = source_of(build(pictures))
    assert isinstance(ours.source, PerfDetDataset) and not ours.python_multiprocessing
    assert source_of(build(pictures, perf={"workers": "processes"})).python_multiprocessing
    off = source_of(build(pictures, perf={"level": "off"}))
    assert not isinstance(off.source, PerfDetDataset) and off.python_multiprocessing
    batch = next(build(pictures).create_tuple_iterator(output_numpy=True))
    assert [part.shape for part in batch] == [(4, 3, 96, 96), (4, 1, 96, 96), *[(4, 96, 96)] * 3]


def test_the_probe_times_and_chooses(pictures, monkeypatch):
    from detperf_plugins.mindocr import loader
    from detperf_plugins.mindocr.loader import choose, probe

    found = probe(dataset(pictures), [1, 2], ["threads"], batch_size=4, seconds=0.2)
    assert [(row["kind"], row["workers"]) for row in found] == [("threads", 1), ("threads", 2)]
    assert all(row["samples_per_s"] > 0 and row["samples"] % 4 == 0 for row in found)

    def row(kind, workers, rate):
        return {"kind": kind, "workers": workers, "samples_per_s": rate}

    assert choose([row("threads", 1, 50), row("threads", 2, 97), row("processes", 2, 100)]) == row(
        "threads", 2, 97
    )
    assert choose([row("threads", 1, 50), row("processes", 4, 100)]) == row("processes", 4, 100)
    monkeypatch.setattr(loader, "probe", lambda source, make: probe(source, [1], seconds=0.1, make=make))
    automatic = build(pictures, {"num_workers": "auto"})
    assert automatic.children[0].num_parallel_workers >= 1
