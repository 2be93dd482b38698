"""Evaluation data: stock's samples and metrics where nothing is wrong, and a fault costs its own record."""

from __future__ import annotations

import copy
import inspect
import json
import logging

import cv2
import numpy as np
import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.session import Session
from detperf_plugins.samples.scene_text import write_scene_text
from tests.mindocr.support import box, write_set

PIPELINE = [
    {"DecodeImage": {"img_mode": "RGB", "to_float32": False}},
    {"DetLabelEncode": None},
    {"DetResize": {"target_size": [160, 160], "keep_ratio": False, "limit_type": "none", "divisor": 32}},
    {"NormalizeImage": {"bgr_to_rgb": False, "is_hwc": True, "mean": "imagenet", "std": "imagenet"}},
    {"ToCHWImage": None},
]
COLUMNS = ["image", "polys", "ignore_tags", "shape_list"]


def build(labels, folder, stock=False):
    """The evaluation data set as a session builds it, one picture a batch."""
    import mindocr.data.builder

    session = Session()
    session.stock = stock
    config = {
        "type": "DetDataset", "dataset_root": "/", "data_dir": str(folder)[1:], "label_file": str(labels)[1:],
        "sample_ratio": 1.0, "transform_pipeline": copy.deepcopy(PIPELINE), "output_columns": list(COLUMNS),
    }  # fmt: skip
    loader = {"shuffle": False, "batch_size": 1, "drop_remainder": False, "num_workers": 1}
    original = inspect.unwrap(mindocr.data.builder.build_dataset)
    return session.dataset_builder(original)(config, loader, is_train=False)


def samples(data):
    return list(data.create_tuple_iterator(num_epochs=1, output_numpy=True))


class Sees:
    """A network that finds the first word of each picture and nothing else."""

    def __init__(self, labels, size):
        import mindspore as ms

        self.maps = []
        for line in labels.read_text().splitlines():
            words = json.loads(line.split("\t")[1])
            drawn = np.zeros((size, size), np.uint8)
            points = np.array(words[0]["points"], np.float32)
            middle = points.mean(axis=0)
            cv2.fillPoly(drawn, [np.rint(middle + 0.6 * (points - middle)).astype(np.int32)], 1)
            small = cv2.resize(drawn, (160, 160), interpolation=cv2.INTER_NEAREST)
            self.maps.append(ms.Tensor(small[None, None].astype(np.float32)))
        self.place = 0

    def set_train(self, mode):
        pass

    def __call__(self, image):
        self.place += 1
        return self.maps[self.place - 1]


def metrics(labels, data, size):
    from mindocr.metrics import build_metric
    from mindocr.postprocess import build_postprocess
    from mindocr.utils.evaluator import Evaluator

    found = Evaluator(
        Sees(labels, size), data,
        postprocessor=build_postprocess({"name": "DBPostprocess", "box_type": "quad", "box_thresh": 0.5}),
        metrics=[build_metric({"name": "DetMetric", "main_indicator": "f-score"})],
        loader_output_columns=COLUMNS, input_indices=[0], label_indices=[1, 2], num_epochs=1,
    ).eval()  # fmt: skip
    return {name: float(value) for name, value in found.items()}


def test_samples_and_metrics_are_stock_s_where_nothing_is_wrong(tmp_path):
    from detperf_plugins.mindocr.dataset import PerfDetDataset

    labels = write_scene_text(tmp_path / "set", images=8, size=192, seed=3)
    ours, theirs = (build(labels, labels.parent / "images", stock) for stock in (False, True))
    assert isinstance(ours.children[0].source, PerfDetDataset)
    expected, got = samples(theirs), samples(ours)
    assert len(expected) == len(got) == 8
    for a, b in zip(expected, got):
        for one, other in zip(a, b):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(other, one)
    stock, plugin = metrics(labels, theirs, 192), metrics(labels, ours, 192)
    assert plugin == stock and 0 < stock["recall"] < 1 and stock["precision"] > 0


def test_a_faulty_record_costs_itself_and_is_named_once(tmp_path, caplog):
    good = [[box(10, 60, 60, 80)], [box(20, 10, 80, 40)], [box(5, 5, 50, 30)]]
    path = write_set(tmp_path, good)
    first, *others = path.read_text().splitlines()
    broken = [
        first.replace("0.jpg", "not_there.jpg"),
        "0.jpg\t[{",
        first.replace("0.jpg", "text.jpg"),
        first.replace("0.jpg", "empty.png"),
    ]
    (tmp_path / "text.jpg").write_text("no picture")
    (tmp_path / "empty.png").write_bytes(b"")
    path.write_text("\n".join([*broken, first, *others]) + "\n")
    with caplog.at_level(logging.WARNING, "mindocr.detperf"):
        data = build(path, tmp_path)
        got = samples(data)
    whole = samples(build(write_set(tmp_path / "whole", good), tmp_path / "whole"))
    assert len(got) == len(whole) == 3
    for a, b in zip(whole, got):
        np.testing.assert_array_equal(b[0], a[0])
    said = [record.getMessage() for record in caplog.records if record.name == "mindocr.detperf"]
    assert len(said) == 4 and {line.split(": ")[0] for line in said} == {f"{path}:{n}" for n in (1, 2, 3, 4)}
    assert all("the record is left out" in line for line in said)


def test_where_no_picture_can_be_decoded_it_is_an_error(tmp_path):
    path = write_set(tmp_path, [[box(10, 60, 60, 80)]])
    (tmp_path / "0.jpg").write_text("no picture")
    with pytest.raises(UnreadableInput, match="none of its pictures can be decoded"):
        build(path, tmp_path)
