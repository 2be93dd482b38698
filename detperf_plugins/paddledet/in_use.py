"""Which parts a built trainer uses: one line in its log, so that an overlay without effect is seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import paddle

from detperf_plugins.paddledet.registry import PARTS

__all__ = ["parts_in_use", "report", "transforms_of", "why_none"]

# Keys of a config that have an effect of their own, without a part in the model.
SETTINGS = ("amp_from_config", "master_grad", "autotune", "prefetch")


def report(trainer: Any) -> None:
    """Log the parts in use, or, where there is none, a warning that says why; on rank 0 only.

    Args:
        trainer: ppdet's, built to train.
    """
    if paddle.distributed.get_rank() != 0:
        return
    from ppdet.utils.logger import setup_logger

    logger = setup_logger("ppdet.detperf")
    parts = parts_in_use(trainer)
    found = [*parts, *(key for key in SETTINGS if trainer.cfg.get(key))]
    if found:
        logger.log(logging.INFO, "detperf-plugins: in use: %s", ", ".join(found))
    else:
        reason = why_none(trainer.cfg, trainer.model)
        logger.log(logging.WARNING, "no part of detperf-plugins is in this model: %s", reason)


def parts_in_use(trainer: Any) -> list[str]:
    """Names of the parts in a trainer's model, optimizer and reader, in the order of `PARTS`."""
    objects = [*_of_model(trainer.model), trainer.optimizer, *transforms_of(trainer)]
    ours = {
        cls.__name__
        for one in objects
        for cls in type(one).__mro__
        if cls.__module__.startswith("detperf_plugins.")
    }
    return [part.name for part in PARTS if part.name in ours]


def transforms_of(trainer: Any) -> list[Any]:
    """The transforms of a trainer's reader, those of samples before those of batches."""
    found: list[Any] = []
    for chain in ("_sample_transforms", "_batch_transforms"):
        found += getattr(getattr(trainer.loader, chain, None), "transforms_cls", [])
    return found


def why_none(cfg: Mapping[str, Any], model: paddle.nn.Layer) -> str:
    """Why a model has none of our parts, and what to do about it.

    Args:
        cfg: the merged config.
        model: as it was built.
    """
    classes = {type(one).__name__ for one in _of_model(model)}
    names = {part.name for part in PARTS}
    for section, values in cfg.items():
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, str) and value in names and section not in classes:
                return (
                    f"the config sets {section}.{key}: {value}, but {cfg['architecture']} has no {section} "
                    "here; take an overlay for what it has (detperf configs)"
                )
    stock = [part.replaces for part in PARTS if part.replaces in classes]
    if stock:
        return (
            f"{', '.join(filter(None, stock))} are stock's; add an overlay as the last entry of _BASE_ "
            "(detperf configs lists them), or start with --replace"
        )
    return f"{cfg['architecture']} has neither RPN nor RoI heads, which is what the parts are for"


def _of_model(model: paddle.nn.Layer) -> Iterator[Any]:
    """The layers of a model, and what they hold that is no layer, such as assigners."""
    for layer in model.sublayers(include_self=True):
        yield layer
        yield from vars(layer).values()
