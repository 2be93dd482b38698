"""RPN targets against stock's RPNTargetAssign: 500 images, each of the kinds in `boxes.KINDS`."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ppdet.modeling.proposal_generator.anchor_generator import AnchorGenerator
from ppdet.modeling.proposal_generator.target import label_box
from ppdet.modeling.proposal_generator.target_layer import RPNTargetAssign

from detperf_plugins.native.match import match_boxes
from detperf_plugins.paddledet.anchors import AnchorSettings, difference
from detperf_plugins.paddledet.rpn_targets import PerfRPNTargetAssign, match_batch
from detperf_plugins.paddledet.sampling import sample_labels
from tests.paddledet.boxes import KINDS, batch_inputs
from tests.tied_overlaps import ANCHOR, PADDLES_ROWS, boxes_with, heights

FPN = {
    "anchor_sizes": [[16], [32], [64], [96], [128]],
    "aspect_ratios": [0.5, 1.0, 2.0],
    "strides": [4, 8, 16, 32, 64],
}
C4 = {"anchor_sizes": [16, 32, 64], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [16.0], "offset": 0.5}


@pytest.mark.parametrize("config", [FPN, C4, {"strides": [8, 32], "anchor_sizes": [[20, 30]]}])
@pytest.mark.parametrize("size", [(128, 160), (133, 97)])
def test_anchors_are_stocks(config, size):
    generator = AnchorGenerator(**config)
    settings = AnchorSettings.of(config)
    assert settings == AnchorSettings.of(generator)
    grids = settings.grids(*size)
    expected = generator([paddle.zeros([1, 1, *grid]) for grid in grids])
    np.testing.assert_array_equal(settings.anchors(grids), np.concatenate([a.numpy() for a in expected]))


def test_a_feature_map_is_as_large_as_stock_convolutions_make_it():
    settings = AnchorSettings.of({"strides": [4, 8, 16, 32, 64]})
    for size in (97, 128, 131, 800, 1333):
        side = size
        for level in range(6):  # each halves upwards: a 3x3 of stride 2 and padding 1, or FPN's extra pool
            side = (side + 2 * 1 - 3) // 2 + 1
            if level:
                assert settings.grids(size, size)[level - 1] == (side, side)


def test_difference_names_the_first_setting_that_differs():
    settings = AnchorSettings.of(FPN)
    text = settings.text(settings.grids(128, 128))
    other = AnchorSettings.of({**FPN, "strides": [8, 8, 16, 32, 64]})
    assert difference(text, text) == ""
    assert "strides is [4.0, 8.0" in difference(text, other.text(settings.grids(128, 128)))
    assert "grids is" in difference(text, settings.text(settings.grids(64, 128)))


def test_500_images_have_stocks_labels_and_matches():
    rng = np.random.default_rng(0)
    settings = AnchorSettings.of(FPN)
    anchors = settings.anchors(settings.grids(96, 128))
    tensor = paddle.to_tensor(anchors.copy())
    foreground = crowds = 0
    for number in range(125):
        kinds = [KINDS[(4 * number + i) % len(KINDS)] for i in range(4)]
        ours, stock = batch_inputs(rng, kinds, 96, 128)
        assign = PerfRPNTargetAssign(
            ignore_thresh=(-1.0, 0.3, 0.6)[number % 3], positive_overlap=(0.7, 0.5)[number % 2]
        )
        boxes = [one.numpy() for one in ours["gt_bbox"]]
        flags = [one.numpy() for one in ours["is_crowd"]]
        labels, matches = match_batch(anchors, boxes, flags, assign)
        for image, kind in enumerate(kinds):
            match, label = label_box(
                tensor, stock["gt_bbox"][image], assign.positive_overlap, assign.negative_overlap, True,
                assign.ignore_thresh, stock["is_crowd"][image],
            )  # fmt: skip
            np.testing.assert_array_equal(labels[image], label.numpy(), err_msg=kind)
            np.testing.assert_array_equal(matches[image], match.numpy().reshape(-1), err_msg=kind)
            foreground += int((labels[image] == 1).sum())
            crowds += int(flags[image].sum())
    assert foreground > 1000
    assert crowds > 100


def topk_row(height: np.ndarray) -> int:
    column = paddle.to_tensor(height.reshape(-1, 1).astype(np.float32))
    return int(paddle.topk(column, k=1, axis=0)[1])


def test_the_rows_noted_as_paddles_are_paddles():
    assert [topk_row(heights(count)) for count in range(1, len(PADDLES_ROWS) + 1)] == PADDLES_ROWS


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.int64, st.integers(1, 70), elements=st.integers(0, 5))
    | hnp.arrays(np.int64, st.integers(50, 64), elements=st.integers(0, 39))
)
def test_among_equal_overlaps_the_match_is_topks(height):
    boxes = boxes_with(height)
    _, matches = match_boxes(ANCHOR, boxes, [0, len(boxes)], np.zeros(len(boxes)), 0.7, 0.3)
    assert matches[0, 0] == topk_row(height)


@pytest.mark.parametrize("ignore_thresh", [-1.0, 0.4])
def test_the_sample_without_chance_is_stocks(ignore_thresh):
    rng = np.random.default_rng(1)
    settings = AnchorSettings.of(FPN)
    anchors = settings.anchors(settings.grids(96, 128))
    tensor = paddle.to_tensor(anchors.copy())
    rule = {"batch_size_per_im": 64, "use_random": False, "ignore_thresh": ignore_thresh}
    ours, stock = batch_inputs(rng, list(KINDS), 96, 128)
    expected = RPNTargetAssign(**rule)(stock, tensor)
    assign = PerfRPNTargetAssign(**rule)
    same_form = assign(ours, tensor)
    assert same_form[3] == expected[3] == 64 * len(KINDS)
    for mine, theirs in zip(same_form[:3], expected[:3]):
        for one, other in zip(mine, theirs):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    index, label, delta = (one.numpy() for one in assign.sample(ours, anchors))
    assert delta.shape == (len(KINDS), 32, 4)
    for image in range(len(KINDS)):
        live = label[image] >= 0
        made = np.full(len(anchors), -1)
        made[index[image][live]] = label[image][live]
        np.testing.assert_array_equal(made, expected[0][image].numpy())
        slots = np.flatnonzero(label[image] == 1)
        assert (slots < 32).all()
        np.testing.assert_allclose(
            delta[image][slots], expected[2][image].numpy()[index[image][slots]], rtol=0, atol=1e-6
        )
        assert not delta[image][len(slots) :].any()


def test_a_field_of_crowd_flags_may_be_missing():
    rng = np.random.default_rng(2)
    ours, _ = batch_inputs(rng, ["plain", "empty"], 96, 128, crowd=False)
    settings = AnchorSettings.of(FPN)
    sample = PerfRPNTargetAssign().sample(ours, settings.anchors(settings.grids(96, 128)))
    assert (sample.label.numpy() == 1).sum(1)[1] == 0


def test_an_all_empty_batch_is_all_background():
    rng = np.random.default_rng(3)
    ours, _ = batch_inputs(rng, ["empty", "empty"], 96, 128)
    settings = AnchorSettings.of(FPN)
    sample = PerfRPNTargetAssign(batch_size_per_im=64).sample(ours, settings.anchors(settings.grids(96, 128)))
    assert (sample.label.numpy() == 0).all()


def test_draws_are_uniform_and_as_many_as_stocks():
    labels = np.array([0] * 40 + [-1] * 5 + [1] * 30)
    generator = np.random.default_rng(0)
    drawn = np.zeros(len(labels))
    runs = 4000
    for _ in range(runs):
        fg, bg = sample_labels(labels, 24, 0.5, generator)
        assert len(fg) == len(bg) == 12
        assert len(set(fg) | set(bg)) == 24
        drawn[fg] += 1
        drawn[bg] += 1
    assert not drawn[40:45].any()
    for part, chance in ((drawn[:40], 12 / 40), (drawn[45:], 12 / 30)):
        # Five standard deviations of a binomial count, for 70 anchors: fails by chance once in 25,000 runs.
        assert np.abs(part - runs * chance).max() < 5 * np.sqrt(runs * chance * (1 - chance))


def test_draws_follow_paddles_seed():
    rng = np.random.default_rng(4)
    ours, _ = batch_inputs(rng, ["plain", "many"], 96, 128)
    settings = AnchorSettings.of(FPN)
    anchors = settings.anchors(settings.grids(96, 128))

    def draws(seed: int) -> list[np.ndarray]:
        paddle.seed(seed)
        assign = PerfRPNTargetAssign(batch_size_per_im=32)
        return [assign.sample(ours, anchors).index.numpy() for _ in range(2)]

    first, again, other = draws(5), draws(5), draws(6)
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()
    assert (first[0] != other[0]).any()
