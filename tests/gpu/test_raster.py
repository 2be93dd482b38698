"""The CUDA raster on a real GPU: exact against the host kernel, and how long it takes.

`python -m pytest tests/gpu -s` on a machine with a GPU and a compiler; DETPERF_GPU_JSON=PATH keeps the
figures.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from detperf_plugins.errors import DetperfError
from detperf_plugins.native.cuda.build import build, visible_archs
from detperf_plugins.native.cuda.raster import cuda_raster, self_test
from tests.gpu.harness import Run, make_batch, memory_named


@pytest.fixture(scope="module")
def raster(tmp_path_factory):
    """Built for the GPU here, in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        try:
            build(visible_archs())
            yield cuda_raster()
        except DetperfError as error:
            pytest.skip(str(error))


@pytest.fixture(params=["torch", "cupy", "driver"])
def memory(request, raster):
    found = memory_named(request.param, raster)
    if found is None:
        pytest.skip(f"{request.param} is not here, or without CUDA")
    return found


@pytest.mark.parametrize("size", [14, 28, 56, 112])
def test_every_cell_equals_the_host_kernel(raster, memory, size):
    for seed, vertices in enumerate((3, 40, 500)):
        assert Run(raster, memory, make_batch(seed, 8, 300, 20, vertices), size).mismatches() == 0
    assert self_test(raster, 2000, size) == 0


def test_more_images_than_a_launch_takes(raster, memory):
    assert Run(raster, memory, make_batch(9, 130, 5, 3, 20), 28).mismatches() == 0


def test_time(raster, memory):
    """Batch size 8, 128 RoIs an image: what a training step of stock's settings asks for at most."""
    rows = []
    for size in (14, 28):
        for vertices in (40, 500):
            run = Run(raster, memory, make_batch(0, 8, 128, 20, vertices), size)
            assert run.mismatches() == 0
            row = {"memory": memory.name, "gpu": raster.driver.name(raster.device), "size": size,
                   "vertices": vertices, "rois": 1024, **run.times()}  # fmt: skip
            rows.append(row)
            print(json.dumps(row))
    if os.environ.get("DETPERF_GPU_JSON"):
        path = Path(os.environ["DETPERF_GPU_JSON"])
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        path.write_text(json.dumps(known + rows, indent=2) + "\n", encoding="utf-8")
    assert all(row["gpu_ms"] < 5 for row in rows)
