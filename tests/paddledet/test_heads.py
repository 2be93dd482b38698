"""Losses and gradients of the heads against stock's: equal up to the order of float32 sums."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from ppdet.modeling.heads.bbox_head import BBoxHead, TwoFCHead
from ppdet.modeling.heads.cascade_head import CascadeTwoFCHead
from ppdet.modeling.heads.mask_head import MaskFeat, MaskHead
from ppdet.modeling.losses.smooth_l1_loss import SmoothL1Loss
from ppdet.modeling.proposal_generator.rpn_head import RPNHead
from ppdet.modeling.proposal_generator.target_layer import RPNTargetAssign

from detperf_plugins.paddledet.bbox_head import PerfBBoxHead, PerfCascadeHead, bbox_losses
from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from detperf_plugins.paddledet.mask_head import PerfMaskHead
from detperf_plugins.paddledet.rpn_head import PerfRPNHead
from detperf_plugins.paddledet.rpn_targets import PerfRPNTargetAssign
from tests.paddledet.boxes import CLASSES, batch_inputs

pytestmark = pytest.mark.usefixtures("activated")

# float32 sums of some thousand terms in another order: a few units in the last place, 6e-8 each.
LOSS, GRADIENT = 2e-6, 1e-5
FPN = {"anchor_sizes": [[16], [32], [64]], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [4, 8, 16]}


def assert_close(ours: dict, stock: dict) -> None:
    assert ours.keys() == stock.keys()
    for name, value in stock.items():
        assert float(ours[name].sum()) == pytest.approx(float(value.sum()), rel=LOSS, abs=1e-9), name


def assert_gradients_close(ours: list, stock: list) -> None:
    for one, other in zip(ours, stock):
        assert one is not None
        assert other is not None
        scale = float(np.abs(other.numpy()).max())
        assert np.abs(one.numpy() - other.numpy()).max() <= GRADIENT * scale + 1e-12


@pytest.mark.parametrize(
    "kinds", [["plain", "crowd", "empty", "many"], ["empty", "empty"], ["all crowd", "one"]]
)
@pytest.mark.parametrize("loss", [None, SmoothL1Loss(beta=0.1)])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_rpn_head(kinds, loss, data_format):
    paddle.seed(0)
    rng = np.random.default_rng(0)
    settings = {
        "anchor_generator": FPN,
        "rpn_target_assign": {"use_random": False, "batch_size_per_im": 64, "ignore_thresh": 0.5},
        "train_proposal": {"pre_nms_top_n": 50, "post_nms_top_n": 20, "topk_after_collect": True},
        "in_channel": 8,
        "loss_rpn_bbox": loss,
    }
    stock, ours = RPNHead(**settings), PerfRPNHead(**settings, data_format=data_format)
    assert type(ours.rpn_target_assign) is PerfRPNTargetAssign
    ours.set_state_dict(stock.state_dict())
    inputs, stock_inputs = batch_inputs(rng, kinds, 96, 128)
    values = [
        (rng.standard_normal((len(kinds), 8, 96 // s, 128 // s)) * 20).astype(np.float32)
        for s in FPN["strides"]
    ]
    feats, stock_feats = (
        [paddle.to_tensor(value, stop_gradient=False) for value in values] for _ in range(2)
    )
    given = [one.transpose([0, 2, 3, 1]) for one in feats] if data_format == "NHWC" else feats
    _, _, expected = stock(stock_feats, stock_inputs)
    _, _, losses = ours(given, inputs)
    assert_close(losses, expected)
    paddle.add_n([one.sum() for one in expected.values()]).backward()
    paddle.add_n([one.sum() for one in losses.values()]).backward()
    if kinds != [
        "empty",
        "empty",
    ]:  # where stock has no foreground, its constant loss reaches no delta weight
        assert_gradients_close([p.grad for p in ours.parameters()], [p.grad for p in stock.parameters()])
    assert all(parameter.grad is not None for parameter in ours.parameters())
    assert_gradients_close([one.grad for one in feats], [one.grad for one in stock_feats])


def test_an_assigner_of_the_users_own_is_kept():
    class Own(RPNTargetAssign):
        pass

    head = PerfRPNHead(anchor_generator=FPN, rpn_target_assign=Own(use_random=False), in_channel=4)
    inputs, _ = batch_inputs(np.random.default_rng(0), ["one"], 96, 128, crowd=False)
    feats = [paddle.rand([1, 4, 96 // s, 128 // s]) for s in FPN["strides"]]
    assert type(head.rpn_target_assign) is Own
    assert set(head(feats, inputs)[2]) == {"loss_rpn_cls", "loss_rpn_reg"}


def bbox_heads(**settings) -> list[BBoxHead]:
    heads = [
        cls(
            TwoFCHead(4, 16, 7),
            16,
            {"resolution": 7, "spatial_scale": [0.25]},
            None,
            num_classes=CLASSES,
            **settings,
        )
        for cls in (BBoxHead, PerfBBoxHead)
    ]
    assert list(heads[0].state_dict()) == list(heads[1].state_dict())
    return heads


def sampled_rois(labels: list[np.ndarray]) -> tuple[list, tuple[list, list, list]]:
    rng = np.random.default_rng(0)
    rois, matched = [], []
    for label in labels:
        start = rng.uniform(0, 60, (len(label), 2))
        boxes = np.concatenate([start, start + rng.uniform(8, 60, start.shape)], axis=1).astype(np.float32)
        rois.append(paddle.to_tensor(boxes))
        matched.append(paddle.to_tensor(boxes + rng.uniform(-3, 3, boxes.shape).astype(np.float32)))
    return rois, ([paddle.to_tensor(one) for one in labels], matched, [])


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("loss", [None, SmoothL1Loss()])
def test_bbox_losses(normalize, agnostic, loss):
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, CLASSES + 1, n).astype(np.int32) for n in (40, 24)]
    rois, targets = sampled_rois(labels)
    stock, ours = bbox_heads(bbox_loss=loss)
    width = 4 if agnostic else 4 * CLASSES
    values = [rng.standard_normal((64, n)).astype(np.float32) for n in (CLASSES + 1, width)]
    pairs = [[paddle.to_tensor(value, stop_gradient=False) for value in values] for _ in range(2)]
    expected = stock.get_loss(*pairs[0], targets, rois, stock.bbox_weight, normalize)

    # Ours gets dead slots as well: 10 after the first image, 3 after the second.
    dead = [(10, 0), (3, 1)]
    padded_rois, padded = [], [[], [], []]
    for extra, image in dead:
        padded_rois.append(paddle.concat([rois[image], paddle.zeros([extra, 4])]))
        padded[0].append(paddle.concat([targets[0][image], paddle.full([extra], -1, dtype="int32")]))
        padded[1].append(paddle.concat([targets[1][image], paddle.rand([extra, 4])]))
    slots = np.concatenate([np.arange(40), np.full(10, 5), np.arange(40, 64), np.full(3, 6)])
    given = [paddle.gather(one, paddle.to_tensor(slots)) for one in pairs[1]]
    losses = ours.get_loss(*given, padded, padded_rois, ours.bbox_weight, normalize)
    assert_close(losses, expected)
    paddle.add_n(list(expected.values())).backward()
    paddle.add_n(list(losses.values())).backward()
    assert_gradients_close([one.grad for one in pairs[1]], [one.grad for one in pairs[0]])


@pytest.mark.parametrize("label", [CLASSES, -1])
@pytest.mark.parametrize("loss", [None, SmoothL1Loss()])
def test_a_step_without_foreground_reaches_every_parameter(label, loss):
    """Case b11: a rank whose branch gets no gradient stops a run on several cards."""
    inputs, _ = batch_inputs(np.random.default_rng(0), ["empty", "empty"], 96, 128)
    _, head = bbox_heads(bbox_loss=loss)
    head.bbox_assigner = PerfBBoxAssigner(
        num_classes=CLASSES, batch_size_per_im=8, bg_thresh=0.5 if label == CLASSES else 0.0
    )
    head.train()
    feats = [paddle.rand([2, 4, 24, 32])]
    rois = [paddle.to_tensor([[1.0, 1, 40, 40], [0, 0, 9, 9]]) for _ in range(2)]
    losses, _ = head(feats, rois, paddle.to_tensor([2, 2], dtype="int32"), inputs)
    assert all((one.numpy() == label).all() for one in head.get_assigned_targets()[0])
    assert float(losses["loss_bbox_reg"]) == 0
    assert (float(losses["loss_bbox_cls"]) == 0) == (label == -1)
    paddle.add_n(list(losses.values())).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert np.isfinite(parameter.grad.numpy()).all(), name


def test_dead_rois_without_size_give_no_nan():
    scores, deltas = (paddle.rand([3, n]) for n in (CLASSES + 1, 4 * CLASSES))
    for one in (scores, deltas):
        one.stop_gradient = False
    boxes = paddle.zeros([3, 4])
    losses = bbox_losses(
        scores, deltas, paddle.to_tensor([-1, -1, -1]), boxes, boxes, [10.0, 10.0, 5.0, 5.0], CLASSES
    )
    paddle.add_n(list(losses.values())).backward()
    assert [float(one) for one in losses.values()] == [0, 0]
    assert not scores.grad.numpy().any()
    assert not deltas.grad.numpy().any()


@pytest.mark.parametrize("cascade", [False, True])
def test_dead_slots_leave_gradients_finite(cascade):
    """Fewer RoIs than slots. On a CPU aligned RoIAlign gives NaN for a box without area; 0 * NaN is NaN."""
    inputs, _ = batch_inputs(np.random.default_rng(0), ["one", "one"], 96, 128)
    inner, head = (CascadeTwoFCHead, PerfCascadeHead) if cascade else (TwoFCHead, PerfBBoxHead)
    extractor = {"resolution": 7, "spatial_scale": [0.25], "aligned": True}
    head = head(inner(4, 16, 7), 16, extractor, None, num_classes=CLASSES)
    head.bbox_assigner = PerfBBoxAssigner(
        num_classes=CLASSES, batch_size_per_im=4, cascade_iou=[0.5, 0.6, 0.7]
    )
    head.train()
    rois = [
        paddle.to_tensor([[1.0, 1, 40, 40]]),
        paddle.to_tensor([[1.0, 1, 40, 40], [5, 5, 5, 9], [0, 0, 0, 0]]),
    ]
    losses, _ = head([paddle.rand([2, 4, 24, 32])], rois, paddle.to_tensor([1, 3], dtype="int32"), inputs)
    paddle.add_n([one.sum() for one in losses.values()]).backward()
    for name, parameter in head.named_parameters():
        assert np.isfinite(parameter.grad.numpy()).all(), name


@pytest.mark.parametrize("weights", ["ones", "some zero", "all zero"])
def test_mask_loss(weights):
    rng = np.random.default_rng(0)
    stock, ours = (
        cls(MaskFeat(4, 8, 1), {"resolution": 7, "spatial_scale": [0.25]}, None, num_classes=CLASSES)
        for cls in (MaskHead, PerfMaskHead)
    )
    assert list(stock.state_dict()) == list(ours.state_dict())
    logits = rng.standard_normal((9, CLASSES, 14, 14)).astype(np.float32)
    label = paddle.to_tensor(rng.integers(0, CLASSES, 9).astype(np.int32))
    target = paddle.to_tensor(rng.integers(0, 2, (9, 14, 14)).astype(np.int32))
    weight = {"ones": np.ones(9), "some zero": rng.integers(0, 2, 9), "all zero": np.zeros(9)}[weights]
    weight = paddle.to_tensor(weight.astype(np.float32))
    given = [paddle.to_tensor(logits, stop_gradient=False) for _ in range(2)]
    expected = stock.get_loss(given[0], label, target, weight)
    loss = ours.get_loss(given[1], label, target, weight)
    assert float(loss) == pytest.approx(float(expected), rel=LOSS)
    expected.backward()
    loss.backward()
    assert_gradients_close([given[1].grad], [given[0].grad])
