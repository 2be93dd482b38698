"""Mask targets of the foreground RoIs from bitmaps: close to stock's, by Paddle's own operations alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle

from detperf_plugins.paddledet.foreground import instance_rows, read_together, select_foreground
from detperf_plugins.paddledet.mask_targets import MaskAssignerBase

__all__ = ["BitmapMaskAssigner"]


class BitmapMaskAssigner(MaskAssignerBase):
    """Mask targets from the bitmaps of `PolyToBitmap`: roi_align (aligned, one sample a cell) >= 0.5.

    For run-length encoded data, and for devices without our kernel: only Paddle operations after the one
    read that selects the foreground. The targets are not stock's: docs/mask-targets.md gives the measured
    difference, and tests/paddledet/test_bitmap_targets.py holds it to the stated bounds.

    Args:
        num_classes: number of classes.
        mask_resolution: M, cells along each side of a target.
        batch_offsets: see `PolygonMaskAssigner`.
    """

    def __call__(
        self,
        rois: Sequence[paddle.Tensor],
        tgt_labels: Sequence[paddle.Tensor],
        tgt_gt_inds: Sequence[paddle.Tensor],
        inputs: dict[str, Any],
    ) -> tuple:
        """Targets of a batch; arguments and results as `PolygonMaskAssigner`, `inputs` with `gt_segm`
        (uint8 [G, S, S] an image) and `gt_segm_box` (float32 [G, 4]).

        Raises:
            KeyError: the reader lacks PolyToBitmap.
        """
        if "gt_segm_box" not in inputs:
            raise KeyError("BitmapMaskAssigner needs PolyToBitmap among the reader's batch_transforms")
        lengths = [int(one.shape[0]) for one in rois]
        boxes = [one for one in inputs["gt_segm_box"] if one.shape[0] > 0]
        values = read_together([paddle.concat(list(one)) for one in (rois, tgt_labels, tgt_gt_inds)] + boxes)
        chosen = select_foreground(values[1], lengths, self.num_classes)
        instances = np.array([int(one.shape[0]) for one in inputs["gt_segm_box"]], dtype=np.int64)
        instance = instance_rows(values[2][chosen.rows], chosen.counts, instances)[0]
        crop = np.concatenate([*values[3:], np.zeros((1, 4))])[instance]  # row -1: no instance
        usable = (crop[:, 2:] > crop[:, :2]).all(axis=1)
        picked = values[0][chosen.rows].astype(np.float32)
        masks = self._align(inputs["gt_segm"], picked, instance, crop, usable)
        weights = np.where(usable, chosen.weights, 0).astype(np.float32)
        return self.outputs(chosen._replace(weights=weights), picked, lengths, masks)

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
