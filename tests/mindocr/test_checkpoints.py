"""Checkpoints: whole or absent, at their interval, and a killed training that goes on as if it were not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr import checkpoints
from tests.mindocr.scripts import OVERLAYS, TRAIN, config, environment, train

# Kills this process with SIGKILL while the resume file of epoch 2 is half written.
KILLED = """
import os, signal
import mindspore.train.serialization as serialization
from detperf_plugins.imports import around_import
def arm(module):
    import mindspore as ms
    real = serialization.save_checkpoint
    def half(obj, name, *args, **kwargs):
        if "train_resume" in str(name) and kwargs.get("append_dict", {}).get("epoch_num") == 2:
            with open(str(name).replace(".ckpt", ".tmp"), "wb") as file:
                file.write(b"half a checkpoint")
            if os.path.exists(str(name)):
                os.chmod(str(name), 0o600); os.remove(str(name))
            os.kill(os.getpid(), signal.SIGKILL)
        return real(obj, name, *args, **kwargs)
    ms.save_checkpoint = half
around_import("mindspore", after=arm)
import detperf_plugins.mindocr.hooks as hooks
watch = hooks.around_import
hooks.around_import = lambda name, **hooked: None if name == "mindspore" else watch(name, **hooked)
"""


@pytest.mark.slow
def test_kill_in_the_middle_of_a_write_then_resume_gives_the_losses_of_an_uninterrupted_run(words, tmp_path):
    bases = (OVERLAYS / "fast_data.yml",)
    whole = config(tmp_path / "whole", words, *bases, scheduler={"num_epochs": 3})
    killed = config(tmp_path / "killed", words, *bases, scheduler={"num_epochs": 3})
    expected, _ = train(whole)
    done = subprocess.run(
        [sys.executable, "-c", KILLED + TRAIN, str(killed)], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    resumed, output = train(killed, "model.resume=True")
    assert "Resume train from epoch: 2" in output
    # Shuffling and augmentation go on as well: every loss is that of the run that was never killed.
    assert resumed["losses"] == pytest.approx(expected["losses"][4:], rel=1e-5)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "train_resume.ckpt"
    path.write_bytes(b"old and whole")

    def save(obj, name, **kwargs):
        with open(name, "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.atomic(save)(None, str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["train_resume.ckpt"]
    assert path.read_bytes() == b"old and whole"


def test_a_finished_write_replaces_the_old_file_and_the_suffix_is_added(tmp_path):
    (tmp_path / "best.ckpt").write_bytes(b"old")

    def save(obj, name, **kwargs):
        assert name.endswith(".ckpt") and os.path.dirname(name) == str(tmp_path)
        with open(name, "wb") as file:
            file.write(obj)

    checkpoints.atomic(save)(b"new", str(tmp_path / "best"))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("best.ckpt", b"new")]


def test_interval():
    interval = checkpoints.Interval(20, 50)
    assert [epoch for epoch in range(1, 51) if interval.due(epoch)] == [20, 40, 50]
    assert interval.wants("out/best.ckpt") and interval.wants("out/mine.ckpt")
    assert interval.wants("out/e40.ckpt") and not interval.wants("out/e41.ckpt")
    assert not interval.wants("out/train_resume.ckpt", {"epoch_num": 19})
    assert interval.wants("out/train_resume.ckpt", {"epoch_num": 20})


def test_rare_checkpoints_are_written_at_their_epochs(words, tmp_path):
    path = config(tmp_path, words, OVERLAYS / "rare_checkpoints.yml", scheduler={"num_epochs": 3})
    _, output = train(path, "system.ckpt_save_interval=2", "train.loader.batch_size=8")
    names = {file.name for file in (tmp_path / "out").glob("*.ckpt")}
    assert names == {"best.ckpt", "e2.ckpt", "e3.ckpt", "train_resume.ckpt"}
    assert "e1.ckpt" not in output


def test_resume_refuses_what_is_not_whole(tmp_path):
    import mindspore as ms
    import numpy as np

    with pytest.raises(UnreadableInput, match="nothing to resume from"):
        checkpoints.check_resume(str(tmp_path / "none.ckpt"))
    path = tmp_path / "weights.ckpt"
    ms.save_checkpoint([{"name": "w", "data": ms.Tensor(np.ones(1000, np.float32))}], str(path))
    with pytest.raises(UnreadableInput, match="weights only"):
        checkpoints.check_resume(str(path))
    os.chmod(path, 0o600)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(UnreadableInput, match="no whole checkpoint"):
        checkpoints.check_resume(str(path))
