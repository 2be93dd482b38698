"""The rules of DBNet label files."""

from __future__ import annotations

from detperf_plugins.doctor.rules import Rule, rule

__all__ = ["RULES"]

_DET = "mindspore-lab/mindocr/blob/main/mindocr/data/det_dataset.py"


def _label(
    id: str, severity: str, message: str, why: str, fix: str, source: str, kind: str = "correctness"
) -> Rule:
    return rule(f"label-{id}", severity, kind, message, why=why, fix=fix, source=source, room="labels")


RULES = {
    r.id.removeprefix("label-"): r
    for r in (
        _label(
            "no-tab", "error", "no tab between the picture and its label",
            "An editor turned the tab into blanks: the line splits into too many pieces and the data set "
            "cannot be built.",
            "Put one tab there; `detperf lint FILE --fix OUT` does.",
            "PaddlePaddle/PaddleOCR/issues/12081",
        ),
        _label(
            "extra-tab", "error", "more than one tab in a line",
            "'too many values to unpack' while the data set is built.",
            "Keep the tab after the picture only; `detperf lint FILE --fix OUT` writes the others as \\t.",
            _DET,
        ),
        _label(
            "glued-records", "error", "two records on one line",
            "A file without a final newline was joined with another: 'Extra data' from the JSON reader.",
            "Break the line before the second picture; `detperf lint FILE --fix OUT` does.",
            "PaddlePaddle/PaddleOCR/issues/4271",
        ),
        _label(
            "empty", "error", "a picture without a label",
            "'Expecting value' from the JSON reader; MindOCR then drops the picture every epoch, or dies "
            "on the first line.",
            "Write [] for a picture without text, or delete the line. Nothing is done by itself: the "
            "annotation may be lost.",
            "PaddlePaddle/PaddleOCR/issues/11480",
        ),
        _label(
            "blank-line", "error", "a blank line",
            "MindOCR stops: 'Incorrect label file format'.",
            "Delete it; `detperf lint FILE --fix OUT` does.",
            _DET,
        ),
        _label(
            "bad-json", "error", "the label is no JSON list of boxes",
            "JSONDecodeError or KeyError in a loader worker; the picture is dropped every epoch.",
            "Write [{\"transcription\": \"text\", \"points\": [[x, y], ...]}, ...].",
            _DET,
        ),
        _label(
            "bad-box", "error", "a box without transcription or points, or with points that are no numbers",
            "KeyError or ValueError in a loader worker; the whole picture is dropped every epoch.",
            "Complete the box; `detperf lint FILE --fix OUT` reads strings and flat lists as numbers, and "
            "marks what else has a place ignored (###).",
            _DET,
        ),
        _label(
            "few-points", "error", "a box with fewer than 3 points",
            "Two points enclose nothing: ValueError in ValidatePolygons, IndexError in BorderMap; the "
            "picture is dropped.",
            "Give 4 corners; for two diagonal corners `detperf lint FILE --fix OUT` writes the upright "
            "rectangle.",
            "mindee/doctr/pull/553",
        ),
        _label(
            "point-order", "error", "corners in zigzag order",
            "Top left, top right, bottom left, bottom right makes a bow-tie of area 0: TopologicalError in "
            "ValidatePolygons drops the picture, or half a bow-tie is painted as text.",
            "Go round the box; `detperf lint FILE --fix OUT` reorders the corners.",
            "PaddlePaddle/PaddleOCR/issues/11868",
        ),
        _label(
            "self-intersection", "error", "a polygon that crosses itself",
            "The geometry library raises TopologicalError when a crop cuts it: the picture is dropped "
            "every epoch.",
            "Draw it again, or mark it ignored with the transcription ###; `detperf lint FILE --fix OUT` "
            "does the latter.",
            "open-mmlab/mmocr/issues/1004",
        ),
        _label(
            "degenerate", "warning", "a box that collapses to a line on the pixel grid",
            "The clipper works on whole pixels: growing or shrinking the box returns nothing, and [0] of "
            "it fails.",
            "Mark it ignored with the transcription ###; `detperf lint FILE --fix OUT` does.",
            "PaddlePaddle/PaddleOCR/issues/5101",
        ),
        _label(
            "tiny-text", "warning", "most boxes are smaller than min_text_size (8 px)",
            "ShrinkBinaryMap ignores them without a word: the model trains on almost nothing.",
            "Enlarge the pictures (RandomScale, a larger crop), or lower min_text_size.",
            "PaddlePaddle/PaddleOCR/issues/2114",
        ),
        _label(
            "all-ignored", "warning", "every box of the file is marked ignored",
            "Transcriptions ### and * are ignored by the loss: nothing is learnt.",
            "Write the text, or any placeholder such as 'text'.",
            "mindspore-lab/mindocr/blob/main/mindocr/data/transforms/det_transforms.py",
        ),
        _label(
            "very-dense", "hint", "more than 300 boxes in a picture",
            "Stock BorderMap takes about 0.5 ms a box: the loader becomes the bottleneck.",
            "Use the overlay fast_data (`detperf configs fast_data` prints its path): exact, compiled maps.",
            "open-mmlab/mmocr/issues/537", kind="performance",
        ),
        _label(
            "splits-on-crop", "hint", "a polygon that a crop can cut into pieces",
            "U-shaped text cut by a crop gives two pieces where older MindOCR expects one polygon "
            "(AttributeError on "
            ".exterior).",
            "Use MindOCR 0.4 or later, or PerfValidatePolygons.",
            "mindspore-lab/mindocr/pull/250",
        ),
        _label(
            "duplicate-picture", "warning", "a picture on two lines",
            "It is trained twice an epoch, each time with a part of its boxes as background.",
            "Join the lines.",
            "PaddlePaddle/PaddleOCR/issues/4271",
        ),
        _label(
            "repeated-line", "hint", "the same line twice",
            "The picture counts double in an epoch.",
            "Nothing, if it is meant.",
            _DET,
        ),
        _label(
            "image-missing", "error", "a picture that is not there",
            "AssertionError 'does not exist!' while the data set is built.",
            "Correct the path; it counts from data_dir.",
            "PaddlePaddle/PaddleOCR/issues/8855",
        ),
        _label(
            "image-broken", "error", "a picture whose header cannot be read",
            "The decoder returns nothing and the picture is dropped every epoch.",
            "Replace the file.",
            _DET,
        ),
        _label(
            "box-outside", "warning", "a box wholly or mostly outside its picture",
            "It trains on nothing; often the label belongs to another size of the picture.",
            "Scale the coordinates to the stored picture.",
            "mindspore-lab/mindocr/pull/579",
        ),
        _label(
            "exif-rotated", "warning", "a picture with EXIF rotation whose boxes fit only one of its two "
                                       "readings",
            "cv2 turns the picture by its EXIF mark, MindSpore's decoder (use_minddata) does not: the "
            "boxes match one of "
            "the two.",
            "Turn the stored pixels and delete the mark (exiftran -ai), then label again where needed.",
            "mindspore-lab/mindocr/pull/579",
        ),
        _label(
            "covers-picture", "hint", "a text that covers the whole picture",
            "RandomCropWithBBox finds no free row or column to cut at and falls back to the whole picture "
            "every time.",
            "Nothing, if it is meant.",
            "open-mmlab/mmdetection/pull/2704",
        ),
        _label(
            "icdar-format", "error", "ICDAR ground truth where a label file is wanted",
            "Lines `x1,y1,...,x4,y4,text` belong to one picture; the hosts want one line a picture "
            "with JSON.",
            "Convert with MindOCR's tools/dataset_converters/convert.py.",
            "PaddlePaddle/PaddleOCR/pull/749",
        ),
        _label(
            "icdar-line", "error", "an ICDAR line without 8 whole numbers",
            "int() fails, or the box is lost.",
            "Correct the line: x1,y1,x2,y2,x3,y3,x4,y4,text.",
            "PaddlePaddle/PaddleOCR/pull/749",
        ),
    )
}  # fmt: skip
