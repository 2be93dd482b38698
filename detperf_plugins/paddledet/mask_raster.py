"""Masks of chosen RoIs, made where it is fastest: by the CUDA raster on the GPU, else by the host kernel.

The CUDA raster is there once `detperf build-cuda` has built it. Which one is taken, and why, is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
import paddle

from detperf_plugins.errors import DetperfError
from detperf_plugins.native.cuda.raster import CudaRaster, DevicePolygons, cuda_raster, fits
from detperf_plugins.native.raster import rasterize
from detperf_plugins.paddledet.foreground import Chosen, instance_rows, memory_of, read_together
from detperf_plugins.paddledet.polygons import PackedPolygons

__all__ = [
    "RASTERS",
    "PolygonTensors",
    "cuda_masks",
    "host_masks",
    "host_raster",
    "merge_packed",
    "pick_raster",
    "unpack",
    "usable_instances",
]

RASTERS = ("auto", "host", "cuda")
FLOAT64, INT64 = paddle.float64, paddle.int64

_said: set[str] = set()


class PolygonTensors(NamedTuple):
    """`PackedPolygons` of one image as tensors: float64 [V, 2], int64 [P + 1], int64 [G + 1]."""

    xy: paddle.Tensor
    parts: paddle.Tensor
    instances: paddle.Tensor


def _say(sentence: str) -> None:
    """One line in the training log, once a process; ppdet's own handler writes it."""
    if sentence not in _said:
        _said.add(sentence)
        from ppdet.utils.logger import setup_logger

        setup_logger("ppdet.detperf").log(logging.INFO, "PolygonMaskAssigner: %s", sentence)


def pick_raster(place: paddle.base.core.Place, size: int, wanted: str) -> Optional[CudaRaster]:
    """The CUDA raster of the GPU that tensors are on, or None for the host kernel.

    Args:
        place: of the RoIs.
        size: M, cells along each side of a mask.
        wanted: one of `RASTERS`; "auto" takes CUDA where it is there.

    Raises:
        DetperfError: "cuda" is wanted and cannot be had.
    """
    try:
        if wanted == "host":
            raise DetperfError("`raster: host` asks for it")
        if not place.is_gpu_place():
            raise DetperfError("the RoIs are not on a GPU")
        if not fits(size, size):
            raise DetperfError(f"masks of {size} x {size} cells are too large for the CUDA raster")
        raster = cuda_raster(place.gpu_device_id())
    except DetperfError as error:
        if wanted == "cuda":
            raise DetperfError(f"`raster: cuda` cannot be had: {error}") from error
        _say(f"masks are made by the host kernel, since {error}")
        return None
    _say(f"masks are made on the GPU, by {raster.built.file.name}")
    return raster


def current_stream(device: int) -> int:
    """Handle of the stream on which Paddle queues its own work on a GPU."""
    return int(paddle.base.core._get_current_stream(device).cuda_stream)


def cuda_masks(
    raster: CudaRaster, chosen: Chosen, images: Sequence[PolygonTensors], size: int
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Masks on the GPU, queued behind Paddle's own work; nothing is read or waited for.

    Args:
        raster: from `pick_raster`.
        chosen: RoIs on the raster's GPU.
        images: polygons of each image; moved to the GPU where they are not there.
        size: M.

    Returns:
        int32 [N, M, M]; and float32 [N], 1 where the instance has a polygon.
    """
    place = chosen.rois.place
    on_device = [
        [_ready(tensor, dtype, place) for tensor, dtype in zip(image, (FLOAT64, INT64, INT64))]
        for image in images
    ]
    table = [
        DevicePolygons(xy.data_ptr(), parts.data_ptr(), instances.data_ptr(), instances.shape[0] - 1, count)
        for (xy, parts, instances), count in zip(on_device, chosen.counts)
    ]
    rois, index = _ready(chosen.rois, paddle.float32, place), _ready(chosen.index, INT64, place)
    masks = paddle.empty([index.shape[0], size, size], dtype="int32")
    usable = paddle.empty([index.shape[0]], dtype="float32")
    raster(
        table,
        rois.data_ptr(),
        index.data_ptr(),
        size,
        size,
        masks.data_ptr(),
        usable.data_ptr(),
        current_stream(raster.device),
    )
    return masks, usable


def _ready(tensor: paddle.Tensor, dtype: paddle.dtype, place: paddle.base.core.Place) -> paddle.Tensor:
    """The tensor on `place`, of `dtype` and without gaps; itself where it is so already."""
    if tensor.dtype != dtype:
        tensor = tensor.astype(dtype)
    if str(tensor.place) != str(place):
        tensor = tensor._copy_to(place, True)
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def host_masks(
    chosen: Chosen, images: Sequence[PolygonTensors], size: int, threads: int
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """The same by the host kernel, after one read of RoIs and polygons.

    Args:
        chosen: the RoIs, N of them.
        images: polygons of each image, see `PolygonTensors`.
        size: side of the masks, pixels.
        threads: of the kernel; 0 means one per core.

    Returns:
        Masks int32 [N, size, size], and float32 [N]: 1 where the instance has a polygon that can be drawn.
    """
    count = len(images)
    values = read_together([chosen.rois, chosen.index, *(tensor for image in images for tensor in image)])
    polygons, instances = merge_packed(unpack(values[2:], count))
    index, instances_of = instance_rows(values[1], chosen.counts, instances)
    masks = host_raster(polygons, values[0].astype(np.float32), index, size, threads, instances_of == 0)
    return masks, paddle.to_tensor(usable_instances(polygons, index).astype(np.float32))


def host_raster(
    polygons: PackedPolygons,
    rois: np.ndarray,
    index: np.ndarray,
    size: int,
    threads: int,
    filler: np.ndarray,
) -> paddle.Tensor:
    """int32 [N, M, M] of the host kernel, on the current device; ones where `filler` says so, as in stock."""
    tensor = paddle.empty([len(index), size, size], dtype="int32")
    on_host = tensor.place.is_cpu_place()
    masks = memory_of(tensor) if on_host else np.empty(tensor.shape, dtype=np.int32)
    rasterize(*polygons, rois, index, size, size, np.int32, threads, masks)
    masks[filler] = 1
    return tensor if on_host else paddle.to_tensor(masks)


def usable_instances(polygons: PackedPolygons, index: np.ndarray) -> np.ndarray:
    """bool [N]: whether each RoI has an instance (-1 is none), and that one a polygon."""
    return np.concatenate([polygons.has_mask(), [False]])[index]


def unpack(values: Sequence[np.ndarray], count: int) -> list[PackedPolygons]:
    """Polygons of `count` images, less the unused rows that PackPolygons adds.

    Args:
        values: of each image xy [V, 2] in pixels, parts [P + 1] and instances [G + 1], any number type.
        count: images.
    """
    images = []
    for i in range(count):
        xy, parts, instances = values[3 * i : 3 * i + 3]
        parts = parts.astype(np.int64)
        images.append(PackedPolygons(xy[: parts[-1]], parts, instances.astype(np.int64)))
    return images


def merge_packed(images: Sequence[PackedPolygons]) -> tuple[PackedPolygons, np.ndarray]:
    """The polygons of several images as one, and how many instances each image has (int64 [B])."""
    first_vertex = np.cumsum([0] + [len(image.xy) for image in images])
    first_part = np.cumsum([0] + [len(image.parts) - 1 for image in images])
    zero = np.zeros(1, dtype=np.int64)
    return (
        PackedPolygons(
            np.concatenate([image.xy for image in images]),
            np.concatenate([zero] + [image.parts[1:] + at for image, at in zip(images, first_vertex)]),
            np.concatenate([zero] + [image.instances[1:] + at for image, at in zip(images, first_part)]),
        ),
        np.array([len(image.instances) - 1 for image in images], dtype=np.int64),
    )
