"""The RPN's anchors from its settings alone, so that the loader and the model can agree without a tensor.

Method: ppdet's AnchorGenerator (ppdet/modeling/proposal_generator/anchor_generator.py), bit for bit.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["AnchorSettings", "Grids", "difference"]

# Height and width in cells of each level's feature map.
Grids = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AnchorSettings:
    """What defines the anchors of every image size.

    Attributes:
        anchor_sizes, aspect_ratios: of each level, sides in pixels and height / width.
        strides: pixels a cell, of each level.
        offset: where the first cell's centre lies, in cells.
    """

    anchor_sizes: tuple[tuple[float, ...], ...]
    aspect_ratios: tuple[tuple[float, ...], ...]
    strides: tuple[float, ...]
    offset: float

    @classmethod
    def of(cls, generator: Any) -> AnchorSettings:
        """Settings of an AnchorGenerator, or of the mapping that a config gives for one.

        Keys that the mapping lacks take AnchorGenerator's defaults.
        """
        names = ("anchor_sizes", "aspect_ratios", "strides", "offset")
        if isinstance(generator, Mapping):
            from ppdet.modeling.proposal_generator.anchor_generator import AnchorGenerator

            defaults = inspect.signature(AnchorGenerator.__init__).parameters
            values = {name: generator.get(name, defaults[name].default) for name in names}
        else:
            values = {name: getattr(generator, name) for name in names}
        strides = tuple(float(stride) for stride in values["strides"])
        return cls(
            _per_level(values["anchor_sizes"], len(strides)),
            _per_level(values["aspect_ratios"], len(strides)),
            strides,
            float(values["offset"]),
        )

    def grids(self, height: int, width: int) -> Grids:
        """Feature map sizes for a padded image of height x width pixels.

        Every stride-2 layer of a ResNet and an FPN halves upwards, and so does their chain.
        """
        return tuple((math.ceil(height / stride), math.ceil(width / stride)) for stride in self.strides)

    def per_cell(self) -> tuple[int, ...]:
        """Anchors a cell, of each level."""
        return tuple(len(s) * len(r) for s, r in zip(self.anchor_sizes, self.aspect_ratios))

    def anchors(self, grids: Grids) -> np.ndarray:
        """float32 [A, 4], x0 y0 x1 y1 in pixels, level by level, cell by cell; shared, so not writable."""
        return _anchors(self, grids)

    def text(self, grids: Grids) -> str:
        """All of it as JSON: what AssignRPNTargets ships, for `difference`."""
        return json.dumps({**asdict(self), "grids": grids}, sort_keys=True)


def difference(loader: str, model: str) -> str:
    """The first setting in which two `text()`s differ, as words; empty where they are alike."""
    if loader == model:
        return ""
    ours, theirs = json.loads(loader), json.loads(model)
    for name in sorted(ours, key=lambda name: name == "grids"):  # last, as the other settings decide them
        if ours[name] != theirs.get(name):
            return (
                f"{name} is {ours[name]} in AssignRPNTargets but {theirs.get(name)} in the model's RPN head"
            )
    return ""


def _per_level(values: Sequence[Any], levels: int) -> tuple[tuple[float, ...], ...]:
    if not isinstance(values[0], (list, tuple)):
        values = [values] * levels
    elif len(values) == 1:
        values = list(values) * levels
    return tuple(tuple(float(value) for value in level) for level in values)


# Multi-scale training meets the same few sizes again and again; 16 of them at 268,569 anchors are 69 MB.
@lru_cache(maxsize=16)
def _anchors(settings: AnchorSettings, grids: Grids) -> np.ndarray:
    levels = []
    for sizes, ratios, stride, (rows, columns) in zip(
        settings.anchor_sizes, settings.aspect_ratios, settings.strides, grids
    ):
        cell = []
        for size in sizes:
            for ratio in ratios:
                width = math.sqrt(size**2.0 / ratio)
                height = ratio * width
                cell.append([-width / 2.0, -height / 2.0, width / 2.0, height / 2.0])
        x = np.arange(settings.offset * stride, columns * stride, stride, dtype=np.float32)
        y = np.arange(settings.offset * stride, rows * stride, stride, dtype=np.float32)
        y, x = (axis.reshape(-1) for axis in np.meshgrid(y, x, indexing="ij"))
        shifts = np.stack([x, y, x, y], axis=1)
        levels.append((shifts[:, None] + np.asarray(cell, dtype=np.float32)[None]).reshape(-1, 4))
    anchors = np.concatenate(levels)
    anchors.setflags(write=False)
    return anchors
