"""One key lays out a whole model, or the model is refused."""

from __future__ import annotations

import copy

import paddle
import pytest
from paddle import nn
from ppdet.core.workspace import create, global_config
from ppdet.modeling.backbones.resnet import ResNet

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet import activate
from detperf_plugins.paddledet.channels_last import set_channels_last
from detperf_plugins.paddledet.resnet import PerfResNet
from tests.paddledet.layouts import (
    SMALL,
    backbone,
    images,
    largest_difference,
    run,
    same_weights,
)

pytestmark = pytest.mark.usefixtures("activated")

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
