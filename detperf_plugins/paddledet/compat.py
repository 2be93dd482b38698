"""What PaddleDetection 2.6 (the paddledet 2.6.0 wheel) needs to run on Paddle 2.6 and later.

From Paddle 2.6 on, `paddle.shape(x)[0]` is a tensor without an axis, and `paddle.concat` refuses a list
of those: Mask R-CNN of the wheel stops in its first step with "The axis is expected to be in range of
[0, 0)". PaddleDetection's develop branch writes `[0:1]` instead. Here the modules concerned get a
`paddle.concat` that gives such scalars an axis; nothing else changes, and newer checkouts are left alone.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
from types import ModuleType
from typing import Any, Callable

from detperf_plugins.imports import around_import

__all__ = ["drop_numba_note", "mend_host", "needs_mending"]

# Where 2.6 concatenates `paddle.shape(x)[0]`.
MODULES = (
    "ppdet.modeling.proposal_generator.target",
    "ppdet.modeling.proposal_generator.rpn_head",
    "ppdet.modeling.heads.cascade_head",
    "ppdet.modeling.post_process",
)

# Print, when they are imported, that PP-Tracking would like numba: of no use to a detector.
TRACKERS = (
    "ppdet.modeling.mot.motion.kalman_filter",
    "ppdet.modeling.mot.motion.ocsort_kalman_filter",
)

_mended = False


def needs_mending() -> bool:
    """Whether the imported ppdet still concatenates tensors without an axis."""
    from ppdet.modeling.proposal_generator import target

    return "paddle.shape(sampled_inds)[0])" in inspect.getsource(target.generate_proposal_target)


class _Paddle(ModuleType):
    """`paddle` as the mended modules see it."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self.__dict__["_real"] = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def concat(self, x: Any, axis: Any = 0, name: Any = None) -> Any:
        """paddle.concat, with tensors of no axis taken as tensors of one element."""
        if isinstance(x, (list, tuple)):  # else the one variable of a static graph that stands for a list
            x = [one.reshape([1]) if one.ndim == 0 else one for one in x]
        return self._real.concat(x, axis, name)


def drop_numba_note() -> None:
    """Keep what PaddleDetection's trackers print of numba off the output of this process."""
    printed = builtins.print

    def without_it(*words: Any, **options: Any) -> None:
        if not (words and str(words[0]).startswith("Warning: Unable to use numba")):
            printed(*words, **options)

    def install() -> None:
        builtins.print = without_it

    def restore(module: ModuleType) -> None:
        builtins.print = printed

    for name in TRACKERS:
        around_import(name, install, restore)


def mend_host() -> Callable[[], None]:
    """Mend the imported ppdet where it needs it; returns the function that undoes it."""
    global _mended
    if _mended or not needs_mending():
        return lambda: None
    changed: list[tuple[ModuleType, ModuleType]] = []
    for name in MODULES:
        module = importlib.import_module(name)
        changed.append((module, module.paddle))
        module.paddle = _Paddle(module.paddle)  # type: ignore[attr-defined]
    _mended = True

    def undo() -> None:
        global _mended
        for module, real in changed:
            module.paddle = real  # type: ignore[attr-defined]
        _mended = False

    return undo
