"""Tuning switched on by a config: what reaches Paddle, what is left off without a GPU, what is refused."""

from __future__ import annotations

import paddle
import pytest

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet import activate, deactivate
from detperf_plugins.paddledet.autotune import set_autotune
from detperf_plugins.paddledet.prefetch import set_prefetch

FLAG = "FLAGS_check_nan_inf"


@pytest.fixture()
def asked(monkeypatch) -> list:
    calls: list = []
    monkeypatch.setattr(paddle.incubate.autotune, "set_config", calls.append)
    return calls


def test_on_a_gpu_everything_reaches_paddle(monkeypatch, asked):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    kernel = {"enable": True, "tuning_range": [2, 30]}
    said = set_autotune({"kernel": kernel, "layout": {"enable": False}, "dataloader": {"enable": True}})
    # Paddle reads the loader's `enable` only beside its steps.
    assert asked == [
        {"kernel": kernel, "layout": {"enable": False}, "dataloader": {"tuning_steps": 500, "enable": True}}
    ]
    assert said == "autotune: kernel, dataloader"
    assert set_autotune() == "autotune: kernel"


def test_on_a_cpu_the_rest_is_left_off_and_said(asked, caplog):
    assert set_autotune({"kernel": {"enable": True}, "layout": {"enable": False}}) == "autotune: nothing"
    assert asked == [{"layout": {"enable": False}}]
    assert "kernel tuning is for a GPU, and this Paddle has none" in caplog.text


def test_flags(asked, caplog):
    try:
        said = set_autotune({"flags": {FLAG: True, "FLAGS_cudnn_exhaustive_search": True}})
        assert paddle.get_flags([FLAG]) == {FLAG: True}
    finally:
        deactivate()
    assert paddle.get_flags([FLAG]) == {FLAG: False}
    assert said == f"autotune: {FLAG}=True" and asked == []
    assert "this Paddle has no flag FLAGS_cudnn_exhaustive_search" in caplog.text


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"kernels": {}}, "there is no 'kernels', only kernel, layout, dataloader, flags"),
        ({"kernel": True}, "kernel needs {enable: true} or {enable: false}, got True"),
        ({"kernel": {"enable": 1}}, "kernel.enable must be of type bool, got 1"),
        ({"layout": {"enable": True, "range": 1}}, "layout has no 'range', only enable"),
        (
            {"kernel": {"enable": True, "tuning_range": [10, 1]}},
            r"must be \[first, last\] step, got \[10, 1\]",
        ),
        ({"flags": {"cudnn_exhaustive_search": True}}, "flags must map names such as FLAGS_"),
        ({"flags": ["FLAGS_x"]}, "flags must map names such as FLAGS_"),
    ],
)
def test_mistakes_get_one_sentence(asked, config, sentence):
    with pytest.raises(DetperfError, match=sentence):
        set_autotune(config)
    assert asked == []


def test_paddle_takes_what_we_hand_over():
    """The real functions, with everything off, so that nothing of it stays on."""
    off = {"kernel": {"enable": False, "tuning_range": [1, 10]}, "dataloader": {"enable": False}}
    assert set_autotune({**off, "layout": {"enable": False}}) == "autotune: nothing"


@pytest.mark.parametrize("with_parts", [False, True])
def test_prefetch_reaches_the_reader_until_deactivated(with_parts):
    from ppdet.data import reader

    stock = reader.DataLoader
    set_prefetch(3)
    if with_parts:
        activate()
    assert set_prefetch(5) == "prefetch: 5 batches a worker"
    assert reader.DataLoader([1, 2], num_workers=0).prefetch_factor == 5
    deactivate()
    assert reader.DataLoader is stock
    for wrong in (0, 2.0, True, "4"):
        with pytest.raises(DetperfError, match="must be 1 or more"):
            set_prefetch(wrong)
