"""Each target-making part beside its stock counterpart: cases for `detperf bench targets`.

A case holds two calls that do the same work on one synthetic batch, and a third that runs both without
chance and counts where their results differ. Stock is the installed PaddleDetection's own class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

import numpy as np
import paddle
from ppdet.modeling.proposal_generator.rpn_head import RPNHead
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner, MaskAssigner, RPNTargetAssign

from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from detperf_plugins.paddledet.mask_targets import PolygonMaskAssigner
from detperf_plugins.paddledet.proposals import flat_logits
from detperf_plugins.paddledet.rpn_head import PerfRPNHead
from detperf_plugins.paddledet.rpn_targets import PerfRPNTargetAssign
from detperf_plugins.paddledet.transforms import PACKED_KEYS, PackPolygons

__all__ = ["CASES", "Batch", "Case", "make_batch", "together"]

CLASSES = 80


@dataclass(frozen=True)
class Model:
    """The settings of PaddleDetection's own configs that decide how much work there is."""

    sizes: tuple
    strides: tuple[int, ...]
    before: int
    after: int
    collect: bool
    mask: int


MODELS = {
    "c4": Model((32, 64, 128, 256, 512), (16,), 12000, 2000, False, 14),
    "fpn": Model(((32,), (64,), (128,), (256,), (512,)), (4, 8, 16, 32, 64), 2000, 1000, True, 28),
}


@dataclass(frozen=True)
class Case:
    """Two ways to one result; `mismatches()` runs both with sampling off and counts differing values.

    It is None where the results are not meant to be equal.
    """

    stock: Callable[[], Any]
    plugin: Callable[[], Any]
    mismatches: Callable[[], Optional[int]]


@dataclass(frozen=True)
class Batch:
    """One synthetic batch: `inputs` as the loader gives them, and proposals for the RoI stage."""

    inputs: dict[str, Any]
    rois: list[paddle.Tensor]
    model: Model
    height: int
    width: int
    seed: int


def make_batch(
    model: str, images: int, boxes: int, vertices: int, height: int = 800, width: int = 1333, seed: int = 0
) -> Batch:
    """A batch of `images` images with `boxes` objects each, whose outlines have `vertices` corners."""
    rng = np.random.default_rng(seed)
    samples = [_objects(rng, boxes, vertices, height, width) for _ in range(images)]
    packed = [
        PackPolygons()({"gt_poly": sample["gt_poly"], "gt_bbox": sample["gt_bbox"]}) for sample in samples
    ]
    inputs: dict[str, Any] = {
        key: [paddle.to_tensor(sample[key]) for sample in samples]
        for key in ("gt_bbox", "gt_class", "is_crowd")
    }
    inputs["gt_poly"] = [sample["gt_poly"] for sample in samples]
    for key in packed[0]:
        if key not in ("gt_poly", "gt_bbox"):
            inputs[key] = [paddle.to_tensor(sample[key]) for sample in packed]
    inputs["im_shape"] = paddle.to_tensor(np.array([[height, width]] * images, dtype=np.float32))
    rois = [paddle.to_tensor(_proposals(rng, sample["gt_bbox"], 2000, height, width)) for sample in samples]
    return Batch(inputs, rois, MODELS[model], height, width, seed)


def _objects(rng: np.random.Generator, count: int, vertices: int, height: int, width: int) -> dict[str, Any]:
    size = np.exp(rng.uniform(np.log(16), np.log(400), (count, 2)))
    centre = rng.uniform((0, 0), (width, height), (count, 2))
    angle = np.sort(rng.uniform(0, 2 * np.pi, (count, vertices)))
    radius = rng.uniform(0.6, 1.0, (count, vertices, 1))
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=2) * radius
    xy = np.clip(centre[:, None] + rim * size[:, None] / 2, 0, (width - 1, height - 1))
    corners = np.concatenate([xy.min(1), np.maximum(xy.max(1), xy.min(1) + 1)], axis=1)
    return {
        "gt_bbox": corners.astype(np.float32).reshape(-1, 4),
        "gt_class": rng.integers(0, CLASSES, (count, 1)).astype(np.int32),
        "is_crowd": np.zeros((count, 1), dtype=np.float32),
        "gt_poly": [[outline.reshape(-1).tolist()] for outline in xy],
    }


def _proposals(
    rng: np.random.Generator, boxes: np.ndarray, count: int, height: int, width: int
) -> np.ndarray:
    near = boxes[rng.integers(0, max(len(boxes), 1), count // 4)] if len(boxes) else np.zeros((0, 4))
    side = (near[:, 2:] - near[:, :2]) * 0.2
    near = near + np.concatenate([side, side], axis=1) * rng.standard_normal((len(near), 4))
    start = rng.uniform((0, 0), (width - 20, height - 20), (count - len(near), 2))
    far = np.concatenate([start, start + rng.uniform(10, 300, start.shape)], axis=1)
    rois = np.clip(np.concatenate([near, far]), 0, (width, height, width, height))
    rois[:, 2:] = np.maximum(rois[:, 2:], rois[:, :2] + 1)
    return rng.permutation(rois).astype(np.float32)


def mask_case(batch: Batch) -> Case:
    """MaskAssigner beside PolygonMaskAssigner, packing included, on RoIs that BBoxAssigner sampled."""
    sampled = PerfBBoxAssigner(num_classes=CLASSES)(batch.rois, None, batch.inputs)
    rois, _, (labels, _, inds) = sampled
    stock = MaskAssigner(CLASSES, batch.model.mask)
    ours = PolygonMaskAssigner(CLASSES, batch.model.mask)
    inputs = {key: value for key, value in batch.inputs.items() if key not in PACKED_KEYS}

    def run(assigner: Any) -> tuple:
        return assigner(rois, labels, inds, inputs)

    def mismatches() -> int:
        first, second = run(stock), run(ours)
        return sum(_differing(first[i], second[i]) for i in (2, 3, 4, 5))

    return Case(lambda: run(stock), lambda: run(ours), mismatches)


def rpn_case(batch: Batch) -> Case:
    """RPNTargetAssign beside PerfRPNTargetAssign as PerfRPNHead calls it in the step."""
    head = _head(PerfRPNHead, batch)
    anchors = head.settings.anchors(head.settings.grids(batch.height, batch.width))
    tensor = paddle.to_tensor(anchors.copy())

    def mismatches() -> int:
        labels, _, deltas, _ = RPNTargetAssign(use_random=False)(batch.inputs, tensor)
        index, label, delta = (
            one.numpy() for one in PerfRPNTargetAssign(use_random=False).sample(batch.inputs, anchors)
        )
        wrong = 0
        for image, expected in enumerate(labels):
            made = np.full(len(anchors), -1)
            live = label[image] >= 0
            made[index[image][live]] = label[image][live]
            wrong += int((made != expected.numpy()).sum())
            slots = np.flatnonzero(label[image] == 1)
            target = deltas[image].numpy()[index[image][slots]]
            wrong += int((np.abs(delta[image][slots] - target) > 1e-6).sum())
        return wrong

    stock, ours = RPNTargetAssign(), PerfRPNTargetAssign()
    return Case(lambda: stock(batch.inputs, tensor), lambda: ours.sample(batch.inputs, anchors), mismatches)


def bbox_case(batch: Batch) -> Case:
    """BBoxAssigner beside PerfBBoxAssigner, 2,000 proposals an image."""

    def run(assigner: Any) -> tuple:
        return assigner(batch.rois, None, batch.inputs)

    def mismatches() -> int:
        first = run(BBoxAssigner(num_classes=CLASSES, use_random=False))
        second = run(PerfBBoxAssigner(num_classes=CLASSES, use_random=False))
        pairs = [(first[0], second[0]), *zip(first[2], second[2])]
        wrong = 0
        for stock_images, our_images in pairs:
            for one, other in zip(stock_images, our_images):
                wrong += _differing(one, other[: one.shape[0]])
        dead = [labels[one.shape[0] :] for one, labels in zip(first[0], second[2][0])]
        return wrong + sum(int((labels.numpy() != -1).sum()) for labels in dead)

    stock, ours = BBoxAssigner(num_classes=CLASSES), PerfBBoxAssigner(num_classes=CLASSES)
    return Case(lambda: run(stock), lambda: run(ours), mismatches)


def proposals_case(batch: Batch) -> Case:
    """RPNHead._gen_proposal beside PerfRPNHead's way, from the same score and delta maps."""
    stock, ours = _head(RPNHead, batch), _head(PerfRPNHead, batch)
    rng = np.random.default_rng(batch.seed)
    images = len(batch.rois)
    scores, deltas = [], []
    grids = ours.settings.grids(batch.height, batch.width)
    shapes = [(images, k, rows, columns) for (rows, columns), k in zip(grids, ours.settings.per_cell())]
    total = sum(int(np.prod(shape)) for shape in shapes)
    # Unlike scores: among equal ones the order is not defined.
    values = np.split(
        rng.permutation(np.linspace(-8, 4, total)), np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
    )
    for value, (count, k, rows, columns) in zip(values, shapes):
        scores.append(paddle.to_tensor(value.reshape(count, k, rows, columns).astype(np.float32)))
        noise = rng.standard_normal((count, 4 * k, rows, columns)) * 0.2
        deltas.append(paddle.to_tensor(noise.astype(np.float32)))
    anchors = stock.anchor_generator(scores)

    def run_stock() -> list[paddle.Tensor]:
        return stock._gen_proposal(scores, deltas, anchors, batch.inputs)[0]

    def run_ours() -> list[paddle.Tensor]:
        logits = flat_logits(scores, deltas, batch.inputs["im_shape"])
        return ours.propose(logits, ours.grid(scores), ours.train_proposal)

    def mismatches() -> int:
        return sum(_differing(one, other, 2e-4) for one, other in zip(run_stock(), run_ours()))

    return Case(run_stock, run_ours, mismatches)


CASES: dict[str, Callable[[Batch], Case]] = {
    "mask": mask_case,
    "rpn": rpn_case,
    "bbox": bbox_case,
    "proposals": proposals_case,
}


def together(cases: Sequence[Case]) -> Case:
    """All parts, one after the other."""
    return Case(
        lambda: [case.stock() for case in cases],
        lambda: [case.plugin() for case in cases],
        lambda: sum(case.mismatches() or 0 for case in cases),
    )


def _head(cls: type, batch: Batch) -> Any:
    model = batch.model
    head = cls(
        anchor_generator={
            "anchor_sizes": [list(size) if isinstance(size, tuple) else size for size in model.sizes],
            "aspect_ratios": [0.5, 1.0, 2.0],
            "strides": list(model.strides),
        },
        train_proposal={
            "min_size": 0.0,
            "nms_thresh": 0.7,
            "pre_nms_top_n": model.before,
            "post_nms_top_n": model.after,
            "topk_after_collect": model.collect,
        },
        in_channel=1,
    )
    head.train()
    return head


def _differing(one: paddle.Tensor, other: paddle.Tensor, tolerance: float = 0.0) -> int:
    a, b = one.numpy(), other.numpy()
    if a.shape != b.shape:
        return max(a.size, b.size)
    return int((np.abs(a.astype(np.float64) - b.astype(np.float64)) > tolerance).sum())
