"""The patches for PaddleDetection on the installed package, and on a checkout (PADDLEDETECTION)."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.patches.hosts import alone, apply_and_revert, copy_of, through_git_am

CHECKOUT = os.environ.get("PADDLEDETECTION", "")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A copy of the installed package, in a folder called site-packages."""
    spec = importlib.util.find_spec("ppdet")
    return copy_of(Path(spec.origin).parent, tmp_path_factory.mktemp("wheel"))


def test_the_series_goes_in_and_comes_out(wheel):
    assert apply_and_revert(wheel) == "2.6.0"


def test_each_patch_needs_only_what_it_says(wheel):
    assert alone(wheel) == []


@pytest.mark.skipif(not CHECKOUT, reason="PADDLEDETECTION names no checkout")
def test_git_am_takes_the_series(tmp_path):
    through_git_am(Path(CHECKOUT), tmp_path)
    assert alone(Path(CHECKOUT)) == []
