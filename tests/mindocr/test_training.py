"""DBNet trained through the runner: phases, sink, PyNative, compile cache, overlays, and a stock checkout."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.mindocr import activate, amp, hooks
from detperf_plugins.mindocr.compile_cache import key_of
from detperf_plugins.mindocr.session import Session
from tests.mindocr.scripts import OVERLAYS, config, run, train

# Losses of one graph on one CPU repeat to rounding; threads may add in another order.
SAME = 1e-4

# A MindOCR checkout, where MINDOCR names one; its tools/ are not in the wheel.
CHECKOUT = os.environ.get("MINDOCR", "")


@pytest.fixture(scope="module")
def plain(words, tmp_path_factory):
    """Two epochs of four steps in graph mode: the result that the others are compared with."""
    folder = tmp_path_factory.mktemp("plain")
    return train(config(folder, words))


def assert_same(losses, other, tolerance=SAME):
    assert len(losses) == len(other) and np.isfinite(losses).all()
    np.testing.assert_allclose(losses, other, rtol=tolerance)


def test_phases_explain_the_start_and_the_steps(plain, words):
    result, output = plain
    start_up = result["start_up"]
    assert {"import mindspore", "import mindocr", "data set", "model", "checkpoint", "optimizer", "other",
            "first batch", "compile"} == set(start_up)  # fmt: skip
    assert all(value is not None and value >= 0 for value in start_up.values())
    explained = sum(value for name, value in start_up.items() if name != "compile")
    assert explained == pytest.approx(result["before_first_step"], abs=0.01)
    assert start_up["compile"] <= result["first_step"]
    assert start_up["import mindspore"] > 0 and start_up["model"] > 0
    assert result["during"]["checkpoints"] > 0 and result["during"]["callbacks"] > 0
    assert result["steps"] == len(result["losses"]) == 8
    assert 0 <= result["data_wait_share"] < 1
    assert result["images_per_s"] == pytest.approx(2000 / result["step_ms"], rel=0.9)
    for word in ("import mindspore", "compile", "steady:", "img/s over the epochs after the first"):
        assert word in output


def test_pynative_trains_to_the_same_losses_and_phases_are_stored(plain, words, tmp_path):
    path = config(tmp_path, words)
    result, _ = train(path, "system.mode=1")
    assert result["facts"]["mode"] == "pynative"
    # Kernel by kernel, sums round otherwise (4e-7 after an update); this net doubles that at every step.
    assert_same(result["losses"][:3], plain[0]["losses"][:3], 1e-5)
    stored = json.loads((tmp_path / "out" / "phases.json").read_text())
    assert stored["losses"] == result["losses"] and stored["versions"]["mindspore"]


def test_sink_and_jit_level_change_nothing_on_a_cpu_and_the_log_says_so(plain, words, tmp_path):
    path = config(tmp_path, words, OVERLAYS / "sink.yml", OVERLAYS / "jit_o0.yml")
    result, output = train(path)
    assert_same(result["losses"], plain[0]["losses"])
    assert result["facts"]["sinks"] is False and result["facts"]["jit_level"] == "O0"
    assert "a CPU does not sink" in output


@pytest.mark.slow
def test_warm_compile_cache_is_hit_and_trains_the_same(plain, words, tmp_path):
    path = config(tmp_path, words, OVERLAYS / "compile_cache.yml")
    folder = f"system.compile_cache_path={tmp_path / 'cache'}"
    cold, _ = train(path, folder)
    warm, output = train(path, folder)
    assert cold["facts"]["compile_cache"]["result"] == "miss"
    assert warm["facts"]["compile_cache"]["result"] == "hit"
    assert warm["facts"]["compile_cache"]["size_mb"] > 0.1
    assert "compile cache: hit" in output
    assert warm["losses"] == cold["losses"]
    assert_same(warm["losses"], plain[0]["losses"])
    changed, output = train(path, folder, "loss.l1_scale=1", "scheduler.num_epochs=1")
    assert "img/s: unknown" in output  # one epoch: its time holds the compiling
    assert changed["facts"]["compile_cache"]["result"] == "miss"
    assert changed["losses"][0] < cold["losses"][0]


@pytest.mark.slow
def test_a_stock_checkout_trains_the_same_through_the_plugin(plain, words, tmp_path):
    if not CHECKOUT:
        pytest.skip("MINDOCR names no checkout")
    path = config(tmp_path, words)
    phases = tmp_path / "elsewhere" / "phases.json"
    command = [sys.executable, "-m", "detperf_plugins", "--phases-json", str(phases)]
    command += [str(Path(CHECKOUT) / "tools" / "train.py"), "-c", str(path), "-o", "system.note=a=b"]
    output = run(command, cwd=tmp_path)
    stored = json.loads(phases.read_text())
    assert_same(stored["losses"], plain[0]["losses"])
    assert stored["start_up"]["import mindspore"] > 0 and stored["start_up"]["compile"] >= 0
    assert "Where the time went" in output
    assert "system.note: MindOCR reads no such key" in output


def test_settings_that_cannot_work_are_refused_with_a_sentence():
    with pytest.raises(DetperfError, match="use O2"):
        amp.check_level("O1")
    session = Session()
    session.config = {"system": {"jit_level": "O9"}}
    with pytest.raises(UnreadableInput, match="O0, O1 and O2"):
        session.dataset_builder(None)({}, {})


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("lost", ["data_dir", "label_file"])
def test_a_missing_folder_or_label_file_is_named_with_its_key(training, lost, tmp_path, monkeypatch):
    built = []
    (tmp_path / "images").mkdir()
    (tmp_path / "labels.txt").write_text("")
    session = Session()
    session.stock = True
    monkeypatch.setattr(session, "_prepare", lambda devices: None)
    monkeypatch.setattr(session, "_enable_cache", lambda *arguments: None)

    def original(dataset_config, loader_config, **kwargs):
        built.append(dataset_config)
        return types.SimpleNamespace(get_dataset_size=lambda: 1)

    data = {"dataset_root": str(tmp_path), "data_dir": ["images"], "label_file": "labels.txt"}
    build = session.dataset_builder(original)
    build(data, {}, is_train=training)
    assert built == [data]
    section = "train" if training else "eval"
    with pytest.raises(UnreadableInput, match=rf"{section}\.dataset\.{lost}: there is no .*nowhere"):
        build({**data, lost: "nowhere"}, {}, is_train=training)
    assert len(built) == 1


def test_a_compile_cache_without_a_script_is_left_off_with_a_note(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["-c"])
    session = Session()
    session.config = {"system": {"compile_cache_path": str(tmp_path / "cache")}}
    session.dataset_builder(lambda dataset, loader: sized(4))({}, {})
    assert "compile cache" in session.phases.notes[0] and not (tmp_path / "cache").exists()


def sized(steps: int) -> types.SimpleNamespace:
    """What a data set tells of itself."""
    return types.SimpleNamespace(get_dataset_size=lambda: steps)


def test_each_number_of_steps_has_a_compile_cache_of_its_own(monkeypatch, tmp_path):
    """The learning rates of all steps are constants of the graph; the data set decides how many there are."""
    import mindspore as ms

    context: list[str] = []
    monkeypatch.setattr(ms, "set_context", lambda **values: context.append(values["compile_cache_path"]))
    monkeypatch.setattr(sys, "argv", [__file__])
    for steps, training in ((4, True), (4, False), (5, True), (4, True)):
        session = Session()
        session.config = {"system": {"compile_cache_path": str(tmp_path)}}
        builder = session.dataset_builder(lambda dataset, loader, **kwargs: sized(steps))  # noqa: B023
        builder({}, {}, is_train=training)
    assert len(context) == 3 and context[0] == context[2] != context[1]


def test_the_session_chooses_the_compile_cache_of_a_patched_checkout(monkeypatch):
    activate()
    import mindocr.utils

    chosen: list[str] = []
    host = types.ModuleType("mindocr.utils.compile_cache")
    host.enable_compile_cache = lambda config, *extra: chosen.append("by the host")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, host.__name__, host)
    monkeypatch.setattr(mindocr.utils, "compile_cache", host, raising=False)
    hooks._leave_compile_cache_to_session()
    assert host.enable_compile_cache({}, 1, 4) is None and not chosen


def test_each_config_has_a_compile_cache_of_its_own():
    config = {"system": {"seed": 1}, "loss": {"l1_scale": 10}, "train": {"loader": {"batch_size": 2}}}
    changed = {**config, "loss": {"l1_scale": 1}}
    quieter = {**config, "system": {"seed": 1, "log_interval": 50}}
    assert key_of(config) == key_of(quieter) != key_of(changed)
    assert key_of(config) != key_of(config, devices=2)
