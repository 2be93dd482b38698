"""Segmentations as they are met in real files: what is read, what is left out, and why."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.paddledet.polygons import NO_MASK, pack_polygons, usable_parts
from tests.polygons_strategy import parts

SQUARE = [3.0, 4.0, 17.0, 4.0, 17.0, 14.0, 3.0, 14.0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(parts(), min_size=1, max_size=3), max_size=5))
def test_packing_keeps_every_vertex_in_order(gt_poly):
    packed, faults = pack_polygons(gt_poly)
    assert packed.xy.dtype == np.float64 and packed.parts.dtype == packed.instances.dtype == np.int64
    assert len(packed.instances) == len(gt_poly) + 1 and packed.instances[-1] == len(packed.parts) - 1
    assert faults == []
    for g, segmentation in enumerate(gt_poly):
        single = [p for p in segmentation if min(p[::2]) == max(p[::2]) and min(p[1::2]) == max(p[1::2])]
        kept = [p for p in segmentation if p not in single]
        ours = [
            packed.xy[packed.parts[p] : packed.parts[p + 1]].reshape(-1).tolist()
            for p in range(packed.instances[g], packed.instances[g + 1])
        ]
        assert ours == kept


@pytest.mark.parametrize(
    ("segmentation", "count", "word"),
    [
        ([], 0, "no polygon"),
        (None, 0, "no polygon"),
        ("text", 0, "no polygon"),
        ([[]], 0, "empty part"),
        ([SQUARE, []], 1, "empty part"),
        ([[5.0, 5.0]], 0, "1 point"),
        ([[5.0, 5.0, 9.0, 9.0]], 0, "2 points"),
        ([[5.0, 5.0, 9.0, 9.0], SQUARE], 1, "2 points"),
        ([SQUARE[:-1]], 0, "odd number"),
        ([[*SQUARE[:-1], None]], 0, "no finite number"),
        ([[*SQUARE[:-1], "7"]], 0, "no finite number"),
        ([[*SQUARE[:-1], math.nan]], 0, "no finite number"),
        ([[*SQUARE[:-1], -math.inf]], 0, "no finite number"),
        ([[*SQUARE[:-1], 1e9]], 0, "beyond"),
        ([SQUARE, [*SQUARE[:-1], -3e7]], 1, "beyond"),
        ([[3, 4], [17, 4], [17, 14], [3, 14]], 1, "pairs"),
        (SQUARE, 1, "outer brackets"),
        ({"size": [20, 20], "counts": [400]}, 0, "run-length"),
        ({"size": [20, 20], "counts": "abc"}, 0, "run-length"),
    ],
)
def test_each_kind_of_fault(segmentation, count, word):
    found, faults = usable_parts(segmentation)
    assert len(found) == count
    assert any(word in fault for fault in faults)
    for part in found:
        assert part == SQUARE
    packed, reported = pack_polygons([[SQUARE], segmentation, [SQUARE]])
    assert packed.has_mask().tolist() == [True, count > 0, True]
    assert [instance for instance, _ in reported] == [1] * len(faults)
    assert packed.xy[-4:].reshape(-1).tolist() == SQUARE  # no row is shifted


def test_the_placeholder_is_no_fault_and_survives_flip_and_resize():
    moved = [[640 - 0.0, 0.0] * 4]
    for placeholder in (NO_MASK, moved, [[value * 1.37 for value in moved[0]]]):
        packed, faults = pack_polygons([placeholder, [SQUARE]])
        assert faults == [] and packed.has_mask().tolist() == [False, True]


def test_an_image_without_instances():
    packed, faults = pack_polygons([])
    assert packed.xy.shape == (0, 2) and packed.instances.tolist() == [0] and faults == []


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=8), st.dictionaries(st.sampled_from(["counts", "size", "x"]), inner)
        ),
        max_leaves=20,
    )
)
def test_any_json_value_is_packed_or_refused(segmentation):
    packed, _ = pack_polygons([segmentation])
    assert len(packed.instances) == 2 and np.isfinite(packed.xy).all()
