"""Fixtures of the PaddleDetection room."""

from __future__ import annotations

from pathlib import Path

import pytest

from detperf_plugins.samples.coco_shapes import write_coco_shapes


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Path:
    """A small shapes set: eight pictures of 96 pixels to train, four to evaluate."""
    root = tmp_path_factory.mktemp("shapes")
    write_coco_shapes(root / "train", images=8, size=96, seed=0)
    write_coco_shapes(root / "val", images=4, size=96, seed=1)
    return root
