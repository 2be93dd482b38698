"""What a mistaken config or data set gets: one sentence before training starts, no traceback."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from detperf_plugins import cli, configs_dir
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.paddledet import datasets, variants
from detperf_plugins.unread import unread_overrides
from tests.paddledet.scripts import OVERLAYS, run, tiny_config
from tests.paddledet.test_train_bench import raising

DETPERF = [sys.executable, "-c", "from detperf_plugins.cli import main; main()"]

cli._load_verbs()


def invoke(*words: str) -> UnreadableInput:
    """The error of a command that must be refused for its input."""
    error = CliRunner().invoke(cli.app, list(words)).exception
    assert isinstance(error, UnreadableInput), error
    return error


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


@pytest.mark.parametrize(
    "words",
    [
        ("demo", "--overlay", "fast_data"),
        ("bench", "train", "--tuned", "fast_data"),
        ("bench", "train", "--tuned", "other={mixed}"),
        ("profile", "--against", "fast_data"),
        ("train", "-c", "{mixed}"),
    ],
)
def test_an_overlay_of_the_other_host_is_refused(words, shapes, tmp_path):
    mixed = tiny_config(tmp_path, shapes, configs_dir() / "mindocr" / "dbnet" / "fast_data.yml")
    where = ("--out", str(tmp_path / "out")) if words[0] != "train" else ()
    error = invoke(*(word.format(mixed=mixed) for word in words), *where)
    assert "mindocr/dbnet/fast_data.yml is a config for MindOCR, and nothing of PaddleDetection" in str(error)


def test_the_demo_of_mindocr_refuses_one_of_paddledetection(tmp_path):
    error = invoke("demo", "--host", "mindocr", "--overlay", "exact_parts", "--out", str(tmp_path))
    assert "exact_parts.yml is a config for PaddleDetection" in str(error)


def test_a_config_behind_a_link_keeps_its_own_bases(tmp_path):
    """ppdet seeks `_BASE_` beside the link, not beside what it points at."""
    for name, text in {"far/real.yml": "_BASE_: [base.yml]\n", "near/base.yml": "epoch: 1\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    link = tmp_path / "near" / "link.yml"
    link.symlink_to(tmp_path / "far" / "real.yml")
    assert [path.name for path, _ in variants.config_files(link)] == ["link.yml", "base.yml"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["MaskHead.mask_assigner=PolygonMaskAsigner"],
            "MaskHead.mask_assigner names PolygonMaskAsigner, a class that is not known; is "
            "PolygonMaskAssigner meant?",
        ),
        (["architecture=MaskRCNNN"], "architecture names MaskRCNNN, a class that is not known; is MaskRCNN "),
        (["MaskRCNN.mask_head="], "MaskRCNN.mask_head is null, where the name of a class is needed"),
        (
            ["TrainReader.batch_transforms=[{PadBach: {}}]"],
            "TrainReader.batch_transforms names PadBach, a class that is not known; is PadBatch meant?",
        ),
        (["OptimizerBuilder.optimizer.type=Momentun"], "OptimizerBuilder.optimizer.type names Momentun"),
        (["ResNet.depht=18"], "TypeError: "),
        (
            ["pretrain_weights=http://127.0.0.1:9/weights.pdparams"],
            "pretrain_weights names http://127.0.0.1:9/weights.pdparams, which cannot be downloaded (",
        ),
        (["pretrain_weights=/nowhere/weights"], "ValueError: Model pretrain path `/nowhere/weights` "),
    ],
)
def test_what_cannot_be_built_is_one_sentence(words, sentence, shapes, tmp_path):
    config = tiny_config(tmp_path, shapes)
    told = sentences(run([*DETPERF, "train", "-c", str(config), "-o", *words], ok=False))
    assert told.startswith(f"detperf: {config} cannot be built: {sentence}"), told
    assert f"`detperf lint {config}` checks its keys, and DETPERF_TRACEBACK=1" in told


def test_an_override_that_nothing_reads_is_reported():
    known = {"MaskHead", "MaskRCNN", "epoch", "MyOwnHead"}
    for word, near in (
        ("MaskHeadd.x=1", "MaskHead"),
        ("epoc=3", "epoch"),
        ("amp_leval=O2", "amp_level"),
        ("a=1", None),
    ):
        told = unread_overrides([word], known)
        meant = f". Did you mean `{near}`?" if near else ""
        key = word.split("=")[0]
        assert told == ([f"-o {key}: nothing reads `{key.split('.')[0]}`{meant}"] if near else [])
    assert unread_overrides(["Strange.x=1"], known) == ["-o Strange.x: nothing reads `Strange`"]
    words = [
        "MaskHead.x=1",
        "epoch=2",
        "MyOwnHead.x=1",
        "classwise=true",
        "amp=true",
        "TrainReader.batch_size=1",
    ]
    assert unread_overrides(words, known) == []


def test_the_command_reports_it_and_says_nothing_of_numba(shapes, tmp_path):
    config = str(tiny_config(tmp_path, shapes))
    output = run([*DETPERF, "train", "-c", config, "-o", "MaskHeadd.x=1", "epoch=0"])
    assert output.count("detperf: -o MaskHeadd.x: nothing reads `MaskHeadd`. Did you mean `MaskHead`?") == 1
    assert "numba" not in output


@pytest.mark.slow
def test_finished_weights_are_not_trained_again(shapes, tmp_path):
    config = str(tiny_config(tmp_path, shapes))
    command = [*DETPERF, "train", "-c", config, "--json", str(tmp_path / "out.json")]
    first = run(command)
    assert "Trained 1 epoch; weights in" in first
    weights = first.split("weights in ")[1].split(".pdparams")[0]
    output = run([*command, "-r", weights])
    assert "Trained" not in output and f"Nothing was trained: {weights} has 1, and the config asks" in output
    (row,) = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert (row["epochs"], row["trained_epochs"], row["step_ms"]) == (1, 0, None)
    assert "Trained 1 epoch; weights in" in run([*command, "-r", weights, "-o", "epoch=2"])


def test_the_traceback_can_be_had(shapes, tmp_path):
    command = [*DETPERF, "train", "-c", str(tiny_config(tmp_path, shapes)), "-o", "architecture=MaskRCNNN"]
    assert "Traceback" in run(command, env={"DETPERF_TRACEBACK": "1"}, ok=False)


def test_an_error_in_the_training_loop_keeps_its_traceback(shapes, tmp_path):
    config = tiny_config(tmp_path, shapes, head=raising('ValueError("a fault")'), epoch=2)
    assert "Traceback" in run([*DETPERF, "train", "-c", str(config)], ok=False)


@pytest.mark.parametrize(
    ("overlay", "remedy"),
    [
        ("exact_parts_c4.yml", "take exact_parts_fpn"),
        ("exact_targets_c4.yml", "take exact_targets_fpn"),
        ("mask_rcnn_r50_nhwc_amp_c4.yml", "take mask_rcnn_r50_nhwc_amp_fpn"),
    ],
)
def test_c4_parts_over_an_fpn_are_refused(overlay, remedy, shapes, tmp_path):
    config = tiny_config(tmp_path, shapes, OVERLAYS / overlay)
    told = sentences(run([*DETPERF, "train", "-c", str(config)], ok=False))
    assert "an overlay for C4 models" in told and remedy in told


def test_an_fpn_takes_pictures_of_one_fitting_size_unpadded(shapes, tmp_path):
    """Whoever makes them so need not pad: nothing is refused that trains."""
    fixed = [
        {"Decode": {}},
        {"Resize": {"target_size": [128, 160], "keep_ratio": False}},
        {"NormalizeImage": {}},
        {"Permute": {}},
    ]
    config = tiny_config(
        tmp_path, shapes, OVERLAYS / "exact_targets_c4.yml", TrainReader={"sample_transforms": fixed}
    )
    assert "in use: PackPolygons" in run([*DETPERF, "train", "-c", str(config)])


@pytest.mark.parametrize("verb", ["train", "profile"])
def test_replace_and_stock_exclude_each_other(verb, shapes, tmp_path):
    error = invoke(verb, "-c", str(tiny_config(tmp_path, shapes)), "--replace", "--stock")
    assert str(error) == "--replace and --stock exclude each other: give one of them"


def test_an_overlay_wins_over_stock_and_a_line_says_so(shapes, tmp_path):
    config = tiny_config(tmp_path, shapes, OVERLAYS / "exact_targets.yml")
    output = run([*DETPERF, "train", "-c", str(config), "--stock"])
    assert output.count(f"{config} switches the plugins on by itself") == 1
    assert "in use: PolygonMaskAssigner" in output
    plain = run([*DETPERF, "train", "-c", str(tiny_config(tmp_path, shapes)), "--stock"])
    assert "by itself" not in plain and "in this model" not in plain
