"""The patches for MindOCR on the installed package, and on a checkout (MINDOCR)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detperf_plugins.patching.engine import open_job
from tests.patches.hosts import alone, apply_and_revert, copy_of, through_git_am

CHECKOUT = os.environ.get("MINDOCR", "")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A copy of the installed package, in a folder called site-packages."""
    spec = importlib.util.find_spec("mindocr")
    return copy_of(Path(spec.origin).parent, tmp_path_factory.mktemp("wheel"))


def test_the_series_goes_in_and_comes_out(wheel):
    assert apply_and_revert(wheel) == "0.5.0"


def test_each_patch_needs_only_what_it_says(wheel):
    assert alone(wheel) == []


@pytest.mark.skipif(not CHECKOUT, reason="MINDOCR names no checkout")
def test_git_am_takes_the_series(tmp_path):
    through_git_am(Path(CHECKOUT), tmp_path)
    assert alone(Path(CHECKOUT)) == []


# Stock's first line ends in an ImportError on MindSpore 2.7 and later.
WITHOUT_PLUGIN = """
import sys
import mindocr
from mindocr.data.transforms.transforms_factory import create_transforms
label = '[{"transcription": "a", "points": [[9, 9]]}, {"transcription": "b", "points": [[1, 1], [9, 9]]}]'
encode = create_transforms([{"DetLabelEncode": None}], {"is_train": True})[0]
print(encode({"label": label})["ignore_tags"].tolist(), "detperf_plugins" in sys.modules, mindocr.__file__)
"""


@pytest.mark.slow
def test_patched_package_without_the_plugin(wheel, tmp_path):
    """MindOCR with its whole series imports on this MindSpore, and bears a label that stock raises at."""
    root = copy_of(wheel / "mindocr", tmp_path)
    with open_job(root) as job:
        job.apply([])
    env = {**os.environ, "PYTHONPATH": str(root), "DETPERF_PLUGINS": "", "GLOG_v": "3"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLUGIN],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[-1] == f"[True] False {root / 'mindocr' / '__init__.py'}"
