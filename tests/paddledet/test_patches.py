"""The patches for PaddleDetection on the installed package, and on a checkout (PADDLEDETECTION)."""

from __future__ import annotations

import importlib.util
import inspect
import os
from pathlib import Path

import pytest

from detperf_plugins.paddledet import activate, deactivate
from detperf_plugins.paddledet.registry import arguments_of
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


def test_parts_of_a_patched_host_are_no_obstacle_to_the_plugin(monkeypatch):
    """The series gives ResNet a data_format, and brings a PolyToBitmap, as the plugin does."""
    from ppdet.data import transform

    class Stock:
        def __init__(self, depth=50, data_format="NCHW"):
            pass

    @arguments_of(Stock)
    def init(self, *args, data_format="NCHW", fold=False, **kwargs):
        pass

    assert list(inspect.signature(init).parameters) == ["self", "depth", "data_format", "fold"]
    monkeypatch.setattr(transform, "PolyToBitmap", Stock, raising=False)
    activate()
    assert transform.PolyToBitmap is not Stock
    deactivate()
    assert transform.PolyToBitmap is Stock
