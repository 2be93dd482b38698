"""Fixtures of the MindOCR room."""

from __future__ import annotations

from pathlib import Path

import pytest

from detperf_plugins.samples.scene_text import write_scene_text


@pytest.fixture(scope="session")
def words(tmp_path_factory) -> Path:
    """A small scene-text set: eight pictures of 192 pixels to train, two to evaluate."""
    root = tmp_path_factory.mktemp("words")
    write_scene_text(root / "train", images=8, size=192, seed=0)
    write_scene_text(root / "val", images=2, size=192, seed=1)
    return root
