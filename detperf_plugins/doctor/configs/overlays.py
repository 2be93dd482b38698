"""Bases and overlays that do not fit the config that names them: another host's, or another model's."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config, host_of_keys, key_counts
from detperf_plugins.doctor.configs.names import OUR_NAMES
from detperf_plugins.doctor.configs.paddledet_faults import TWO_STAGE, has_masks
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node

__all__ = ["check"]

OTHER_HOST = rule(
    "config-base-other-host",
    "error",
    "correctness",
    "a `_BASE_` entry is a config or overlay of the other host",
    why="Neither host reads the other's sections: the entry changes nothing, and the run trains without it.",
    fix="Name an overlay of this host; `detperf configs` lists them by host.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="yaml",
)
NO_MASK_HEAD = rule(
    "ppdet-no-mask-head",
    "warning",
    "correctness",
    "a mask assigner of this project is set, but the model has no mask head",
    why="The section MaskHead is not built, so the assigner is never called: the run trains without it.",
    fix="Leave the overlay out; for a model without masks use exact_parts.yml (`detperf configs exact_parts` "
    "prints its path), or name a mask head.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/modeling/architectures/faster_rcnn.py",
    room="paddledet",
)
PAD_STRIDE = rule(
    "ppdet-fpn-padding",
    "error",
    "correctness",
    "the pictures of an FPN model are not padded to a multiple of 32",
    why="FPN adds each level to the one below at twice its size; where a side is no multiple of 32 they "
    "differ by one, and the run stops with 'Broadcast dimension mismatch'.",
    fix="Set PadBatch.pad_to_stride: 32 in TrainReader.batch_transforms.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/modeling/necks/fpn.py",
    room="paddledet",
)
C4_PADDING = rule(
    "ppdet-c4-padding",
    "warning",
    "correctness",
    "an overlay for FPN models over a C4 model",
    why="It pads pictures to a multiple of 32, which the stock C4 configs do not: the run trains, on wider "
    "margins than stock.",
    fix="Use the overlay's twin that ends in _c4.",
    source="PaddlePaddle/PaddleDetection/blob/develop/configs/mask_rcnn/_base_/mask_reader.yml",
    room="paddledet",
)

_HOSTS = {"mindocr": "MindOCR", "paddledet": "PaddleDetection"}
_FPN = ("FPN", "PerfFPN")


def check(config: Config) -> None:
    """Report every fault named above."""
    if config.host in _HOSTS:
        for name, node in config.chain.included:
            _host(config, name, node)
    if config.host == "paddledet" and config.get("architecture"):
        _mask_head(config)
        _padding(config)


def _host(config: Config, name: Node, base: Node) -> None:
    keys = base.entries.keys() - {"_BASE_"}
    host = host_of_keys(keys)
    if host not in _HOSTS or key_counts(keys)[config.host]:
        return
    if keys == {"plugins"} and host not in base.entries["plugins"].node.tag:
        return
    message = f"{name.value} has settings of {_HOSTS[host]} alone; this is a config of {_HOSTS[config.host]}"
    config.report(OTHER_HOST, name, message)


def _mask_head(config: Config) -> None:
    if has_masks(config):
        return
    for section in ("MaskHead", "PerfMaskHead"):
        assigner = config.get(f"{section}.mask_assigner")
        if isinstance(assigner, str) and assigner in OUR_NAMES:
            model = config.get("architecture")
            message = f"{section}.mask_assigner: {assigner} has no effect; {model} has no mask head"
            config.report(NO_MASK_HEAD, f"{section}.mask_assigner", message)


def _padding(config: Config) -> None:
    name = config.get("architecture")
    neck = config.get(f"{name}.neck")
    for step in config.transforms("TrainReader.batch_transforms"):
        if step.name != "PadBatch":
            continue
        node = step.params.get("pad_to_stride") if step.params is not None else None
        stride = 0 if node is None else node.value
        if not isinstance(stride, int):
            continue
        if neck in _FPN and (stride <= 0 or stride % 32):
            message = f"PadBatch.pad_to_stride is {stride}, but {name} has the neck {neck}"
            if step.node.file.endswith("_c4.yml"):
                fix = "Use the overlay's twin that ends in _fpn."
                config.report(PAD_STRIDE, node or step.node, message, fix)
            else:  # the pictures of one's own set may all fit
                config.report(PAD_STRIDE, node or step.node, message, severity="hint")
        elif step.node.file.endswith("_fpn.yml") and not neck and name in TWO_STAGE and stride > 0:
            message = f"PadBatch.pad_to_stride is {stride}, but {name} has no neck"
            config.report(C4_PADDING, node or step.node, message)
