"""Paddle's own tuning, switched on by a config: algorithms of convolutions, layouts, reader workers, flags.

In a config:  autotune: !!python/object/apply:detperf_plugins.paddledet.autotune.set_autotune
              - kernel: {enable: true, tuning_range: [1, 10]}
                flags: {FLAGS_conv_workspace_size_limit: 1024}

Method: `paddle.incubate.autotune.set_config` and `paddle.set_flags`, which no PaddleDetection config reaches.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, Optional

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.registry import put_back_later

__all__ = ["set_autotune"]

logger = logging.getLogger("detperf_plugins")

# What each kind of tuning takes, and of which type.
SETTINGS: dict[str, dict[str, type]] = {
    "kernel": {"enable": bool, "tuning_range": list},
    "layout": {"enable": bool},
    "dataloader": {"enable": bool, "tuning_steps": int},
}
# Tuned on a GPU alone.
DEVICE_KINDS = ("kernel", "layout")


def set_autotune(config: Optional[Mapping[str, Any]] = None) -> str:
    """Switch tuning on for this process; `deactivate()` puts the flags back.

    Args:
        config: by kind, as `paddle.incubate.autotune.set_config` takes it, and `flags`:
            kernel: enable; tuning_range, the first and last step in which convolutions try all algorithms.
            layout: enable; Paddle then turns NCHW convolutions to NHWC by itself. Not together with
                `data_format: NHWC`.
            dataloader: enable; tuning_steps, batches read with each number of workers.
            flags: name of a Paddle flag to its value.
            None is `{kernel: {enable: true}}`.

    Returns:
        A sentence for the config key `autotune:`, saying what is on.

    Raises:
        DetperfError: a kind, a setting or a value is unknown.
    """
    import paddle

    wanted = dict(config) if config is not None else {"kernel": {"enable": True}}
    flags = wanted.pop("flags", {})
    _check(wanted, flags)
    on = []
    kinds = {}
    for kind, settings in wanted.items():
        if kind in DEVICE_KINDS and settings["enable"] and not paddle.is_compiled_with_cuda():
            logger.warning(f"autotune: {kind} tuning is for a GPU, and this Paddle has none: left off")
            continue
        # Paddle reads no `enable` of the loader unless it is told the steps as well.
        kinds[kind] = {"tuning_steps": 500, **settings} if kind == "dataloader" else dict(settings)
        on += [kind] * settings["enable"]
    if kinds:
        paddle.incubate.autotune.set_config(kinds)
    for name, value in flags.items():
        try:
            before = paddle.get_flags([name])
            paddle.set_flags({name: value})
        except ValueError:
            logger.warning(f"autotune: this Paddle has no flag {name}: left out")
        else:
            put_back_later(functools.partial(paddle.set_flags, before))
            on.append(f"{name}={value}")
    return f"autotune: {', '.join(on) if on else 'nothing'}"


def _check(kinds: Mapping[str, Any], flags: Any) -> None:
    for kind, settings in kinds.items():
        if kind not in SETTINGS:
            known = ", ".join([*SETTINGS, "flags"])
            raise DetperfError(f"autotune: there is no {kind!r}, only {known}")
        if not isinstance(settings, Mapping) or "enable" not in settings:
            raise DetperfError(
                f"autotune: {kind} needs {{enable: true}} or {{enable: false}}, got {settings!r}"
            )
        for name, value in settings.items():
            expected = SETTINGS[kind].get(name)
            if expected is None:
                raise DetperfError(f"autotune: {kind} has no {name!r}, only {', '.join(SETTINGS[kind])}")
            if type(value) is not expected:
                raise DetperfError(
                    f"autotune: {kind}.{name} must be of type {expected.__name__}, got {value!r}"
                )
        steps = settings.get("tuning_range", [1, 10])
        if len(steps) != 2 or any(type(step) is not int for step in steps) or not 0 <= steps[0] < steps[1]:
            raise DetperfError(f"autotune: {kind}.tuning_range must be [first, last] step, got {steps!r}")
    if not isinstance(flags, Mapping) or not all(str(name).startswith("FLAGS_") for name in flags):
        raise DetperfError(f"autotune: flags must map names such as FLAGS_cudnn_deterministic, got {flags!r}")
