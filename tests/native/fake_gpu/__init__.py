"""A driver of CUDA whose one GPU is this processor: libcuda.cpp, and what puts it in place of the real one.

Used by the fixtures `fake_library` and `machine` of tests/conftest.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from detperf_plugins.native.cuda import build, compilers, driver, raster

SOURCE = Path(__file__).with_name("libcuda.cpp")


def compile_library(out: Path) -> Path:
    """The driver as a shared library; the test is skipped where no compiler is at hand."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not here")
    subprocess.run(
        ["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Werror",
         f"-I{compilers.INCLUDE}", f"-I{compilers.SOURCE.parent}", "-o", str(out), str(SOURCE)],
        check=True,
    )  # fmt: skip
    return out


def install(patch: pytest.MonkeyPatch, cache: Path, library: Path, gpu: str = "90 12040") -> None:
    """Take `library` for the driver, `gpu` for what it finds, and `cache` for what has been built."""
    patch.setenv("FAKE_GPU", gpu)
    patch.setenv("XDG_CACHE_HOME", str(cache))
    patch.setattr(driver, "LIBRARY", str(library))
    patch.setattr(driver, "_driver", None)
    patch.setattr(raster, "_loaded", {})


def put_built(arch: str = "sm_90", code: bytes = b"\x7fELF of a kernel") -> Path:
    """A compiled raster in the cache, as `detperf build-cuda` leaves it."""
    build.cache_folder().mkdir(parents=True, exist_ok=True)
    file = build.cache_folder() / f"raster-{build.source_hash()}-nvcc-12.4.131-{arch}.cubin"
    file.write_bytes(code)
    return file
