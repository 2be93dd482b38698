"""How far BitmapMaskAssigner's targets are from stock's, and what they cost beside it.

The difference is taken over RoIs of IoU >= 0.5 round mild shapes of all sizes, as sampling finds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from ppdet.modeling.proposal_generator.target_layer import MaskAssigner

from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from detperf_plugins.paddledet.bitmap_targets import BitmapMaskAssigner
from detperf_plugins.paddledet.mask_targets import PolygonMaskAssigner
from detperf_plugins.paddledet.target_bench import CLASSES, Batch, Case
from detperf_plugins.paddledet.transforms import PACKED_KEYS, PolyToBitmap

__all__ = ["bitmap_case", "difference", "make_scene"]


def make_scene(
    images: int, instances: int = 8, rois: int = 64, size: int = 640, seed: int = 12
) -> dict[str, list]:
    """Inputs of an assigner: rois, tgt_labels, tgt_gt_inds (tensors) and gt_poly, each per image.

    Shapes are star-convex, 24 to 0.6 x `size` pixels across, of 8 to 39 corners, wholly inside the image;
    RoIs are their boxes, jittered to an IoU of at least 0.5.
    """
    rng = np.random.default_rng(seed)
    scene: dict[str, list] = {"rois": [], "tgt_labels": [], "tgt_gt_inds": [], "gt_poly": []}
    for _ in range(images):
        outlines = [_outline(rng, size) for _ in range(instances)]
        boxes = np.stack([np.concatenate([one.min(axis=0), one.max(axis=0)]) for one in outlines])
        index = rng.integers(0, instances, rois)
        scene["rois"].append(paddle.to_tensor(np.stack([_near(rng, boxes[i]) for i in index])))
        scene["tgt_labels"].append(paddle.to_tensor(rng.integers(0, CLASSES, rois).astype(np.int32)))
        scene["tgt_gt_inds"].append(paddle.to_tensor(index.astype(np.int64)))
        scene["gt_poly"].append([[one.reshape(-1).tolist()] for one in outlines])
    return scene


def _outline(rng: np.random.Generator, size: int) -> np.ndarray:
    radius = float(np.exp(rng.uniform(np.log(12), np.log(0.3 * size))))
    centre = rng.uniform(radius, size - radius, 2)
    corners = int(rng.integers(8, 40))
    angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
    reach = radius * rng.uniform(0.75, 1.05, corners)
    return centre + np.stack([np.cos(angles), np.sin(angles)], axis=1) * reach[:, None]


def _near(rng: np.random.Generator, box: np.ndarray) -> np.ndarray:
    """float32 [4]: a box of IoU >= 0.5 with `box`."""
    size = box[2:] - box[:2]
    while True:
        one = box + rng.normal(0, 0.12, 4) * np.tile(size, 2)
        inner = np.minimum(box[2:], one[2:]) - np.maximum(box[:2], one[:2])
        if (one[2:] > one[:2]).all() and (inner > 0).all():
            both = inner.prod()
            if both >= 0.5 * (size.prod() + (one[2:] - one[:2]).prod() - both):
                return one.astype(np.float32)


def bitmaps(gt_poly: list, crop_size: int, height: int, width: int) -> dict[str, list[paddle.Tensor]]:
    """What PolyToBitmap adds to a batch."""
    image = np.broadcast_to(np.float32(0), (3, height, width))
    samples = [
        PolyToBitmap(crop_size).apply({"gt_poly": one, "im_id": np.array([i]), "image": image})
        for i, one in enumerate(gt_poly)
    ]
    return {key: [paddle.to_tensor(one[key]) for one in samples] for key in ("gt_segm", "gt_segm_box")}


def difference(mask_size: int, crop_size: int, images: int = 50) -> dict[str, Any]:
    """Targets of both assigners on one scene.

    Args:
        mask_size: M.
        crop_size: of PolyToBitmap.
        images: of the scene, with 64 RoIs each.

    Returns:
        mask_size, crop_size, rois, differing_percent (of all cells), mean_iou (of each RoI's two masks),
        bitmap_kb (of one instance, KiB).
    """
    scene = make_scene(images)
    arguments = scene["rois"], scene["tgt_labels"], scene["tgt_gt_inds"]
    exact = PolygonMaskAssigner(CLASSES, mask_size)(*arguments, {"gt_poly": scene["gt_poly"]})
    made = bitmaps(scene["gt_poly"], crop_size, 640, 640)
    ours = BitmapMaskAssigner(CLASSES, mask_size)(*arguments, made)
    a, b = (one[3].numpy().astype(bool) for one in (ours, exact))
    union = np.maximum((a | b).sum(axis=(1, 2)), 1)
    return {
        "mask_size": mask_size,
        "crop_size": crop_size,
        "rois": len(a),
        "differing_percent": round(100 * float((a != b).mean()), 3),
        "mean_iou": round(float(((a & b).sum(axis=(1, 2)) / union).mean()), 4),
        "bitmap_kb": round(made["gt_segm"][0][0].size / 1024, 1),
    }


def bitmap_case(batch: Batch, crop_size: int) -> Case:
    """MaskAssigner beside BitmapMaskAssigner, whose bitmaps come with the batch; they are not equal."""
    sampled = PerfBBoxAssigner(num_classes=CLASSES)(batch.rois, None, batch.inputs)
    rois, _, (labels, _, inds) = sampled
    inputs = {key: value for key, value in batch.inputs.items() if key not in PACKED_KEYS}
    inputs.update(bitmaps(inputs["gt_poly"], crop_size, batch.height, batch.width))
    stock = MaskAssigner(CLASSES, batch.model.mask)
    ours = BitmapMaskAssigner(CLASSES, batch.model.mask)
    return Case(
        lambda: stock(rois, labels, inds, inputs), lambda: ours(rois, labels, inds, inputs), lambda: None
    )
