"""One layout for the whole model: `data_format: NHWC` at the top of a config, and stock layers set to it.

Stock layers keep their weights, whose shapes are the same in both layouts; only the attribute that their
forward pass reads is changed. The image is transposed once where it enters the backbone, and features
where they enter RoIAlign, which Paddle has in NCHW alone.
"""

from __future__ import annotations

import inspect
from typing import Any

import paddle
from paddle import nn
from paddle.vision.ops import DeformConv2D
from ppdet.core.workspace import global_config
from ppdet.modeling.backbones.resnet import SELayer

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.registry import inherit_section, shared_settings

__all__ = [
    "is_channels_last",
    "require_one_layout",
    "section_and_layout",
    "set_channels_last",
    "to_nchw",
    "to_nhwc",
]

ARCHITECTURES = ("FasterRCNN", "MaskRCNN", "CascadeRCNN")
PARTS_OF_A_MODEL = ("backbone", "neck", "rpn_head", "bbox_head", "mask_head")
# Layers without a layout: they treat every value, or every row, alike.
WITHOUT_LAYOUT = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.Swish, nn.Hardswish, nn.Sigmoid, nn.Dropout, nn.Identity)


def to_nhwc(value: paddle.Tensor) -> paddle.Tensor:
    """[N, C, H, W] as [N, H, W, C]."""
    return paddle.transpose(value, [0, 2, 3, 1])


def to_nchw(value: paddle.Tensor) -> paddle.Tensor:
    """[N, H, W, C] as [N, C, H, W]."""
    return paddle.transpose(value, [0, 3, 1, 2])


def is_channels_last(data_format: str) -> bool:
    """Whether `data_format` is NHWC.

    Raises:
        DetperfError: it is neither NHWC nor NCHW.
    """
    if data_format not in ("NCHW", "NHWC"):
        raise DetperfError(f"data_format must be NCHW or NHWC, got {data_format!r}")
    return data_format == "NHWC"


def require_one_layout(data_format: str) -> None:
    """Refuse a model of which one part would read NHWC features as NCHW.

    Called while a config is built; without an `architecture` in it (a part built by itself) nothing is asked.

    Raises:
        DetperfError: the architecture, or one of its parts, has NCHW alone.
    """
    name = global_config.get("architecture")
    if not is_channels_last(data_format) or name is None:
        return
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise DetperfError(f"data_format: NHWC is for {known}; {name} needs data_format: NCHW")
    if "data_format" in inspect.signature(getattr(global_config[name].pymodule, name).__init__).parameters:
        raise DetperfError(
            f"this PaddleDetection's own {name} takes data_format: name its parts with it, not Perf ones, "
            "or take the patches that brought it out by `detperf patch revert DIR 0015`"
        )
    for role in PARTS_OF_A_MODEL:
        part = global_config[name].get(role)
        section = global_config.get(part) if isinstance(part, str) else None
        if section is None or not hasattr(section, "pymodule"):
            continue
        if not hasattr(getattr(section.pymodule, part), "channels_last"):
            raise DetperfError(
                f"data_format: NHWC, but {name}.{role} is {part}, which has NCHW alone: name Perf{part} if "
                "there is one, use activate [true], or set data_format: NCHW"
            )


def section_and_layout(config: Any, stock: str, **defaults: Any) -> dict[str, Any]:
    """Arguments of a part with `data_format`: for use in `from_config`.

    Args:
        config: the live section of the part, as `from_config` receives it.
        stock: name of the stock section that it inherits.
        defaults: further keys that stand once for all parts, see `registry.shared_settings`.

    Raises:
        DetperfError: see `require_one_layout`.
    """
    inherited = inherit_section(config, stock)
    shared = shared_settings(config, data_format="NCHW", **defaults)
    require_one_layout(shared["data_format"])
    return {**inherited, **shared}


def set_channels_last(layer: nn.Layer) -> None:
    """Make a stock layer, and all layers within, take and give [N, H, W, C].

    Raises:
        DetperfError: one of them has NCHW alone, or is of a kind whose layout is not known.
    """
    for path, one in layer.named_sublayers(include_self=True):
        where = f"{type(layer).__name__}.{path}" if path else type(layer).__name__
        if isinstance(one, DeformConv2D):
            raise DetperfError(
                f"{where}: Paddle has deformable convolutions in NCHW alone; take out dcn_v2_stages or set "
                "data_format: NCHW"
            )
        if isinstance(one, SELayer):
            one.__class__ = _ChannelsLastSE
        # Paddle's layers read one or the other; `_channel_dim` says where a bias is added.
        known = [name for name in ("_data_format", "data_format") if hasattr(one, name)]
        for name in known:
            setattr(one, name, "NHWC")
        if hasattr(one, "_channel_dim"):
            one._channel_dim = 3
        if not (known or list(one.children()) or isinstance(one, (*WITHOUT_LAYOUT, nn.Linear))):
            raise DetperfError(f"{where} is a {type(one).__name__}, whose layout is not known: use NCHW")


class _ChannelsLastSE(SELayer):
    """Squeeze and excitation of [N, H, W, C]; weights as in SELayer."""

    def forward(self, inputs: paddle.Tensor) -> Any:
        """As SELayer."""
        squeezed = nn.functional.relu(self.squeeze(paddle.squeeze(self.pool(inputs), axis=[1, 2])))
        excited = nn.functional.sigmoid(self.extract(squeezed))
        return paddle.unsqueeze(excited, axis=[1, 2]) * inputs
