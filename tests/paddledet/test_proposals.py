"""Proposals of both ways against stock's RPNHead._gen_proposal, in both layouts."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from ppdet.modeling.proposal_generator.rpn_head import RPNHead

from detperf_plugins.paddledet.proposals import flat_logits, propose_on_device, propose_on_host
from detperf_plugins.paddledet.rpn_head import PerfRPNHead

pytestmark = pytest.mark.usefixtures("activated")

FPN = {"anchor_sizes": [[16], [32], [64]], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [4, 8, 16]}
C4 = {"anchor_sizes": [16, 32, 64, 96], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [16]}


def maps(rng: np.random.Generator, head: RPNHead, images: int, grids, spread: float):
    """Score and delta maps, no two scores alike: among equal ones the order is not defined."""
    per_cell = head.anchor_generator.num_anchors
    total = images * per_cell * sum(h * w for h, w in grids)
    values = rng.permutation(np.linspace(-6, 6, total)).astype(np.float32)
    scores, deltas = [], []
    for h, w in grids:
        size = images * per_cell * h * w
        scores.append(paddle.to_tensor(values[:size].reshape(images, per_cell, h, w)))
        values = values[size:]
        deltas.append(
            paddle.to_tensor((rng.standard_normal((images, 4 * per_cell, h, w)) * spread).astype(np.float32))
        )
    return scores, deltas


@pytest.mark.parametrize("anchors", [FPN, C4])
@pytest.mark.parametrize(
    "rule",
    [
        {"pre_nms_top_n": 200, "post_nms_top_n": 60, "topk_after_collect": True},
        {"pre_nms_top_n": 300, "post_nms_top_n": 5000, "topk_after_collect": True},
        {"pre_nms_top_n": 150, "post_nms_top_n": 40, "topk_after_collect": False},
        {"pre_nms_top_n": 100_000, "post_nms_top_n": 80, "nms_thresh": 0.3, "min_size": 12.0},
    ],
)
@pytest.mark.parametrize("spread", [0.2, 2.0])
def test_boxes_and_order_are_stocks(anchors, rule, spread):
    rng = np.random.default_rng(0)
    rule = {"nms_thresh": 0.7, "min_size": 0.0, **rule}
    stock = RPNHead(anchor_generator=anchors, train_proposal=dict(rule), in_channel=1)
    grids = [(-(-96 // s), -(-128 // s)) for s in anchors["strides"]]
    scores, deltas = maps(rng, stock, 3, grids, spread)
    # One image is far smaller than its padding: most of its boxes are clipped away.
    im_shape = paddle.to_tensor(np.array([[96, 128], [90, 101], [20, 30]], dtype=np.float32))
    expected, numbers = stock._gen_proposal(
        scores, deltas, stock.anchor_generator(scores), {"im_shape": im_shape}
    )
    for data_format in ("NCHW", "NHWC"):
        ours = PerfRPNHead(
            anchor_generator=anchors, train_proposal=dict(rule), in_channel=1, data_format=data_format
        )
        inputs = [scores, deltas]
        if data_format == "NHWC":
            inputs = [[one.transpose([0, 2, 3, 1]) for one in part] for part in inputs]
        rows = flat_logits(*inputs, im_shape)
        grid, generator = ours.grid(inputs[0]), ours.train_proposal
        for made in (
            propose_on_host(rows, grid.layout, grid.anchors, generator),
            propose_on_device(rows, grid.layout, grid.positions, grid.anchor_tensor, generator),
        ):
            assert [one.shape[0] for one in made] == numbers.numpy().tolist()
            for one, other in zip(made, expected):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0, atol=2e-4)


def test_the_head_proposes_in_training_and_evaluation():
    paddle.seed(0)
    settings = {
        "anchor_generator": FPN,
        "in_channel": 8,
        "train_proposal": {"pre_nms_top_n": 100, "post_nms_top_n": 30, "topk_after_collect": True},
        "test_proposal": {"pre_nms_top_n": 50, "post_nms_top_n": 20},
    }
    stock, ours = RPNHead(**settings), PerfRPNHead(**settings)
    assert list(stock.state_dict()) == list(ours.state_dict())
    ours.set_state_dict(stock.state_dict())
    rng = np.random.default_rng(1)
    feats = [
        paddle.to_tensor((rng.standard_normal((2, 8, 96 // s, 128 // s)) * 30).astype(np.float32))
        for s in FPN["strides"]
    ]
    inputs = {"im_shape": paddle.to_tensor([[96.0, 128.0], [96.0, 120.0]])}
    for head in (stock, ours):
        head.eval()
    expected, made = stock(feats, inputs), ours(feats, inputs)
    assert made[1].numpy().tolist() == expected[1].numpy().tolist()
    assert made[2] is None
    for one, other in zip(made[0], expected[0]):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0, atol=2e-4)


def test_adaptive_suppression_is_left_to_stock():
    paddle.seed(0)
    settings = {"anchor_generator": C4, "in_channel": 4, "test_proposal": {"eta": 0.9, "nms_thresh": 0.7}}
    stock, ours = RPNHead(**settings), PerfRPNHead(**settings)
    ours.set_state_dict(stock.state_dict())
    feats = [paddle.rand([1, 4, 6, 8]) * 20]
    inputs = {"im_shape": paddle.to_tensor([[96.0, 128.0]])}
    for head in (stock, ours):
        head.eval()
    np.testing.assert_array_equal(ours(feats, inputs)[0][0].numpy(), stock(feats, inputs)[0][0].numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_are_float32_and_end_with_the_image_size(dtype):
    """Under AMP the maps are half precision, in which 2049 pixels cannot be told from 2048."""
    maps_ = [paddle.full([2, n, 2, 3], n / 4, dtype=dtype) for n in (1, 4)]
    rows = flat_logits(maps_[:1], maps_[1:], paddle.to_tensor([[2049.0, 1333.0], [5.0, 7.0]]))
    assert rows.dtype == paddle.float32
    assert rows.numpy()[0].tolist() == [0.25] * 6 + [1.0] * 24 + [2049.0, 1333.0]
