"""AMP O2 and O3 follow O0, and each of the two repairs is needed."""

from __future__ import annotations

import numpy as np
import pytest

from detperf_plugins.mindocr import activate, amp
from detperf_plugins.mindocr.overlay_bench import MODELS

# Smaller pictures leave batch norm a handful of numbers a channel, and their rounding grows step by step.
STEPS, SIZE, NECK = 20, 96, 64
BACKBONES = {name: MODELS[f"dbnet_{name}"]["backbone"] for name in ("r18", "mobilenetv3")}


@pytest.fixture(scope="module", autouse=True)
def activated():
    activate()
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O2"})
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture()
def stock_neck():
    """DBFPN as MindOCR has it, and put back as it was found."""
    from mindocr.models.necks.fpn import DBFPN

    from detperf_plugins.mindocr import mended_graphs

    found = DBFPN.construct
    DBFPN.construct = STOCK_NECK if found is mended_graphs.neck else found
    yield DBFPN
    DBFPN.construct = found


activate()
from mindocr.models.necks.fpn import DBFPN as _DBFPN  # noqa: E402

STOCK_NECK = _DBFPN.construct


def losses(backbone: str, plus: bool, level: str, head: str = "DBHead", steps: int = STEPS) -> np.ndarray:
    """Training losses on pictures with one bright, growing word; weights and pictures by seed."""
    import mindspore as ms
    from mindocr.losses import build_loss
    from mindocr.models import build_model
    from mindocr.optim import create_group_params, create_optimizer
    from mindocr.utils.model_wrapper import NetWithLossWrapper
    from mindocr.utils.train_step_wrapper import TrainOneStepWrapper
    from mindspore import nn

    ms.set_seed(1)
    np.random.seed(1)
    network = build_model(
        {
            "type": "det",
            "transform": None,
            "backbone": dict(BACKBONES[backbone]),
            "neck": {"name": "DBFPN", "out_channels": NECK, "bias": False, "use_asf": plus},
            "head": {"name": head, "k": 50, "bias": False, "adaptive": True},
        },
        ckpt_load_path=None,
        amp_level=level,
    )
    loss = build_loss("DBLoss", eps=1e-6, l1_scale=10, bce_scale=5, bce_replace="bceloss")
    whole = NetWithLossWrapper(
        network, loss, input_indices=[0], label_indices=[1, 2, 3, 4], pred_cast_fp32=level != "O0"
    )
    settings = {"opt": "SGD", "momentum": 0.9, "weight_decay": 1e-4}
    optimizer = create_optimizer(
        create_group_params(network.trainable_params(), **settings), lr=0.007, **settings
    )
    scale = nn.FixedLossScaleUpdateCell(512.0 if level != "O0" else 1.0)
    step = TrainOneStepWrapper(whole, optimizer=optimizer, scale_sense=scale, clip_grad=True)
    step.set_train(True)
    rng = np.random.default_rng(0)
    made = []
    for index in range(steps):
        picture = rng.normal(size=(2, 3, SIZE, SIZE)).astype(np.float32)
        binary, inner = np.zeros((2, 1, SIZE, SIZE), np.float32), (slice(20, 40), slice(10, 30 + index))
        binary[:, :, inner[0], inner[1]] = 1
        picture[:, :, inner[0], inner[1]] += 2
        thresh, border = np.full((2, SIZE, SIZE), 0.3, np.float32), np.zeros((2, SIZE, SIZE), np.float32)
        thresh[:, 16:44, 6:54] = 0.5
        border[:, 16:44, 6:54] = 1
        batch = (picture, binary, np.ones((2, SIZE, SIZE), np.float32), thresh, border)
        made.append(float(step(*[ms.Tensor(array) for array in batch])[0].asnumpy()))
    return np.array(made)


@pytest.mark.slow
@pytest.mark.parametrize("plus", [False, True], ids=["dbnet", "dbnet++"])
@pytest.mark.parametrize("backbone", sorted(BACKBONES))
def test_o2_follows_o0_for_twenty_steps(backbone, plus):
    full, half = losses(backbone, plus, "O0"), losses(backbone, plus, "O2")
    assert np.isfinite(half).all()
    assert not np.array_equal(full, half), "O2 changed nothing: it was not applied"
    np.testing.assert_allclose(half, full, rtol=0.03)
    assert half[-1] < half[0]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "head"), [("O3", "DBHead"), ("O2", "DBHeadEnhance")])
def test_o3_and_the_enhanced_head_follow_too(level, head):
    full, half = losses("r18", False, "O0", head, 6), losses("r18", False, level, head, 6)
    np.testing.assert_allclose(half, full, rtol=0.03)


def test_without_the_neck_repair_o2_does_not_compile(stock_neck, monkeypatch, tmp_path):
    assert amp.neck_needs_list(stock_neck)
    monkeypatch.setattr(amp, "mend_neck", lambda: False)
    monkeypatch.chdir(tmp_path)  # MindSpore writes analyze_fail.ir
    # MindSpore 2.10 says it in other words.
    with pytest.raises((TypeError, ValueError), match=r"not NoneType|[Oo]nly one element"):
        losses("r18", False, "O2", steps=1)


def test_without_the_head_repair_o2_trains_to_nan(monkeypatch):
    monkeypatch.setattr(amp, "mend_head", lambda network: 0)
    assert not np.isfinite(losses("r18", False, "O2", steps=3)).all()


def test_repairs_are_made_only_where_they_are_needed(stock_neck):
    assert amp.mend_network(object(), "O0") == []
    assert amp.mend_neck()
    assert not amp.neck_needs_list(stock_neck)
    assert not amp.mend_neck()


def test_a_head_in_float32_is_left_alone():
    import mindspore as ms
    from mindocr.models.heads.det_db_head import DBHead

    head = DBHead(16)
    assert amp.head_needs_float32(head.to_float(ms.float16))
    assert amp.mend_head(head) == 3
    assert not amp.head_needs_float32(head) and amp.mend_head(head) == 0
