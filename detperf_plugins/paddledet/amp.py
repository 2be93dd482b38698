"""Mixed precision: what stays float32, which settings are mistaken, and which do nothing here.

`docs/amp.md` has the way of each setting from the config to Paddle.
"""

from __future__ import annotations

import logging
from typing import Any

import paddle

from detperf_plugins.errors import DetperfError

__all__ = ["as_float32", "check_amp", "notices", "warn_of"]

logger = logging.getLogger("detperf_plugins")

# Devices for which ppdet's Trainer enables auto_cast and the gradient scaler.
AMP_DEVICES = ("gpu", "npu", "mlu")
LEVELS = ("O1", "O2")
HALF = (paddle.float16, paddle.bfloat16)

_said: set[str] = set()


def as_float32(value: paddle.Tensor) -> paddle.Tensor:
    """A half-precision tensor, [...] of any shape, as float32; any other as it is, without an operator.

    Losses and boxes are computed from this: float16 has steps of 1 between 1024 and 2048, where the
    coordinates of a detector lie, and ends at 65504, which a sum over thousands of anchors can pass.
    """
    return value.astype("float32") if value.dtype in HALF else value


def check_amp(cfg: Any) -> None:
    """Refuse AMP settings that Paddle would take in another sense or stop at in its first step.

    Args:
        cfg: a merged config, a mapping.

    Raises:
        DetperfError: the level is unknown, a list of operators is no list of names, or two lists overlap.
    """
    if not cfg.get("amp"):
        return
    level = cfg.get("amp_level", "O1")
    if level not in LEVELS:
        raise DetperfError(f"amp_level must be O1 or O2, got {level!r}")
    names: dict[str, set[str]] = {}
    for key in ("custom_white_list", "custom_black_list"):
        value = cfg.get(key) or []
        if isinstance(value, str) or not all(isinstance(name, str) for name in value):
            raise DetperfError(f"{key} must be a list of operator names such as [roi_align], got {value!r}")
        names[key] = set(value)
    both = names["custom_white_list"] & names["custom_black_list"]
    if both:
        raise DetperfError(f"{', '.join(sorted(both))}: both in custom_white_list and in custom_black_list")


def notices(cfg: Any) -> list[str]:
    """Sentences about settings that do nothing, or make a run slower.

    Args:
        cfg: a merged config, a mapping.
    """
    found = []
    effective = bool(cfg.get("amp")) and any(cfg.get(f"use_{device}") for device in AMP_DEVICES)
    if cfg.get("amp") and not effective:
        device = "an XPU" if cfg.get("use_xpu") else "a CPU"
        found.append(
            f"AMP does nothing on {device}: PaddleDetection turns it on only for gpu, npu and mlu, and "
            "Paddle's auto_cast leaves float32 on a CPU; this run trains in float32"
        )
    if cfg.get("data_format") == "NHWC" and not effective:
        found.append(
            "data_format: NHWC without AMP is slower than NCHW on a V100 and on a CPU: train with AMP on a "
            "GPU with tensor cores, or leave NCHW"
        )
    return found


def warn_of(cfg: Any) -> None:
    """Log each notice about this config, once in a process."""
    for sentence in notices(cfg):
        if sentence not in _said:
            _said.add(sentence)
            logger.warning(sentence)
