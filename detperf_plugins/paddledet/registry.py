"""Joining PaddleDetection's registry: adding our parts, inheriting stock sections, replacing in place.

ppdet keeps one dict, `global_config`, from class name to schema and settings; `create(name)` builds from
it. Transforms are looked up as attributes of `ppdet.data.transform`. Nothing of ppdet is edited on disk,
and `deactivate()` puts back every value that `activate()` changed.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Callable

from detperf_plugins.hosts import require_paddledet

__all__ = [
    "PARTS",
    "Part",
    "activate",
    "active",
    "arguments_of",
    "deactivate",
    "inherit_section",
    "put_back_later",
    "shared_settings",
]

logger = logging.getLogger("detperf_plugins")


@dataclass(frozen=True)
class Part:
    """One class that a config can name.

    Attributes:
        name: the class, as YAML spells it.
        module: where it is defined, below `detperf_plugins.paddledet`.
        kind: "transform" (looked up in ppdet.data.transform), "optimizer" (in paddle.optimizer) or "module"
            (built by `create`).
        replaces: the stock class it stands in for under `activate(replace=True)`; only for parts whose
            results are identical to stock's.
    """

    name: str
    module: str
    kind: str
    replaces: str | None = None


PARTS: tuple[Part, ...] = (
    Part("PackPolygons", "transforms", "transform"),
    Part("PolyToBitmap", "transforms", "transform"),
    Part("PolygonMaskAssigner", "mask_targets", "module", replaces="MaskAssigner"),
    Part("BitmapMaskAssigner", "bitmap_targets", "module"),
    Part("AssignRPNTargets", "rpn_transform", "transform"),
    Part("PerfRPNTargetAssign", "rpn_targets", "module", replaces="RPNTargetAssign"),
    Part("PerfResNet", "resnet", "module", replaces="ResNet"),
    Part("PerfRes5Head", "resnet", "module", replaces="Res5Head"),
    Part("PerfFPN", "fpn", "module", replaces="FPN"),
    Part("PerfRPNHead", "rpn_head", "module", replaces="RPNHead"),
    Part("PerfBBoxAssigner", "bbox_targets", "module", replaces="BBoxAssigner"),
    Part("PerfBBoxHead", "bbox_head", "module", replaces="BBoxHead"),
    Part("PerfCascadeHead", "bbox_head", "module", replaces="CascadeHead"),
    Part("PerfMaskHead", "mask_head", "module", replaces="MaskHead"),
    Part("PerfMomentum", "momentum", "optimizer"),
)

# Undo functions of what is active now, in the order in which it was done.
_undo: list[Callable[[], None]] = []
_replacing = False
# The same for what a config sets without the parts: readers, flags.
_put_back: list[Callable[[], None]] = []


def active() -> bool:
    """Whether `activate()` is in force in this process."""
    return bool(_undo)


def activate(replace: bool = False) -> str:
    """Make every part known to PaddleDetection; calling it again changes nothing.

    Args:
        replace: also let the parts whose results are identical stand in for the stock classes, so that an
            unchanged config uses them.

    Returns:
        A sentence for the config key `plugins:`; a plain string, so the config can still be copied,
        pickled and dumped.

    Raises:
        UnsupportedHost: PaddlePaddle or PaddleDetection is missing or of an unknown version.
    """
    global _replacing
    if not active():
        require_paddledet()
        _load_host()
        try:
            from detperf_plugins.paddledet.annotation_guards import guard_coco_dataset, guard_coco_metric
            from detperf_plugins.paddledet.compat import mend_host
            from detperf_plugins.paddledet.trainer_guard import guard_trainer

            for part in PARTS:
                _add(part)
            _undo.append(mend_host())
            _undo.append(guard_coco_dataset())
            _undo.append(guard_coco_metric())
            _undo.append(guard_trainer())
        except BaseException:
            deactivate()
            raise
    if replace and not _replacing:
        for part in PARTS:
            if part.replaces:
                _stand_in(part)
        _replacing = True
    return f"detperf-plugins: {len(PARTS)} parts registered" + (
        ", exact ones replace stock" if _replacing else ""
    )


def deactivate() -> None:
    """Put PaddleDetection back as it was before `activate()`, and the readers and flags that a config set."""
    global _replacing
    for changes in (_undo, _put_back):
        while changes:
            changes.pop()()
    _replacing = False


def put_back_later(undo: Callable[[], None]) -> None:
    """Let `deactivate()` call `undo`, whether `activate()` comes before, after or never."""
    _put_back.append(undo)


def inherit_section(config: Any, stock: str) -> dict[str, Any]:
    """Settings of the stock section `stock` for a part that extends that class: for use in `from_config`.

    A user's `MaskAssigner: {mask_resolution: 28}` keeps holding when the config names
    PolygonMaskAssigner; a key set in the part's own section wins. Values are copied into `config`, since
    ppdet reads injected names from there.

    Args:
        config: the live section of the part, as `from_config` receives it.
        stock: name of the stock section.

    Returns:
        The inherited keys and their values.
    """
    from ppdet.core.workspace import global_config

    # What an earlier call in this process inherited is no setting of the part's own.
    inherited: dict[str, Any] = config.__dict__.setdefault("inherited", {})
    for key, value in inherited.items():
        if key in config and config[key] == value:
            del config[key]
    inherited.clear()
    section = global_config.get(stock, {})
    for key in section:
        if key in config.schema and key not in config:
            config[key] = copy.deepcopy(section[key])
            inherited[key] = copy.deepcopy(section[key])
    return {key: config[key] for key in inherited}


def shared_settings(config: Any, **defaults: Any) -> dict[str, Any]:
    """Values of keys that stand once in a config for all parts: for use in `from_config`.

    ppdet fills a class's `__shared__` arguments by the schema of the section; a part that stands in for a
    stock class has that class's schema, which does not name them.

    Args:
        config: the live section of the part, as `from_config` receives it; a key set there wins.
        defaults: each key and its value where no config has it.
    """
    from ppdet.core.workspace import global_config

    return {
        key: config[key] if key in config else global_config.get(key, default)
        for key, default in defaults.items()
    }


def arguments_of(stock: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of `__init__(self, *args, own=..., **kwargs)`: the arguments of `stock`, then its own.

    ppdet makes a section's schema from the arguments of `__init__`; those of a stock class differ between
    its versions, so they are asked for and not written down.
    """

    def declare(init: Callable[..., None]) -> Callable[..., None]:
        kinds = inspect.Parameter
        own = [
            parameter.replace(kind=kinds.POSITIONAL_OR_KEYWORD, annotation=kinds.empty)
            for parameter in inspect.signature(init).parameters.values()
            if parameter.kind is kinds.KEYWORD_ONLY
        ]
        theirs = list(inspect.signature(stock.__init__).parameters.values())  # type: ignore[misc]
        rest = [one for one in theirs if one.kind is kinds.VAR_KEYWORD]
        # A host patched to take an argument of ours has it already (patches/paddledetection).
        ours = {parameter.name for parameter in own}
        named = [one for one in theirs if one.kind is not kinds.VAR_KEYWORD and one.name not in ours]
        init.__signature__ = inspect.Signature([*named, *own, *rest])  # type: ignore[attr-defined]
        return init

    return declare


def _load_host() -> None:
    import zlib

    # Bound before paddle is loaded: paddle exports zlib symbols of its own, and crashes those bound later.
    zlib.decompress(zlib.compress(b"before paddle"))
    import ppdet.data.transform
    import ppdet.modeling  # noqa: F401  (fills global_config with the stock classes)


def _class_of(part: Part) -> type:
    module: ModuleType = importlib.import_module(f"detperf_plugins.paddledet.{part.module}")
    return getattr(module, part.name)


def _add(part: Part) -> None:
    from ppdet.core.workspace import global_config, register
    from ppdet.data import transform

    cls = _class_of(part)
    if part.kind in ("transform", "optimizer"):
        home = transform if part.kind == "transform" else importlib.import_module("paddle.optimizer")
        # A patched host has a PolyToBitmap of its own (patches/paddledetection).
        before = vars(home).get(part.name)
        setattr(home, part.name, cls)
        _undo.append(lambda: setattr(home, part.name, before) if before else delattr(home, part.name))
        return
    # A section of this name that was merged before the class was known is a plain dict: keep its settings.
    settings = global_config.pop(part.name, None)
    register(cls)
    if settings is not None:
        global_config[part.name].update(settings)
    _undo.append(lambda: global_config.pop(part.name, None))


def _stand_in(part: Part) -> None:
    from ppdet.core.workspace import global_config

    assert part.replaces is not None
    section = global_config[part.replaces]
    original = section.pymodule
    section.pymodule = SimpleNamespace(**{part.replaces: _class_of(part)})

    def restore() -> None:
        section.pymodule = original

    _undo.append(restore)
