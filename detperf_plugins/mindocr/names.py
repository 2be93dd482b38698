"""Names in a MindOCR config that the installed MindOCR must know, checked before the network is built."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.settings import unknown

__all__ = ["check_names"]


# Where MindOCR lists the names of each kind.
LISTS = {
    "model.neck": ("mindocr.models.necks.builder", "supported_necks"),
    "model.head": ("mindocr.models.heads.builder", "supported_heads"),
    "loss": ("mindocr.losses.builder", "supported_losses"),
    "metric": ("mindocr.metrics.builder", "supported_metrics"),
    "postprocess": ("mindocr.postprocess.builder", "supported_postprocess"),
}


def check_names(config: Mapping[str, Any]) -> None:
    """See that MindOCR has every part that a merged config names. What it does not list is not checked.

    Raises:
        UnreadableInput: a backbone, neck, head, loss, postprocess, metric or transform of no such name.
    """
    from mindocr.data.transforms import transforms_factory
    from mindocr.models.backbones import _registry as backbones

    name = _name(config, "model.backbone")
    if name is not None and "mindcv" not in str(name):
        known = [*backbones.list_backbones(), *backbones.list_backbone_classes()]
        _check("model.backbone.name", name, known)
    for key, (module, attribute) in LISTS.items():
        supported = getattr(importlib.import_module(module), attribute, None)
        name = _name(config, key)
        if supported is not None and name is not None:
            _check(f"{key}.name", name, supported)
    for section in ("train", "eval"):
        steps = ((config.get(section) or {}).get("dataset") or {}).get("transform_pipeline") or []
        for step in steps:
            for name in step if isinstance(step, Mapping) else ():
                if not hasattr(transforms_factory, str(name)):
                    kinds = [one for one in dir(transforms_factory) if one[:1].isupper()]
                    _check(f"{section}.dataset.transform_pipeline", name, kinds)


def _name(config: Mapping[str, Any], path: str) -> Any:
    part: Any = config
    for key in path.split("."):
        part = part.get(key) if isinstance(part, Mapping) else None
    return part.get("name") if isinstance(part, Mapping) else None


def _check(where: str, name: Any, known: Collection[str]) -> None:
    if name not in known:
        raise UnreadableInput(f"{where}: MindOCR has no {unknown(name, known)}")
