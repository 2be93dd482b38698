"""Rings in bulk against plain definitions, and COCO's compressed RLE against an encoder of our own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.doctor.coco.geometry import Rings, self_intersecting
from detperf_plugins.doctor.coco.segmentation import rle_problem
from detperf_plugins.doctor.labels.shapes import area, crosses, hull_share, reordered

COORDINATES = st.integers(-30, 30)
RING = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=3, max_size=9)


def side(a, b, p):
    value = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    return (value > 0) - (value < 0)


def crosses_exactly(ring) -> bool:
    """Every pair of edges, in integers."""
    edges = list(zip(ring, [*ring[1:], ring[0]]))
    return any(
        side(*e, f[0]) * side(*e, f[1]) < 0 and side(*f, e[0]) * side(*f, e[1]) < 0
        for i, e in enumerate(edges)
        for f in edges[i + 1 :]
    )


@settings(max_examples=300, deadline=None)
@given(RING, st.integers(0, 10**6))
def test_crossings_are_those_of_exact_arithmetic(ring, shift):
    moved = np.asarray(ring, dtype=np.float64) + shift
    assert bool(self_intersecting(moved[None])[0]) == crosses_exactly(ring)


@settings(max_examples=100, deadline=None)
@given(st.lists(RING, min_size=1, max_size=8))
def test_many_rings_at_once(rings):
    bulk = Rings(
        [float(v) for ring in rings for point in ring for v in point], [2 * len(ring) for ring in rings]
    )
    assert bulk.areas() == pytest.approx([area(ring) for ring in rings])
    assert bulk.crossing().tolist() == [len(r) >= 4 and crosses_exactly(r) for r in rings]
    low, high = bulk.extents()
    assert low.tolist() == [[min(p[0] for p in r), min(p[1] for p in r)] for r in rings]
    assert high.tolist() == [[max(p[0] for p in r), max(p[1] for p in r)] for r in rings]


def test_areas_far_from_the_origin_keep_their_digits():
    ring = [(1e7, 1e7), (1e7 + 3, 1e7), (1e7 + 3, 1e7 + 2), (1e7, 1e7 + 2)]
    assert Rings([v for p in ring for v in p], [8]).areas()[0] == 6.0 and area(ring) == 6.0


@settings(max_examples=100, deadline=None)
@given(st.tuples(COORDINATES, COORDINATES), st.integers(1, 20), st.integers(1, 20), st.permutations(range(4)))
def test_four_corners_in_any_order_are_put_right(corner, width, height, order):
    x, y = corner
    good = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    assert reordered([good[i] for i in order]) == good
    assert not crosses(good) and area(good) == width * height and hull_share(good) == 1


def test_share_of_the_hull():
    ell = [(0, 0), (4, 0), (4, 1), (1, 1), (1, 4), (0, 4)]
    assert Fraction(hull_share(ell)).limit_denominator(100) == Fraction(7, Fraction(23, 2))


def compress(runs: list[int]) -> str:
    """COCO's text form of run lengths."""
    text = ""
    for index, run in enumerate(runs):
        value = run - runs[index - 2] if index > 2 else run
        while True:
            code = value & 31
            value >>= 5
            more = value != (-1 if code & 16 else 0)
            text += chr(48 + (code | (32 if more else 0)))
            if not more:
                break
    return text


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=12))
def test_compressed_rle_is_added_up(runs):
    total = sum(runs)
    good = {"size": [1, total], "counts": compress(runs)}
    assert rle_problem(good, 1, total) is None or total == 0
    problem = rle_problem({**good, "size": [1, total + 1]}, 1, total + 1)
    assert problem is not None and f"add up to {total}," in problem[1]
