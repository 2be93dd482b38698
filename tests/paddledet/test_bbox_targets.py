"""RoI targets against stock's BBoxAssigner, with sampling off value by value, with it on in distribution."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner

from detperf_plugins.measure.counters import count
from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from tests.paddledet.boxes import CLASSES, KINDS, batch_inputs

# Stock's own assigner needs its concat mended under the paddledet 2.6.0 wheel.
pytestmark = pytest.mark.usefixtures("activated")


def rois_near(rng: np.random.Generator, inputs: dict, counts: list[int], height: int, width: int) -> list:
    """Per image RoIs, half of them near its boxes."""
    made = []
    for boxes, number in zip(inputs["gt_bbox"], counts):
        start = rng.uniform(0, (width - 10, height - 10), (number, 2))
        rois = np.concatenate([start, start + rng.uniform(4, 80, (number, 2))], axis=1)
        if boxes.shape[0]:
            near = boxes.numpy()[rng.integers(0, boxes.shape[0], number // 2)]
            rois[: number // 2] = near + rng.normal(0, 3, near.shape)
            rois[: number // 6] = near[: number // 6]
        rois = np.clip(rois, 0, (width, height, width, height))
        rois[:, 2:] = np.maximum(rois[:, 2:], rois[:, :2] + 1)
        made.append(paddle.to_tensor(rng.permutation(rois).astype(np.float32)))
    return made


def assert_same(ours, stock, slots: list[int]) -> None:
    """Every live slot is stock's RoI, in its place; every other one is dead."""
    rois, rois_num, targets = ours
    stock_rois, _, stock_targets = stock
    assert rois_num.numpy().tolist() == slots == [one.shape[0] for one in rois]
    for image, expected in enumerate(stock_rois):
        n = expected.shape[0]
        if (stock_targets[0][image].numpy() == -1).all():  # stock's stand-in where nothing can be sampled
            n = 0
        np.testing.assert_array_equal(rois[image].numpy()[:n], expected.numpy()[:n])
        for mine, theirs in zip(targets, stock_targets):
            assert mine[image].dtype == theirs[image].dtype
            np.testing.assert_array_equal(mine[image].numpy()[:n], theirs[image].numpy()[:n])
        assert (targets[0][image].numpy()[n:] == -1).all()
        assert not rois[image].numpy()[n:].any()


def test_252_images_without_chance():
    rng = np.random.default_rng(0)
    foreground = 0
    for number in range(63):
        kinds = [KINDS[(4 * number + i) % len(KINDS)] for i in range(4)]
        ours, stock = batch_inputs(rng, kinds, 96, 128, crowd=number % 5 > 0)
        rule = {
            "batch_size_per_im": (32, 64, 512)[number % 3],
            "num_classes": CLASSES,
            "use_random": False,
            "ignore_thresh": (-1.0, 0.3)[number % 2] if number % 5 else -1.0,
            "fg_thresh": 0.5,
            "bg_thresh": (0.5, 0.4, 0.5)[number % 3],
        }
        rois = rois_near(rng, ours, [int(n) for n in rng.integers(40, 120, 4)], 96, 128)
        add_gt = number % 4 > 0
        mine = PerfBBoxAssigner(**rule)(rois, None, ours, add_gt_as_proposals=add_gt)
        theirs = BBoxAssigner(**rule)(rois, None, stock, add_gt_as_proposals=add_gt)
        most = max(r.shape[0] + (g.shape[0] if add_gt else 0) for r, g in zip(rois, ours["gt_bbox"]))
        assert_same(mine, theirs, [min(rule["batch_size_per_im"], most)] * 4)
        foreground += sum(int(((t.numpy() >= 0) & (t.numpy() < CLASSES)).sum()) for t in mine[2][0])
    assert foreground > 1000


@pytest.mark.parametrize("ignore_thresh", [-1.0, 0.3])
def test_cascade_stages(ignore_thresh):
    rng = np.random.default_rng(1)
    rule = {"num_classes": CLASSES, "use_random": False, "ignore_thresh": ignore_thresh}
    for stage in (1, 2):
        ours, stock = batch_inputs(rng, list(KINDS), 96, 128)
        counts = [int(n) for n in rng.integers(20, 60, len(KINDS))]
        rois = rois_near(rng, ours, counts, 96, 128)
        mine = PerfBBoxAssigner(**rule)(rois, None, ours, stage, True, False)
        theirs = BBoxAssigner(**rule)(rois, None, stock, stage, True, False)
        for image in range(len(KINDS)):
            np.testing.assert_array_equal(mine[0][image].numpy(), theirs[0][image].numpy())
            for one, other in zip(mine[2], theirs[2]):
                np.testing.assert_array_equal(one[image].numpy(), other[image].numpy())
        assert mine[1].numpy().tolist() == theirs[1].numpy().tolist() == counts


def test_rois_without_area_are_dead_in_a_later_stage():
    ours, _ = batch_inputs(np.random.default_rng(2), ["plain", "plain"], 96, 128)
    rois = paddle.to_tensor(np.array([[0, 0, 0, 0], [5, 5, 30, 30], [9, 9, 9, 40]], dtype=np.float32))
    none = paddle.zeros([2, 4])
    _, _, (labels, _, _) = PerfBBoxAssigner(num_classes=CLASSES)([rois, none], None, ours, 1, True, False)
    assert (labels[0].numpy() == -1).tolist() == [True, False, True]
    # As stock, which keeps one RoI where all are empty.
    assert labels[1].numpy().tolist() == [CLASSES, -1]


def test_draws_have_stocks_numbers_and_are_uniform():
    rng = np.random.default_rng(3)
    ours, stock = batch_inputs(rng, ["plain", "crowd", "empty"], 96, 128)
    paddle.seed(0)
    # Moved a little, so that no two RoIs are alike and each can be told by its corners.
    rois = [one + 0.01 * paddle.rand(one.shape) for one in rois_near(rng, ours, [60, 60, 60], 96, 128)]
    rule = {"batch_size_per_im": 32, "num_classes": CLASSES}
    assigner = PerfBBoxAssigner(**rule)
    theirs = BBoxAssigner(**rule)(rois, None, stock)
    runs = 800
    drawn: list[dict[bytes, int]] = [{} for _ in rois]
    for _ in range(runs):
        sampled, _, (labels, _, _) = assigner(rois, None, ours)
        for image in range(3):
            label, expected = labels[image].numpy(), theirs[2][0][image].numpy()
            assert (label == CLASSES).sum() == (expected == CLASSES).sum()
            assert ((label >= 0) & (label < CLASSES)).sum() == ((expected >= 0) & (expected < CLASSES)).sum()
            for row in sampled[image].numpy()[label == CLASSES]:
                drawn[image][row.tobytes()] = drawn[image].get(row.tobytes(), 0) + 1
    all_labels = PerfBBoxAssigner(
        num_classes=CLASSES, batch_size_per_im=10_000, fg_fraction=1.0, use_random=False
    )(rois, None, ours)[2][0]
    for image, counts in enumerate(drawn):
        candidates = int((all_labels[image].numpy() == CLASSES).sum())
        assert len(counts) == candidates
        chance = sum(counts.values()) / runs / candidates
        spread = np.sqrt(runs * chance * (1 - chance))
        assert np.abs(np.array(list(counts.values())) - runs * chance).max() < 5 * spread + 1e-9


def test_nothing_is_read_back():
    rng = np.random.default_rng(4)
    ours, _ = batch_inputs(
        rng, ["plain", "crowd", "empty", "many", "twins", "one", "all crowd", "plain"], 96, 128
    )
    rois = rois_near(rng, ours, [200] * 8, 96, 128)
    assigner = PerfBBoxAssigner(num_classes=CLASSES)
    assigner(rois, None, ours)
    counted = count(lambda: assigner(rois, None, ours))
    assert counted.host_reads == 0
    assert counted.ops <= 160


def test_a_batch_without_any_box():
    ours, stock = batch_inputs(np.random.default_rng(6), ["empty", "empty"], 96, 128)
    rois = rois_near(np.random.default_rng(6), ours, [30, 20], 96, 128)
    rule = {"batch_size_per_im": 16, "num_classes": CLASSES, "use_random": False}
    assert_same(PerfBBoxAssigner(**rule)(rois, None, ours), BBoxAssigner(**rule)(rois, None, stock), [16, 16])


def test_int_crowd_flags_do_not_stop_paddle_3():
    """Stock multiplies them by a float tensor, which Paddle 3 refuses."""
    ours, _ = batch_inputs(np.random.default_rng(5), ["crowd"], 96, 128)
    assert ours["is_crowd"][0].dtype == paddle.int32
    rois, _, _ = PerfBBoxAssigner(num_classes=CLASSES)([paddle.to_tensor([[1.0, 1, 30, 30]])], None, ours)
    assert rois[0].shape[0] >= 3
