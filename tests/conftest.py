"""Shared fixtures: the folder of real data, and the gate for tests that need PaddleDetection."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path

import pytest

# Bound before paddle is imported by any test, whatever the environment (see docs/install.md).
zlib.decompress(zlib.compress(b"before paddle"))

ROOT = Path(__file__).resolve().parent.parent
HAS_PADDLEDET = all(importlib.util.find_spec(name) for name in ("paddle", "ppdet"))
HAS_MINDOCR = all(importlib.util.find_spec(name) for name in ("mindspore", "mindocr"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Tests of a host's room are not even imported where that host is missing."""
    parts = collection_path.parts[len(ROOT.parts) :]
    if ("paddledet" in parts and not HAS_PADDLEDET) or ("mindocr" in parts and not HAS_MINDOCR):
        return True
    return None


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data beside the repository, read-only; the test is skipped without it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data of ../shared/data is not here")
    return folder


@pytest.fixture()
def activated():
    """The plugins registered for one test, and stock put back after it."""
    from detperf_plugins.paddledet import activate, deactivate

    activate()
    yield
    deactivate()
