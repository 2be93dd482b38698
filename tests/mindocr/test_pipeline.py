"""The pipeline rewriter: what is replaced, what is left."""

from __future__ import annotations

import copy
import logging

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.pipeline import Options, rewrite
from tests.mindocr.support import PIPELINE


def names(pipeline):
    return [next(iter(step)) if isinstance(step, dict) else step for step in pipeline]


def changed(position, **arguments):
    pipeline = copy.deepcopy(PIPELINE)
    name = names(pipeline)[position]
    pipeline[position][name] = {**(pipeline[position][name] or {}), **arguments}
    return pipeline


EXACT = [
    "PerfDecodeImage",
    "PerfDetLabelEncode",
    "PerfExactGeometry",
    "PerfValidatePolygons",
    "PerfDetTargets",
    "PerfNormalizeToCHW",
]


def test_the_stock_training_pipeline_is_replaced_throughout(caplog):
    before = copy.deepcopy(PIPELINE)
    with caplog.at_level(logging.INFO, "mindocr.detperf"):
        assert names(rewrite(PIPELINE)) == EXACT
    assert before == PIPELINE
    said = [record.message for record in caplog.records]
    assert "transforms: ShrinkBinaryMap, BorderMap -> PerfDetTargets" in said and len(said) == 6


@pytest.mark.parametrize(
    ("pipeline", "left"),
    [
        (changed(0, to_float32=True), ["DecodeImage"]),
        (changed(0, channel_first=True), ["DecodeImage"]),
        (changed(2, contrast=[0.5, 1.5]), ["RandomColorAdjust"]),
        (changed(7, clip_to_visible_area=True), ["ValidatePolygons"]),
        (changed(8, shrink_ratio=0.5), ["ShrinkBinaryMap", "BorderMap"]),
        (changed(9, fast=True), ["ShrinkBinaryMap", "BorderMap"]),
        (changed(10, is_hwc=False), ["NormalizeImage", "ToCHWImage"]),
        ([*PIPELINE[:8], PIPELINE[9], PIPELINE[8], *PIPELINE[10:]], ["BorderMap", "ShrinkBinaryMap"]),
        (
            [*PIPELINE[:6], *PIPELINE[7:]],
            ["RandomColorAdjust", "RandomHorizontalFlip", "RandomRotate", "RandomScale"],
        ),
        ([*PIPELINE[:11]], ["NormalizeImage"]),
    ],
)
def test_settings_that_are_not_equal_are_left_alone(pipeline, left):
    made = rewrite(pipeline)
    assert [name for name in names(made) if not name.startswith("Perf")] == left
    for step in made:
        if names([step])[0] in left:
            assert step in pipeline


def test_other_orders_and_callables():
    late = [PIPELINE[0], PIPELINE[1], PIPELINE[5], PIPELINE[6], PIPELINE[2], PIPELINE[3], PIPELINE[4]]
    assert names(rewrite(late))[2:] == [
        "PerfExactGeometry",
        "RandomColorAdjust",
        "RandomHorizontalFlip",
        "RandomRotate",
    ]
    evaluation = [PIPELINE[0], PIPELINE[1], {"DetResize": {"target_size": [736, 1280]}}, *PIPELINE[10:]]
    assert names(rewrite(evaluation)) == [
        "PerfDecodeImage",
        "PerfDetLabelEncode",
        "DetResize",
        "PerfNormalizeToCHW",
    ]
    assert rewrite([len, PIPELINE[7]])[0] is len
    assert rewrite(PIPELINE, Options("off")) == PIPELINE


def test_what_minddata_looks_for_is_left():
    left = {"DecodeImage", "RandomColorAdjust", "NormalizeImage", "ToCHWImage"}
    made = names(rewrite(PIPELINE, use_minddata=True))
    assert left <= set(made) and {"PerfDetTargets", "PerfValidatePolygons", "PerfExactGeometry"} <= set(made)


def test_the_opt_ins():
    made = rewrite(PIPELINE, Options("fast", cache="memory", cache_gb=1.5))
    assert names(made)[2] == "PerfRandomGeometry"
    assert made[0]["PerfDecodeImage"]["cache"] == "memory" and made[0]["PerfDecodeImage"]["read_only"]
    assert rewrite(PIPELINE, Options("fast", reduced_decoding=True))[0]["PerfDecodeImage"]["defer"]
    without = [PIPELINE[0], PIPELINE[1], {"DetResize": {}}]
    assert not rewrite(without, Options(cache="memory"))[0]["PerfDecodeImage"]["read_only"]
    for wrong in (
        {"level": "faster"},
        {"reduced_decoding": True},
        {"level": "fast", "cache": "x", "reduced_decoding": True},
    ):
        with pytest.raises(UnreadableInput):
            Options(**wrong)
