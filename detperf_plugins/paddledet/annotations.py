"""COCO annotations put right before PaddleDetection reads them: one record may be bad, the run goes on.

Stock COCODataSet drops list entries while it walks them when a segmentation has an empty part (its arrays
keep their length, so every later row of that image is shifted), raises KeyError for a missing key, and
hands NaN on to pycocotools, which crashes. Here each such annotation is put right, or loses only its
mask, with one warning that names it. Annotations without a fault reach stock untouched.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from detperf_plugins.paddledet.polygons import MAX_COORDINATE, NO_MASK, is_rle, usable_parts
from detperf_plugins.rle import rle_fault

__all__ = [
    "Finding",
    "check_annotations",
    "polygons_expected",
    "rle_annotations",
    "rle_reported",
]


NO_TARGET = "no mask target (weight 0), its box still trains"

# Annotation ids of the run-length encoded instances that are not reported yet, by image id: for those who
# meet them after loading. Loader workers inherit it.
_rle: dict[Any, list[Any]] = {}
_rle_reported: set[Any] = set()
_expects_polygons = False


class Finding(tuple):
    """(image id, annotation id, fault, what was done), as `check_annotations` returns them."""

    __slots__ = ()

    def __str__(self) -> str:
        image_id, annotation_id, fault, done = self
        return f"image {image_id}, annotation {annotation_id}: {fault}; {done}"


def polygons_expected() -> None:
    """Called by the parts that cannot use RLE: from then on the guard reports RLE instances."""
    global _expects_polygons
    _expects_polygons = True


def rle_annotations(image_id: Any) -> list[Any]:
    """Annotation ids of an image's RLE instances, as far as the guard has seen and not reported them."""
    return _rle.get(image_id, [])


def rle_reported(image_id: Any) -> bool:
    """Whether the guard has warned of an image's RLE instances."""
    return image_id in _rle_reported


def check_annotations(dataset: dict[str, Any], masks: bool = True, evaluating: bool = False) -> list[Finding]:
    """Put the annotations of a COCO data set right, in place.

    Args:
        dataset: a loaded COCO json with `images`, `annotations`, `categories`.
        masks: whether segmentations are used (`gt_poly` among the data fields).
        evaluating: the annotations are ground truth for pycocotools, which reads RLE, and leaves a crowd's
            region out: that is what an instance without a usable mask becomes, over its box.

    Returns:
        One finding per fault, in file order.
    """
    images = {image.get("id"): image for image in dataset.get("images", [])}
    categories = {category.get("id") for category in dataset.get("categories", [])}
    kept, findings = [], []
    known = [
        one["id"] for one in dataset.get("annotations", []) if isinstance(one, dict) and _is_id(one, "id")
    ]
    free = itertools.count(1 + max((one for one in known if isinstance(one, int)), default=0))
    for annotation in dataset.get("annotations", []):
        if not isinstance(annotation, dict) or not _is_id(annotation, "image_id"):
            what = "it has no image_id" if isinstance(annotation, dict) else "it is no object"
            findings.append(Finding((None, _id_of(annotation), what, "the record is left out")))
            continue
        dropped, faults = _check_box(annotation, categories)
        if not dropped and not _is_id(annotation, "id"):
            annotation["id"] = next(free)
            faults.append(("no id", f"it gets the id {annotation['id']}"))
        if not dropped and masks:
            image = images.get(annotation.get("image_id"))
            faults += _check_truth(annotation, image) if evaluating else _check_mask(annotation, image)
        if not dropped:
            kept.append(annotation)
        for fault, done in faults:
            findings.append(Finding((annotation.get("image_id"), annotation.get("id"), fault, done)))
    dataset["annotations"] = kept
    return findings


def _is_id(annotation: dict[str, Any], key: str) -> bool:
    """Whether a key holds what pycocotools can file an annotation under."""
    return isinstance(annotation.get(key), (int, float, str))


def _id_of(annotation: Any) -> Any:
    return annotation.get("id") if isinstance(annotation, dict) else None


def _check_box(annotation: dict[str, Any], categories: set[Any]) -> tuple[bool, list[tuple[str, str]]]:
    """Whether the annotation must go, and (fault, what was done) for what was found."""
    faults = []
    if not _is_id(annotation, "category_id") or annotation["category_id"] not in categories:
        return True, [(f"unknown category_id {annotation.get('category_id')}", "the instance is left out")]
    box = annotation.get("bbox")
    if not (isinstance(box, (list, tuple)) and len(box) == 4):
        return True, [("bbox is not four numbers", "the instance is left out")]
    try:
        finite = all(math.isfinite(value) for value in box)
    except TypeError:
        finite = False
    if not finite:
        return True, [("bbox holds a value that is no finite number", "the instance is left out")]
    if "area" not in annotation:
        annotation["area"] = box[2] * box[3]
        faults.append(("no area", "the box's area is used"))
    if "iscrowd" not in annotation:
        annotation["iscrowd"] = 0
        faults.append(("no iscrowd", "0 is used"))
    return False, faults


def _check_mask(annotation: dict[str, Any], image: dict[str, Any] | None) -> list[tuple[str, str]]:
    segmentation = annotation.get("segmentation")
    if annotation.get("iscrowd") == 1:
        return []  # stock puts its placeholder in; a crowd never becomes a positive
    if isinstance(segmentation, dict) and is_rle(segmentation):
        fault = rle_fault(segmentation, *_size(image))
        if fault:
            annotation["segmentation"] = NO_MASK
            return [(fault, NO_TARGET)]
        if _expects_polygons:
            _rle_reported.add(annotation.get("image_id"))
            fault = "run-length encoding where polygons are expected"
            return [(fault, f"{NO_TARGET}; PolyToBitmap reads it")]
        _rle.setdefault(annotation.get("image_id"), []).append(annotation.get("id"))
        return []
    parts, faults = _clean_parts(segmentation)
    if not parts:
        annotation["segmentation"] = NO_MASK
        return [(", ".join(dict.fromkeys(faults)), NO_TARGET)]
    if faults:
        annotation["segmentation"] = parts
        return [(", ".join(dict.fromkeys(faults)), f"{len(parts)} part(s) kept")]
    outside = _outside(annotation, parts, image)
    if outside:
        annotation["segmentation"] = NO_MASK
        return [(outside, NO_TARGET)]
    return []


def _check_truth(annotation: dict[str, Any], image: dict[str, Any] | None) -> list[tuple[str, str]]:
    """`_check_mask` for an evaluation."""
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, dict) and is_rle(segmentation):
        fault = rle_fault(segmentation, *_size(image))
    else:
        parts, faults = _clean_parts(segmentation)
        fault = ", ".join(dict.fromkeys(faults))
        if parts and faults:
            annotation["segmentation"] = parts
            return [(fault, f"{len(parts)} part(s) kept")]
        if parts and annotation["iscrowd"] != 1:
            fault = _outside(annotation, parts, image)
    if not fault:
        return []
    x, y, w, h = (float(value) for value in annotation["bbox"])
    annotation["segmentation"] = [[x, y, x + w, y, x + w, y + h, x, y + h]]
    annotation["iscrowd"] = 1
    return [(fault, "its mask is left out of the evaluation, its box counts")]


def _clean_parts(segmentation: Any) -> tuple[list[list[float]], list[str]]:
    """`usable_parts`, with a short way out for the millions that are clean."""
    if isinstance(segmentation, list) and segmentation:
        try:
            if all(
                len(part) >= 6 and not len(part) & 1 and min(part) >= -MAX_COORDINATE
                and max(part) <= MAX_COORDINATE and math.isfinite(sum(part))
                for part in segmentation
            ):  # fmt: skip
                return segmentation, []
        except TypeError:
            pass
    return usable_parts(segmentation)


def _size(image: dict[str, Any] | None) -> tuple[int | None, int | None]:
    """Height and width of an image, None where its entry does not say."""
    return (int(image["height"]), int(image["width"])) if image and _sized(image) else (None, None)


def _sized(image: dict[str, Any]) -> bool:
    return all(isinstance(image.get(side), (int, float)) for side in ("width", "height"))


def _outside(annotation: dict[str, Any], parts: list[list[float]], image: dict[str, Any] | None) -> str:
    """Why nothing of the instance lies in its image; an empty string where something does."""
    if not image or not _sized(image):
        return ""
    width, height = float(image["width"]), float(image["height"])
    x, y, w, h = annotation["bbox"]
    if x >= width or y >= height or x + w <= 0 or y + h <= 0:
        return f"a box outside its {width:g} x {height:g} image"
    for part in parts:
        if (
            min(part[0::2]) < width
            and max(part[0::2]) > 0
            and min(part[1::2]) < height
            and max(part[1::2]) > 0
        ):
            return ""
    return f"a polygon outside its {width:g} x {height:g} image"
