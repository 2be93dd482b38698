"""`_BASE_` and `-o` of MindOCR configs; the merge itself is compared with ppdet's in tests/paddledet."""

from __future__ import annotations

import re

import pytest
import yaml
from typer.testing import CliRunner

from detperf_plugins import configs_dir
from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr import config
from detperf_plugins.unread import unread_keys

ALL = sorted((configs_dir() / "mindocr").rglob("*.yml"))
COMPLETE = [path for path in ALL if path.name.startswith(("db_", "dbpp_"))]
OVERLAYS = [path for path in ALL if path not in COMPLETE]


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.yml").write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return folder


def test_later_bases_win_and_the_file_wins_over_all(tmp_path):
    write(
        tmp_path,
        one={"model": {"a": 1, "b": 1, "list": [1, 2]}, "train": {}},
        two={"model": {"b": 2, "list": [3]}},
        top={"_BASE_": ["one.yml", "two.yml"], "model": {"c": 3}},
    )
    assert config.load(tmp_path / "top.yml")["model"] == {"a": 1, "b": 2, "list": [3], "c": 3}


def test_overrides_may_be_new_and_hold_equal_signs(tmp_path):
    write(tmp_path, one={"model": {"a": 1}, "train": {"clip_norm": 1.0}})
    words = ["train.clip_grad=True", "train.note=a=b=c", "model.deep.er=[1, 2]", "train.clip_norm=2.5"]
    loaded = config.load(tmp_path / "one.yml", words)
    assert loaded["train"] == {"clip_norm": 2.5, "clip_grad": True, "note": "a=b=c"}
    assert loaded["model"] == {"a": 1, "deep": {"er": [1, 2]}}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"_BASE_": ["nowhere.yml"]}, "names .*nowhere.yml, which does not exist"),
        ({"_BASE_": ["top.yml"]}, "leads back to"),
        ({"_BASE_": [3]}, "holds 3, which is no path"),
        ("- a\n- b\n", "holds no settings"),
        ("a: [1, 2\n", "cannot be read as YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", "cannot be read as YAML"),
        ({"model": {}}, "is no MindOCR config"),
    ],
)
def test_faults_are_one_sentence(tmp_path, content, sentence):
    write(tmp_path, top=content)
    with pytest.raises(UnreadableInput, match=sentence) as caught:
        config.load(tmp_path / "top.yml")
    assert "\n" not in str(caught.value)


def test_a_missing_config_is_one_sentence(tmp_path):
    with pytest.raises(UnreadableInput, match="there is no config file"):
        config.load(tmp_path / "none.yml")


@pytest.mark.parametrize("word", ["novalue", "=3", "a={b: "])
def test_overrides_that_are_none(tmp_path, word):
    write(tmp_path, one={"model": {}, "train": {}})
    with pytest.raises(UnreadableInput, match="-o"):
        config.load(tmp_path / "one.yml", [word])


def test_the_host_is_told_from_the_sections_also_through_a_base(tmp_path):
    write(
        tmp_path,
        top={"_BASE_": [str(COMPLETE[0])]},
        other={"architecture": "MaskRCNN", "train": 1, "model": 1},
        tagged="lr: !PiecewiseDecay {gamma: 0.1}\nmodel: {}\ntrain: {}\n",
    )
    assert config.host_of(tmp_path / "top.yml") == config.MINDOCR
    assert config.host_of(tmp_path / "tagged.yml") == config.MINDOCR
    assert config.host_of(tmp_path / "other.yml") == config.PADDLEDET
    write(tmp_path, half={"_BASE_": "rest.yml", "model": {}}, rest={"train": {}})
    assert config.host_of(tmp_path / "half.yml") == config.MINDOCR
    complete = ["tiny/mask_rcnn_r18_fpn_shapes.yml", "mask_rcnn/mask_rcnn_r50_1x_coco.yml"]
    for name in complete:
        assert config.host_of(configs_dir() / "paddledet" / name) == config.PADDLEDET


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"_BASE_": "nowhere.yml"}, "names .*nowhere.yml, which does not exist"),
        ({"_BASE_": ["top.yml"]}, "leads back to"),
        ("a: [1, 2\n", "top.yml cannot be read as YAML"),
        ("", "holds no settings"),
        ({"_BASE_": [str(OVERLAYS[0])]}, "neither MindOCR's sections .* nor PaddleDetection's"),
        (None, "there is no config file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_before_a_host_is_asked_for(tmp_path, content, sentence):
    if content is not None:
        write(tmp_path, top=content)
    _load_verbs()
    done = CliRunner().invoke(app, ["train", "-c", str(tmp_path / "top.yml")])
    assert isinstance(done.exception, UnreadableInput)
    assert re.search(sentence, str(done.exception)) and "\n" not in str(done.exception)


def test_an_overlay_of_the_other_host_is_named_as_one(tmp_path):
    overlay = configs_dir() / "paddledet" / "mask_rcnn" / "exact_targets.yml"
    write(tmp_path, top={"_BASE_": [str(COMPLETE[0]), str(overlay)]}, tagged="lr: !PiecewiseDecay {a: 1}\n")
    with pytest.raises(UnreadableInput, match=r"exact_targets\.yml is an overlay for PaddleDetection"):
        config.load(tmp_path / "top.yml")
    with pytest.raises(UnreadableInput, match=r"tagged\.yml is a config for PaddleDetection"):
        config.load(tmp_path / "tagged.yml")


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_complete_configs_load_and_every_key_has_a_reader(path):
    assert config.is_mindocr_config(config.load(path))
    assert unread_keys(path) == []


def test_the_tiny_schedule_fits_into_one_epoch():
    """MindOCR warns in the log where warm-up and decay are longer than the training."""
    (tiny,) = (path for path in COMPLETE if path.parent.name == "tiny")
    schedule = config.load(tiny, ["scheduler.num_epochs=1"])["scheduler"]
    assert schedule["warmup_epochs"] + schedule["decay_epochs"] <= 1


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.stem)
def test_overlays_say_what_they_do_and_every_key_has_a_reader(tmp_path, overlay):
    opening = overlay.read_text().split("\n\n")[0].split("\nsystem:")[0]
    assert opening.startswith("# ") and "measured" in opening.lower().replace("\n# ", " ")
    write(tmp_path, top={"_BASE_": [str(COMPLETE[0]), str(overlay)]})
    assert unread_keys(tmp_path / "top.yml") == []
    assert config.load(tmp_path / "top.yml") != config.load(COMPLETE[0])


def test_a_key_that_nothing_reads_is_reported_with_its_place(tmp_path):
    write(tmp_path, top=f"_BASE_: ['{COMPLETE[0]}']\ntrain:\n  clip_nrom: 1.0\n")
    (sentence,) = unread_keys(tmp_path / "top.yml")
    assert "top.yml:3" in sentence and "clip_norm" in sentence
    (sentence,) = unread_keys(COMPLETE[0], ["system.jit_lvl=O0"])
    assert "jit_level" in sentence
