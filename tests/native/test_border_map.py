"""The border map and the ring measures against their definitions, written out plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.native.border_map import border_map, measure_rings, visible_areas

SIZE = 48


def brute_force(polys, reaches, boxes, height, width):
    """The definition, pixel by pixel and edge by edge; and where rounding decides the side of a circle."""
    out, unsure = np.zeros((height, width), np.float32), np.zeros((height, width), bool)
    for poly, reach, (left, top, right, bottom) in zip(polys, reaches, boxes):
        for y in range(max(top, 0), min(bottom, height - 1) + 1):
            for x in range(max(left, 0), min(right, width - 1) + 1):
                nearest = math.inf
                for (ax, ay), (bx, by) in zip(poly, [poly[-1], *poly[:-1]]):
                    a, b = (x - ax) ** 2 + (y - ay) ** 2, (x - bx) ** 2 + (y - by) ** 2
                    c = (ax - bx) ** 2 + (ay - by) ** 2
                    unsure[y, x] |= abs(a + b - c) < 1e-6
                    if a + b - c < 0:
                        cross = (x - ax) * (by - ay) - (y - ay) * (bx - ax)
                        nearest = min(nearest, abs(cross) / math.sqrt(c))
                    else:
                        nearest = min(nearest, math.sqrt(min(a, b)))
                out[y, x] = max(out[y, x], 1 - min(nearest / reach, 1))
    return out, unsure


def csr(polys):
    parts = np.cumsum([0, *map(len, polys)])
    return np.array([point for poly in polys for point in poly], dtype=np.float64).reshape(-1, 2), parts


def boxes_of(polys, reaches):
    return np.array(
        [
            [*np.floor(np.min(p, axis=0) - r).astype(int), *np.ceil(np.max(p, axis=0) + r).astype(int)]
            for p, r in zip(polys, reaches)
        ],
        dtype=np.int32,
    ).reshape(-1, 4)


@st.composite
def polygons(draw):
    count = draw(st.integers(1, 4))
    polys = []
    for _ in range(count):
        corners = draw(st.integers(3, 9))
        cx, cy = draw(st.integers(-10, SIZE + 10)), draw(st.integers(-10, SIZE + 10))
        radii = draw(st.lists(st.integers(4, 20), min_size=corners, max_size=corners))
        turn = draw(st.floats(0, 6))
        polys.append(
            [
                (
                    cx + r * math.cos(turn + 2 * math.pi * i / corners),
                    cy + r * math.sin(turn + 2 * math.pi * i / corners),
                )
                for i, r in enumerate(radii)
            ]
        )
    return polys, [draw(st.floats(0.5, 9)) for _ in range(count)]


@settings(max_examples=60, deadline=None)
@given(polygons())
def test_equals_the_definition(drawn):
    polys, reaches = drawn
    boxes = boxes_of(polys, reaches)
    ours = border_map(*csr(polys), reaches, boxes, SIZE, SIZE, mended=True)
    expected, unsure = brute_force(polys, reaches, boxes, SIZE, SIZE)
    np.testing.assert_allclose(ours[~unsure], expected[~unsure], atol=2e-6)


@settings(max_examples=30, deadline=None)
@given(polygons())
def test_threads_share_rows_without_a_trace(drawn):
    polys, reaches = drawn
    xy, parts = csr(polys)
    boxes = boxes_of(polys, reaches)
    one = border_map(xy, parts, reaches, boxes, 200, SIZE)
    np.testing.assert_array_equal(one, border_map(xy, parts, reaches, boxes, 200, SIZE, threads=3))


@settings(max_examples=30, deadline=None)
@given(polygons())
def test_the_order_of_the_polygons_does_not_matter(drawn):
    polys, reaches = drawn
    boxes = boxes_of(polys, reaches)
    ours = border_map(*csr(polys), reaches, boxes, SIZE, SIZE)
    turned = border_map(*csr(polys[::-1]), reaches[::-1], boxes[::-1], SIZE, SIZE)
    np.testing.assert_array_equal(ours, turned)


def test_pixels_on_an_axis_aligned_edge_are_1():
    """Where stock's 1 - cos^2 rounds below 0 and the pixel is lost."""
    square = [(5.0, 7.0), (40.0, 7.0), (40.0, 30.0), (5.0, 30.0)]
    ours = border_map(*csr([square]), [4.0], [[0, 0, 47, 47]], SIZE, SIZE, mended=True)
    assert (ours[7, 5:41] == 1).all() and (ours[7:31, 5] == 1).all() and ours[18, 22] == 0


def test_repeated_points_change_nothing():
    quad = [(5.0, 7.5), (40.0, 9.0), (38.0, 30.0), (6.0, 28.0)]
    padded = [*quad, quad[-1], quad[-1]]
    boxes = [[0, 0, 47, 47]]
    np.testing.assert_array_equal(
        border_map(*csr([quad]), [4.0], boxes, SIZE, SIZE, mended=True),
        border_map(*csr([padded]), [4.0], boxes, SIZE, SIZE, mended=True),
    )
    np.testing.assert_allclose(measure_rings(*csr([padded]))[:2], measure_rings(*csr([quad]))[:2], rtol=1e-15)
    assert not measure_rings(*csr([padded]))[2].any()


def test_outside_and_without_reach_draw_nothing():
    quad = [(100.0, 100.0), (120.0, 100.0), (120.0, 110.0), (100.0, 110.0)]
    near = [(5.0, 5.0), (20.0, 5.0), (20.0, 20.0)]
    ours = border_map(*csr([quad, near]), [4.0, 0.0], [[96, 96, 124, 114], [0, 0, 30, 30]], SIZE, SIZE)
    assert not ours.any()


def test_measures_of_known_rings():
    square, bow_tie = [(0, 0), (0, 3), (4, 3), (4, 0)], [(0, 0), (10, 0), (0, 5), (10, 5)]
    areas, lengths, crossing = measure_rings(*csr([square, bow_tie, [(1, 1), (2, 2)], []]))
    assert areas.tolist() == [12, 0, 0, 0] and lengths[0] == 14
    assert crossing.tolist() == [False, True, False, False]


def test_measures_equal_shapely_to_the_last_bit():
    geometry = pytest.importorskip("shapely.geometry")
    rng = np.random.default_rng(3)
    rings = [rng.uniform(-900, 900, (int(rng.integers(3, 15)), 2)) for _ in range(300)]
    areas, lengths, crossing = measure_rings(*csr(rings))
    for ring, area, length, crosses in zip(rings, areas, lengths, crossing):
        polygon = geometry.Polygon(ring)
        assert (polygon.area, polygon.length, polygon.is_valid) == (area, length, not crosses)


def test_visible_areas_equal_shapely():
    geometry = pytest.importorskip("shapely.geometry")
    rng = np.random.default_rng(4)
    angles = np.linspace(0, 2 * np.pi, 11, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [rng.uniform(-20, 70, 2) + ring * rng.uniform(2, 40, (11, 1)) for _ in range(300)]
    frame = geometry.box(0, 0, 50, 40)
    expected = [geometry.Polygon(one).intersection(frame).area for one in rings]
    np.testing.assert_allclose(visible_areas(*csr(rings), 40, 50), expected, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"xy": np.zeros((4, 3))},
        {"parts": [0, 5]},
        {"parts": [0, 3, 2, 4]},
        {"reaches": [1.0, 2.0]},
        {"boxes": np.zeros((1, 3), np.int32)},
        {"height": -1},
    ],
)
def test_what_does_not_fit_is_refused(change):
    arguments = {
        "xy": np.zeros((4, 2)), "parts": [0, 4], "reaches": [1.0], "boxes": np.zeros((1, 4), np.int32),
        "height": 4, "width": 4,
    }  # fmt: skip
    with pytest.raises(ValueError):
        border_map(**{**arguments, **change})
