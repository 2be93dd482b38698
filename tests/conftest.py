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


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory) -> Path:
    """A CUDA driver whose one GPU is this processor."""
    from tests.native.fake_gpu import compile_library

    return compile_library(tmp_path_factory.mktemp("fake_gpu") / "libcuda.so")


@pytest.fixture()
def machine(monkeypatch, tmp_path):
    """`machine(library, "CAPABILITY VERSION")`: which CUDA driver and GPU are here, with an empty cache."""
    from tests.native.fake_gpu import install

    return lambda library, *gpu: install(monkeypatch, tmp_path / "cache", library, *gpu)
