"""Run by test_amp.py: stock's Trainer trains an overlay with Paddle's casting forced on a CPU.

Usage: amp_script.py CONFIG...; each config is trained in a fork, and described by one line of JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import traceback
from typing import Any

import numpy as np
import paddle
import ppdet.engine
from ppdet.core.workspace import load_config
from ppdet.utils.cli import merge_args

from tests.paddledet.forced_cast import forced_cast

PARTS = ("backbone", "neck", "rpn_head", "bbox_head", "mask_head")
# Layers within a part that a wrong dtype would show in first.
INNER = {"rpn_head": ("rpn_rois_score",), "bbox_head": ("roi_extractor", "head", "bbox_score", "bbox_delta"),
         "mask_head": ("roi_extractor", "head", "mask_fcn_logits")}  # fmt: skip


def half_weights(model: paddle.nn.Layer) -> None:
    """What O2's `decorate` makes of a model where there is a GPU: norms stay float32."""
    module = importlib.import_module("paddle.amp.auto_cast")
    module.amp_initialize(models=[model], dtype="float16", excluded_layers=None)


def dtypes(value: Any) -> set[str]:
    """Of all floating tensors in a structure."""
    if isinstance(value, paddle.Tensor):
        name = str(value.dtype).replace("paddle.", "")
        return {name} if name.startswith("float") else set()
    if isinstance(value, dict):
        value = list(value.values())
    return set().union(*map(dtypes, value)) if isinstance(value, (list, tuple)) else set()


def watch(model: paddle.nn.Layer) -> dict[str, set[str]]:
    """Dtypes of what the parts and their layers of interest give, filled in as they run."""
    seen: dict[str, set[str]] = {}

    def note(name: str, layer: Any) -> None:
        layer.register_forward_post_hook(
            lambda _layer, _inputs, out: seen.setdefault(name, set()).update(dtypes(out))
        )

    for part in PARTS:
        layer = getattr(model, part)
        note(part, layer)
        for name in INNER.get(part, ()):
            note(f"{part}.{name}", getattr(layer, name))
    return seen


def train(path: str) -> dict[str, Any]:
    cfg = load_config(path)
    # As in tools/train.py without --amp.
    merge_args(cfg, argparse.Namespace(amp=False, fleet=False, use_vdl=False, to_static=False))
    lost = cfg["amp"]
    cfg["use_gpu"] = True  # Trainer enables auto_cast by this key; tensors stay where they are
    asked: dict[str, Any] = {}

    def decorate(models: Any, optimizers: Any, **settings: Any) -> Any:
        asked["decorate"] = settings
        half_weights(models)
        return models, optimizers

    scaler = paddle.amp.GradScaler

    class Scaler(scaler):
        def __init__(self, enable: bool, init_loss_scaling: float) -> None:
            asked["scaling"] = [enable, init_loss_scaling]
            super().__init__(enable=False)  # it cannot be had on a CPU

        def minimize(self, optimizer: Any, loss: Any) -> None:
            gradients.append([p.grad for p in trained if p.grad is not None])
            # Momentum has no kernel for half weights on a CPU.
            if cfg["amp_level"] == "O1":
                optimizer.step()

    gradients: list[Any] = []
    rois: list[np.ndarray] = []
    paddle.amp.decorate, paddle.amp.GradScaler = decorate, Scaler
    trainer = ppdet.engine.Trainer(cfg, mode="train")
    trained = [p for p in trainer.model.parameters() if not p.stop_gradient]
    seen = watch(trainer.model)
    trainer.model.rpn_head.register_forward_post_hook(
        lambda _layer, _inputs, out: rois.extend(one.numpy() for one in out[0])
    )
    losses: list[Any] = []
    trainer.model.register_forward_post_hook(lambda _layer, _inputs, out: losses.append(out))
    with forced_cast("float16") as forced:
        trainer.train()
    return {
        "lost": lost,
        "amp": trainer.use_amp,
        "calls": forced.calls,
        "ran": {name: sorted(precisions) for name, precisions in forced.ran.items()},
        "seen": {name: sorted(found) for name, found in seen.items()},
        "losses": [{name: float(value) for name, value in one.items()} for one in losses],
        "loss dtypes": sorted(dtypes(losses)),
        "finite": all(np.isfinite(one.numpy()).all() for step in gradients for one in step),
        "gradients": [len(step) for step in gradients],
        "trained": len(trained),
        # Boxes that float16 arithmetic had touched would all be float16 values.
        "rounded": float(np.mean([np.mean(one == one.astype(np.float16)) for one in rois])),
        **asked,
    }


def main(paths: list[str]) -> None:
    logging.disable(logging.INFO)
    for path in paths:
        if os.fork():
            os.wait()
            continue
        try:
            result = train(path)
        except BaseException:
            result = {"error": traceback.format_exc()[-2500:]}
        print("RESULT " + json.dumps({"path": path, **result}), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
