"""Polygons to masks on a GPU: `native.raster.rasterize` on device addresses and a stream.

Results are those of the host kernel to the bit: raster.cu compiles the same header.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from detperf_plugins.errors import DetperfError
from detperf_plugins.native.cuda.build import Built, built
from detperf_plugins.native.cuda.driver import CudaError, Driver, driver

__all__ = ["CudaRaster", "DevicePolygons", "cuda_raster", "fits", "rasterize_arrays", "self_test"]

IMAGES = 64  # kImages of raster.cu
THREADS = 128
SHARED_LIMIT = 48 * 1024  # bytes; every GPU gives a block that much without being asked


class _Image(ctypes.Structure):
    """ImagePolygons of raster.cu."""

    _fields_ = [
        ("xy", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("instances", ctypes.c_void_p),
        ("instance_count", ctypes.c_int64),
        ("first_box", ctypes.c_int64),
    ]


class _Images(ctypes.Structure):
    """Images of raster.cu."""

    _fields_ = [("image", _Image * IMAGES), ("count", ctypes.c_int32)]


class DevicePolygons(NamedTuple):
    """The packed polygons of one image, as addresses of device memory.

    Attributes:
        xy: of float64 [V, 2]; parts: of int64 [P + 1]; instances: of int64 [G + 1]: see `native.raster`.
        instance_count: G.
        boxes: how many of the call's boxes belong to the image.
    """

    xy: int
    parts: int
    instances: int
    instance_count: int
    boxes: int


def _shared_bytes(height: int, width: int) -> int:
    """Shared memory of a block for a height x width grid."""
    return 2 * 8 * width * ((height + 63) // 64)


def fits(height: int, width: int) -> bool:
    """Whether a grid of height x width cells fits into a block's shared memory."""
    return height > 0 and width > 0 and _shared_bytes(height, width) <= SHARED_LIMIT


@dataclass(frozen=True)
class CudaRaster:
    """The raster, loaded on one GPU.

    Attributes:
        device: number of the GPU, as the driver counts.
        built: what was loaded.
        driver: through which.
    """

    device: int
    built: Built
    driver: Driver
    _function: ctypes.c_void_p

    def __call__(
        self,
        images: Sequence[DevicePolygons],
        boxes: int,
        index: int,
        height: int,
        width: int,
        masks: int,
        usable: int,
        stream: int = 0,
    ) -> None:
        """Queue the masks of N boxes, image after image, on `stream`; nothing is waited for.

        Args:
            images: polygons and number of boxes of each image.
            boxes: address of float32 [N, 4], x0 y0 x1 y1 in pixels.
            index: address of int64 [N], instance of each box within its image; one that is not there gives
                an empty mask.
            height, width: grid size in cells.
            masks: address of int32 [N, height, width] to write to; a box of an image without instances gets
                ppdet's filler, ones.
            usable: address of float32 [N] to write to: 1 where the instance has a part, else 0.
            stream: handle of a stream of the GPU.

        Raises:
            ValueError: the grid needs more shared memory than a block has.
            CudaError: the launch failed.
        """
        if not fits(height, width):
            raise ValueError(f"a grid of {height} x {width} cells does not fit into a block's shared memory")
        done, shared = 0, _shared_bytes(height, width)
        for start in range(0, len(images), IMAGES):
            table, count = _Images(), 0
            for at, image in enumerate(images[start : start + IMAGES]):
                table.image[at] = _Image(image.xy, image.parts, image.instances, image.instance_count, count)
                count += image.boxes
            table.count = len(images[start : start + IMAGES])
            if count:
                arguments = [
                    table, ctypes.c_void_p(boxes + 16 * done), ctypes.c_void_p(index + 8 * done),
                    ctypes.c_int32(height), ctypes.c_int32(width),
                    ctypes.c_void_p(masks + 4 * done * height * width), ctypes.c_void_p(usable + 4 * done),
                ]  # fmt: skip
                with self.driver.current(self.device):
                    self.driver.launch(self._function, count, THREADS, shared, stream, arguments)
            done += count


_loaded: dict[int, CudaRaster] = {}


def cuda_raster(device: int = 0) -> CudaRaster:
    """The raster on a GPU, loaded once a process.

    Raises:
        CudaError: a DetperfError; there is no driver, or no such GPU.
        DetperfError: nothing is built for it, or what was built cannot be loaded.
    """
    if device not in _loaded:
        found = driver()
        if not 0 <= device < found.count():
            raise CudaError(f"there is no GPU {device}: the driver sees {found.count()}")
        one = built(found.capability(device))
        try:
            with found.current(device):
                function = found.load(one.file.read_bytes(), "detperf_rasterize")
        except (CudaError, OSError) as error:
            raise DetperfError(
                f"{one.file} cannot be loaded on {found.name(device)}: {error}; "
                "run `detperf build-cuda --force`"
            ) from error
        _loaded[device] = CudaRaster(device, one, found, function)
    return _loaded[device]


def self_test(raster: CudaRaster, boxes: int = 512, size: int = 28, seed: int = 0) -> int:
    """Cells in which the GPU's masks of random polygons differ from the host kernel's: 0, or it is broken."""
    from detperf_plugins.native.raster import rasterize

    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 60, 64)
    parts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    instances = np.arange(0, 65, 2, dtype=np.int64)  # two parts each
    xy = np.repeat(rng.uniform(0, 600, (64, 2)), lengths, axis=0) + rng.normal(0, 60, (parts[-1], 2))
    index = rng.integers(-1, 32, boxes)
    corner = rng.uniform(0, 500, (boxes, 2))
    rois = np.concatenate([corner, corner + rng.uniform(0, 300, (boxes, 2))], axis=1).astype(np.float32)
    expected = rasterize(xy, parts, instances, rois, index, size, size)
    masks = rasterize_arrays(raster, xy, parts, instances, rois, index, size, size)[0]
    return int((masks != expected).sum())


def rasterize_arrays(
    raster: CudaRaster,
    xy: np.ndarray,
    parts: np.ndarray,
    instances: np.ndarray,
    boxes: np.ndarray,
    index: np.ndarray,
    height: int,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Masks (int32 [N, height, width]) and usable (float32 [N]) of arrays of the host, copied there and back.

    Args: as `native.raster.rasterize`, one image.
    """
    results = (np.empty((len(boxes), height, width), np.int32), np.empty(len(boxes), np.float32))
    sources = [
        np.ascontiguousarray(one, dtype)
        for one, dtype in ((xy, "f8"), (parts, "i8"), (instances, "i8"), (boxes, "f4"), (index, "i8"))
    ]
    addresses: list[int] = []
    found = raster.driver
    with found.current(raster.device):
        try:
            for array in (*sources, *results):
                addresses.append(found.allocate(array.nbytes))
            for address, array in zip(addresses, sources):
                found.to_device(address, array.ctypes.data, array.nbytes)
            at_xy, at_parts, at_instances, at_boxes, at_index, at_masks, at_usable = addresses
            polygons = DevicePolygons(at_xy, at_parts, at_instances, len(instances) - 1, len(boxes))
            raster([polygons], at_boxes, at_index, height, width, at_masks, at_usable)
            found.synchronize()
            for address, array in zip(addresses[5:], results):
                found.to_host(array.ctypes.data, address, array.nbytes)
        finally:
            for address in addresses:
                found.free(address)
    return results
