"""A series of patches of the test's own in place of the shipped ones."""

from __future__ import annotations

import pytest

from detperf_plugins.patching import series


@pytest.fixture()
def shipped(monkeypatch, tmp_path):
    """The folder that the tool takes its series from, empty; a hypothesis test may fill it anew each time."""
    folder = tmp_path / "shipped"
    monkeypatch.setattr(series, "patches_dir", lambda: folder)
    return folder
