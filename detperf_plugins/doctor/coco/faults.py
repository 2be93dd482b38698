"""The rules of COCO annotation files."""

from __future__ import annotations

from detperf_plugins.doctor.rules import Rule, rule

__all__ = ["RULES"]


def _coco(
    id: str,
    severity: str,
    message: str,
    why: str,
    fix: str,
    source: str,
    kind: str = "correctness",
    weight: int = 0,
) -> Rule:
    return rule(
        f"coco-{id}", severity, kind, message, why=why, fix=fix, source=source, room="coco", weight=weight
    )


_DROP = "Delete the annotation or draw its mask again; `detperf lint FILE --fix OUT` deletes it."
RULES = {
    r.id: r
    for r in (
        _coco(
            "structure", "error", "a section of the file is missing or is no list",
            "pycocotools and both hosts index images, annotations and categories.",
            "Write the three lists, empty where there is nothing.",
            "cocodataset/cocoapi/blob/master/PythonAPI/pycocotools/coco.py", weight=-2,
        ),
        _coco(
            "no-masks", "error", "the file is a detection set: hardly any annotation has a mask",
            "Mask R-CNN needs a segmentation for every instance; without one each sample fails with a "
            "warning, without end.",
            "Use a detection config, or annotate masks (segmentation).",
            "PaddlePaddle/PaddleDetection/issues/6971", weight=-1,
        ),
        _coco(
            "empty-segmentation", "warning", "annotations without a usable mask",
            "PaddleDetection keeps a None polygon and the first polygon transform aborts the whole sample; "
            "or the lists "
            "of boxes and masks fall out of step.",
            _DROP, "PaddlePaddle/PaddleDetection/issues/2032",
        ),
        _coco(
            "part-too-short", "warning", "parts of fewer than 3 points",
            "pycocotools reads a list of 4 numbers as a box [x, y, w, h], and 2 numbers as nothing: a blob "
            "appears, or the "
            "worker dies.",
            "Delete the part; `detperf lint FILE --fix OUT` does, and deletes the annotation where no part "
            "is left.",
            "cocodataset/cocoapi/issues/159",
        ),
        _coco(
            "point-pairs", "error", "polygons written as [[x, y], [x, y], ...]",
            "COCO wants one flat list a part, [[x, y, x, y, ...]]; every pair is read as a part of "
            "one point.",
            "Flatten the lists; `detperf lint FILE --fix OUT` does.",
            "cocodataset/cocoapi/issues/111",
        ),
        _coco(
            "odd-coordinates", "error", "parts with an odd number of coordinates",
            "A value was lost; from there on x and y are exchanged, and pycocotools draws another shape.",
            "Draw the part again; `detperf lint FILE --fix OUT` drops the last half point only where the "
            "rest encloses an area.",
            "open-mmlab/mmdetection/pull/8419",
        ),
        _coco(
            "bad-coordinate", "error", "coordinates that are no finite numbers",
            "null, text, NaN or Infinity inside a polygon is a TypeError deep in a loader worker, or a "
            "NaN loss.",
            _DROP, "facebookresearch/detectron2/issues/103",
        ),
        _coco(
            "huge-coordinate", "error", "coordinates far outside the picture",
            "A corrupted coordinate of about 1e8 makes the C rasteriser allocate gigabytes or crash "
            "the worker.",
            _DROP, "cocodataset/cocoapi/issues/380",
        ),
        _coco(
            "outside-image", "warning", "masks wholly outside the picture",
            "The mask target is empty while the box claims an object.",
            _DROP, "voxel51/fiftyone/pull/6904",
        ),
        _coco(
            "over-edge", "hint", "masks that reach over the picture's edge",
            "Legal and clipped by the rasteriser, but boxes must be clipped as well before anchors are "
            "assigned.",
            "Nothing, if it is a pixel or two; else check that width and height are not exchanged.",
            "pedropro/TACO/blob/master/data/annotations.json",
        ),
        _coco(
            "zero-area", "warning", "masks that enclose no area",
            "Points on one line, or all equal: the mask target is empty.",
            _DROP, "wkentaro/labelme/pull/2298",
        ),
        _coco(
            "self-intersection", "hint", "polygons that cross themselves",
            "The rasteriser fills by the even-odd rule inside a part: the overlap becomes a hole, half of "
            "a bow-tie is lost.",
            "Draw them again where it matters.",
            "open-mmlab/mmdetection/issues/1745",
        ),
        _coco(
            "nested-parts", "hint", "parts that lie inside another part of the same annotation",
            "COCO means the union of the parts: an inner ring is no hole.",
            "Where a hole is meant, store the mask as RLE.",
            "facebookresearch/detectron2/issues/489",
        ),
        _coco(
            "many-vertices", "hint", "polygons traced pixel by pixel",
            "Thousands of vertices make rasterising the loader's bottleneck.",
            "Simplify to half a pixel (cv2.approxPolyDP with epsilon 0.5).",
            "PaddlePaddle/PaddleDetection/issues/1699", kind="performance",
        ),
        _coco(
            "rle-instance", "warning", "ordinary instances stored as RLE",
            "PaddleDetection's polygon transforms do not resize or flip RLE masks rightly, or drop them.",
            "Use the overlay bitmap_targets_fpn, or bitmap_targets_c4 for a C4 model (`detperf configs NAME` "
            "prints its path), whose PolyToBitmap rasterises both; or convert them to polygons.",
            "PaddlePaddle/PaddleDetection/issues/7223",
        ),
        _coco(
            "rle-size", "error", "RLE whose size is not [height, width] of its picture",
            "The mask has another shape than the picture, often because width and height are exchanged.",
            "Write size as [height, width] and check that the counts still fit.",
            "airctic/icevision/issues/1098",
        ),
        _coco(
            "rle-counts", "error", "RLE whose counts do not add up to its size",
            "Decoding reads past the mask or leaves a part undefined.",
            _DROP, "airctic/icevision/issues/1098",
        ),
        _coco(
            "crowd-mostly", "warning", "most annotations are iscrowd 1",
            "Some tools export every RLE mask as crowd; PaddleDetection skips crowds or gives them an "
            "empty mask, so loss is "
            "0 and accuracy 100.",
            "Set iscrowd to 0 for single objects.",
            "PaddlePaddle/PaddleDetection/issues/7259",
        ),
        _coco(
            "bad-box", "error", "boxes of zero or negative size, or that are no four finite numbers",
            "A zero side gives inf or NaN box targets; PaddleDetection drops the instance with a warning "
            "each epoch.",
            "Delete the annotation, or take the box from the mask; `detperf lint FILE --fix OUT` does one or "
            "the other.",
            "PaddlePaddle/PaddleDetection/issues/543",
        ),
        _coco(
            "box-mask-differ", "warning", "boxes that do not match their mask",
            "The mask target is cut by the box: where they differ, it is empty or another object's.",
            "Take the box from the mask; `detperf lint FILE --fix OUT` does.",
            "voxel51/fiftyone/pull/6904",
        ),
        _coco(
            "area-missing", "warning", "annotations without area",
            "KeyError: 'area' while PaddleDetection loads the set, or at the first evaluation.",
            "Write the mask's area; `detperf lint FILE --fix OUT` does.",
            "open-mmlab/mmdetection/issues/804",
        ),
        _coco(
            "area-zero", "warning", "annotations with area 0 or less though the mask encloses one",
            "PaddleDetection drops an instance whose area is not positive.",
            "Write the mask's area; `detperf lint FILE --fix OUT` does.",
            "PaddlePaddle/PaddleDetection/issues/543",
        ),
        _coco(
            "iscrowd-missing", "warning", "annotations without iscrowd",
            "KeyError: 'iscrowd' while PaddleDetection loads the set.",
            "Write 0 (that is how the absence is read); `detperf lint FILE --fix OUT` does.",
            "zylo117/Yet-Another-EfficientDet-Pytorch/issues/654",
        ),
        _coco(
            "unknown-category", "error", "annotations of a category that is not in categories",
            "KeyError from inside the loader.",
            "Add the category or correct category_id.",
            "facebookresearch/detectron2/issues/1531",
        ),
        _coco(
            "unknown-image", "error", "annotations that point at no image",
            "Their objects silently disappear.",
            "Correct image_id; ids of images and annotations must have the same type (17 is not \"17\").",
            "dbolya/yolact/issues/156",
        ),
        _coco(
            "id-type", "error", "ids that are text where numbers are meant",
            "pycocotools takes a text id apart into characters, or finds nothing under it.",
            "Write ids as numbers; `detperf lint FILE --fix OUT` does where all of them are digits.",
            "dbolya/yolact/issues/156",
        ),
        _coco(
            "duplicate-id", "warning", "ids used twice",
            "pycocotools keeps the last record of an id; evaluation counts wrongly.",
            "Number them anew; `detperf lint FILE --fix OUT` renumbers annotations.",
            "cocodataset/cocoapi/blob/master/PythonAPI/pycocotools/coco.py",
        ),
        _coco(
            "bad-record", "error", "records that lack a field, or are no objects",
            "KeyError while the set is loaded.",
            "Complete or delete them.",
            "cocodataset/cocoapi/blob/master/PythonAPI/pycocotools/coco.py",
        ),
        _coco(
            "image-size", "error", "images without a positive width and height",
            "PaddleDetection ignores the picture, or cannot scale its masks.",
            "Write the picture's real size.",
            "PaddlePaddle/PaddleDetection/blob/develop/ppdet/data/source/coco.py",
        ),
        _coco(
            "image-missing", "error", "picture files that are not there",
            "PaddleDetection skips each of them with a warning; when all are missing it dies with 'not "
            "found any coco "
            "record'.",
            "Correct file_name (it counts from image_dir) and write forward slashes.",
            "PaddlePaddle/PaddleDetection/issues/4267",
        ),
        _coco(
            "file-name-separator", "error", "file names with back-slashes",
            "Off Windows a back-slash is a letter of the name: the picture is not found.",
            "Write forward slashes; `detperf lint FILE --fix OUT` does.",
            "PaddlePaddle/PaddleDetection/issues/4267",
        ),
        _coco(
            "no-instances", "hint", "images without any annotation",
            "PaddleDetection leaves them out of training unless allow_empty is true; they are useful as "
            "background.",
            "Set TrainDataset.allow_empty: true where you want them.",
            "PaddlePaddle/PaddleDetection/issues/5956",
        ),
        _coco(
            "mask-memory", "hint", "pictures whose masks take much memory as full-size bitmaps",
            "One byte a pixel and instance: the loader workers run out of memory.",
            "Keep polygons (PackPolygons), or rasterise after RandomResize (PolyToBitmap).",
            "facebookresearch/maskrcnn-benchmark/issues/256", kind="performance",
        ),
        _coco(
            "many-instances", "hint", "pictures with more than 300 instances",
            "The anchor assigner's IoU matrix takes anchors x boxes x 4 bytes on the device: about 1 GiB "
            "at 268,000 "
            "anchors and 900 boxes.",
            "Use the overlay exact_parts (`detperf configs exact_parts` prints its path), or assign_on_cpu.",
            "PaddlePaddle/PaddleDetection/pull/5625", kind="performance",
        ),
        _coco(
            "nonfinite-literal", "warning", "the file holds NaN or Infinity",
            "These are no JSON; Python reads them, stricter readers stop.",
            "Delete the records concerned; `detperf lint FILE --fix OUT` does.",
            "pedropro/TACO/blob/master/data/annotations_unofficial.json",
        ),
    )
}  # fmt: skip
