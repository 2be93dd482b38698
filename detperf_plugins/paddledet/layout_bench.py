"""What a layout and folded norms cost and save: counts for `detperf bench layouts`.

Transposes and operators of one training step of whole models do not depend on sizes, so the models are
PaddleDetection's own with small images and few RoIs. Memory does: folding is measured at the size given.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import paddle
from paddle import nn
from ppdet.core.workspace import create, global_config, load_config, merge_config
from ppdet.modeling.backbones.resnet import Res5Head, ResNet

from detperf_plugins import configs_dir
from detperf_plugins.measure.compare import compare
from detperf_plugins.measure.counters import Counts, count
from detperf_plugins.measure.memory import peak_mb
from detperf_plugins.paddledet import activate, deactivate
from detperf_plugins.paddledet.resnet import PerfRes5Head, PerfResNet

__all__ = ["LAYOUTS", "MODELS", "fold_rows", "layout_rows"]

MODELS = {
    "c4": "mask_rcnn_r50_1x_coco.yml",
    "fpn": "mask_rcnn_r50_fpn_1x_coco.yml",
    "cascade": "mask_rcnn_r50_fpn_1x_coco.yml",
}
# Name -> our parts in place of stock's, data_format, fold_frozen_norm.
LAYOUTS = {
    "stock": (False, "NCHW", False),
    "NCHW": (True, "NCHW", False),
    "NHWC": (True, "NHWC", False),
    "NHWC, folded norms": (True, "NHWC", True),
}
CASCADE: dict[str, Any] = {
    "architecture": "CascadeRCNN",
    "CascadeRCNN": {
        "backbone": "ResNet", "neck": "FPN", "rpn_head": "RPNHead", "bbox_head": "CascadeHead",
        "mask_head": "MaskHead", "bbox_post_process": "BBoxPostProcess",
        "mask_post_process": "MaskPostProcess",
    },
    "CascadeHead": {
        "head": "CascadeTwoFCHead", "bbox_assigner": "BBoxAssigner",
        "roi_extractor": {"resolution": 7, "sampling_ratio": 0, "aligned": True},
    },
}  # fmt: skip
FEW = {
    "BBoxAssigner": {"batch_size_per_im": 8, "cascade_iou": [0.5, 0.6, 0.7]},
    "RPNHead": {"train_proposal": {"pre_nms_top_n": 50, "post_nms_top_n": 20}},
}
SIZE = 128


@contextlib.contextmanager
def _config_of_its_own() -> Iterator[None]:
    """ppdet keeps one config in a process: what the block loads is taken out again."""
    before = {name: copy.copy(one) for name, one in global_config.items() if not hasattr(one, "schema")}
    settings = {name: copy.deepcopy(dict(one)) for name, one in _sections()}
    for _, section in _sections():
        section.clear()
    try:
        yield
    finally:
        deactivate()
        for name in set(global_config) - set(before) - set(settings):
            del global_config[name]
        global_config.update(before)
        for name, section in _sections():
            section.clear()
            section.update(settings.get(name, {}))


def _sections() -> list[tuple[str, Any]]:
    return [(name, one) for name, one in global_config.items() if hasattr(one, "schema")]


def _batch() -> dict[str, Any]:
    """One image with a box for every level."""
    boxes = np.array([[4, 4, 30, 40], [10, 8, 90, 70], [0, 0, 127, 127]], dtype=np.float32)
    outlines = [[[float(v) for v in (a, b, c, b, c, d, a, d)]] for a, b, c, d in boxes]
    return {
        "image": paddle.rand([1, 3, SIZE, SIZE]),
        "im_shape": paddle.full([1, 2], float(SIZE)),
        "scale_factor": paddle.ones([1, 2]),
        "im_id": paddle.to_tensor([[0]]),
        "gt_bbox": [paddle.to_tensor(boxes)],
        "gt_class": [paddle.to_tensor(np.array([[0], [1], [2]], dtype=np.int32))],
        "is_crowd": [paddle.zeros([3, 1])],
        "gt_poly": [outlines],
    }


def layout_rows(models: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each model and layout: what one training step dispatches.

    Fields: table ("layouts"), model, layout, transposes and transpose_gradients (of the step and its
    backward pass), operators and gradients (all of them).
    """
    for model, (layout, (ours, data_format, fold)) in itertools.product(models, LAYOUTS.items()):
        with _config_of_its_own():
            load_config(str(configs_dir() / "paddledet" / "mask_rcnn" / MODELS[model]))
            merge_config({**(CASCADE if model == "cascade" else {}), **copy.deepcopy(FEW)})
            merge_config({"data_format": data_format, "fold_frozen_norm": fold})
            deactivate()
            activate(replace=ours)
            paddle.seed(0)
            counts = _step_counts(_network(), _batch())
            yield {
                "table": "layouts",
                "model": model,
                "layout": layout,
                "transposes": _of(counts.operators, "transpose", "transpose2"),
                "transpose_gradients": _of(counts.gradients, "TransposeGradNode"),
                "operators": sum(counts.operators.values()),
                "gradients": sum(counts.gradients.values()),
            }


def _network() -> nn.Layer:
    """The model of the config, with norms under which features of random weights stay finite."""
    network = create(global_config["architecture"])
    for name, one in network.named_parameters():
        if name.endswith("norm.weight"):
            one.set_value(paddle.full_like(one, 0.3))
    network.train()
    return network


def _step_counts(network: nn.Layer, batch: dict[str, Any]) -> Counts:
    def step() -> None:
        network(dict(batch))["loss"].sum().backward()

    step()
    network.clear_gradients()
    return count(step, backward=True)


def _of(counted: dict[str, int], *names: str) -> int:
    return sum(counted.get(name, 0) for name in names)


def fold_rows(size: int, rois: int, pairs: int = 0) -> Iterator[dict[str, Any]]:
    """A row for stock and one for folded norms: Mask R-CNN R50-C4's convolutions, forward and backward.

    Fields: table ("fold"), norms ("stock" or "folded"), size, rois, operators, gradients, kept_mb (held
    between the forward and the backward pass), peak_mb (None where the system cannot tell); with `pairs`
    step_ms, and ratio (stock's time over ours) with ratio_low and ratio_high.

    Args:
        size: height and width of the image, pixels.
        rois: RoIs in the box head.
        pairs: interleaved pairs to time; 0 for none.
    """
    settings = {"depth": 50, "num_stages": 3, "return_idx": [2]}
    models = {
        "stock": (ResNet(**settings), Res5Head()),
        "folded": (PerfResNet(**settings, fold_frozen_norm=True), PerfRes5Head(fold_frozen_norm=True)),
    }
    image, features = paddle.rand([1, 3, size, size]), paddle.rand([rois, 1024, 14, 14])
    allocated = paddle.base.core.host_memory_stat_current_value
    kept = {}

    def step(name: str) -> Callable[[], None]:
        backbone, head = models[name]

        def run() -> None:
            before = allocated("Allocated", 0)
            outputs = [backbone({"image": image})[0], head(features)]
            kept[name] = (allocated("Allocated", 0) - before) / 2**20
            (outputs[0].mean() + outputs[1].mean()).backward()
            for layer in (backbone, head):
                layer.clear_gradients()

        return run

    steps = {name: step(name) for name in models}
    for run in steps.values():
        run()
    timed = compare(steps["stock"], steps["folded"], pairs) if pairs else None
    for name, run in steps.items():
        counts, peak = count(run, backward=True), peak_mb(run)
        row: dict[str, Any] = {
            "table": "fold",
            "norms": name,
            "size": size,
            "rois": rois,
            "operators": sum(counts.operators.values()),
            "gradients": sum(counts.gradients.values()),
            "kept_mb": round(kept[name], 1),
            "peak_mb": None if peak is None else round(peak, 1),
        }
        if timed:
            row["step_ms"] = round(timed.base_ms if name == "stock" else timed.other_ms, 1)
            row["ratio"] = round(timed.ratio, 3) if name == "folded" else 1.0
            row["ratio_low"] = round(timed.ratio_low, 3) if name == "folded" else 1.0
            row["ratio_high"] = round(timed.ratio_high, 3) if name == "folded" else 1.0
        yield row
