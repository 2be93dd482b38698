"""`python -m detperf_plugins SCRIPT`: sentences of ours end it as sentences, everything else as it would."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What tools/train.py of a checkout begins with: its parser, here for `-c CONFIG -o WORDS`.
ARG_PARSER = """
import argparse
def create_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("-c", "--config")
    parser.add_argument("-o", "--opt", nargs="+")
    return parser
def parse_args_and_config(args=None):
    raise AssertionError("the plugin reads the config in its place")
"""
TRAIN = """
from tools.arg_parser import parse_args_and_config
parse_args_and_config()
print("read")
"""
GOOD, BASELESS = "model: {}\ntrain: {}\n", "_BASE_: nowhere.yml\n"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("")
    (tmp_path / "tools" / "arg_parser.py").write_text(ARG_PARSER)
    (tmp_path / "tools" / "train.py").write_text(TRAIN)
    return tmp_path


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "detperf_plugins", *words], cwd=folder, env=environment, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("script", [["tools/train.py"], ["-m", "tools.train"]], ids=["script", "module"])
@pytest.mark.parametrize(
    ("content", "words", "sentence"),
    [
        (BASELESS, [], "names nowhere.yml, which does not exist"),
        (None, [], "there is no config file one.yml"),
        (GOOD, ["-o", "foo"], "'foo' is not of the form key=value"),
    ],
)
def test_a_sentence_of_ours_is_no_traceback(checkout, script, content, words, sentence):
    if content is not None:
        (checkout / "one.yml").write_text(content)
    done = run(checkout, *script, "-c", "one.yml", *words)
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("detperf: ") and sentence in line


def test_a_watched_module_may_be_looked_for_before_it_is_imported(tmp_path):
    (tmp_path / "looked_for.py").write_text("")
    script = (
        "import importlib.util, sys; from detperf_plugins.imports import around_import; "
        "around_import('looked_for', after=lambda module: print(module.__name__)); "
        "assert importlib.util.find_spec('looked_for'); import looked_for; "
        "del sys.modules['looked_for']; import looked_for"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "looked_for\n", done.stderr


def test_everything_else_stays_as_it_is(checkout):
    (checkout / "one.yml").write_text(GOOD)
    done = run(checkout, "tools/train.py", "-c", "one.yml")
    assert done.returncode == 0 and done.stdout == "read\n"
    (checkout / "fails.py").write_text("raise ValueError('of its own')\n")
    done = run(checkout, "fails.py")
    assert done.returncode == 1 and "Traceback" in done.stderr and "ValueError: of its own" in done.stderr
    (checkout / "leaves.py").write_text("raise SystemExit(7)\n")
    assert run(checkout, "leaves.py").returncode == 7
