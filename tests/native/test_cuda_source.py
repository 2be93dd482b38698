"""The CUDA raster without a GPU: raster.cu run by a host compiler, thread by thread, behind a false driver.

tests/native/fake_gpu stands in for libcuda.so.1, so that everything but the GPU itself is what a user runs.
Where nvcc is found, the same file is compiled for real GPUs and its assembly searched for fused operations.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.native.cuda import build, compilers, raster
from detperf_plugins.native.cuda.raster import DevicePolygons, cuda_raster, rasterize_arrays
from detperf_plugins.native.raster import rasterize
from tests.native.fake_gpu import put_built
from tests.polygons_strategy import blob, boxes, parts


@pytest.fixture
def gpu(fake_library, machine):
    """The raster loaded on the GPU that is this processor."""
    machine(fake_library)
    put_built()
    return cuda_raster()


def packed(segmentations):
    """CSR arrays of segmentations, of which any may have no part."""
    flat = [np.reshape(np.asarray(part, dtype=np.float64), (-1, 2)) for one in segmentations for part in one]
    return (
        np.concatenate([*flat, np.zeros((0, 2))]),
        np.cumsum([0] + [len(part) for part in flat]),
        np.cumsum([0] + [len(one) for one in segmentations]),
    )


def test_random_polygons_equal_the_host_kernel(gpu):
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        st.lists(st.lists(parts(), max_size=3), min_size=1, max_size=3),
        st.lists(boxes(), min_size=1, max_size=3),
        st.sampled_from([1, 7, 14, 28, 63, 64, 65, 112]),
        st.sampled_from([1, 14, 64, 70]),
    )
    def check(segmentations, rois, height, width):
        arrays, rois = packed(segmentations), np.stack(rois)
        index = np.arange(len(rois)) % len(segmentations)
        masks, usable = rasterize_arrays(gpu, *arrays, rois, index, height, width)
        np.testing.assert_array_equal(masks, rasterize(*arrays, rois, index, height, width))
        np.testing.assert_array_equal(usable, np.diff(arrays[2])[index] > 0)

    check()


def test_many_boxes_and_long_polygons_equal_the_host_kernel(gpu):
    rng = np.random.default_rng(3)
    segmentations = [
        [blob(rng, rng.uniform(0, 400, 2), 80, vertices).reshape(-1) for vertices in lengths]
        for lengths in ([500, 3, 127], [], [129, 128], [1000], [4] * 20)
    ]
    arrays = packed(segmentations)
    corner = rng.uniform(-20, 380, (300, 2))
    rois = np.concatenate([corner, corner + rng.uniform(1, 200, (300, 2))], axis=1).astype(np.float32)
    index = rng.integers(-1, 5, 300)
    masks, usable = rasterize_arrays(gpu, *arrays, rois, index, 28, 28)
    np.testing.assert_array_equal(masks, rasterize(*arrays, rois, index, 28, 28))
    np.testing.assert_array_equal(usable, (index != -1) & (index != 1))
    assert masks[index == 0].any() and not masks[index < 0].any()
    # What lies on the device cannot be checked before the launch: an instance that is not there is empty.
    beyond = rasterize_arrays(gpu, *arrays, rois[:2], np.array([5, 1 << 40]), 28, 28)
    assert not beyond[0].any() and not beyond[1].any()
    assert raster.self_test(gpu) == 0


def test_a_batch_of_more_images_than_a_launch_takes(gpu, fake_library):
    """Images with boxes and without, with instances and without; each box belongs to the right one."""
    rng = np.random.default_rng(5)
    images, counts, expected, known = [], [], [], []
    for at in range(150):
        count = int(rng.integers(0, 4)) * (at % 7 != 0)
        segmentations = [[blob(rng, np.array([50.0, 50.0]), 40, 9).reshape(-1)] for _ in range(at % 3)]
        images.append((*packed(segmentations), len(segmentations)))
        counts.append(count)
        index = rng.integers(0, max(at % 3, 1), count)
        rois = rng.uniform(0, 50, (count, 4)).astype(np.float32) + np.float32([0, 0, 50, 50])
        known.append((rois, index))
        if segmentations:
            expected.append(rasterize(*images[-1][:3], rois, index, 14, 14))
        else:
            expected.append(np.ones((count, 14, 14), dtype=np.int32))
    rois, index = (np.ascontiguousarray(np.concatenate(column)) for column in zip(*known))
    masks = np.full((len(rois) + 1, 14, 14), -7, dtype=np.int32)
    usable = np.full(len(rois) + 1, -7, dtype=np.float32)
    table = [
        DevicePolygons(xy.ctypes.data, at.ctypes.data, of.ctypes.data, size, count)
        for (xy, at, of, size), count in zip(images, counts)
    ]
    before = ctypes.CDLL(str(fake_library)).fake_launches()
    gpu(table, rois.ctypes.data, index.ctypes.data, 14, 14, masks.ctypes.data, usable.ctypes.data, 0)
    assert ctypes.CDLL(str(fake_library)).fake_launches() - before == 3
    np.testing.assert_array_equal(masks[:-1], np.concatenate(expected))
    np.testing.assert_array_equal(usable[:-1], np.repeat([size > 0 for *_, size in images], counts))
    assert (masks[-1] == -7).all() and usable[-1] == -7  # nothing is written past the last box


def test_no_boxes_launch_nothing_and_a_grid_too_large_is_refused(gpu):
    arrays = packed([[[0, 0, 9, 0, 9, 9]]])
    masks, usable = rasterize_arrays(gpu, *arrays, np.zeros((0, 4)), np.zeros(0), 28, 28)
    assert masks.shape == (0, 28, 28) and usable.shape == (0,)
    assert raster.fits(432, 432) and not raster.fits(500, 500)
    with pytest.raises(ValueError, match="500 x 500 cells does not fit"):
        rasterize_arrays(gpu, *arrays, np.zeros((1, 4)), np.zeros(1), 500, 500)


def test_what_is_missing_is_one_sentence(fake_library, machine, tmp_path):
    def refused(words):
        with pytest.raises(DetperfError, match=words) as caught:
            cuda_raster()
        assert "\n" not in str(caught.value)

    machine(tmp_path / "no_such_library.so")
    refused("there is no NVIDIA driver here")
    machine(fake_library, "none")
    refused("no CUDA-capable device is detected")
    machine(fake_library)
    refused("is not built: run `detperf build-cuda`")
    put_built("sm_70")
    put_built("sm_86")
    refused(r"built for sm_70, sm_86, and this GPU is sm_90: run `detperf build-cuda` on it")
    put_built("sm_90", b"cut off")
    refused(r"cannot be loaded on fake GPU: .*no kernel image is available.*build-cuda --force")
    with pytest.raises(DetperfError, match="there is no GPU 3: the driver sees 1"):
        cuda_raster(3)
    # Code for sm_86 runs on an 8.9 too, code for sm_90a on a 9.0 alone.
    put_built("sm_80")
    put_built("sm_100a")
    assert build.built((8, 9)).arch == "sm_86" and build.built((8, 0)).arch == "sm_80"
    assert build.built((10, 0)).arch == "sm_100a"
    for capability in ((6, 1), (10, 3)):
        with pytest.raises(DetperfError, match="this GPU is sm_{}{}:".format(*capability)):
            build.built(capability)


def script(folder, text):
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_compiler_that_is_missing_broken_or_too_new_is_named(fake_library, machine, tmp_path, monkeypatch):
    monkeypatch.setattr(compilers, "_wheels", lambda *places: iter(()))
    monkeypatch.setattr(compilers.ctypes, "CDLL", no_library)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    machine(tmp_path / "no_driver.so")
    with pytest.raises(DetperfError, match=r"nothing here compiles CUDA code: nvcc is .*; NVRTC .*pip"):
        build.build(["sm_90"])
    nvcc = script(tmp_path, "echo libstdc++.so.6 is missing; exit 127")
    with pytest.raises(DetperfError, match=r"nvcc is no working nvcc: libstdc\+\+\.so\.6 is missing"):
        build.build(["sm_90"])
    says = 'case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88";; *) {};; esac'
    script(tmp_path, says.format("echo 'nvcc fatal : Unsupported gpu architecture sm_70' >&2; exit 1"))
    with pytest.raises(DetperfError, match=r"nvcc 13\.0\.88 cannot compile for sm_70: nvcc fatal :"):
        build.build(["sm_70"], nvcc)
    with pytest.raises(UnreadableInput, match=r"--arch 9\.0 is no GPU architecture"):
        build.build(["9.0"], nvcc)
    monkeypatch.undo()
    machine(fake_library, "90 12040")
    with pytest.raises(DetperfError, match=r"nvcc 13\.0\.88 is newer than CUDA 12\.4, the newest"):
        build.build(["sm_90"], nvcc)


def no_library(name):
    raise OSError(name)


def test_nvcc_makes_code_for_gpus_and_fuses_nothing(machine, tmp_path):
    """A real compiler takes raster.cu, and no multiplication is fused with an addition."""
    machine(tmp_path / "no_driver.so")
    try:
        nvcc = compilers.find_nvcc()
    except DetperfError as error:
        pytest.skip(str(error))
    archs = ["sm_90"]
    try:
        nvcc.compile("sm_70", "ptx")
        archs.append("sm_70")
    except DetperfError as error:
        assert "sm_70" in str(error) and int(nvcc.version.split(".")[0]) >= 13  # the first without it
    for arch in archs:
        ptx = nvcc.compile(arch, "ptx").decode()
        assert all(word in ptx for word in ("mul.rn.f64", "add.rn.f64", "div.rn.f64", "atom.shared.xor"))
        assert "fma." not in ptx and "mad.f" not in ptx and "call" not in ptx
    first = build.build(["sm_90"], nvcc.path)[0]
    assert first.file.read_bytes().startswith(b"\x7fELF") and first.seconds > 0
    assert build.build(["sm_90"], nvcc.path)[0].seconds is None
    assert build.built((9, 0)).file == first.file


def test_the_command_builds_tries_and_tells(fake_library, machine, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from detperf_plugins import cli

    def run(*words):
        monkeypatch.setattr(raster, "_loaded", {})
        return CliRunner().invoke(cli.app, ["build-cuda", *words, "--json", str(tmp_path / "out.json")])

    cli._load_verbs()
    monkeypatch.setattr(compilers, "_wheels", lambda *places: iter(()))
    machine(fake_library, "80 12040")
    says = 'case "$1" in --version) echo "release 12.4, V12.4.131";; *) printf "\\177ELF" >$7;; esac'
    nvcc = str(script(tmp_path, says))
    assert run("--nvcc", nvcc).exit_code == 0
    (row,) = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert (row["arch"], row["gpu"], row["mismatches"]) == ("sm_80", "fake GPU", 0)
    assert row["compiler"] == "nvcc-12.4.131" and Path(row["file"]).parent == build.cache_folder()
    assert "in the cache" in run("--nvcc", nvcc, "--arch", "sm_80", "--arch", "sm_90").stdout
    monkeypatch.setattr(raster, "self_test", lambda raster: 3)
    assert "3 cells differ from the host kernel's" in str(run("--nvcc", nvcc).exception)
    machine(fake_library, "none")
    assert "no CUDA-capable device" in str(run().exception) and "--arch sm_90" in str(run().exception)
    assert "does not exist" in str(run("--nvcc", "/no/such").exception)
    machine(tmp_path / "no_driver.so")
    assert "there is no NVIDIA driver here" in str(run().exception)
    result = run("--nvcc", nvcc, "--arch", "sm_90")
    assert result.exit_code == 0 and "not tried" in result.stdout


def test_the_harness_of_tests_gpu_finds_what_is_wrong(gpu, monkeypatch):
    from tests.gpu.harness import Run, make_batch, memory_named

    run = Run(gpu, memory_named("driver", gpu), make_batch(0, 3, 7, 4, 12), 14)
    assert run.mismatches() == 0
    assert set(run.times(1, 1)) == {"gpu_ms", "host_ms"}
    one = run.batch[1]
    run.batch[1] = one._replace(index=(one.index + 1) % 4)
    assert run.mismatches() > 0
