"""Which RoIs of a batch get a mask target: stock's choice after one read, or fixed slots without any.

Stock's choice has as many RoIs as there is foreground, so that its shapes are known only after a read. In
fixed slots every image has the same number, foreground first; the rest weighs nothing, and the weights are
scaled so that the mean of a loss over all slots is stock's mean.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import paddle
from paddle.nn import functional

__all__ = [
    "Chosen",
    "Foreground",
    "choose_foreground",
    "choose_slots",
    "instance_rows",
    "memory_of",
    "read_together",
    "select_foreground",
]


class Foreground(NamedTuple):
    """Foreground RoIs of a batch, image after image (N in all).

    Attributes:
        counts: int64 [B], RoIs of each image; at least one, as in stock: an image without foreground
            lends its second RoI with weight 0, so that no later shape is empty.
        position: int64 [N], place of each RoI among its image's RoIs.
        rows: int64 [N], place of each RoI in the batch.
        classes: int32 [N], class of each RoI.
        weights: float32 [N], 0 for the lent ones.
    """

    counts: np.ndarray
    position: np.ndarray
    rows: np.ndarray
    classes: np.ndarray
    weights: np.ndarray


class Chosen(NamedTuple):
    """RoIs that get a target, image after image (N in all), where the RoIs themselves are.

    Attributes:
        counts: RoIs of each image.
        rois: float32 [N, 4].
        classes: int32 [N].
        index: int64 [N], matched instance within the image; -1 where there is none to learn.
        position: int64 [N], place of each RoI among its image's RoIs.
        weights: float32 [N].
    """

    counts: list[int]
    rois: paddle.Tensor
    classes: paddle.Tensor
    index: paddle.Tensor
    position: paddle.Tensor
    weights: paddle.Tensor


def read_together(tensors: Sequence[paddle.Tensor]) -> list[np.ndarray]:
    """Values of several tensors by one read from the device.

    Args:
        tensors: [...] each, of any shapes and number types.

    Returns:
        float64 [...] each, of the same shapes; float64 holds float32 values and indices below 2^53 exactly.
    """
    flat = paddle.concat([tensor.astype("float64").reshape([-1]) for tensor in tensors]).numpy()
    values, start = [], 0
    for tensor in tensors:
        size = int(np.prod(tensor.shape))
        values.append(flat[start : start + size].reshape(tensor.shape))
        start += size
    return values


def memory_of(tensor: paddle.Tensor) -> np.ndarray:
    """The memory of an int32 CPU tensor, [...] of any shape, as an array: written there is in the tensor."""
    cells = ctypes.c_int32 * int(np.prod(tensor.shape))
    return np.ctypeslib.as_array(cells.from_address(tensor.data_ptr())).reshape(tensor.shape)


def select_foreground(labels: np.ndarray, lengths: Sequence[int], num_classes: int) -> Foreground:
    """Stock's choice.

    Args:
        labels: [R], class of each RoI, image after image; `num_classes` is background and -1 ignored.
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
        rows=rows,
        classes=np.where(is_lent, 0, labels[rows]).astype(np.int32),
        weights=np.where(is_lent, 0, 1).astype(np.float32),
    )


def instance_rows(
    index: np.ndarray, counts: Sequence[int] | np.ndarray, instances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The instance of each RoI among those of the whole batch.

    Args:
        index: [N], instance within its image.
        counts: [B], RoIs of each image.
        instances: [B], instances of each image.

    Returns:
        int64 [N], -1 where the image has no such instance; and how many instances each RoI's image has.
    """
    index = index.astype(np.int64)
    instances_of = np.repeat(instances, counts)
    first = np.repeat(np.cumsum(instances) - instances, counts)
    return np.where((index >= 0) & (index < instances_of), index + first, -1), instances_of


def choose_foreground(
    rois: Sequence[paddle.Tensor],
    labels: Sequence[paddle.Tensor],
    gt_inds: Sequence[paddle.Tensor],
    num_classes: int,
) -> Chosen:
    """Stock's choice, of which the labels alone are read.

    Args:
        rois: per image float32 [R, 4].
        labels: per image integer [R]; num_classes is background, -1 ignored.
        gt_inds: per image integer [R], matched instance.
        num_classes: number of classes.
    """
    lengths = [int(one.shape[0]) for one in rois]
    found = select_foreground(paddle.concat(list(labels)).numpy(), lengths, num_classes)
    rows = paddle.to_tensor(found.rows)
    return Chosen(
        counts=found.counts.tolist(),
        rois=paddle.gather(paddle.concat(list(rois)), rows),
        classes=paddle.to_tensor(found.classes),
        index=paddle.gather(paddle.concat(list(gt_inds)), rows).astype("int64"),
        position=paddle.to_tensor(found.position),
        weights=paddle.to_tensor(found.weights),
    )


def choose_slots(
    rois: Sequence[paddle.Tensor],
    labels: Sequence[paddle.Tensor],
    gt_inds: Sequence[paddle.Tensor],
    num_classes: int,
    slots: int,
) -> Chosen:
    """The first `slots` foreground RoIs of every image, filled up with others of weight 0; reads nothing.

    Weights of foreground are N over the number of RoIs that stock would have chosen, so that a mean over N
    is stock's mean.

    Args: as `choose_foreground`, and
        slots: RoIs of each image; fewer where no image has as many.

    Returns:
        `Chosen` of N = B x slots rows: rois float32 [N, 4], classes int32 [N], index int64 [N] (-1 where
        there is nothing to learn), position int64 [N] and weights float32 [N].
    """
    lengths = [int(one.shape[0]) for one in rois]
    longest = max(lengths)
    slots = min(slots, longest)
    images = len(lengths)
    table = np.arange(longest) + np.cumsum([0, *lengths[:-1]])[:, None]
    filled = np.arange(longest) < np.asarray(lengths)[:, None]
    at = paddle.to_tensor(np.where(filled, table, sum(lengths)))
    # One row past the end stands for the RoIs that shorter images lack: background, a box of zeros.
    roi_pool = paddle.concat([*rois, paddle.zeros([1, 4], dtype=rois[0].dtype)])
    label_pool = paddle.concat([*labels, paddle.full([1], num_classes, dtype=labels[0].dtype)])
    label = paddle.gather(label_pool, at.reshape([-1])).reshape([images, longest])
    foreground = paddle.logical_and(label != -1, label != num_classes).astype("float32")
    # Unlike keys, so that topk has one answer: foreground first, in the order of the RoIs. Exact in float32.
    falling = paddle.to_tensor(np.arange(longest, 0, -1, dtype=np.float32))
    position = paddle.topk(foreground * longest + falling, k=slots, axis=1)[1]
    live = paddle.take_along_axis(foreground, position, axis=1)
    row = paddle.take_along_axis(at, position, axis=1).reshape([-1])
    index_pool = paddle.concat([*gt_inds, paddle.zeros([1], dtype=gt_inds[0].dtype)])
    learnt = live.reshape([-1])
    keep = learnt.astype("int64")
    count = paddle.clip(foreground.sum(axis=1), min=1.0).sum()
    last = paddle.to_tensor(np.asarray(lengths)[:, None] - 1)
    return Chosen(
        counts=[slots] * images,
        rois=functional.embedding(row, roi_pool),
        classes=paddle.gather(label_pool, row).astype("int32") * learnt.astype("int32"),
        index=paddle.gather(index_pool, row).astype("int64") * keep + (keep - 1),
        position=paddle.minimum(position, last).reshape([-1]),
        weights=learnt * (images * slots / count),
    )
