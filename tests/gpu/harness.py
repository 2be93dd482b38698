"""The CUDA raster beside the host kernel on one batch: equality, and how long each takes.

Device memory and the stream come from PyTorch or CuPy, whichever is there, or from the CUDA driver itself;
Paddle is not needed.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from typing import Any, NamedTuple

import numpy as np

from detperf_plugins.native.cuda.raster import CudaRaster, DevicePolygons
from detperf_plugins.native.raster import rasterize
from tests.polygons_strategy import blob


class Image(NamedTuple):
    """Packed polygons of an image, and its RoIs with the instance of each."""

    xy: np.ndarray
    parts: np.ndarray
    instances: np.ndarray
    rois: np.ndarray
    index: np.ndarray


class TorchMemory:
    """Arrays as PyTorch tensors, work on a stream of PyTorch's."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.side = torch.cuda.Stream()
        self.stream = self.side.cuda_stream

    def put(self, array: np.ndarray) -> Any:
        with self.torch.cuda.stream(self.side):
            return self.torch.from_numpy(array.copy()).cuda()

    def address(self, held: Any) -> int:
        return int(held.data_ptr())

    def get(self, held: Any) -> np.ndarray:
        self.wait()
        return held.cpu().numpy()

    def wait(self) -> None:
        self.side.synchronize()


class CupyMemory:
    """Arrays as CuPy arrays, work on a stream of CuPy's."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.side = cupy.cuda.Stream(non_blocking=True)
        self.stream = self.side.ptr

    def put(self, array: np.ndarray) -> Any:
        with self.side:
            return self.cupy.asarray(array)

    def address(self, held: Any) -> int:
        return int(held.data.ptr)

    def get(self, held: Any) -> np.ndarray:
        self.wait()
        return self.cupy.asnumpy(held)

    def wait(self) -> None:
        self.side.synchronize()


class DriverMemory:
    """Arrays in memory of the CUDA driver, work on the default stream; needs nothing installed."""

    name = "driver"
    stream = 0

    def __init__(self, raster: CudaRaster) -> None:
        self.raster = raster

    def put(self, array: np.ndarray) -> Any:
        with self.raster.driver.current(self.raster.device):
            address = self.raster.driver.allocate(array.nbytes)
            self.raster.driver.to_device(address, array.ctypes.data, array.nbytes)
        return address, array

    def address(self, held: Any) -> int:
        return held[0]

    def get(self, held: Any) -> np.ndarray:
        out = np.empty_like(held[1])
        with self.raster.driver.current(self.raster.device):
            self.raster.driver.to_host(out.ctypes.data, held[0], out.nbytes)
        return out

    def wait(self) -> None:
        with self.raster.driver.current(self.raster.device):
            self.raster.driver.synchronize()


def memory_named(name: str, raster: CudaRaster) -> Any:
    """One of the above; None where its package is missing or sees no GPU."""
    if name == "driver":
        return DriverMemory(raster)
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return {"torch": TorchMemory, "cupy": CupyMemory}[name]()
    except Exception:  # whatever a build without CUDA raises
        return None


def make_batch(seed: int, images: int, rois: int, instances: int, vertices: int) -> list[Image]:
    """Hand-drawn-like outlines of one or two parts, and RoIs near them, some far off or thin."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(images):
        centres, radii = rng.uniform(0, 1000, (instances, 2)), np.exp(rng.uniform(1, 5.5, instances))
        outlines, sizes = [], []
        for centre, radius in zip(centres, radii):
            count = int(rng.choice([1, 1, 2]))
            sizes.append(count)
            outlines += [
                blob(rng, centre + rng.normal(0, radius / 2, 2), radius, vertices) for _ in range(count)
            ]
        parts = np.cumsum([0] + [len(one) for one in outlines]).astype(np.int64)
        index = rng.integers(0, instances, rois).astype(np.int64)
        half = radii[index, None] * rng.uniform(0.02, 1.5, (rois, 2))
        middle = centres[index] + radii[index, None] * rng.normal(0, 0.3, (rois, 2))
        boxes = np.concatenate([middle - half, middle + half], axis=1).astype(np.float32)
        made.append(
            Image(np.concatenate(outlines), parts, np.cumsum([0, *sizes]).astype(np.int64), boxes, index)
        )
    return made


class Run:
    """One batch in device memory, ready to be rasterised on a size x size grid."""

    def __init__(self, raster: CudaRaster, memory: Any, batch: list[Image], size: int) -> None:
        self.raster, self.memory, self.batch, self.size = raster, memory, batch, size
        self.polygons = [[memory.put(array) for array in image[:3]] for image in batch]
        self.rois = memory.put(np.concatenate([image.rois for image in batch]))
        self.index = memory.put(np.concatenate([image.index for image in batch]))
        count = sum(len(image.rois) for image in batch)
        self.masks = memory.put(np.full((count, size, size), -1, dtype=np.int32))
        self.usable = memory.put(np.full(count, -1, dtype=np.float32))

    def __call__(self) -> None:
        """Queue the kernel."""
        address = self.memory.address
        table = [
            DevicePolygons(*(address(one) for one in held), len(image.instances) - 1, len(image.rois))
            for held, image in zip(self.polygons, self.batch)
        ]
        self.raster(
            table, address(self.rois), address(self.index), self.size, self.size, address(self.masks),
            address(self.usable), self.memory.stream,
        )  # fmt: skip

    def host(self) -> np.ndarray:
        """The same masks by the host kernel."""
        return np.concatenate(
            [rasterize(*image[:3], image.rois, image.index, self.size, self.size) for image in self.batch]
        )

    def mismatches(self) -> int:
        """Cells that differ, and RoIs that are not said to have a mask."""
        self()
        masks, usable = self.memory.get(self.masks), self.memory.get(self.usable)
        return int((masks != self.host()).sum()) + int((usable != 1).sum())

    def times(self, rounds: int = 20, launches: int = 50) -> dict[str, float]:
        """Milliseconds of one batch: on the GPU (many launches, one wait), and by the host kernel."""
        gpu, host = [], []
        for _ in range(rounds):
            self.memory.wait()
            begin = time.perf_counter()
            for _ in range(launches):
                self()
            self.memory.wait()
            gpu.append((time.perf_counter() - begin) * 1e3 / launches)
            begin = time.perf_counter()
            self.host()
            host.append((time.perf_counter() - begin) * 1e3)
        return {"gpu_ms": statistics.median(gpu), "host_ms": statistics.median(host)}
