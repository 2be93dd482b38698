"""PolygonMaskAssigner against stock's MaskAssigner: every output, value, dtype and shape."""

from __future__ import annotations

import logging

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ppdet.modeling.proposal_generator.target_layer import MaskAssigner

from detperf_plugins.paddledet.compat import mend_host
from detperf_plugins.paddledet.mask_targets import PolygonMaskAssigner
from detperf_plugins.paddledet.polygons import NO_MASK
from detperf_plugins.paddledet.transforms import PACKED_KEYS, PackPolygons
from tests.polygons_strategy import bounds, jittered, random_segmentation

CLASSES = 5


@pytest.fixture(autouse=True, scope="module")
def stock_runs():
    undo = mend_host()
    yield
    undo()


def make_batch(rng, instances, rois=24, foreground=None):
    """Stock's inputs for a batch with `instances[i]` ground truths in image i."""
    batch = {"rois": [], "tgt_labels": [], "tgt_gt_inds": [], "gt_poly": []}
    for count in instances:
        segmentations = [random_segmentation(rng) for _ in range(count)]
        if count:
            inds = rng.integers(0, count, rois)
            boxes = np.concatenate([jittered(rng, bounds(segmentations[i]), 1) for i in inds])
            share = rng.random() if foreground is None else foreground
            labels = np.where(rng.random(rois) < share, rng.integers(0, CLASSES, rois), CLASSES)
            labels[rng.random(rois) < 0.1] = -1
        else:
            inds, labels = np.zeros(rois, dtype=np.int64), np.full(rois, CLASSES)
            boxes = rng.uniform(0, 300, (rois, 4)).astype(np.float32)
        batch["rois"].append(paddle.to_tensor(boxes))
        batch["tgt_labels"].append(paddle.to_tensor(labels.astype(np.int32)))
        batch["tgt_gt_inds"].append(paddle.to_tensor(inds.astype(np.int64)))
        batch["gt_poly"].append(segmentations)
    return batch


def call(assigner, batch, packed=False):
    inputs = {"gt_poly": batch["gt_poly"]}
    if packed:
        transform = PackPolygons(del_poly=True)
        samples = transform(
            [{"gt_poly": one, "im_id": np.array([i])} for i, one in enumerate(batch["gt_poly"])]
        )
        inputs = {key: [paddle.to_tensor(sample[key]) for sample in samples] for key in PACKED_KEYS}
    return assigner(batch["rois"], batch["tgt_labels"], batch["tgt_gt_inds"], inputs)


def assert_same(ours, stock):
    assert len(ours) == len(stock) == 6
    for mine, theirs in zip(ours, stock):
        pairs = zip(mine, theirs) if isinstance(theirs, list) else [(mine, theirs)]
        for a, b in pairs:
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from([14, 28]),
    st.sampled_from([None, 0.0, 1.0]),
    st.booleans(),
)
def test_all_outputs_equal_stock(seed, instances, size, foreground, packed):
    batch = make_batch(np.random.default_rng(seed), instances, foreground=foreground)
    stock = call(MaskAssigner(CLASSES, size), batch)
    assert_same(call(PolygonMaskAssigner(CLASSES, size), batch, packed), stock)


def test_an_image_gets_the_same_targets_in_any_batch():
    rng = np.random.default_rng(4)
    batch = make_batch(rng, [3] * 6)
    together = call(PolygonMaskAssigner(CLASSES, 28), batch)
    masks = np.split(together[3].numpy(), np.cumsum(together[1].numpy())[:-1])
    for i in range(6):
        alone = call(PolygonMaskAssigner(CLASSES, 28), {key: [value[i]] for key, value in batch.items()})
        np.testing.assert_array_equal(alone[3].numpy(), masks[i])


def test_one_read_a_batch(monkeypatch):
    reads = []
    original = paddle.Tensor.numpy

    def counted(self, *args):
        reads.append(self.shape)
        return original(self, *args)

    batch = make_batch(np.random.default_rng(0), [2, 3, 1])
    packed = PackPolygons()([{"gt_poly": one, "im_id": np.array([0])} for one in batch["gt_poly"]])
    inputs = {key: [paddle.to_tensor(sample[key]) for sample in packed] for key in PACKED_KEYS}
    assigner = PolygonMaskAssigner(CLASSES, 28)
    monkeypatch.setattr(paddle.Tensor, "numpy", counted)
    assigner(batch["rois"], batch["tgt_labels"], batch["tgt_gt_inds"], inputs)
    assert len(reads) == 1


@pytest.mark.parametrize(
    "bad",
    [[], [[]], [[5.0, 5.0, 9.0, 9.0]], [[1.0, 2.0, 3.0, 4.0, 5.0]], [[float("nan")] * 6], [[1e9] * 8],
     {"size": [9, 9], "counts": [81]}, NO_MASK],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_instance_weighs_nothing_and_changes_no_other(bad, packed, caplog):
    batch = make_batch(np.random.default_rng(6), [3, 2], foreground=1.0)
    clean = call(PolygonMaskAssigner(CLASSES, 28), batch, packed)
    spoilt = {
        **batch,
        "gt_poly": [[*batch["gt_poly"][0][:1], bad, *batch["gt_poly"][0][2:]], batch["gt_poly"][1]],
    }
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        ours = call(PolygonMaskAssigner(CLASSES, 28), spoilt, packed)
    index = ours[4].numpy().reshape(-1)[: int(ours[1][0])]
    hit = np.zeros(len(ours[5]), dtype=bool)
    hit[: len(index)] = batch["tgt_gt_inds"][0].numpy()[index] == 1
    assert hit.any()
    np.testing.assert_array_equal(ours[5].numpy(), np.where(hit, 0, clean[5].numpy()))
    np.testing.assert_array_equal(ours[3].numpy()[~hit], clean[3].numpy()[~hit])
    np.testing.assert_array_equal(ours[4].numpy(), clean[4].numpy())


def test_a_bad_instance_is_named_once(caplog):
    sample = {"gt_poly": [[[1.0, 2.0, 3.0]]], "im_id": np.array([4711])}
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        for _ in range(3):
            PackPolygons()([dict(sample)])
    assert len(caplog.records) == 1
    assert "image 4711" in caplog.text and "instance 0" in caplog.text and "odd number" in caplog.text


def test_batch_offsets_count_through_the_batch():
    """Stock's mask_index starts anew in each image, and picks the first image's features for all."""
    batch = make_batch(np.random.default_rng(8), [2, 2], foreground=1.0)
    stock = call(PolygonMaskAssigner(CLASSES, 14), batch)
    ours = call(PolygonMaskAssigner(CLASSES, 14, batch_offsets=True), batch)
    first = int(stock[1][0])
    np.testing.assert_array_equal(ours[4].numpy()[:first], stock[4].numpy()[:first])
    np.testing.assert_array_equal(ours[4].numpy()[first:], stock[4].numpy()[first:] + len(batch["rois"][0]))


def test_an_empty_image_between_others_weighs_nothing():
    batch = make_batch(np.random.default_rng(9), [2, 0, 2], foreground=1.0)
    ours = call(PolygonMaskAssigner(CLASSES, 14), batch, packed=True)
    counts = ours[1].numpy()
    assert counts[1] == 1
    assert ours[5].numpy()[counts[0]] == 0 and np.isfinite(ours[3].numpy()).all()
