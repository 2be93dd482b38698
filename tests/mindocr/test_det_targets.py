"""PerfDetTargets against stock's ShrinkBinaryMap and BorderMap."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.mindocr.support import parts_of_shrunk, stock

SIZE = 96
# Cut at the border of the crop: its axis-aligned edges make 1 - cos^2 negative in stock.
CUT_BOX = np.array([[[-7.3, 20.0], [71.9, 20.0], [71.9, 52.7], [-7.3, 52.7]]])


def ours(data, **arguments):
    from detperf_plugins.mindocr.det_targets import PerfDetTargets

    return PerfDetTargets(**arguments)(data)


def compare(polys, tags, size=(SIZE, SIZE), **arguments):
    """Both on copies of the same sample; every map compared."""
    data = {
        "image": np.zeros((*size, 3), np.uint8),
        "polys": polys,
        "ignore_tags": np.array(tags, dtype=bool),
    }
    shrink = {key: arguments[key] for key in ("min_text_size", "shrink_ratio") if key in arguments}
    border = {key: arguments[key] for key in ("shrink_ratio", "thresh_min", "thresh_max") if key in arguments}
    expected = stock("BorderMap", **border)(stock("ShrinkBinaryMap", **shrink)(copy.deepcopy(data)))
    got = ours(copy.deepcopy(data), **arguments)
    for key in ("binary_map", "mask", "thresh_mask", "ignore_tags"):
        assert got[key].dtype == expected[key].dtype
        np.testing.assert_array_equal(got[key], expected[key], err_msg=key)
    assert got["thresh_map"].dtype == np.float32
    np.testing.assert_allclose(got["thresh_map"], expected["thresh_map"], rtol=0, atol=2e-7)
    return got


@st.composite
def samples(draw):
    """Star-shaped polygons, whole or fractional, some ignored, some cut off."""
    corners = draw(st.integers(3, 10))
    polys, tags = [], []
    for _ in range(draw(st.integers(0, 3))):
        centre = np.array([draw(st.integers(0, SIZE)), draw(st.integers(0, SIZE))], float)
        stretch = draw(st.sampled_from([(1, 1), (2.5, 0.7), (0.5, 1.5)]))
        turn = draw(st.floats(0, 6.3))
        radii = np.array(draw(st.lists(st.integers(3, 30), min_size=corners, max_size=corners)), float)
        angles = turn + 2 * math.pi * np.arange(corners) / corners
        poly = centre + np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None] * stretch
        polys.append(np.round(poly) if draw(st.booleans()) else poly)
        tags.append(draw(st.booleans()))
    return polys, tags, draw(st.sampled_from([np.float32, np.float64]))


def check(sample):
    from detperf_plugins.mindocr.det_targets import pack
    from detperf_plugins.native.border_map import measure_rings

    polys, tags, dtype = sample
    polys = [poly.astype(dtype) for poly in polys]
    areas, _, crossing = measure_rings(*pack(polys))
    assume(not crossing.any() and (areas > 0).all())
    # Stock cannot place the border of a polygon that lies outside; ValidatePolygons drops those before.
    assume(all((p.max(axis=0) > 1).all() and (p.min(axis=0) < SIZE - 2).all() for p in polys))
    compare(np.array(polys) if polys else np.array([], np.float32), tags)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=150, **QUIET)
@given(samples())
def test_equals_stock(sample):
    check(sample)


@pytest.mark.slow
@settings(max_examples=5000, database=None, **QUIET)
@given(samples())
def test_equals_stock_on_5000_label_sets(sample):
    check(sample)


@pytest.mark.parametrize("options", [{}, {"shrink_ratio": 0.55, "thresh_min": 0.2, "min_text_size": 3}])
def test_equals_stock_on_the_icdar_labels(data, options):
    encode = stock("DetLabelEncode")
    files = sorted((data / "mindocr_icdar15_labels").glob("*.txt"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for line in lines if not options else lines[::5]:
        label = encode({"label": line.split("\t")[1]})
        compare(label["polys"], label["ignore_tags"], (720, 1280), **options)
    assert len(lines) == 150


def test_curved_texts_of_totaltext(data):
    """Total-Text's polygons, also shrunk and grown as texts of a smaller picture would be."""
    from scipy.io import loadmat

    count = 0
    for file in sorted((data / "totaltext_examples").glob("poly_gt_*.mat")):
        polys = []
        for row in loadmat(file)["polygt"]:
            polys.append(np.stack([np.ravel(row[1]), np.ravel(row[3])], axis=1).astype(np.float64))
        scale = 400 / max(poly.max() for poly in polys)
        polys = [poly * scale for poly in polys]
        polys = [poly for poly in polys if len(poly) > 2]
        count += len(polys)
        compare(polys, [False] * len(polys), (420, 420), min_text_size=4)
    assert count > 20


def grid(count_x, count_y, corners, pitch=(24, 18)):
    angles = 2 * np.pi * np.arange(corners) / corners + 0.3
    ring = np.stack([np.cos(angles) * 10, np.sin(angles) * 7], axis=1)
    centres = [(12 + pitch[0] * x, 9 + pitch[1] * y) for y in range(count_y) for x in range(count_x)]
    return np.array([np.add(ring, centre) for centre in centres])


def test_a_page_of_1000_words():
    polys = grid(40, 25, 4)
    got = compare(polys, [False] * 1000, (460, 970), min_text_size=6)
    assert not got["ignore_tags"].any() and got["binary_map"].any()


def test_a_4k_picture():
    ring = grid(1, 1, 14)[0] - (12, 9)
    polys = np.array([ring * 40 + (600 + 1200 * x, 500 + 1000 * y) for y in range(2) for x in range(3)])
    compare(polys, [False, True] * 3, (2160, 3840))


@st.composite
def cut_boxes(draw):
    """Boxes and quads with level, upright and 45 degree edges, cut at the crop, some with repeated corners:
    where stock's 1 - cos^2 rounds below 0 or is 0 / 0."""
    polys = []
    for _ in range(draw(st.integers(1, 3))):
        x0, y0 = draw(st.integers(-20, 60)), draw(st.integers(-20, 60))
        width, height = draw(st.floats(12, 90)), draw(st.floats(12, 60))
        shift = draw(st.sampled_from([0, 0, 0.25, 1 / 3, 7]))
        lean = draw(st.sampled_from([0, 0, 0, height]))
        quad = [(x0, y0), (x0 + width, y0), (x0 + width + lean, y0 + height), (x0 + lean, y0 + height)]
        quad += quad[-1:] * 2 if draw(st.booleans()) else [(x0, y0 + height / 2)] * 2
        polys.append(np.add(quad, (shift, 0.0)))
    return polys


@settings(max_examples=300, **QUIET)
@given(cut_boxes())
def test_loses_the_pixels_that_stock_loses(polys):
    assume(all((p.max(axis=0) > 1).all() and (p.min(axis=0) < SIZE - 2).all() for p in polys))
    compare(np.array(polys), [False] * len(polys))


def test_mended_gives_edge_pixels_their_maximum():
    data = {"image": np.zeros((SIZE, SIZE, 3), np.uint8), "polys": CUT_BOX, "ignore_tags": np.array([False])}
    lost = stock("BorderMap")(stock("ShrinkBinaryMap")(copy.deepcopy(data)))["thresh_map"]
    as_stock = ours(copy.deepcopy(data))["thresh_map"]
    got = ours(copy.deepcopy(data), mended=True)["thresh_map"]
    assert (got[20, :72] == got.max()).all() and abs(got.max() - 0.7) < 1e-6
    assert (lost[20, :72] < 0.31).any()
    np.testing.assert_allclose(as_stock, lost, rtol=0, atol=2e-7)
    differ = np.abs(got - lost) > 2e-7
    assert 0 < differ.sum() <= 72 and differ[20].sum() == differ.sum()


def test_mended_paints_every_part_of_a_dumbbell():
    """Two lobes on a thin bar: shrunk, two parts remain, of which stock paints one."""
    left = [[35, 31], [35, 50], [5, 50], [5, 10], [35, 10], [35, 28]]
    poly = np.array([*left, *([95 - x, y] for x, y in left[::-1])], float)
    assert parts_of_shrunk(poly) == 2
    data = {"image": np.zeros((SIZE, SIZE, 3), np.uint8), "polys": [poly], "ignore_tags": np.array([False])}
    theirs = stock("ShrinkBinaryMap")(copy.deepcopy(data))["binary_map"][0]
    got = ours(copy.deepcopy(data), mended=True)["binary_map"][0]
    assert got[30, 20] == 1 and got[30, 75] == 1 and got[30, 47] == 0
    assert theirs[30, 20] + theirs[30, 75] == 1
    assert (got >= theirs).all()
    np.testing.assert_array_equal(ours(copy.deepcopy(data))["binary_map"][0], theirs)


def test_a_mended_host_is_followed(monkeypatch):
    from mindocr.data.transforms.det_transforms import BorderMap

    from detperf_plugins.mindocr.det_targets import mended_by_host

    assert mended_by_host() == (False, False)
    distance = BorderMap._distance
    monkeypatch.setattr(
        BorderMap, "_distance", staticmethod(lambda *points: np.nan_to_num(distance(*points)))
    )
    mended_by_host.cache_clear()
    try:
        assert mended_by_host() == (True, False)
        got = compare(CUT_BOX, [False])
        assert (got["thresh_map"][20, :72] > 0.699).all()
    finally:
        mended_by_host.cache_clear()


@pytest.mark.parametrize(
    "poly",
    [
        [[40, 40], [80, 40], [40, 70], [80, 70]],  # corners in zigzag order
        [[10, 10], [80, 10]],  # two points
        [[10, 10], [40, 40], [70, 70]],  # no area
        [[10.2, 10.1], [10.9, 30.0], [10.4, 60.0]],  # a line on the pixel grid
        [[50.67, 20.71], [50.72, 21.93], [48.67, 21.21], [50.28, 21.52]],  # under two pixels
        [[10, 10], [60, 20], [20, 60], [15, 30], [70, 55], [10, 65]],  # a loop
    ],
    ids=["zigzag", "two points", "no area", "line", "tiny", "loop"],
)
def test_a_bad_polygon_is_masked_out_and_spares_the_others(poly):
    good = np.array([[10, 74], [80, 74], [80, 92], [10, 92]], float)
    sample = {"image": np.zeros((SIZE, SIZE, 3), np.uint8)}
    alone = ours({**sample, "polys": [good], "ignore_tags": np.array([False])})
    both = ours(
        {**sample, "polys": [np.array(poly, float), good], "ignore_tags": np.array([False, False])},
        min_text_size=0,
    )
    assert both["ignore_tags"].tolist() == [True, False]
    for key in ("binary_map", "thresh_map", "thresh_mask"):
        np.testing.assert_array_equal(both[key], alone[key])
    assert (both["mask"] == 0).any() and (both["mask"][74:] == 1).all()


def test_corners_may_go_either_way_round_and_polygons_may_differ_in_number():
    quad = np.array([[20, 20], [90, 24], [88, 50], [21, 48]], float)
    star = grid(1, 1, 9)[0] * 1.4 + 40
    tags = np.array([False, False])
    sample = {"image": np.zeros((SIZE, SIZE, 3), np.uint8)}
    one = ours({**sample, "polys": [quad, star], "ignore_tags": tags.copy()}, mended=True)
    padded = np.stack([np.concatenate([quad, np.repeat(quad[-1:], 5, axis=0)]), star])
    other = ours({**sample, "polys": padded, "ignore_tags": tags.copy()}, mended=True)
    turned = ours({**sample, "polys": [quad[::-1], star[::-1]], "ignore_tags": tags.copy()}, mended=True)
    for key in ("binary_map", "mask", "thresh_map", "thresh_mask"):
        np.testing.assert_array_equal(one[key], other[key])
        np.testing.assert_array_equal(one[key] > 0.3, turned[key] > 0.3)


def test_no_text_at_all():
    got = compare(np.array([], np.float32), [])
    assert not got["binary_map"].any() and got["mask"].all() and np.allclose(got["thresh_map"], 0.3)
