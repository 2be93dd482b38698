"""RLE reading against pycocotools, and refusal of what would overrun its buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.rle import decode_rle, rle_fault, run_lengths

mask_util = pytest.importorskip("pycocotools.mask")


@st.composite
def bitmaps(draw):
    h, w = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (rng.random((h, w)) < draw(st.sampled_from([0.02, 0.5, 1.0]))).astype(np.uint8)


def uncompressed(bitmap):
    flat = bitmap.T.reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat])) != 0)
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return {"size": list(bitmap.shape), "counts": counts}


@settings(max_examples=200, deadline=None)
@given(bitmaps())
def test_both_forms_are_read(bitmap):
    compressed = mask_util.encode(np.asfortranarray(bitmap))
    text = {**compressed, "counts": compressed["counts"].decode()}
    for rle in (compressed, text, uncompressed(bitmap)):
        assert rle_fault(rle) == ""
        assert rle_fault(rle, *bitmap.shape) == ""
        np.testing.assert_array_equal(decode_rle(rle), bitmap)


@pytest.mark.parametrize(
    ("rle", "word"),
    [
        ({"counts": [4]}, "size"),
        ({"size": [2, 2], "counts": [5]}, "add up"),
        ({"size": [2, 2], "counts": [1, 2]}, "add up"),
        ({"size": [2, 2], "counts": [6, -2]}, "add up"),
        ({"size": [2, 2], "counts": "\x01"}, "cannot be read"),
        ({"size": [2, 2], "counts": "P"}, "cannot be read"),
        ({"size": [2, 2], "counts": None}, "cannot be read"),
        ({"size": [-2, -2], "counts": [4]}, "add up"),
    ],
)
def test_faults_are_named(rle, word):
    assert word in rle_fault(rle)


def test_swapped_size_is_noticed():
    rle = uncompressed(np.ones((4, 6), dtype=np.uint8))
    assert "4 x 6" in rle_fault(rle, 6, 4)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.lists(st.integers())), st.lists(st.integers(-5, 50), max_size=3))
def test_any_rle_is_judged_without_a_crash(counts, size):
    rle = {"size": size, "counts": counts}
    if rle_fault(rle) == "":
        assert decode_rle(rle).shape == tuple(size)


def test_run_lengths_of_a_list_are_itself():
    assert run_lengths([3, 2]) == [3, 2]
