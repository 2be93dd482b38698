"""Ordinary mistakes in a MindOCR config: one sentence each, before anything is compiled."""

from __future__ import annotations

import os
import types
import urllib.error
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.mindocr import activate, checkpoints, config, downloads, settings
from detperf_plugins.mindocr.session import Session
from tests.mindocr import scripts

PERF = "train.dataset.perf"


def check(*words, environ=None):
    settings.check(config.load(scripts.TINY, words), environ or {})


def test_the_shipped_config_passes_and_auto_is_a_number_of_workers():
    check("train.loader.num_workers=auto", "eval.loader.num_workers=auto", f"{PERF}.cache=memory")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (f"{PERF}.level=exakt", f"{PERF}: level is 'exakt'; there are off, exact, fast"),
        (f"{PERF}.lvl=exact", f"{PERF} has no key lvl; did you mean level?"),
        (f"{PERF}.seeding=foo", f"{PERF}.seeding is 'foo'; there are sample, stock"),
        (f"{PERF}.reduced_decoding=True", f"{PERF}: reduced_decoding changes pixels: it needs level fast"),
        (f"{PERF}=exact", f"{PERF} is 'exact'; write it as {PERF}.level=exact"),
        (f"{PERF}.cache=3", "cache is 3; it is a folder, or memory"),
        ("eval.dataset.perf.level=exakt", "eval.dataset.perf: level is 'exakt'"),
        ("train.loader.batch_size=abc", "train.loader.batch_size is 'abc'; it is a whole number from 1 on"),
        ("train.loader.batch_size=0", "train.loader.batch_size is 0"),
        ("eval.loader.batch_size=True", "eval.loader.batch_size is True"),
        ("train.loader.num_workers=many", "'many'; it is a whole number from 1 on; num_workers: auto"),
        ("train.loader.num_workers=0", "num_workers is 0"),
        ("scheduler.num_epochs=", "scheduler.num_epochs is empty; it is a whole number"),
        ("scheduler.num_epochs=abc", "scheduler.num_epochs is 'abc'"),
        ("scheduler.num_epochs=0", "scheduler.num_epochs is 0"),
        ("system.amp_level=O4", "system.amp_level is 'O4'; there are O0, O1, O2, O3"),
        ("train.dataset.transform_pipeline=[]", "transform_pipeline is []: list the transforms"),
        ("train.loader=3", "train.loader is 3; it is a section of settings"),
        ("system.distribute=True", "no launcher has started this process: start it with msrun"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_one_sentence_that_names_its_key(word, sentence):
    with pytest.raises(UnreadableInput) as caught:
        check(word)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_launched_process_may_be_distributed():
    check("system.distribute=True", environ={"MS_WORKER_NUM": "8"})


def test_both_ways_into_a_training_check_the_settings():
    with pytest.raises(UnreadableInput, match="num_epochs is 0"):
        Session().open_config(scripts.TINY, ["scheduler.num_epochs=0"])


def test_off_is_off_though_yaml_reads_it_as_false():
    assert settings.perf_settings(yaml.safe_load("{level: off}"), PERF)["level"] == "off"
    from detperf_plugins.mindocr.loader import build_dataset

    given = {"type": "DetDataset", "perf": {"level": False}}
    assert build_dataset(lambda data, loader: data, given, {}) == {"type": "DetDataset"}


def test_a_cache_that_cannot_be_made_is_one_sentence():
    from detperf_plugins.mindocr.cache import DecodedCache

    with pytest.raises(UnreadableInput, match=r"perf\.cache: decoded pictures cannot be kept in /proc/nope"):
        DecodedCache.open("/proc/nope", 2**20, "rgb0")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("model.backbone.name=det_resnet81", r"backbone\.name: .* no det_resnet81; did you mean det_"),
        ("model.neck.name=DBFPM", r"model\.neck\.name: .* did you mean DBFPN\?"),
        ("model.head.name=DBHed", r"model\.head\.name: .* did you mean DBHead\?"),
        ("loss.name=DBLos", r"loss\.name: MindOCR has no DBLos; did you mean DBLoss\?"),
        ("metric.name=DetMetrik", r"metric\.name: .* did you mean DetMetric\?"),
        ("train.dataset.transform_pipeline=[{DecodImage: {}}]", r"pipeline: .* did you mean DecodeImage\?"),
    ],
)  # fmt: skip
def test_names_that_mindocr_does_not_have_are_named_before_the_network_is_built(word, sentence):
    activate()
    session = Session()
    session.open_config(scripts.TINY, [word])
    with pytest.raises(UnreadableInput, match=sentence):
        session.model_builder(lambda *arguments, **more: pytest.fail("built"))({}, amp_level="O0")


def test_a_batch_that_no_epoch_fills_is_named_with_the_samples_there_are(monkeypatch):
    samples = types.SimpleNamespace(get_dataset_size=lambda: 8)
    empty = types.SimpleNamespace(get_dataset_size=lambda: 0, children=[samples])
    session = Session()
    monkeypatch.setattr(session, "_prepare", lambda devices: None)
    build = session.dataset_builder(lambda data, loader, **more: empty)
    with pytest.raises(UnreadableInput, match="batch_size is 20, and a card has 8 samples"):
        build({}, {"batch_size": 20}, is_train=True)
    assert build({}, {"batch_size": 20}, is_train=False) is empty


def test_weights_that_are_not_there_are_named(tmp_path):
    _load_verbs()
    missing = f"eval.ckpt_load_path={tmp_path / 'none.ckpt'}"
    done = CliRunner().invoke(app, ["train", "-c", str(scripts.TINY), "--eval-only", "-o", missing])
    assert isinstance(done.exception, UnreadableInput)
    assert str(done.exception) == f"eval.ckpt_load_path: there is no {tmp_path / 'none.ckpt'}"
    with pytest.raises(UnreadableInput, match="is not set"):
        settings.check_weights({"eval": {"ckpt_load_path": None}})
    with pytest.raises(UnreadableInput, match=r"there is no none\.ckpt to load weights from"):
        Session().model_builder(None)({}, ckpt_load_path="none.ckpt", amp_level="O0")


def test_weights_of_another_training_are_asked_about():
    def ask(weights, folder):
        sections = {"eval": {"ckpt_load_path": weights}, "train": {"ckpt_save_dir": folder}}
        return settings.other_weights(sections)

    assert ask("./tmp_det/best.ckpt", "tmp_det") is ask("tmp_det/e3.ckpt", None) is None
    assert ask("https://host/best.ckpt", "out") is None
    assert "-o eval.ckpt_load_path=out/best.ckpt" in ask("./tmp_det/best.ckpt", "out")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["extra"], "'extra' is neither an option nor a setting"),
        (["-o", "a=1", "b"], "'b' is neither an option nor a setting"),
        (["--json", "."], "--json . is a folder"),
    ],
)
def test_words_that_lead_nowhere_are_named_before_the_training(words, sentence):
    _load_verbs()
    done = CliRunner().invoke(app, ["train", "-c", str(scripts.TINY), *words])
    assert isinstance(done.exception, UnreadableInput) and sentence in str(done.exception)


def test_a_folder_or_a_name_without_its_suffix_is_a_checkpoint_to_resume_from(tmp_path):
    file = tmp_path / "train_resume.ckpt"
    file.write_bytes(b"")
    for given in (file, tmp_path, tmp_path / "train_resume"):
        session = Session()
        opened = session.open_config(scripts.TINY, [f"model.resume={given}"])
        assert opened["model"]["resume"] == session.config["model"]["resume"] == str(file)
    for given in (True, None, "nowhere"):
        assert settings.resume_path(given) == given


def parameters(**shapes):
    """A cell whose parameters have these shapes."""
    found = [types.SimpleNamespace(name=name, shape=shape) for name, shape in shapes.items()]
    return types.SimpleNamespace(get_parameters=lambda: found)


def test_a_checkpoint_of_another_schedule_or_model_or_of_a_training_that_is_over_is_refused():
    def content(epoch=1, steps=8):
        done = types.SimpleNamespace(shape=(), asnumpy=lambda: epoch)
        return {
            "epoch_num": done,
            "learning_rate": types.SimpleNamespace(shape=(steps,)),
            "neck.w": types.SimpleNamespace(shape=(4, 2)),
        }

    network, optimizer = parameters(**{"neck.w": (4, 2)}), parameters(learning_rate=(8,), other=(3,))
    checkpoints.check_fit("x.ckpt", content(), network, optimizer, 2)
    checkpoints.check_fit("x.ckpt", content(2), network, optimizer, None)
    for epochs, other, sentence in (
        (3, (content(), network, parameters(learning_rate=(12,))), "of 8 steps, and this one has 12"),
        (2, (content(), parameters(**{"neck.w": (8, 2)}), optimizer), "another model: neck.w has the shape"),
        (2, (content(2), network, optimizer), "this training is over, 2 of 2 epochs are done"),
    ):
        with pytest.raises(UnreadableInput, match=sentence):
            checkpoints.check_fit("x.ckpt", *other, epochs)


def test_a_failed_download_names_file_folder_and_the_way_without_and_leaves_nothing(tmp_path):
    url, name = "https://download.example/weights-1.ckpt", "weights-1.ckpt"

    def offline(self, url, path, filename):
        Path(path, os.path.basename(url)).write_bytes(b"")  # as stock does before it connects
        raise urllib.error.URLError("no route to host")

    with pytest.raises(DetperfError) as caught:
        downloads.guarded(offline)(None, url, path=str(tmp_path))
    said = str(caught.value)
    assert "no route to host" in said and f"put {name} into {tmp_path}" in said
    assert "model.backbone.pretrained=False" in said and caught.value.status == 1
    assert not (tmp_path / name).exists()
    (tmp_path / name).write_bytes(b"weights")
    with pytest.raises(KeyError):
        downloads.guarded(lambda *arguments: {}["x"])(None, url, str(tmp_path))
    assert (tmp_path / name).read_bytes() == b"weights"
    (tmp_path / name).write_bytes(b"")  # of an earlier run, without the plugin
    seen = []
    downloads.guarded(lambda *arguments: seen.append((tmp_path / name).exists()))(None, url, str(tmp_path))
    assert seen == [False]


def test_mindocr_s_own_download_is_guarded():
    activate()
    from mindocr.models.backbones.mindcv_models.download import DownLoad

    assert hasattr(DownLoad.download_url, "_detperf_wrapped")
