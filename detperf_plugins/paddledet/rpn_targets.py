"""RPN targets of a batch by one kernel call, sampled on the host: for the loader and for the step.

Method: ppdet's `rpn_anchor_target`. What the step needs of it is small and of fixed size: the sampled
anchors, their labels, and the deltas of the positive ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Optional

import numpy as np
import paddle
from ppdet.modeling.bbox_utils import bbox2delta
from ppdet.modeling.proposal_generator.target_layer import RPNTargetAssign

from detperf_plugins.native.match import match_boxes
from detperf_plugins.paddledet.sampling import sample_labels

__all__ = ["PerfRPNTargetAssign", "RPNSample", "equal_tolerance", "match_batch", "sample_batch"]


class RPNSample(NamedTuple):
    """Sampled anchors of B images, n slots each, foreground first (P = n * fg_fraction slots can be it).

    Attributes:
        index: int32 [B, n], position among all anchors; 0 in a dead slot.
        label: int32 [B, n], 1 foreground, 0 background, -1 a dead slot.
        delta: float32 [B, P, 4], box deltas of the first P slots; 0 where the label is not 1.
    """

    index: Any
    label: Any
    delta: Any


@lru_cache(maxsize=1)
def equal_tolerance() -> float:
    """Below which difference this Paddle's `==` calls float32 equal: 1e-8 in 2.6, 0 in 3.

    Low-quality matches are found by `==`, so 2.6 labels some more anchors than 3 does.
    """
    pair = paddle.to_tensor(np.array([0.05, np.nextafter(np.float32(0.05), np.float32(1))], dtype=np.float32))
    return 1e-8 if bool((pair[0] == pair[1]).numpy()) else 0.0


def match_batch(
    anchors: np.ndarray, boxes: Sequence[np.ndarray], crowd: Optional[Sequence[np.ndarray]], assign: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Labels int8 [B, A] and matches int32 [B, A] of all images under the rule of `assign`.

    Args:
        anchors: float32 [A, 4].
        boxes: per image [G, 4], pixels.
        crowd: per image [G] or [G, 1], or None where the data has no such field.
        assign: an RPNTargetAssign: its overlaps and its ignore_thresh are used.
    """
    offsets = np.cumsum([0] + [len(one) for one in boxes])
    flat = np.concatenate([np.asarray(one, dtype=np.float32).reshape(-1, 4) for one in boxes])
    flags = np.zeros(len(flat)) if crowd is None else np.concatenate([np.reshape(one, -1) for one in crowd])
    return match_boxes(
        anchors,
        flat,
        offsets,
        flags,
        assign.positive_overlap,
        assign.negative_overlap,
        assign.ignore_thresh,
        True,
        equal_tolerance(),
    )


def sample_batch(
    anchors: np.ndarray,
    boxes: Sequence[np.ndarray],
    crowd: Optional[Sequence[np.ndarray]],
    assign: Any,
    generator: Optional[np.random.Generator],
) -> RPNSample:
    """Targets of all images, as numpy arrays.

    Args:
        anchors: float32 [A, 4]; boxes and crowd of each image: see `match_batch`.
        assign: an RPNTargetAssign: its settings are used.
        generator: None where nothing is to be drawn (use_random False).
    """
    labels, matches = match_batch(anchors, boxes, crowd, assign)
    slots = assign.batch_size_per_im
    positives = int(slots * assign.fg_fraction)
    index = np.zeros((len(boxes), slots), dtype=np.int32)
    label = np.full((len(boxes), slots), -1, dtype=np.int32)
    delta = np.zeros((len(boxes), positives, 4), dtype=np.float32)
    for i, one in enumerate(boxes):
        fg, bg = sample_labels(labels[i], slots, assign.fg_fraction, generator)
        index[i, : len(fg)], label[i, : len(fg)] = fg, 1
        index[i, len(fg) : len(fg) + len(bg)], label[i, len(fg) : len(fg) + len(bg)] = bg, 0
        if len(fg):
            matched = np.asarray(one, dtype=np.float32).reshape(-1, 4)[matches[i, fg]]
            delta[i, : len(fg)] = _deltas(anchors[fg], matched)
    return RPNSample(index, label, delta)


def _deltas(anchors: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """ppdet's bbox2delta with unit weights, float32 [N, 4]."""
    half = np.float32(0.5)
    size, target = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    shift = (boxes[:, :2] + half * target) - (anchors[:, :2] + half * size)
    return np.concatenate([shift / size, np.log(target / size)], axis=1)


class PerfRPNTargetAssign(RPNTargetAssign):
    """RPNTargetAssign with its matching in one kernel call a batch, on the host; same arguments.

    The boxes come over in one read a batch (they are some hundred bytes an image; the anchors are
    computed, not read). With use_random the sample follows stock's distribution, drawn by a numpy
    generator that is seeded from `paddle.seed`; without, it is stock's sample.
    """

    _generator: Optional[np.random.Generator] = None
    _seed: Optional[tuple[int, ...]] = None

    def generator(self) -> Optional[np.random.Generator]:
        """What `sample_batch` draws from; None where use_random is off."""
        if not self.use_random:
            return None
        seed = (
            paddle.framework.core.default_cpu_generator().initial_seed(),
            int(os.environ.get("PADDLE_TRAINER_ID", "0")),
        )
        if self._generator is None or seed != self._seed:
            self._generator, self._seed = np.random.default_rng(seed), seed
        return self._generator

    def sample(self, inputs: dict[str, Any], anchors: np.ndarray) -> RPNSample:
        """Targets of the batch as tensors of fixed shape, see `RPNSample`.

        Args:
            inputs: the batch, with `gt_bbox` (per image [G, 4]) and perhaps `is_crowd`.
            anchors: float32 [A, 4] of all levels.
        """
        boxes, crowd = _read_boxes(inputs)
        found = sample_batch(anchors, boxes, crowd, self, self.generator())
        return RPNSample(*[paddle.to_tensor(array) for array in found])

    def __call__(
        self, inputs: dict[str, Any], anchors: paddle.Tensor
    ) -> tuple[list[paddle.Tensor], list[paddle.Tensor], list[paddle.Tensor], int]:
        """Targets in stock's form, one entry for every anchor; PerfRPNHead calls `sample` instead.

        Args:
            inputs: see `sample`.
            anchors: float32 [A, 4] of all levels.

        Returns:
            Per image labels int32 [A], matched boxes float32 [A, 4], deltas float32 [A, 4]; and the
            number by which the losses are divided.
        """
        boxes, crowd = _read_boxes(inputs)
        labels, matches = match_batch(anchors.numpy(), boxes, crowd, self)
        generator = self.generator()
        tgt_labels, tgt_bboxes, tgt_deltas = [], [], []
        for i, gt_bbox in enumerate(inputs["gt_bbox"]):
            fg, bg = sample_labels(labels[i], self.batch_size_per_im, self.fg_fraction, generator)
            label = np.full(labels.shape[1], -1, dtype=np.int32)
            label[fg], label[bg] = 1, 0
            tgt_labels.append(paddle.to_tensor(label))
            if len(boxes[i]) == 0:
                matched = delta = paddle.zeros([labels.shape[1], 4])
            else:
                matched = paddle.gather(gt_bbox, paddle.to_tensor(matches[i]))
                delta = bbox2delta(anchors, matched)
            matched.stop_gradient = delta.stop_gradient = True
            tgt_bboxes.append(matched)
            tgt_deltas.append(delta)
        return tgt_labels, tgt_bboxes, tgt_deltas, self.batch_size_per_im * len(boxes)


def _read_boxes(inputs: dict[str, Any]) -> tuple[list[np.ndarray], Optional[list[np.ndarray]]]:
    """Boxes and crowd flags of the batch by one read from the device."""
    boxes = list(inputs["gt_bbox"])
    crowd = inputs.get("is_crowd")
    tensors = [one.reshape([-1]) for one in boxes]
    if crowd is not None:
        tensors += [one.reshape([-1]).astype("float32") for one in crowd]
    filled = [one for one in tensors if one.shape[0] > 0]  # Paddle 2.6 refuses to join nothing but empty ones
    flat = paddle.concat(filled).numpy() if filled else np.zeros(0, dtype=np.float32)
    values = np.split(flat, np.cumsum([int(one.shape[0]) for one in tensors])[:-1])
    return [one.reshape(-1, 4) for one in values[: len(boxes)]], values[len(boxes) :] if crowd else None
