"""Windows of resizes and warps, and planes, against OpenCV and numpy making the whole picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.native.region import mix_taps, normalize_planes, resize_taps, warp_region

cv2 = pytest.importorskip("cv2")

seeds = st.integers(0, 2**32 - 1)


def picture(seed, height, width):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(2, 60), st.floats(0.3, 3.2), st.data())
def test_rows_and_columns_of_a_resize(seed, height, width, factor, data):
    image = picture(seed, height, width)
    full = cv2.resize(image, None, fx=factor, fy=factor)
    if full.shape == image.shape:
        return  # cv2 copies
    rows, columns = (
        np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))) for size in full.shape[:2]
    )
    ours = mix_taps(
        image, resize_taps(rows, 1 / factor, height, False), resize_taps(columns, 1 / factor, width, True)
    )
    np.testing.assert_array_equal(ours, full[rows][:, columns])


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(2, 60), st.floats(-30, 30), st.floats(0.4, 2.5), st.data())
def test_a_window_of_a_warp(seed, height, width, angle, scale, data):
    image = picture(seed, height, width)
    mat = cv2.getRotationMatrix2D((width // 2, height // 2), angle, scale)
    full = cv2.warpAffine(image, mat, (width, height))
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    bottom, right = data.draw(st.integers(top, height)), data.draw(st.integers(left, width))
    (a, b, c), (d, e, f) = mat.tolist()
    k = 1.0 / (a * e - b * d)
    a, b, d, e = e * k, b * -k, d * -k, a * k
    inverse = np.array([[a, b, -a * c - b * f], [d, e, -d * c - e * f]])
    ours = warp_region(image, inverse, (top, left, bottom, right), (0, 0))
    np.testing.assert_array_equal(ours, full[top:bottom, left:right])


def test_a_part_of_the_source_is_enough():
    image = picture(5, 80, 90)
    inverse = np.array([[0.9, 0.1, 3.0], [-0.1, 0.9, 12.0]])
    full = warp_region(image, inverse, (10, 20, 40, 60), (0, 0))
    part = warp_region(image[12:60, 15:70], inverse, (10, 20, 40, 60), (12, 15))
    np.testing.assert_array_equal(part, full)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(0, 9), st.integers(0, 9))
def test_planes(seed, height, width):
    image = picture(seed, height, width)
    table = np.random.default_rng(seed).random((3, 256)).astype(np.float32)
    expected = np.stack([table[c][image[..., c]] for c in range(3)])
    np.testing.assert_array_equal(normalize_planes(image, table), expected)
    flipped = normalize_planes(image[:, ::-1, ::-1], table)
    np.testing.assert_array_equal(flipped, np.stack([table[c][image[:, ::-1, 2 - c]] for c in range(3)]))


def test_what_does_not_fit_is_refused():
    image, taps = picture(0, 4, 5), np.array([[0, 1, 1024, 1024]], np.int32)
    with pytest.raises(ValueError, match="rows read outside"):
        mix_taps(image, taps + np.array([3, 3, 0, 0]), taps)
    with pytest.raises(ValueError, match=r"columns must be"):
        mix_taps(image, taps, taps[:, :3])
    with pytest.raises(ValueError, match="uint8"):
        mix_taps(image.astype(np.float32), taps, taps)
    with pytest.raises(ValueError, match="matrix"):
        warp_region(image, np.eye(3), (0, 0, 1, 1), (0, 0))
    with pytest.raises(ValueError, match="table"):
        normalize_planes(image, np.zeros((3, 255)))
    with pytest.raises(ValueError, match="at least one"):
        resize_taps(np.array([0]), 1.0, 0, True)
