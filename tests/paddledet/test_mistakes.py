"""What a mistaken config or data set gets: one sentence before training starts, no traceback."""

from __future__ import annotations

import sys

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.paddledet import datasets
from tests.paddledet.scripts import run, tiny_config

DETPERF = [sys.executable, "-c", "from detperf_plugins.cli import main; main()"]


def sentences(output: str) -> str:
    assert "Traceback" not in output, output[-3000:]
    return " ".join(line for line in output.splitlines() if line.startswith("detperf: "))


@pytest.mark.parametrize(
    ("section", "changes", "sentence"),
    [
        ("TrainDataset", {"anno_path": "nope.json"}, "nope.json, which does not exist"),
        ("TrainDataset", {"dataset_dir": "/nowhere"}, "/nowhere/annotations.json, which does not exist"),
        ("TrainDataset", {"image_dir": "pictures"}, "the image folder {root}/train/pictures"),
        ("EvalDataset", {"anno_path": "nope.json"}, "nope.json, which does not exist"),
        ("EvalDataset", {"image_dir": "pictures"}, "the image folder {root}/val/pictures"),
    ],
)
def test_a_missing_data_set_is_one_sentence(section, changes, sentence, shapes, tmp_path):
    words = [f"{section}.{key}={value}" for key, value in changes.items()]
    config = tiny_config(tmp_path, shapes)
    output = run([*DETPERF, "train", "-c", str(config), "--eval", "-o", *words], ok=False)
    told = sentences(output)
    assert told.startswith(f"detperf: no data set: {section} of {config} names ")
    assert sentence.format(root=shapes) in told and "Epoch" not in output


def test_the_evaluation_set_is_asked_for_only_where_it_is_read(shapes, tmp_path, monkeypatch):
    from ppdet.utils import download

    monkeypatch.setattr(download, "DATASET_HOME", str(tmp_path / "cache"))
    train = {"dataset_dir": str(shapes / "train"), "anno_path": "annotations.json", "image_dir": "images"}
    cfg = {"TrainDataset": train, "EvalDataset": {**train, "dataset_dir": "dataset/Shapes"}}
    datasets.require_data(cfg, tmp_path)
    with pytest.raises(UnreadableInput, match="EvalDataset"):
        datasets.require_data(cfg, tmp_path, ("TrainDataset", "EvalDataset"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "shapes").symlink_to(shapes / "val")  # where ppdet looks next
    datasets.require_data(cfg, tmp_path, ("TrainDataset", "EvalDataset"))
