"""MindOCR settings whose value is impossible or of the wrong type: checkpoints, loss scaler, AMP level."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.names import nearest
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

_683 = "mindspore-lab/mindocr/issues/683"
_TRAIN = "mindspore-lab/mindocr/blob/main/tools/train.py"

CKPT_KEEP = rule(
    "mindocr-ckpt-keep-zero",
    "warning",
    "correctness",
    "ckpt_max_keep is 0",
    why="No epoch checkpoint is kept; only best.ckpt and the resume file remain.",
    fix="Set system.ckpt_max_keep to 1 or more, or leave it out (10).",
    source=_683,
    room="mindocr",
)
CKPT_POLICY = rule(
    "mindocr-ckpt-policy",
    "error",
    "correctness",
    "ckpt_save_policy is unknown",
    why="ValueError at the first save, after a whole epoch of training.",
    fix="Use top_k, latest_k or null.",
    source="mindspore-lab/mindocr/blob/main/mindocr/utils/checkpoint.py",
    room="mindocr",
)
LOSS_SCALER = rule(
    "mindocr-loss-scaler",
    "error",
    "correctness",
    "loss_scaler lacks loss_scale, or its type is unknown",
    why="AssertionError or ValueError before the first step.",
    fix="Set type to static or dynamic, and loss_scale.",
    source="mindspore-lab/mindocr/blob/main/mindocr/utils/loss_scaler.py",
    room="mindocr",
)
VALUE_TYPE = rule(
    "mindocr-value-type",
    "error",
    "correctness",
    "a setting has the wrong type",
    why="MindOCR passes it on unchecked; the run stops with a TypeError, or the setting counts as true.",
    fix="Write a plain number or True/False.",
    source=_TRAIN,
    room="mindocr",
)
AMP_LEVEL = rule(
    "mindocr-amp-level",
    "error",
    "correctness",
    "amp_level is unknown",
    why="MindSpore knows O0, O1, O2 and O3; anything else is a ValueError.",
    fix="Write O0 (float32) or O2.",
    source=_TRAIN,
    room="mindocr",
)

_NUMBERS = [
    "scheduler.lr",
    "scheduler.num_epochs",
    "scheduler.warmup_epochs",
    "train.loader.batch_size",
    "train.loader.num_workers",
    "eval.loader.num_workers",
    "train.gradient_accumulation_steps",
    "system.log_interval",
    "system.mode",
    "system.seed",
]
# Words that this project's runner takes where MindOCR wants a number.
_WORDS = {"train.loader.num_workers": "auto"}
_FLAGS = [
    "train.dataset_sink_mode",
    "train.loader.shuffle",
    "train.loader.drop_remainder",
    "system.distribute",
    "system.val_while_train",
    "system.drop_overflow_update",
    "train.clip_grad",
]


def check(config: Config) -> None:
    """Report every fault named above."""
    _system(config)
    _types(config)


def _system(config: Config) -> None:
    if config.get("system.ckpt_max_keep") == 0:
        config.report(CKPT_KEEP, "system.ckpt_max_keep", "ckpt_max_keep: 0 keeps no epoch checkpoint")
    policies = ("top_k", "latest_k")
    policy = config.node("system.ckpt_save_policy")
    if policy is not None and policy.value is not None and policy.value not in policies:
        near = nearest(str(policy.value), policies, 0.5)
        message = f"ckpt_save_policy: {policy.text} is neither top_k nor latest_k nor null"
        config.report(CKPT_POLICY, "system.ckpt_save_policy", message, f"Write {near}." if near else "")
    scaler = config.node("loss_scaler")
    if scaler is not None and scaler.entries:
        kind = config.get("loss_scaler.type")
        if kind not in ("static", "dynamic"):
            config.report(LOSS_SCALER, "loss_scaler", f"loss_scaler.type is {kind!r}, not static or dynamic")
        if "loss_scale" not in scaler.entries:
            config.report(LOSS_SCALER, "loss_scaler", "loss_scaler has no loss_scale")
    level = config.node("system.amp_level")
    if level is not None and level.text not in ("O0", "O1", "O2", "O3"):
        config.report(AMP_LEVEL, "system.amp_level", f"amp_level: {level.text} is not one of O0, O1, O2, O3")


def _types(config: Config) -> None:
    for path in _NUMBERS:
        node = config.node(path)
        if node is None or node.value is None or node.value == _WORDS.get(path):
            continue
        if config.number(path) is None:
            shown = node.text or node.kind
            config.report(
                VALUE_TYPE, path, f"{path}: {shown} is {_kind(node.value, node.kind)}, not a number"
            )
    for path in _FLAGS:
        node = config.node(path)
        if node is not None and isinstance(node.value, str):
            config.report(
                VALUE_TYPE,
                path,
                f"{path}: {node.text!r} is text, which counts as true",
                "Write True or False.",
            )


def _kind(value: object, kind: str) -> str:
    names = {"map": "a mapping", "list": "a list"}
    return names.get(kind) or ("a truth value" if isinstance(value, bool) else "text")
