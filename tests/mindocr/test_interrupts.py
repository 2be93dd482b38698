"""Ctrl-C in a training: a sentence and what is known of the time, wherever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.mindocr.scripts import config, environment

# A block that is interrupted while it does what argv[1] says; `told` comes from the other thread.
SCRIPT = """
import hashlib, os, signal, sys, threading, time
from detperf_plugins.mindocr.interrupts import Interrupts
before = signal.getsignal(signal.SIGTERM)
with Interrupts(lambda: print("told", flush=True), patience=0.3) as interrupts:
    try:
        child = os.fork()
        if not child:
            os._exit(signal.getsignal(signal.SIGTERM) is not before)
        ready = "child", os.waitpid(child, 0)[1]
        if sys.argv[1] == "native":
            threading.Timer(0.5, lambda: print(*ready, flush=True)).start()
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2_000_000_000)  # many minutes without Python
        print(*ready, flush=True)
        if sys.argv[1] == "python":
            time.sleep(60)
        raise ValueError("of its own")
    except BaseException as error:
        print(type(error).__name__, interrupts.asked, flush=True)
print(signal.getsignal(signal.SIGTERM) is before)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("doing", "status", "said"),
    [("python", 0, ["KeyboardInterrupt True", "True"]), ("native", 130, ["told"])],
)
def test_either_signal_is_told_wherever_the_main_thread_is(number, doing, status, said):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, doing], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None and process.stdout.readline() == "child 0\n"
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert output.splitlines() == said and process.returncode == status


def test_an_error_of_its_own_passes_and_everything_is_put_back():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "fail"], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert done.stdout.splitlines() == ["child 0", "ValueError False", "True"]


@pytest.mark.slow
def test_a_training_says_where_the_time_went_and_how_to_go_on(words, tmp_path):
    path = config(tmp_path, words, scheduler={"num_epochs": 1000})
    command = [sys.executable, "-c", "from detperf_plugins.cli import main; main()", "train", "-c", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "epoch: [2/1000]" in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # the workers too, as a terminal does
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Where the time went" in output and "compile" in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("detperf: interrupted after ") and "train_resume.ckpt goes on" in last
