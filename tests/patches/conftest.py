"""A series of patches of the test's own in place of the shipped ones."""

from __future__ import annotations

import pytest

from detperf_plugins.patching import series
from tests.patches.support import BASE, FIRST, OLDER, SECOND, THIRD, write_series, write_tree


@pytest.fixture()
def shipped(monkeypatch, tmp_path):
    """The folder that the tool takes its series from, empty; a hypothesis test may fill it anew each time."""
    folder = tmp_path / "shipped"
    monkeypatch.setattr(series, "patches_dir", lambda: folder)
    return folder


@pytest.fixture()
def tree(shipped, tmp_path):
    """A checkout of the newer version; patch 2 needs 1, and 3 stands alone."""
    write_series(shipped, {"old": OLDER, "new": [BASE, FIRST, SECOND, THIRD]}, depends={2: [1]})
    root = write_tree(tmp_path / "checkout", BASE)
    (root / "setup.py").write_text("")
    return root
