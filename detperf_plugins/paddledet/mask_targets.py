"""Exact mask targets of the foreground RoIs, from polygons.

Stock (`generate_mask_target`) rasterises RoI by RoI through pycocotools, with a host read and a tensor
for each. Here, as in `bitmap_targets`, the foreground of the whole batch is taken at once, and all its
targets are made in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import paddle

from detperf_plugins.errors import DetperfError
from detperf_plugins.native.cuda.raster import CudaRaster
from detperf_plugins.paddledet.annotations import polygons_expected
from detperf_plugins.paddledet.foreground import (
    Foreground,
    choose_foreground,
    choose_slots,
    instance_rows,
    read_together,
    select_foreground,
)
from detperf_plugins.paddledet.mask_raster import (
    RASTERS,
    PolygonTensors,
    cuda_masks,
    host_masks,
    host_raster,
    merge_packed,
    pick_raster,
    unpack,
    usable_instances,
)
from detperf_plugins.paddledet.polygons import PackedPolygons, pack_polygons
from detperf_plugins.paddledet.registry import inherit_section
from detperf_plugins.paddledet.transforms import PACKED_KEYS, warn_once

__all__ = ["MaskAssignerBase", "PolygonMaskAssigner"]


class MaskAssignerBase:
    """What both assigners share: the selection, stock's output form, and stock's section."""

    __shared__ = ["num_classes", "mask_resolution"]

    # What paddle.shape gives, and so what stock counts in: int32 in Paddle 2, int64 in Paddle 3.
    _shape_dtype = np.int32 if int(paddle.__version__.split(".")[0] or 0) < 3 else np.int64

    def __init__(self, num_classes: int = 80, mask_resolution: int = 14, batch_offsets: bool = False) -> None:
        self.num_classes = num_classes
        self.mask_resolution = mask_resolution
        self.batch_offsets = batch_offsets

    @classmethod
    def from_config(cls, cfg: Any) -> dict[str, Any]:
        """Take settings of the stock section `MaskAssigner:` that the own section does not set."""
        return inherit_section(cfg, "MaskAssigner")

    def outputs(
        self, chosen: Foreground, rois: np.ndarray, lengths: Sequence[int], tgt_masks: paddle.Tensor
    ) -> tuple:
        """What stock returns, of RoIs that were chosen on the host.

        Args:
            chosen: N RoIs.
            rois: float32 [N, 4].
            lengths: RoIs of each image before the choice.
            tgt_masks: int32 [N, M, M].

        Returns:
            As stock's MaskAssigner: mask_rois (float32 [n, 4] of each image), their numbers [images], classes
            int32 [N], tgt_masks, mask_index int64 [N, 1] and weights float32 [N].
        """
        splits = np.cumsum(chosen.counts)[:-1]
        mask_rois = [paddle.to_tensor(part) for part in np.split(rois, splits)]
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


class PolygonMaskAssigner(MaskAssignerBase):
    """Exact mask targets from polygons: to the bit what stock's MaskAssigner gives, in one kernel call.

    Reads the packed arrays of `PackPolygons` where the reader has it, else packs `gt_poly` itself. On a
    GPU for which `detperf build-cuda` has built the raster, the masks are made there, and the labels are
    all that is read; with `slots` nothing is. Else everything the host kernel needs comes over in one read,
    and the targets go back in one copy. The training log says which.

    An instance without a usable polygon gives RoIs of weight 0; they still count in the mean of the mask
    loss, as stock's own weight-0 RoIs do.

    Args:
        num_classes: number of classes.
        mask_resolution: M, cells along each side of a target.
        batch_offsets: stock numbers `mask_index` within each image, also where MaskHead shares the
            features of BBoxHead (`share_bbox_feat`, the C4 models): from a batch of two on, the second
            image's masks are then learnt from the first image's features. True counts through the batch,
            which is what the head needs; False is stock.
        threads: worker threads of the host kernel; 0 means one per core.
        slots: RoIs of each image, at least as many as can be foreground (BBoxAssigner's batch_size_per_im
            times fg_fraction; all of batch_size_per_im in a Cascade model). The rest have weight 0, and the
            weights keep the loss what it is with stock's RoIs, up to rounding. 0 takes stock's RoIs, whose
            number must be read.
        raster: "auto", "cuda" (an error where it cannot be had) or "host".

    Raises:
        DetperfError: an unknown `raster`, or `slots` below 0.
    """

    def __init__(
        self,
        num_classes: int = 80,
        mask_resolution: int = 14,
        batch_offsets: bool = False,
        threads: int = 0,
        slots: int = 0,
        raster: str = "auto",
    ) -> None:
        if raster not in RASTERS:
            raise DetperfError(f"PolygonMaskAssigner: raster is {raster!r}; there are: {', '.join(RASTERS)}")
        if slots < 0:
            raise DetperfError(f"PolygonMaskAssigner: slots is {slots}; it is a number of RoIs, or 0")
        super().__init__(num_classes, mask_resolution, batch_offsets)
        self.threads = threads
        self.slots = slots
        self.raster = raster
        polygons_expected()

    @classmethod
    def from_config(cls, cfg: Any) -> dict[str, Any]:
        """As the base. Raises DetperfError where `slots` would drop foreground that the model samples."""
        slots = cfg.get("slots") or 0
        most, why = most_foreground()
        if 0 < slots < most:
            raise DetperfError(
                f"PolygonMaskAssigner: slots is {slots}, but an image can have {most} foreground RoIs ({why})"
            )
        return super().from_config(cfg)

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
        raster = pick_raster(rois[0].place, self.mask_resolution, self.raster)
        with paddle.no_grad():
            if raster is None and not self.slots:
                return self._in_one_read(rois, tgt_labels, tgt_gt_inds, inputs)
            return self._where_they_are(raster, rois, tgt_labels, tgt_gt_inds, inputs)

    def _in_one_read(
        self,
        rois: Sequence[paddle.Tensor],
        tgt_labels: Sequence[paddle.Tensor],
        tgt_gt_inds: Sequence[paddle.Tensor],
        inputs: dict[str, Any],
    ) -> tuple:
        """Choice and masks on the host."""
        lengths = [int(one.shape[0]) for one in rois]
        tensors = [paddle.concat(list(one)) for one in (rois, tgt_labels, tgt_gt_inds)]
        packed = _packed_tensors(inputs)
        values = read_together(tensors + [tensor for image in packed for tensor in image])
        images = unpack(values[3:], len(packed)) if packed else self._pack(inputs)
        chosen = select_foreground(values[1], lengths, self.num_classes)
        polygons, instances = merge_packed(images)
        index, instances_of = instance_rows(values[2][chosen.rows], chosen.counts, instances)
        boxes = values[0][chosen.rows].astype(np.float32)
        masks = host_raster(polygons, boxes, index, self.mask_resolution, self.threads, instances_of == 0)
        weights = np.where(usable_instances(polygons, index), chosen.weights, 0).astype(np.float32)
        return self.outputs(chosen._replace(weights=weights), boxes, lengths, masks)

    def _where_they_are(
        self,
        raster: Optional[CudaRaster],
        rois: Sequence[paddle.Tensor],
        tgt_labels: Sequence[paddle.Tensor],
        tgt_gt_inds: Sequence[paddle.Tensor],
        inputs: dict[str, Any],
    ) -> tuple:
        """Choice, and with a CUDA raster the masks too, on the device of the RoIs."""
        if self.slots:
            chosen = choose_slots(rois, tgt_labels, tgt_gt_inds, self.num_classes, self.slots)
        else:
            chosen = choose_foreground(rois, tgt_labels, tgt_gt_inds, self.num_classes)
        images = _packed_tensors(inputs) or [
            PolygonTensors(*(paddle.to_tensor(array) for array in packed)) for packed in self._pack(inputs)
        ]
        if raster is None:
            masks, usable = host_masks(chosen, images, self.mask_resolution, self.threads)
        else:
            masks, usable = cuda_masks(raster, chosen, images, self.mask_resolution)
        position = chosen.position
        if self.batch_offsets:
            first = np.cumsum([0] + [int(one.shape[0]) for one in rois[:-1]])
            position = position + paddle.to_tensor(np.repeat(first, chosen.counts))
        return (
            paddle.split(chosen.rois, chosen.counts),
            paddle.to_tensor(np.asarray(chosen.counts, dtype=self._shape_dtype)),
            chosen.classes,
            masks,
            position.reshape([-1, 1]),
            chosen.weights * usable,
        )

    @staticmethod
    def _pack(inputs: dict[str, Any]) -> list[PackedPolygons]:
        """Polygons of each image from `gt_poly`; what is wrong with them is warned of once."""
        images = []
        for image, gt_poly in enumerate(inputs["gt_poly"]):
            packed, faults = pack_polygons(gt_poly)
            images.append(packed)
            if faults:
                im_id = inputs.get("im_id")
                name = int(im_id.numpy().reshape(-1)[image]) if im_id is not None else f"{image} of the batch"
                for instance, fault in faults:
                    warn_once(name, instance, fault)
        return images


def most_foreground() -> tuple[int, str]:
    """Most RoIs of an image that the loaded config lets be foreground, and by which settings."""
    from ppdet.core.workspace import global_config

    architecture = global_config.get(global_config.get("architecture", ""), {})
    head = str(architecture.get("bbox_head", ""))
    settings = {"batch_size_per_im": 512, "fg_fraction": 0.25, **global_config.get("BBoxAssigner", {})}
    size, share = settings["batch_size_per_im"], settings["fg_fraction"]
    if "Cascade" in head:
        return size, f"{head}, batch_size_per_im {size}"
    return int(size * share), f"batch_size_per_im {size} x fg_fraction {share}"


def _packed_tensors(inputs: dict[str, Any]) -> list[PolygonTensors]:
    """The arrays of PackPolygons image by image; empty without that transform."""
    if PACKED_KEYS[0] not in inputs:
        return []
    return [PolygonTensors(*arrays) for arrays in zip(*(inputs[key] for key in PACKED_KEYS))]
