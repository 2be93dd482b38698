"""Each part in NHWC against stock in NCHW, on the same weights: to the bit where Paddle's kernels are."""

from __future__ import annotations

import copy
import gc

import numpy as np
import paddle
import pytest
from paddle import nn
from ppdet.core.workspace import create, global_config
from ppdet.modeling.backbones.resnet import Res5Head, ResNet
from ppdet.modeling.heads.bbox_head import BBoxHead, TwoFCHead, XConvNormHead
from ppdet.modeling.heads.mask_head import MaskFeat, MaskHead
from ppdet.modeling.heads.roi_extractor import RoIAlign
from ppdet.modeling.necks.fpn import FPN
from ppdet.modeling.proposal_generator.rpn_head import RPNHead
from ppdet.modeling.proposal_generator.target_layer import BBoxAssigner

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.counters import operators
from detperf_plugins.paddledet import activate, roi_align
from detperf_plugins.paddledet.bbox_head import PerfBBoxHead
from detperf_plugins.paddledet.bbox_targets import PerfBBoxAssigner
from detperf_plugins.paddledet.channels_last import set_channels_last
from detperf_plugins.paddledet.fpn import PerfFPN
from detperf_plugins.paddledet.mask_head import PerfMaskHead
from detperf_plugins.paddledet.resnet import PerfRes5Head, PerfResNet
from detperf_plugins.paddledet.rpn_head import PerfRPNHead
from tests.paddledet.boxes import CLASSES, batch_inputs
from tests.paddledet.layouts import given, largest_difference, random_state, run

pytestmark = pytest.mark.usefixtures("activated")

SMALL = {"num_stages": 2, "return_idx": [0, 1]}
RESNETS = {
    "18 a": {"depth": 18, "variant": "a", **SMALL},
    "18 d": {"depth": 18, "variant": "d", "freeze_at": -1, "num_stages": 3, "return_idx": [2]},
    "18 d with squeeze and excitation": {"depth": 18, "variant": "d", "std_senet": True, **SMALL},
    "50 c": {"depth": 50, "variant": "c", "freeze_at": -1, **SMALL},
    "50 d": {"depth": 50, "variant": "d", "lr_mult_list": [0.05, 0.05, 0.1, 0.15], **SMALL},
    "ResNeXt": {"depth": 50, "groups": 32, "base_width": 4, "freeze_at": -1, **SMALL},
}


@pytest.fixture()
def float64():
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


def same_weights(stock: nn.Layer, ours: nn.Layer, dtype: str = "float32") -> None:
    assert list(stock.state_dict()) == list(ours.state_dict())
    assert [p.name.split("_")[0] for p in stock.parameters()] == [
        p.name.split("_")[0] for p in ours.parameters()
    ]
    state = random_state(stock, dtype=dtype)
    for layer in (stock, ours):
        layer.set_state_dict(state)


def images(batch: int, height: int, width: int, channels: int = 3, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(batch)
    return rng.standard_normal((batch, channels, height, width)).astype(dtype)


def backbone(layer, inputs):
    return layer({"image": inputs[0]})


def neck(layer, inputs):
    return layer(given(layer, inputs))


def head(layer, inputs):
    return [layer(given(layer, inputs)[0])]


@pytest.mark.parametrize("name", RESNETS)
def test_resnet_with_frozen_norms_to_the_bit(name):
    stock, ours = ResNet(**RESNETS[name]), PerfResNet(**RESNETS[name], data_format="NHWC")
    same_weights(stock, ours)
    for batch, height, width in ((1, 45, 37), (3, 33, 64)):
        values = [images(batch, height, width)]
        assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) == 0


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["18 d with squeeze and excitation", "50 d"])
def test_resnet_with_trainable_norms(name, data_format, float64):
    settings = {**RESNETS[name], "freeze_norm": False, "freeze_at": -1}
    stock, ours = ResNet(**settings), PerfResNet(**settings, data_format=data_format)
    same_weights(stock, ours, "float64")
    values = [images(3, 45, 37, dtype="float64")]
    tolerance = 1e-10 if data_format == "NHWC" else 0
    assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) <= tolerance
    # Running statistics as well.
    for one, other in zip(ours.state_dict().values(), stock.state_dict().values()):
        assert np.abs(one.numpy() - other.numpy()).max() <= tolerance


def one_block(head: Res5Head) -> Res5Head:
    """Without its second and third block, for the time they take."""
    for name in list(head.res5._sub_layers)[1:]:
        del head.res5._sub_layers[name]
    del head.res5.blocks[1:]
    return head


@pytest.mark.parametrize("depth", [18, 50])
def test_res5_head_to_the_bit(depth):
    stock, ours = one_block(Res5Head(depth)), one_block(PerfRes5Head(depth, data_format="NHWC"))
    same_weights(stock, ours)
    values = [images(2, 7, 5, channels=256 if depth < 50 else 1024)]
    assert largest_difference(run(ours, values, head), run(stock, values, head)) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_type": "gn", "out_channel": 32},
        {"norm_type": "bn", "freeze_norm": True},
        {"has_extra_convs": True, "extra_stage": 2, "use_c5": True},
        {"has_extra_convs": True, "extra_stage": 3, "use_c5": False, "relu_before_extra_convs": True},
        {"has_extra_convs": True, "extra_stage": 2, "use_c5": False, "relu_before_extra_convs": False},
        {"extra_stage": 0},
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_fpn_to_the_bit(settings, batch):
    channels = [8, 12, 16, 24]
    settings = {"in_channels": channels, "out_channel": 8, **settings}
    stock, ours = FPN(**settings), PerfFPN(**settings, data_format="NHWC")
    same_weights(stock, ours)
    values = [images(batch, 24 >> level, 40 >> level, count) for level, count in enumerate(channels)]
    # Norms that train (this one is frozen by its learning rate alone) sum in another order.
    tolerance = 1e-5 if settings.get("norm_type") == "bn" else 0
    assert largest_difference(run(ours, values, neck), run(stock, values, neck)) <= tolerance


LEVELS = {"spatial_scale": [0.25, 0.125, 0.0625], "end_level": 2, "resolution": 4, "aligned": True}
RPN = {
    "anchor_generator": {"anchor_sizes": [[16], [32], [64]], "strides": [4, 8, 16]},
    "rpn_target_assign": {"use_random": False, "batch_size_per_im": 32},
    "train_proposal": {"pre_nms_top_n": 50, "post_nms_top_n": 20, "topk_after_collect": True},
    "test_proposal": {"pre_nms_top_n": 40, "post_nms_top_n": 15},
    "in_channel": 8,
}
ASSIGN = {"batch_size_per_im": 6, "use_random": False, "num_classes": CLASSES}


def pyramid(batch: int, levels: int, channels: int = 8) -> list[np.ndarray]:
    return [images(batch, 24 >> level, 32 >> level, channels) for level in range(levels)]


def bbox_call(training: bool):
    inputs, stock_inputs = batch_inputs(np.random.default_rng(0), ["plain", "many", "one"], 96, 128)
    start = np.random.default_rng(1).uniform(0, 60, (3, 5, 2))
    boxes = np.concatenate([start, start + 4 + start[:, ::-1, ::-1]], axis=2).astype("float32")

    def call(layer, values):
        layer.train() if training else layer.eval()
        rois = [paddle.to_tensor(one) for one in boxes]
        number = paddle.to_tensor([5, 5, 5], dtype="int32")
        first, second = layer(
            given(layer, values), rois, number, inputs if type(layer) is PerfBBoxHead else stock_inputs
        )
        if not training:
            return first
        shared = [second] if layer.with_pool else []
        return [*(value.reshape([1]) for value in first.values()), *shared]

    return call


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["TwoFCHead", "XConvNormHead", "Res5Head"])
def test_bbox_head(kind, training):
    """Losses are sums in another order than stock's; everything else is equal."""
    settings, channels, levels = {}, 8, 3
    make = {
        "TwoFCHead": lambda: TwoFCHead(8, 16, 4),
        "XConvNormHead": lambda: XConvNormHead(8, 1, 32, 16, 4),
        "Res5Head": lambda: one_block(Res5Head(18)),
    }[kind]
    if kind == "Res5Head":
        settings, channels, levels = {"with_pool": True}, 256, 1
    extractor = {**LEVELS, "spatial_scale": LEVELS["spatial_scale"][:levels], "end_level": levels - 1}
    heads = [
        cls(make(), 512 if kind == "Res5Head" else 16, dict(extractor), assigner(**ASSIGN),
            num_classes=CLASSES, **settings, **more)
        for cls, assigner, more in (
            (BBoxHead, BBoxAssigner, {}), (PerfBBoxHead, PerfBBoxAssigner, {"data_format": "NHWC"}))
    ]  # fmt: skip
    same_weights(*heads)
    values = pyramid(3, levels, channels)
    stock, ours = (run(one, values, bbox_call(training)) for one in heads)
    assert largest_difference(ours, stock) <= (1e-5 if training else 0)


class FixedMasks:
    """A mask assigner that always gives the same RoIs, as rows of those of the box head."""

    def __init__(self, rois: np.ndarray, index: np.ndarray) -> None:
        rng = np.random.default_rng(5)
        self.rois, self.index = [paddle.to_tensor(rois)], paddle.to_tensor(index)
        self.classes = paddle.to_tensor(rng.integers(0, CLASSES, len(rois)).astype("int32"))
        self.masks = paddle.to_tensor(rng.integers(0, 2, (len(rois), 8, 8)).astype("int32"))

    def __call__(self, *args):
        count = len(self.index)
        return (
            self.rois, paddle.to_tensor([count], dtype="int32"), self.classes, self.masks, self.index,
            paddle.ones([count]),
        )  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["levels", "group norm", "shared"])
def test_mask_head(kind, training):
    """Paddle's transposed convolution rounds otherwise in NHWC, 6e-8; the mask loss is one mean."""
    shared = kind == "shared"
    feature = (
        MaskFeat(8, 32, 2, norm_type="gn") if kind == "group norm" else MaskFeat(8, 16, 0 if shared else 2)
    )
    rng = np.random.default_rng(2)
    start = rng.uniform(0, 50, (7, 2))
    rois = np.concatenate([start, start + rng.uniform(5, 60, (7, 2))], axis=1).astype("float32")
    predicted = np.concatenate([rng.integers(0, CLASSES, (7, 1)), rng.random((7, 1)), rois], axis=1)
    index = np.array([4, 0, 3, 3, 1, 6, 2])
    assigner = FixedMasks(rois, index)
    heads = [
        cls(
            copy.deepcopy(feature),
            dict(LEVELS),
            assigner,
            num_classes=CLASSES,
            share_bbox_feat=shared,
            **more,
        )
        for cls, more in ((MaskHead, {}), (PerfMaskHead, {"data_format": "NHWC"}))
    ]
    same_weights(*heads)

    def call(layer, values):
        layer.train() if training else layer.eval()
        levels = given(layer, values)
        if training:
            bbox_feat = given(layer, [values[-1]])[0] if shared else None
            return [layer(levels, None, None, {}, (None, None, None), bbox_feat)["loss_mask"].reshape([1])]
        boxes = paddle.to_tensor(predicted.astype("float32"))
        number = paddle.to_tensor([7], dtype="int32")
        same = lambda rois_feat: rois_feat * 2  # noqa: E731
        return [layer(levels, boxes, number, {"scale_factor": None}, feat_func=same)]

    values = [*pyramid(1, 3), images(7, 4, 4, 8)]
    stock, ours = (run(one, values, call) for one in heads)
    assert largest_difference(ours, stock) <= 1e-5


@pytest.mark.parametrize("training", [True, False])
def test_rpn_head_where_it_runs_as_stock(training):
    """Adaptive suppression: stock's code, on transposed logits."""
    settings = {**RPN, f"{'train' if training else 'test'}_proposal": {"eta": 0.9, "post_nms_top_n": 20}}
    stock, ours = RPNHead(**settings), PerfRPNHead(**settings, data_format="NHWC")
    same_weights(stock, ours)
    inputs, stock_inputs = batch_inputs(np.random.default_rng(0), ["plain", "many"], 96, 128)
    kept = {}

    def call(layer, values):
        layer.train() if training else layer.eval()
        rois, number, losses = layer(given(layer, values), inputs if layer is ours else stock_inputs)
        kept[layer is ours] = [one.numpy() for one in [*rois, number]]
        return (
            [one.reshape([1]) for one in losses.values()]
            if training
            else layer.rpn_feat(given(layer, values))
        )

    assert largest_difference(run(ours, pyramid(2, 3), call), run(stock, pyramid(2, 3), call)) == 0
    for one, other in zip(kept[True], kept[False]):
        assert (one == other).all()


def test_features_are_transposed_once_for_all_heads_and_then_forgotten():
    extractors = [
        roi_align.ChannelsLastRoIAlign(RoIAlign(**LEVELS), channels_last_output=last)
        for last in (False, True)
    ]
    levels = [paddle.to_tensor(one.transpose(0, 2, 3, 1), stop_gradient=False) for one in pyramid(2, 4)]
    # One for each level, by its size: Paddle 2.6 leads no gradient back to a level without RoIs.
    rois = [paddle.to_tensor([[1.0, 2, 40, 50], [0, 0, 120, 120]]), paddle.to_tensor([[0.0, 0, 250, 250]])]
    number = paddle.to_tensor([2, 1], dtype="int32")
    with paddle.no_grad():
        first = extractors[0](levels, rois, number)
    with operators() as found:
        results = [extractor(levels, rois, number) for extractor in (*extractors, *extractors)]
    # Three of the four levels, once more since gradients are now tracked, and RoI features for convolutions.
    assert found["transpose"] + found["transpose2"] == 3 + 2
    assert (first == results[0]).all()
    assert (results[1] == results[0].transpose([0, 2, 3, 1])).all()
    paddle.add_n([one.sum() for one in results]).backward()
    assert [level.grad is not None for level in levels] == [True, True, True, False]
    assert len(roi_align._transposed._kept) == 3
    del levels
    gc.collect()
    assert not roi_align._transposed._kept


MODEL = {
    "architecture": "FasterRCNN",
    "FasterRCNN": {
        "backbone": "ResNet",
        "neck": "FPN",
        "rpn_head": "RPNHead",
        "bbox_head": "BBoxHead",
        "bbox_post_process": None,
    },
}


@pytest.fixture()
def config():
    """ppdet's global config, and what a test puts there taken out again."""
    before = {
        name: dict(value) if isinstance(value, dict) else value for name, value in global_config.items()
    }
    yield global_config
    for name in list(global_config):
        if name not in before:
            del global_config[name]
        elif isinstance(before[name], dict) and isinstance(global_config[name], dict):
            dict.clear(global_config[name])
            dict.update(global_config[name], before[name])
        else:
            global_config[name] = before[name]


def test_one_key_reaches_every_part(config):
    activate(replace=True)
    config.update(data_format="NHWC", fold_frozen_norm=True, architecture="FasterRCNN")
    config["FasterRCNN"].update(MODEL["FasterRCNN"])
    config["ResNet"].update(depth=18, variant="d", freeze_at=-1, **SMALL)
    config["FPN"].update(out_channel=8)
    config["TwoFCHead"].update(out_channel=8)
    config["BBoxHead"].update(head="TwoFCHead", bbox_assigner="BBoxAssigner", roi_extractor={"resolution": 4})
    model = create("FasterRCNN")
    assert model.backbone.depth == 18 and model.backbone.variant == "d"
    for part in (model.backbone, model.neck, model.rpn_head, model.bbox_head):
        assert type(part).__name__.startswith("Perf") and part.channels_last
    assert create("Res5Head").channels_last and create("PerfRes5Head").channels_last
    named = create("PerfResNet")
    assert named.channels_last and named.depth == 18 and not hasattr(named.conv1.conv1_1.norm, "fold")
    folded = [type(one).__name__ == "FoldedConvNorm" for one in named.sublayers() if hasattr(one, "norm")]
    assert all(folded) and len(folded) == 13
    config["PerfResNet"]["data_format"] = "NCHW"  # a part's own key wins
    assert not create("PerfResNet").channels_last


def test_without_the_key_everything_is_stock(config):
    """YOLO, RetinaNet and others build ResNet and FPN too."""
    activate(replace=True)
    settings = {"depth": 18, "freeze_norm": False, "dcn_v2_stages": [1], "variant": "d", **SMALL}
    config["ResNet"].update(settings)
    paddle.seed(3)
    ours = create("ResNet")
    paddle.seed(3)
    stock = ResNet(**settings)
    assert type(ours) is PerfResNet and isinstance(ours, ResNet) and not ours.channels_last
    for (name, one), (other_name, other) in zip(ours.state_dict().items(), stock.state_dict().items()):
        assert name == other_name and (one == other).all()
    values = [images(2, 64, 64)]
    assert largest_difference(run(ours, values, backbone), run(stock, values, backbone)) == 0
    layers = [[type(one) for one in model.sublayers()] for model in (ours, stock)]
    assert layers[0] == layers[1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"architecture": "RetinaNet"},
            "data_format: NHWC is for FasterRCNN, MaskRCNN, CascadeRCNN; RetinaNet",
        ),
        ({"FasterRCNN": {"backbone": "Res2Net"}}, "FasterRCNN.backbone is Res2Net, which has NCHW alone"),
        ({"FasterRCNN": {"neck": "BiFPN"}}, "FasterRCNN.neck is BiFPN"),
        ({"ResNet": {"dcn_v2_stages": [1, 2, 3]}}, "take out dcn_v2_stages or set data_format: NCHW"),
        ({"data_format": "NCWH"}, "data_format must be NCHW or NHWC, got 'NCWH'"),
    ],
)
def test_a_model_that_cannot_be_all_channels_last_is_refused(config, changes, sentence):
    activate(replace=True)
    for name, value in {**MODEL, "data_format": "NHWC"}.items():
        config[name].update(value) if isinstance(value, dict) else config.update({name: value})
    for name, value in changes.items():
        config[name].update(value) if isinstance(value, dict) else config.update({name: value})
    with pytest.raises(DetperfError, match=sentence.replace("(", r"\(")):
        create("ResNet")


def test_a_layer_of_unknown_layout_is_refused():
    class Own(nn.Layer):
        pass

    with pytest.raises(DetperfError, match=r"Sequential\.1 is a Own, whose layout is not known"):
        set_channels_last(nn.Sequential(nn.Conv2D(3, 4, 1), Own()))


def test_static_graph_and_copies(tmp_path):
    """What export does: a deep copy, then a static graph; folding leaves the graph to stock's layers."""
    settings = {"depth": 18, "variant": "d", "std_senet": True, "data_format": "NHWC", **SMALL}
    plain, folded = PerfResNet(**settings), PerfResNet(**settings, fold_frozen_norm=True)
    same_weights(plain, folded)
    value = {"image": paddle.to_tensor(images(2, 40, 56))}
    for layer in (plain, folded):
        layer.eval()
    expected, eager, copied = plain(value), folded(value), copy.deepcopy(folded)
    spec = [{"image": paddle.static.InputSpec([None, 3, None, None], name="image")}]
    paddle.jit.save(paddle.jit.to_static(copied, input_spec=spec, full_graph=True), str(tmp_path / "model"))
    exported = paddle.jit.load(str(tmp_path / "model"))(value["image"])
    again = copied(value)
    for one, static, live, third in zip(expected, exported, eager, again):
        assert (static == one).all()
        assert (live - one).abs().max() <= 1e-5 * one.abs().max()
        assert (third - one).abs().max() <= 1e-5 * one.abs().max()
