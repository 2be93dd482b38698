"""Mask targets of the foreground RoIs: exact from polygons, or close from bitmaps.

Stock (`generate_mask_target`) rasterises RoI by RoI through pycocotools, with a host read and a tensor
for each. Both assigners here select the foreground of the whole batch after one read, and make all its
targets in one call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle

from detperf_plugins.native.raster import rasterize
from detperf_plugins.paddledet.annotations import polygons_expected
from detperf_plugins.paddledet.polygons import PackedPolygons, pack_polygons
from detperf_plugins.paddledet.registry import inherit_section
from detperf_plugins.paddledet.transforms import PACKED_KEYS, warn_once

__all__ = ["BitmapMaskAssigner", "Foreground", "PolygonMaskAssigner", "merge_packed", "select_foreground"]


class Foreground(NamedTuple):
    """Foreground RoIs of a batch, image after image (N in all).

    Attributes:
        counts: int64 [B], RoIs of each image; at least one, as in stock: an image without foreground
            lends its second RoI with weight 0, so that no later shape is empty.
        position: int64 [N], place of each RoI among its image's RoIs.
        rois: float32 [N, 4], x0 y0 x1 y1 in pixels.
        classes: int32 [N], class of each RoI.
        gt_inds: int64 [N], matched instance within its image.
        weights: float32 [N], 0 for the lent ones.
    """

    counts: np.ndarray
    position: np.ndarray
    rois: np.ndarray
    classes: np.ndarray
    gt_inds: np.ndarray
    weights: np.ndarray


def read_together(tensors: Sequence[paddle.Tensor]) -> list[np.ndarray]:
    """Values of several tensors by one read from the device, as float64 arrays of their shapes.

    float64 holds float32 values and indices below 2^53 exactly.
    """
    flat = paddle.concat([tensor.astype("float64").reshape([-1]) for tensor in tensors]).numpy()
    values, start = [], 0
    for tensor in tensors:
        size = int(np.prod(tensor.shape))
        values.append(flat[start : start + size].reshape(tensor.shape))
        start += size
    return values


def memory_of(tensor: paddle.Tensor) -> np.ndarray:
    """The memory of an int32 CPU tensor as an array: what is written there is in the tensor, uncopied."""
    cells = ctypes.c_int32 * int(np.prod(tensor.shape))
    return np.ctypeslib.as_array(cells.from_address(tensor.data_ptr())).reshape(tensor.shape)


def select_foreground(
    rois: np.ndarray, labels: np.ndarray, gt_inds: np.ndarray, lengths: Sequence[int], num_classes: int
) -> Foreground:
    """The RoIs that get a mask target.

    Args:
        rois: [R, 4], all RoIs of the batch, image after image.
        labels: [R], class of each RoI; `num_classes` is background and -1 ignored.
        gt_inds: [R], matched instance within the image.
        lengths: RoIs of each image.
        num_classes: number of classes.
    """
    chosen, counts, lent = [], [], []
    start = 0
    for length in lengths:
        label = labels[start : start + length]
        index = np.flatnonzero((label != -1) & (label != num_classes))
        lent.append(len(index) == 0)
        if lent[-1]:
            index = np.array([min(1, length - 1)])
        counts.append(len(index))
        chosen.append(index)
        start += length
    sizes = np.asarray(counts)
    index = np.concatenate(chosen)
    rows = index + np.repeat(np.cumsum([0, *lengths[:-1]]), sizes)
    is_lent = np.repeat(lent, sizes)
    return Foreground(
        counts=sizes,
        position=index,
        rois=rois[rows].astype(np.float32),
        classes=np.where(is_lent, 0, labels[rows]).astype(np.int32),
        gt_inds=gt_inds[rows].astype(np.int64),
        weights=np.where(is_lent, 0, 1).astype(np.float32),
    )


def merge_packed(images: Sequence[PackedPolygons]) -> tuple[PackedPolygons, np.ndarray]:
    """The polygons of several images as one, and the first instance of each image (int64 [B + 1])."""
    first_vertex = np.cumsum([0] + [len(image.xy) for image in images])
    first_part = np.cumsum([0] + [len(image.parts) - 1 for image in images])
    first_instance = np.cumsum([0] + [len(image.instances) - 1 for image in images])
    zero = np.zeros(1, dtype=np.int64)
    return (
        PackedPolygons(
            np.concatenate([image.xy for image in images]),
            np.concatenate([zero] + [image.parts[1:] + at for image, at in zip(images, first_vertex)]),
            np.concatenate([zero] + [image.instances[1:] + at for image, at in zip(images, first_part)]),
        ),
        first_instance,
    )


class _MaskAssigner:
    """What both assigners share: the selection, stock's output form, and stock's section."""

    __shared__ = ["num_classes", "mask_resolution"]

    # What paddle.shape gives, and so what stock counts in: int32 in Paddle 2, int64 in Paddle 3.
    _shape_dtype = np.int32 if int(paddle.__version__.split(".")[0] or 0) < 3 else np.int64

    num_classes: int
    mask_resolution: int
    batch_offsets: bool

    @classmethod
    def from_config(cls, cfg: Any) -> dict[str, Any]:
        """Take settings of the stock section `MaskAssigner:` that the own section does not set."""
        return inherit_section(cfg, "MaskAssigner")

    def _outputs(self, chosen: Foreground, lengths: Sequence[int], tgt_masks: paddle.Tensor) -> tuple:
        splits = np.cumsum(chosen.counts)[:-1]
        mask_rois = [paddle.to_tensor(part) for part in np.split(chosen.rois, splits)]
        index = chosen.position
        if self.batch_offsets:
            index = index + np.repeat(np.cumsum([0, *lengths[:-1]]), chosen.counts)
        tgt_masks.stop_gradient = True
        return (
            mask_rois,
            paddle.to_tensor(chosen.counts.astype(self._shape_dtype)),
            paddle.to_tensor(chosen.classes),
            tgt_masks,
            paddle.to_tensor(index.reshape(-1, 1)),
            paddle.to_tensor(chosen.weights),
        )


class PolygonMaskAssigner(_MaskAssigner):
    """Exact mask targets from polygons: to the bit what stock's MaskAssigner gives, in one kernel call.

    Reads the packed arrays of `PackPolygons` where the reader has it, else packs `gt_poly` itself. On a
    GPU everything the kernel needs comes over in one read; the targets go back in one copy.

    An instance without a usable polygon gives RoIs of weight 0; they still count in the mean of the mask
    loss, as stock's own weight-0 RoIs do.

    Args:
        num_classes: number of classes.
        mask_resolution: M, cells along each side of a target.
        batch_offsets: stock numbers `mask_index` within each image, also where MaskHead shares the
            features of BBoxHead (`share_bbox_feat`, the C4 models): from a batch of two on, the second
            image's masks are then learnt from the first image's features. True counts through the batch,
            which is what the head needs; False is stock.
        threads: worker threads of the kernel; 0 means one per core.
    """

    def __init__(
        self, num_classes: int = 80, mask_resolution: int = 14, batch_offsets: bool = False, threads: int = 0
    ) -> None:
        self.num_classes = num_classes
        self.mask_resolution = mask_resolution
        self.batch_offsets = batch_offsets
        self.threads = threads
        polygons_expected()

    def __call__(
        self,
        rois: Sequence[paddle.Tensor],
        tgt_labels: Sequence[paddle.Tensor],
        tgt_gt_inds: Sequence[paddle.Tensor],
        inputs: dict[str, Any],
    ) -> tuple:
        """Targets of a batch of B images.

        Args:
            rois: per image float32 [R, 4], pixels.
            tgt_labels: per image int32 [R]; num_classes is background, -1 ignored.
            tgt_gt_inds: per image integer [R], matched instance.
            inputs: the batch, with `gt_poly` or the arrays of PackPolygons.

        Returns:
            mask_rois (per image float32 [n, 4]), mask_rois_num (integer [B], int64 on Paddle 3),
            tgt_classes (int32 [N]), tgt_masks (int32 [N, M, M]), mask_index (int64 [N, 1]), tgt_weights
            (float32 [N]).
        """
        lengths = [int(one.shape[0]) for one in rois]
        tensors = [
            paddle.concat(list(rois)),
            paddle.concat(list(tgt_labels)),
            paddle.concat(list(tgt_gt_inds)),
        ]
        packed_tensors = _packed_tensors(inputs)
        values = read_together(tensors + packed_tensors)
        if packed_tensors:
            images = _unpack(values[3:], len(lengths))
        else:
            images = [self._pack(gt_poly, i, inputs) for i, gt_poly in enumerate(inputs["gt_poly"])]
        chosen = select_foreground(values[0], values[1], values[2], lengths, self.num_classes)
        polygons, first = merge_packed(images)
        instances_of = np.repeat(np.diff(first), chosen.counts)
        index = np.where(instances_of > 0, chosen.gt_inds + np.repeat(first[:-1], chosen.counts), -1)
        size = self.mask_resolution
        tgt_masks = paddle.empty([len(index), size, size], dtype="int32")
        on_host = tgt_masks.place.is_cpu_place()
        masks = memory_of(tgt_masks) if on_host else np.empty(tgt_masks.shape, dtype=np.int32)
        rasterize(*polygons, chosen.rois, index, size, size, np.int32, self.threads, masks)
        masks[instances_of == 0] = 1  # stock's filler for an image without instances, weight 0
        if not on_host:
            tgt_masks = paddle.to_tensor(masks)
        usable = np.concatenate([polygons.has_mask(), [True]])[index]
        weights = np.where(usable, chosen.weights, 0).astype(np.float32)
        return self._outputs(chosen._replace(weights=weights), lengths, tgt_masks)

    @staticmethod
    def _pack(gt_poly: Any, image: int, inputs: dict[str, Any]) -> PackedPolygons:
        packed, faults = pack_polygons(gt_poly)
        if faults:
            im_id = inputs.get("im_id")
            name = int(im_id.numpy().reshape(-1)[image]) if im_id is not None else f"{image} of the batch"
            for instance, fault in faults:
                warn_once(name, instance, fault)
        return packed


def _packed_tensors(inputs: dict[str, Any]) -> list[paddle.Tensor]:
    """The arrays of PackPolygons, key after key and image after image; empty without that transform."""
    if PACKED_KEYS[0] not in inputs:
        return []
    return [tensor for key in PACKED_KEYS for tensor in inputs[key]]


def _unpack(values: Sequence[np.ndarray], count: int) -> list[PackedPolygons]:
    images = []
    for i in range(count):
        xy, parts, instances = (
            values[i],
            values[count + i].astype(np.int64),
            values[2 * count + i].astype(np.int64),
        )
        images.append(PackedPolygons(xy[: parts[-1]], parts, instances))
    return images


class BitmapMaskAssigner(_MaskAssigner):
    """Mask targets from the bitmaps of `PolyToBitmap`: roi_align (aligned, one sample a cell) >= 0.5.

    For run-length encoded data, and for devices without our kernel: only Paddle operations after the one
    read that selects the foreground. The targets are not stock's: docs/mask-targets.md gives the measured
    difference, and tests/paddledet/test_bitmap_targets.py holds it to the stated bounds.

    Args:
        num_classes: number of classes.
        mask_resolution: M, cells along each side of a target.
        batch_offsets: see `PolygonMaskAssigner`.
    """

    def __init__(self, num_classes: int = 80, mask_resolution: int = 14, batch_offsets: bool = False) -> None:
        self.num_classes = num_classes
        self.mask_resolution = mask_resolution
        self.batch_offsets = batch_offsets

    def __call__(
        self,
        rois: Sequence[paddle.Tensor],
        tgt_labels: Sequence[paddle.Tensor],
        tgt_gt_inds: Sequence[paddle.Tensor],
        inputs: dict[str, Any],
    ) -> tuple:
        """Targets of a batch; arguments and results as `PolygonMaskAssigner`, `inputs` with `gt_segm`.

        Raises:
            KeyError: the reader lacks PolyToBitmap.
        """
        if "gt_segm_box" not in inputs:
            raise KeyError("BitmapMaskAssigner needs PolyToBitmap among the reader's batch_transforms")
        lengths = [int(one.shape[0]) for one in rois]
        boxes = [one for one in inputs["gt_segm_box"] if one.shape[0] > 0]
        tensors = [
            paddle.concat(list(rois)),
            paddle.concat(list(tgt_labels)),
            paddle.concat(list(tgt_gt_inds)),
        ]
        values = read_together(tensors + boxes)
        chosen = select_foreground(values[0], values[1], values[2], lengths, self.num_classes)
        first = np.cumsum([0] + [int(one.shape[0]) for one in inputs["gt_segm_box"]])
        instances_of = np.repeat(np.diff(first), chosen.counts)
        instance = np.where(instances_of > 0, chosen.gt_inds + np.repeat(first[:-1], chosen.counts), -1)
        crop = np.concatenate([*values[3:], np.zeros((1, 4))])[instance]  # row -1: no instance
        usable = (crop[:, 2:] > crop[:, :2]).all(axis=1)
        masks = self._align(inputs["gt_segm"], chosen.rois, instance, crop, usable)
        weights = np.where(usable, chosen.weights, 0).astype(np.float32)
        return self._outputs(chosen._replace(weights=weights), lengths, masks)

    def _align(
        self,
        gt_segm: Sequence[paddle.Tensor],
        rois: np.ndarray,
        instance: np.ndarray,
        crop: np.ndarray,
        usable: Any,
    ) -> paddle.Tensor:
        """int32 [N, M, M]; the rows that are not `usable` are empty."""
        size = self.mask_resolution
        rows = np.flatnonzero(usable)
        if len(rows) == 0:
            return paddle.zeros([len(rois), size, size], dtype="int32")
        rows = rows[np.argsort(instance[rows], kind="stable")]  # roi_align wants RoIs bitmap after bitmap
        used, counts = np.unique(instance[rows], return_counts=True)
        bitmaps = paddle.concat([one for one in gt_segm if one.shape[0] > 0])
        bitmaps = paddle.gather(bitmaps, paddle.to_tensor(used)).astype("float32").unsqueeze(1)
        height, width = bitmaps.shape[-2:]
        origin, extent = crop[rows, :2], crop[rows, 2:] - crop[rows, :2]
        scale = np.array([width, height]) / extent
        inside = np.concatenate(
            [(rois[rows, :2] - origin) * scale, (rois[rows, 2:] - origin) * scale], axis=1
        )
        covered = paddle.vision.ops.roi_align(
            bitmaps,
            paddle.to_tensor(inside.astype(np.float32)),
            paddle.to_tensor(counts.astype(np.int32)),
            output_size=size,
            spatial_scale=1.0,
            sampling_ratio=1,
            aligned=True,
        )
        masks = (covered.squeeze(1) >= 0.5).astype("int32")
        if len(rows) == len(rois) and (rows == np.arange(len(rows))).all():
            return masks
        place = np.full(len(rois), len(rows), dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return paddle.gather(
            paddle.concat([masks, paddle.zeros([1, size, size], dtype="int32")]), paddle.to_tensor(place)
        )
