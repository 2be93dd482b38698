"""Names in a MindOCR config that the installed MindOCR must know, checked before the network is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.settings import unknown

__all__ = ["check_names"]


def check_names(config: Mapping[str, Any]) -> None:
    """See that MindOCR has every part that a merged config names.

    Raises:
        UnreadableInput: a backbone, neck, head, loss, postprocess, metric or transform of no such name.
    """
    from mindocr.data.transforms import transforms_factory
    from mindocr.losses.builder import supported_losses
    from mindocr.metrics.builder import supported_metrics
    from mindocr.models.backbones import _registry as backbones
    from mindocr.models.heads.builder import supported_heads
    from mindocr.models.necks.builder import supported_necks
    from mindocr.postprocess.builder import supported_postprocess

    model = config.get("model") or {}
    name = _name(model, "backbone")
    known = [*backbones.list_backbones(), *backbones.list_backbone_classes()]
    if name is not None and "mindcv" not in str(name):
        _check("model.backbone.name", name, known)
    for key, supported in (("neck", supported_necks), ("head", supported_heads)):
        _check(f"model.{key}.name", _name(model, key), supported)
    for key, supported in (
        ("loss", supported_losses), ("metric", supported_metrics), ("postprocess", supported_postprocess)
    ):  # fmt: skip
        _check(f"{key}.name", _name(config, key), supported)
    for section in ("train", "eval"):
        steps = ((config.get(section) or {}).get("dataset") or {}).get("transform_pipeline") or []
        for step in steps:
            for name in step if isinstance(step, Mapping) else ():
                if not hasattr(transforms_factory, str(name)):
                    kinds = [one for one in dir(transforms_factory) if one[:1].isupper()]
                    _check(f"{section}.dataset.transform_pipeline", name, kinds)


def _name(section: Mapping[str, Any], key: str) -> Any:
    part = section.get(key)
    return part.get("name") if isinstance(part, Mapping) else None


def _check(where: str, name: Any, known: Iterable[str]) -> None:
    if name is not None and name not in known:
        raise UnreadableInput(f"{where}: MindOCR has no {unknown(name, known)}")
