"""AMP without a GPU: settings reach Paddle through stock's Trainer, each part has the dtype that is planned.

Casting is forced on the CPU by tests/paddledet/forced_cast.py, which follows Paddle's rules of each operator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paddle
import pytest
import yaml

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet import amp
from detperf_plugins.paddledet.amp import as_float32, check_amp, notices
from tests.paddledet.scripts import OVERLAYS, run, tiny_config

ROOT = Path(__file__).resolve().parent.parent.parent
HALF = ["float16", "bfloat16"]


def listed(overlay: str, key: str) -> list[str]:
    text = (OVERLAYS / overlay).read_text(encoding="utf-8")
    return (yaml.load(text, Loader=yaml.BaseLoader) or {}).get(key)


@pytest.fixture(scope="module")
def trained(shapes, tmp_path_factory) -> dict[str, dict]:
    """Both levels, by two steps each of the tiny model, as tools/train.py without --amp would train it."""
    folder = tmp_path_factory.mktemp("amp")
    chains = {
        "O1": ["mask_rcnn_r50_nhwc_amp.yml"],
        "O2": ["mask_rcnn_r50_amp_o2.yml", "mask_rcnn_r50_nhwc.yml"],
    }
    configs = {
        level: tiny_config(folder / level, shapes, *[OVERLAYS / one for one in chain])
        for level, chain in chains.items()
    }
    script = str(Path(__file__).with_name("amp_script.py"))
    output = run([sys.executable, script, *map(str, configs.values())], env={"PYTHONPATH": str(ROOT)})
    lines = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    found = {Path(line["path"]).parent.name: line for line in lines}
    for level in chains:
        assert "error" not in found[level], found[level]["error"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_settings_reach_paddle(trained, level):
    """The overlay's lists, its level, its loss scaling; AMP is on although the script's flag said off."""
    result, overlay = trained[level], f"mask_rcnn_r50_amp_{level.lower()}.yml"
    assert (result["lost"], result["amp"]) == (False, True)
    asked = {
        "white": listed(overlay, "custom_white_list"),
        "black": listed(overlay, "custom_black_list"),
        "level": level,
    }
    assert result["calls"] == [asked, asked]
    assert result["scaling"] == [True, 1024]
    assert result.get("decorate") == ({"level": "O2", "master_grad": True} if level == "O2" else None)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_losses_gradients_and_boxes(trained, level):
    result = trained[level]
    assert result["loss dtypes"] == ["float32"] and result["finite"]
    assert all(np.isfinite(list(step.values())).all() for step in result["losses"])
    assert result["gradients"] == [result["trained"]] * 2
    assert result["rounded"] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_black_listed_operators_run_in_float32_alone(trained, level):
    result = trained[level]
    black = [name for name in result["calls"][0]["black"] if name in result["ran"]]
    assert len(black) >= (2 if level == "O1" else 6)
    assert {name: result["ran"][name] for name in black} == {name: ["float32"] for name in black}
    for name in ("conv2d", "matmul_v2", "conv2d_transpose"):
        assert result["ran"][name] == ["float16"]


@pytest.mark.slow
def test_planned_dtypes(trained):
    """What docs/amp.md says of each part. At O1 a float32 bias takes what it is added to to float32."""
    half, full = ["float16"], ["float32"]
    parts = {
        "backbone": (half, half), "neck": (full, half), "rpn_head.rpn_rois_score": (full, half),
        "rpn_head": (full, full), "bbox_head.roi_extractor": (full, full), "bbox_head.head": (full, half),
        "bbox_head.bbox_score": (full, half), "bbox_head.bbox_delta": (full, half),
        # Losses, and the RoI features that C4 shares with the mask head.
        "bbox_head": (full, ["float16", "float32"]),
        "mask_head.roi_extractor": (full, full), "mask_head.head": (full, half),
        "mask_head.mask_fcn_logits": (full, half), "mask_head": (full, full),
    }  # fmt: skip
    for index, level in enumerate(("O1", "O2")):
        assert trained[level]["seen"] == {name: dtypes[index] for name, dtypes in parts.items()}


def test_only_half_precision_is_converted():
    for name in HALF:
        assert as_float32(paddle.ones([2]).astype(name)).dtype == paddle.float32
    for name in ("float32", "float64", "int32"):
        value = paddle.ones([2]).astype(name)
        assert as_float32(value) is value


def logits(shape: list[int], dtype: str) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Half-precision logits as AMP gives them, and the same values in float32."""
    values = paddle.to_tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 9)
    half = values.astype(dtype)
    same = half.astype("float32")
    half.stop_gradient = same.stop_gradient = False
    return half, same


@pytest.mark.parametrize(
    ("part", "dtype"),
    [(part, dtype) for part in ("bbox", "bbox of another loss", "cascade boxes") for dtype in HALF]
    + [("rpn", "float16"), ("mask", "bfloat16")],  # the CPU lacks a kernel of the other type
)
def test_half_precision_logits_count_as_their_values(activated, part, dtype):
    """With no auto_cast to help: the results are exactly those of the same values in float32."""
    shapes = {"rpn": [[2, 3, 4, 5], [2, 12, 4, 5]], "mask": [[6, 7, 14, 14]]}.get(part, [[24, 8], [24, 28]])
    given = [logits(shape, dtype) for shape in shapes]
    results = []
    for values in zip(*given):
        outputs = RUN[part.split(" of ")[0]](values, part.endswith("loss"))
        assert all(one.dtype == paddle.float32 and np.isfinite(one.numpy()).all() for one in outputs)
        results.append([one.numpy() for one in outputs])
        if part != "cascade boxes":
            paddle.add_n([one.sum() for one in outputs]).backward()
            assert all(np.isfinite(one.grad.astype("float32").numpy()).all() for one in values)
    for ours, expected in zip(*results):
        np.testing.assert_array_equal(ours, expected)


def run_rpn(values: Sequence[paddle.Tensor], _: bool) -> list[paddle.Tensor]:
    from ppdet.modeling.proposal_generator.anchor_generator import AnchorGenerator

    from detperf_plugins.paddledet.anchors import AnchorSettings
    from detperf_plugins.paddledet.proposals import LogitLayout, flat_logits
    from detperf_plugins.paddledet.rpn_head import rpn_losses
    from detperf_plugins.paddledet.rpn_targets import RPNSample

    settings = AnchorSettings.of(
        AnchorGenerator(anchor_sizes=[[32]], aspect_ratios=[0.5, 1.0, 2.0], strides=[16])
    )
    layout = LogitLayout.of(settings, ((4, 5),), False)
    flat = flat_logits([values[0]], [values[1]], paddle.full([2, 2], 600.0))
    sample = RPNSample(
        paddle.to_tensor([[3, 17, 40], [0, 59, 8]], dtype="int32"),
        paddle.to_tensor([[1, 0, 0], [1, 0, -1]], dtype="int32"),
        paddle.full([2, 1, 4], 0.37),
    )
    return list(rpn_losses(flat, paddle.to_tensor(layout.positions()), sample, 6).values())


def boxes(count: int) -> paddle.Tensor:
    start = np.random.default_rng(1).uniform(1024, 1300, (count, 2))
    return paddle.to_tensor(np.concatenate([start, start + 20.3], axis=1).astype(np.float32))


def run_bbox(values: Sequence[paddle.Tensor], other_loss: bool) -> list[paddle.Tensor]:
    from ppdet.modeling.losses.smooth_l1_loss import SmoothL1Loss

    from tests.paddledet.test_heads import bbox_heads

    _, head = bbox_heads(bbox_loss=SmoothL1Loss() if other_loss else None)
    labels = paddle.to_tensor(np.arange(24) % 8, dtype="int32")
    targets = ([labels], [boxes(24) + 1.7], [])
    return list(head.get_loss(*values, targets, [boxes(24)], head.bbox_weight).values())


def run_mask(values: Sequence[paddle.Tensor], _: bool) -> list[paddle.Tensor]:
    from ppdet.modeling.heads.mask_head import MaskFeat

    from detperf_plugins.paddledet.mask_head import PerfMaskHead

    head = PerfMaskHead(MaskFeat(4, 8, 1), {"resolution": 7, "spatial_scale": [0.25]}, None, num_classes=7)
    label = paddle.to_tensor(np.arange(6) % 7, dtype="int32")
    return [head.get_loss(values[0], label, paddle.ones([6, 14, 14], dtype="int32"), paddle.ones([6]))]


def run_cascade(values: Sequence[paddle.Tensor], _: bool) -> list[paddle.Tensor]:
    from ppdet.modeling.heads.cascade_head import CascadeTwoFCHead

    from detperf_plugins.paddledet.bbox_head import PerfCascadeHead

    head = PerfCascadeHead(
        CascadeTwoFCHead(4, 8, 7), 8, {"resolution": 7, "spatial_scale": [0.25]}, None, num_classes=7
    )
    return head._get_pred_bbox(values[0][:, :4], [boxes(16), boxes(8)], head.bbox_weight[0])


RUN = {"rpn": run_rpn, "bbox": run_bbox, "mask": run_mask, "cascade boxes": run_cascade}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"amp_level": "O3"}, "amp_level must be O1 or O2, got 'O3'"),
        ({"custom_black_list": "roi_align"}, "must be a list of operator names such as"),
        ({"custom_white_list": [1]}, "custom_white_list must be a list of operator names"),
        ({"custom_white_list": ["exp", "conv2d"], "custom_black_list": ["exp"]}, "exp: both in"),
    ],
)
def test_mistaken_settings_are_refused(settings, sentence):
    with pytest.raises(DetperfError, match=sentence):
        check_amp({"amp": True, **settings})
    check_amp({"amp": False, **settings})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"amp": True, "use_gpu": True, "data_format": "NHWC"}, []),
        ({"amp": True}, ["AMP does nothing on a CPU"]),
        ({"amp": True, "use_xpu": True}, ["AMP does nothing on an XPU"]),
        ({"data_format": "NHWC", "use_gpu": True}, ["NHWC without AMP is slower"]),
        ({"data_format": "NHWC", "amp": True}, ["AMP does nothing", "NHWC without AMP"]),
        ({"data_format": "NCHW"}, []),
    ],
)
def test_notices(settings, words):
    found = notices(settings)
    assert len(found) == len(words) and all(word in one for word, one in zip(words, found))


def test_a_config_is_told_once(monkeypatch, caplog, activated):
    """By stock's Trainer: whoever builds one, and however often."""
    from ppdet.engine import Trainer

    monkeypatch.setattr(amp, "_said", set())
    for _ in range(2):
        with pytest.raises(KeyError):
            Trainer(_Config(amp=True, data_format="NHWC"))
    assert [record.message[:20] for record in caplog.records] == [
        "AMP does nothing on ",
        "data_format: NHWC wi",
    ]


class _Config(dict):
    """Stops the trainer where it first reads it."""

    def copy(self) -> dict:
        raise KeyError("no data set")


def test_the_trainer_is_put_back():
    from ppdet.engine import trainer

    from detperf_plugins.paddledet import activate, deactivate

    before = trainer.Trainer.__init__
    activate()
    assert trainer.Trainer.__init__ is not before
    deactivate()
    assert trainer.Trainer.__init__ is before


def test_to_static_is_refused_with_a_sentence(activated):
    from detperf_plugins.paddledet.trainer_guard import _refuse_to_static
    from tests.paddledet.test_heads import bbox_heads

    stock, ours = bbox_heads()
    _refuse_to_static(paddle.nn.Sequential(stock))
    with pytest.raises(
        DetperfError, match="to_static cannot trace PerfBBoxHead, _FiniteRoIAlign: train without"
    ):
        _refuse_to_static(paddle.nn.Sequential(ours))
