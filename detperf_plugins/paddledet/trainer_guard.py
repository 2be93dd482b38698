"""ppdet's Trainer with the settings of the config that it, or the script round it, would lose.

`tools/train.py` writes its flags over the config, so that `amp: true` there is lost without `--amp`; the
trainer hands `master_grad` on under Paddle 2.5 alone, and the one of paddledet 2.6.0 never. Neither can be
seen from a run.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Callable

import numpy as np
import paddle

from detperf_plugins.errors import DetperfError
from detperf_plugins.imports import around_import
from detperf_plugins.paddledet.amp import check_amp, warn_of
from detperf_plugins.paddledet.in_use import report, transforms_of

__all__ = ["guard_trainer"]

TRAINER = "ppdet.engine.trainer"


def guard_trainer() -> Callable[[], None]:
    """Let every Trainer built from here on see its config whole; returns the function that undoes it.

    `amp_from_config: true` keeps AMP on where a script has written its unset `--amp` over `amp: true`.
    `master_grad: true` reaches Paddle whatever its version. Mistaken AMP settings, `to_static` with parts
    that it cannot trace, and a C4 reader under an FPN stop with one sentence; settings without effect are
    warned of once. What is in use is logged.
    """
    installed: list[tuple[Any, Any]] = []
    wanted = True

    def install(module: ModuleType) -> None:
        if not wanted:
            return
        trainer: Any = vars(module)["Trainer"]
        stock = trainer.__init__

        @functools.wraps(stock)
        def build(self: Any, cfg: Any, mode: str = "train") -> None:
            training = mode.lower() == "train"
            if training:
                if cfg.get("amp_from_config"):
                    cfg["amp"] = True
                check_amp(cfg)
                warn_of(cfg)
            with _master_grad(bool(cfg.get("master_grad"))):
                stock(self, cfg, mode)
            if training:
                if cfg.get("to_static"):
                    _refuse_to_static(self.model)
                _refuse_unpadded(self)
                report(self)

        trainer.__init__ = build
        installed.append((trainer, stock))

    around_import(TRAINER, after=install)

    def undo() -> None:
        nonlocal wanted
        wanted = False
        for trainer, stock in installed:
            trainer.__init__ = stock

    return undo


@contextlib.contextmanager
def _master_grad(on: bool) -> Iterator[None]:
    """While the block runs, `paddle.amp.decorate` is asked for float32 gradients of half weights."""
    stock = paddle.amp.decorate
    if on:
        paddle.amp.decorate = functools.partial(stock, master_grad=True)
    try:
        yield
    finally:
        paddle.amp.decorate = stock


def _refuse_to_static(model: paddle.nn.Layer) -> None:
    names = {type(layer).__name__ for layer in model.sublayers() if _is_ours(type(layer))}
    if names:
        raise DetperfError(
            f"to_static cannot trace {', '.join(sorted(names))}: train without --to_static, or without these "
            "parts; it brings Mask R-CNN nothing (docs/overlays.md)"
        )


# Overlay for FPN models, by the transform that its C4 counterpart puts into the reader as well.
FPN_OVERLAYS = {
    "AssignRPNTargets": "exact_parts_fpn",
    "PackPolygons": "exact_targets_fpn",
    "PolyToBitmap": "bitmap_targets_fpn",
}


def _refuse_unpadded(trainer: Any) -> None:
    """An FPN adds features of neighbouring strides: pictures of any size do not fit (pad_to_stride: -1)."""
    chain = transforms_of(trainer)
    ours = {type(one).__name__ for one in chain if _is_ours(type(one))}
    unpadded = any(type(one).__name__ == "PadBatch" and one.pad_to_stride < 0 for one in chain)
    if not ours or not unpadded or any(_fits_fpn(one) for one in chain):
        return
    if any(cls.__name__ == "FPN" for layer in trainer.model.sublayers() for cls in type(layer).__mro__):
        overlay = next(overlay for name, overlay in FPN_OVERLAYS.items() if name in ours)
        if trainer.cfg.get("data_format") == "NHWC":
            overlay = "mask_rcnn_r50_nhwc_amp_fpn"
        raise DetperfError(
            "an overlay for C4 models (PadBatch: {pad_to_stride: -1}) lies over a model with an FPN, whose "
            f"levels do not fit without padding: take {overlay}, or PadBatch: {{pad_to_stride: 32}}"
        )


def _fits_fpn(transform: Any) -> bool:
    """Whether a transform makes pictures of fixed sizes that an FPN takes as they are: multiples of 32."""
    if not hasattr(transform, "target_size") or getattr(transform, "keep_ratio", True):
        return False
    fixed = not getattr(transform, "random_range", False)
    return fixed and not (np.asarray(transform.target_size) % 32).any()


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("detperf_plugins.")
