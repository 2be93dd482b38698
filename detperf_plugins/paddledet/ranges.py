"""Named ranges round the parts of PaddleDetection's trainer, put there from outside.

Methods and functions are wrapped where they live, on an instance, a class or a module, and `undo`
puts every one of them back. No file of PaddleDetection changes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, Callable, Optional

from detperf_plugins.measure.timeline import Timeline

__all__ = ["READER", "name_parts"]

READER = "reader"
# Attributes of an architecture whose ranges carry the stock class's name, whatever class stands there.
HEADS = {"rpn_head": "RPNHead", "bbox_head": "BBoxHead", "mask_head": "MaskHead"}
# Of each head: the attribute that holds a part ("" for the head itself), the method that is the range
# ("()" for the part's own call), and the range's name below the head's.
INSIDE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "rpn_head": (
        ("rpn_feat", "()", "rpn_feat"),
        ("anchor_generator", "()", "anchor_generator"),
        ("rpn_target_assign", "()", "rpn_target_assign"),
        ("rpn_target_assign", "sample", "rpn_target_assign"),
        ("", "_gen_proposal", "gen_proposal"),
        ("", "propose", "gen_proposal"),
        ("", "get_loss", "loss"),
        ("", "_losses", "loss"),
    ),
    "bbox_head": (
        ("bbox_assigner", "()", "bbox_assigner"),
        ("roi_extractor", "()", "roi_extractor"),
        ("head", "()", "head"),
        ("", "get_loss", "loss"),
    ),
    "mask_head": (
        ("mask_assigner", "()", "assign_mask"),
        ("roi_extractor", "()", "roi_extractor"),
        ("head", "()", "head"),
        ("", "get_loss", "loss"),
    ),
}
# Functions that turn polygons into masks, stock's and ours.
RASTERS = (
    ("ppdet.modeling.proposal_generator.target", "rasterize_polygons_within_box"),
    ("detperf_plugins.paddledet.mask_raster", "rasterize"),
)
RASTER = "MaskHead::assign_mask::rasterize_polygons_within_box"


def name_parts(
    trainer: Any, current: Callable[[], Optional[Timeline]]
) -> tuple[dict[str, str], Callable[[], None]]:
    """Wrap the parts of a built trainer.

    Args:
        trainer: ppdet's Trainer.
        current: the timeline that records now, or None.

    Returns:
        The module of the class behind each range, and the function that puts everything back. The reader is
        not wrapped: its range is the caller's, who decides there where a step begins.
    """
    undo: list[Callable[[], None]] = []
    sources: dict[str, str] = {}

    def wrap(owner: Any, attribute: str, name: str, only: Any = None) -> None:
        """`owner.attribute` becomes a range; with `only`, for calls on that one object of the class."""
        original = getattr(owner, attribute)
        kept = vars(owner).get(attribute, _MISSING)

        @functools.wraps(original)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            timeline = current()
            if timeline is None or (only is not None and args[0] is not only):
                return original(*args, **kwargs)
            return timeline.call(name, original, *args, **kwargs)

        _set(owner, attribute, ranged)
        undo.append(functools.partial(_restore, owner, attribute, kept))

    for part, owner, attribute, only in _parts(trainer):
        wrap(owner, attribute, part, only)
        behind = only if only is not None else owner
        sources.setdefault(part, behind.__name__ if hasattr(behind, "__name__") else type(behind).__module__)

    def restore() -> None:
        while undo:
            undo.pop()()

    return sources, restore


_MISSING = object()


def _set(owner: Any, attribute: str, value: Any) -> None:
    # Layers and readers have a __setattr__ of their own, which is not meant for methods.
    if isinstance(owner, type):
        setattr(owner, attribute, value)
    else:
        vars(owner)[attribute] = value


def _restore(owner: Any, attribute: str, kept: Any) -> None:
    if kept is not _MISSING:
        _set(owner, attribute, kept)
    elif isinstance(owner, type):
        delattr(owner, attribute)
    else:
        vars(owner).pop(attribute, None)


def _parts(trainer: Any) -> Iterator[tuple[str, Any, str, Any]]:
    """Range name, owner of the method, its name, and the one object where the owner is a class."""
    import paddle
    from ppdet.utils.stats import TrainingStats

    for child, layer in trainer.model.named_children():
        name = HEADS.get(child, child)
        yield name, layer, "forward", None
        for attribute, method, below in INSIDE.get(child, ()):
            part = getattr(layer, attribute, None) if attribute else layer
            if method != "()":
                if hasattr(part, method):
                    yield f"{name}::{below}", part, method, None
            elif isinstance(part, paddle.nn.Layer):
                yield f"{name}::{below}", part, "forward", None
            elif callable(part):
                yield f"{name}::{below}", type(part), "__call__", part
    for module_name, function in RASTERS:
        module = importlib.import_module(module_name)
        if hasattr(module, function):
            yield RASTER, module, function, None
    yield "backward", paddle.Tensor, "backward", None
    yield "optimizer", trainer.optimizer, "step", None
    yield "clear_grad", trainer.optimizer, "clear_grad", None
    yield "optimizer", paddle.amp.GradScaler, "minimize", None
    yield "statistics", TrainingStats, "update", None
    for method in ("on_step_begin", "on_step_end"):
        yield "callbacks", trainer._compose_callback, method, None
    if getattr(trainer, "use_ema", False):
        yield "ema", trainer.ema, "update", None
