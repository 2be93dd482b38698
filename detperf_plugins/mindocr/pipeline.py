"""Stock transform pipelines rewritten: sequences that one of our transforms gives to the last bit, or nearly.

`register()` makes the transforms known to MindOCR, so that any YAML may name them. `rewrite()` puts them in
the place of stock sequences whose settings they can honour, leaves everything else as it is, and says what
it did.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detperf_plugins.errors import UnreadableInput

__all__ = ["LEVELS", "Options", "register", "rewrite"]

logger = logging.getLogger("mindocr.detperf")

LEVELS = ("off", "exact", "fast")
_MOVES = ("RandomHorizontalFlip", "RandomRotate", "RandomScale")
_CROP = "RandomCropWithBBox"


@dataclass(frozen=True)
class Options:
    """How far `rewrite` goes.

    Attributes:
        level: "exact" (the same samples), "fast" (also one warp instead of three interpolations, and
            the colour jitter after the crop) or "off".
        cache: where decoded pictures are kept: a folder, "memory", or None.
        cache_gb: the most they may take, in 2**30 bytes.
        reduced_decoding: with "fast": JPEGs are decoded at 1/2, 1/4 or 1/8 where that is enough.
        mended_maps: target maps without two faults of stock's, see `PerfDetTargets`.

    Raises:
        UnreadableInput: an unknown level, a value of the wrong kind, or settings that exclude each other.
    """

    level: str = "exact"
    cache: str | None = None
    cache_gb: float = 4.0
    reduced_decoding: bool = False
    mended_maps: bool = False

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UnreadableInput(f"level is {self.level!r}; there are {', '.join(LEVELS)}")
        if self.cache is not None and (not isinstance(self.cache, str) or not self.cache):
            raise UnreadableInput(f"cache is {self.cache!r}; it is a folder, or memory")
        if isinstance(self.cache_gb, bool) or not isinstance(self.cache_gb, (int, float)):
            raise UnreadableInput(f"cache_gb is {self.cache_gb!r}; it is a number")
        if self.reduced_decoding and self.level != "fast":
            raise UnreadableInput("reduced_decoding changes pixels: it needs level fast")
        if self.reduced_decoding and self.cache:
            raise UnreadableInput(
                "reduced_decoding and cache exclude each other: a cached picture is decoded already"
            )


def register() -> None:
    """Make the Perf transforms and PerfDetDataset known to MindOCR by name; again changes nothing."""
    from mindocr.data import builder
    from mindocr.data.transforms import transforms_factory

    from detperf_plugins.mindocr import dataset, decode, det_targets, geometry_transforms, transforms

    for module in (decode, det_targets, geometry_transforms, transforms):
        for name in module.__all__:
            if name.startswith("Perf"):
                setattr(transforms_factory, name, getattr(module, name))
    # Missing while the module itself is being imported and has MindOCR imported first; build_dataset, and the
    # class, register again.
    kind = getattr(dataset, "PerfDetDataset", None)
    if kind is None:
        return
    builder.PerfDetDataset = kind
    if "PerfDetDataset" not in builder.supported_dataset_types:
        builder.supported_dataset_types.append("PerfDetDataset")


def rewrite(
    transform_pipeline: Sequence[Any], options: Options | None = None, use_minddata: bool = False
) -> list[Any]:
    """The pipeline with our transforms in it.

    Args:
        transform_pipeline: MindOCR's list of {name: arguments}, or callables.
        options: how far to go; exact where None.
        use_minddata: the data set moves decoding, colours and normalisation into MindSpore's own operators,
            which look for the stock names: those are left.

    Returns:
        A new list; the given one is not changed.
    """
    options = options or Options()
    steps = [copy.deepcopy(step) if isinstance(step, Mapping) else step for step in transform_pipeline]
    if options.level == "off":
        return steps
    done: list[Any] = []
    at = 0
    while at < len(steps):
        names = [_name(step) for step in steps[at:]]
        taken, made = _match(names, steps[at:], options, use_minddata)
        if made is None:
            done.append(steps[at])
        else:
            done.append(made)
            logger.info(f"transforms: {', '.join(names[:taken])} -> {_name(made)}")
        at += taken
    _settle_decoding(done, options)
    return done


def _name(step: Any) -> str:
    return str(next(iter(step))) if isinstance(step, Mapping) and len(step) == 1 else ""


def _arguments(step: Mapping[str, Any]) -> dict[str, Any]:
    return dict(next(iter(step.values())) or {})


def _match(
    names: list[str], steps: list[Any], options: Options, use_minddata: bool
) -> tuple[int, dict[str, Any] | None]:
    """How many steps from the first on are taken together, and what replaces them (None: nothing)."""
    first = names[0]
    geometry = _geometry(names, steps, options, use_minddata)
    if geometry is not None:
        return geometry
    arguments = _arguments(steps[0]) if first else {}
    if first == "ValidatePolygons" and not arguments.get("clip_to_visible_area"):
        return 1, {"PerfValidatePolygons": arguments}
    if first == "DetLabelEncode":
        return 1, {"PerfDetLabelEncode": arguments}
    if names[:2] == ["ShrinkBinaryMap", "BorderMap"]:
        border = _arguments(steps[1])
        if arguments.get("shrink_ratio", 0.4) == border.get("shrink_ratio", 0.4) and not border.get("fast"):
            mended = {"mended": True} if options.mended_maps else {}
            return 2, {"PerfDetTargets": {**border, **arguments, **mended}}
    if use_minddata:
        return 1, None
    if names[:2] == ["NormalizeImage", "ToCHWImage"] and arguments.get("is_hwc", True):
        return 2, {"PerfNormalizeToCHW": arguments}
    if first == "DecodeImage" and not any(
        arguments.get(key) for key in ("channel_first", "to_float32", "keep_ori")
    ):
        return 1, {"PerfDecodeImage": arguments}
    return 1, None


def _geometry(
    names: list[str], steps: list[Any], options: Options, use_minddata: bool
) -> tuple[int, dict[str, Any]] | None:
    """Moves that end in the crop, with the colour jitter where it stands right before them."""
    begin = 0
    colour = None
    if names[0] == "RandomColorAdjust" and not use_minddata:
        arguments = _arguments(steps[0])
        # Contrast depends on the whole picture, and no config of MindOCR sets hue.
        if set(arguments) <= {"brightness", "saturation"}:
            begin, colour = 1, arguments
    end = begin
    while end < len(names) and names[end] in _MOVES:
        end += 1
    if end == len(names) or names[end] != _CROP:
        return None
    name = "PerfRandomGeometry" if options.level == "fast" else "PerfExactGeometry"
    return end + 1, {name: {"steps": steps[begin : end + 1], "colour": colour}}


def _settle_decoding(steps: list[Any], options: Options) -> None:
    """Give PerfDecodeImage its cache; its pictures stay read-only where the geometry comes next."""
    names = [_name(step) for step in steps]
    if "PerfDecodeImage" not in names:
        if options.cache or options.reduced_decoding:
            logger.warning(
                "no DecodeImage with plain settings in the pipeline: decoded pictures are not kept"
            )
        return
    at = names.index("PerfDecodeImage")
    later = [name for name in names[at + 1 :] if name != "PerfDetLabelEncode"]
    arguments = steps[at]["PerfDecodeImage"]
    if options.cache:
        arguments.update(cache=options.cache, cache_gb=options.cache_gb)
        arguments["read_only"] = bool(later) and later[0] in ("PerfExactGeometry", "PerfRandomGeometry")
    if options.reduced_decoding:
        if later[:1] == ["PerfRandomGeometry"]:
            arguments["defer"] = True
        else:
            logger.warning(
                "reduced decoding needs PerfRandomGeometry right after decoding: pictures are read whole"
            )
