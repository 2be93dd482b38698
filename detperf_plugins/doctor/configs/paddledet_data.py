"""A PaddleDetection config against its data set: masks, data_fields, classes, length of the warm-up."""

from __future__ import annotations

from pathlib import Path

from detperf_plugins.doctor.configs.config import Config, number
from detperf_plugins.doctor.configs.paddledet_faults import WARMUP, has_masks
from detperf_plugins.doctor.configs.paths import LARGEST_JSON, resolve
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node

__all__ = ["check", "dataset_type"]

NEEDS_POLY = rule(
    "ppdet-mask-needs-poly",
    "error",
    "correctness",
    "a mask head needs gt_poly in TrainDataset.data_fields",
    why="The data set then hands over boxes only: KeyError 'gt_poly' in the first forward pass.",
    fix="Use data_fields: ['image', 'gt_bbox', 'gt_class', 'gt_poly', 'is_crowd'] (configs/datasets/"
    "coco_instance.yml).",
    source="PaddlePaddle/PaddleDetection/issues/4091",
    room="paddledet",
)
NO_MASKS = rule(
    "ppdet-voc-for-mask",
    "error",
    "correctness",
    "the data set type gives no masks",
    why="VOC annotations hold boxes; Mask R-CNN needs a polygon for every instance.",
    fix="Convert the data to COCO json with segmentation and use !COCODataSet.",
    source="PaddlePaddle/PaddleDetection/issues/428",
    room="paddledet",
)
NUM_CLASSES = rule(
    "ppdet-num-classes",
    "error",
    "correctness",
    "num_classes is not the number of categories in the annotation file",
    why="In PaddleDetection 2 the background is not counted; one class too many is never learnt, one too "
    "few is an "
    "index error on the device.",
    fix="Set num_classes to the number of categories in the json.",
    source="PaddlePaddle/PaddleDetection/issues/266",
    room="paddledet",
)
CROWD_ZERO = rule(
    "ppdet-load-crowd",
    "warning",
    "correctness",
    "load_crowd is on under a mask head",
    why="PaddleDetection replaces the mask of a crowd region by zeros, and the region becomes a positive "
    "with an empty "
    "mask: the mask loss sinks to 0.",
    fix="Set load_crowd: false.",
    source="PaddlePaddle/PaddleDetection/issues/7259",
    room="paddledet",
)

_BOXES_ONLY = frozenset({"VOCDataSet", "WIDERFaceDataSet"})


def dataset_type(node: Node | None) -> str:
    """The class of a data set section: its tag, or its `name`."""
    if node is None:
        return ""
    name = node.get("name")
    return node.tag.lstrip("!") or (name.value if name is not None and isinstance(name.value, str) else "")


def check(config: Config) -> None:
    """Report every fault named above."""
    node = config.node("TrainDataset")
    if node is None:
        return
    kind = dataset_type(node)
    masks = has_masks(config)
    if masks and kind in _BOXES_ONLY:
        config.report(
            NO_MASKS,
            "TrainDataset",
            f"{config.get('architecture')} is trained on {kind}, which gives no masks",
        )
    elif masks and node.get("data_fields") is not None:
        fields = config.names("TrainDataset.data_fields")
        if "gt_poly" not in fields:
            message = f"data_fields {fields} has no gt_poly, but the model has a mask head"
            config.report(NEEDS_POLY, "TrainDataset.data_fields", message)
    elif masks and config.whole and kind == "COCODataSet":
        config.report(
            NEEDS_POLY, "TrainDataset", "TrainDataset has no data_fields; the default is ['image'] alone"
        )
    if masks and config.get("TrainDataset.load_crowd") is True:
        config.report(CROWD_ZERO, "TrainDataset.load_crowd", "load_crowd: true with a mask head")
    _against_json(config)


def _against_json(config: Config) -> None:
    anno, root = config.get("TrainDataset.anno_path"), config.get("TrainDataset.dataset_dir")
    if not isinstance(anno, str) or not anno.endswith(".json") or not isinstance(root, (str, type(None))):
        return
    path, exists = resolve(config, root or "", anno)
    if not exists or not path.is_file() or path.stat().st_size > LARGEST_JSON:
        return
    counts = _counts(path)
    if counts is None:
        return
    categories, images = counts
    classes = config.number("num_classes")
    if classes is not None and categories and classes != categories:
        message = f"num_classes is {classes:g}, but {path} has {categories} categories"
        off = " (the background is not counted)" if classes == categories + 1 else ""
        config.report(NUM_CLASSES, "num_classes", message + off, f"Set num_classes: {categories}.")
    _warmup_steps(config, images)


def _counts(path: Path) -> tuple[int, int] | None:
    from detperf_plugins.doctor.coco.reader import open_coco
    from detperf_plugins.errors import DetperfError

    try:
        with open_coco(path) as data:
            return len(data.categories), len(data.images)
    except (DetperfError, OSError, ValueError):
        return None


def _warmup_steps(config: Config, images: int) -> None:
    epochs, batch = config.number("epoch"), config.number("TrainReader.batch_size")
    schedulers = config.node("LearningRate.schedulers")
    if not epochs or not batch or schedulers is None:
        return
    total = epochs * images / (batch * (config.cards or 1))
    for item in schedulers.items:
        steps = item.get("steps")
        length = number(steps.value) if steps is not None else None
        if (
            item.tag.lstrip("!") in ("LinearWarmup", "ExpWarmup")
            and steps is not None
            and length
            and length >= total > 0
        ):
            message = (
                f"the warm-up takes {length:g} iterations, the whole training about {total:.0f} "
                f"({images} images)"
            )
            config.report(WARMUP, steps, message)
