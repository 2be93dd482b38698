"""The raster kernel against pycocotools, and against ppdet's own RoI raster where ppdet is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detperf_plugins.native.raster import rasterize, rasterize_full
from tests.polygons_strategy import bounds, boxes, jittered, parts, random_segmentation

mask_util = pytest.importorskip("pycocotools.mask")


def csr(segmentations):
    flat = [part for segmentation in segmentations for part in segmentation]
    xy = np.concatenate([np.reshape(np.asarray(part, dtype=np.float64), (-1, 2)) for part in flat])
    part_offsets = np.cumsum([0] + [len(part) // 2 for part in flat])
    return xy, part_offsets, np.cumsum([0] + [len(segmentation) for segmentation in segmentations])


def by_pycocotools(segmentation, height, width):
    return mask_util.decode(
        mask_util.merge(mask_util.frPyObjects([list(p) for p in segmentation], height, width))
    )


def in_box(segmentation, box, size):
    """The naive reference: scale the polygon as ppdet does, one at a time, and ask pycocotools."""
    w, h = box[2] - box[0], box[3] - box[1]
    scaled = []
    for part in segmentation:
        points = np.asarray(part, dtype=np.float64)
        points[0::2] = (points[0::2] - box[0]) * (size / max(w, 0.1))
        points[1::2] = (points[1::2] - box[1]) * (size / max(h, 0.1))
        scaled.append(points.tolist())
    return by_pycocotools(scaled, size, size)


@settings(max_examples=300, deadline=None)
@given(st.lists(parts(), min_size=1, max_size=3), boxes(), st.sampled_from([1, 7, 14, 28, 63, 64, 65, 112]))
def test_rois_equal_pycocotools(segmentation, box, size):
    expected = in_box(segmentation, box, size)
    ours = rasterize(*csr([segmentation]), box[None], np.array([0]), size, size)
    assert ours.dtype == np.int32
    np.testing.assert_array_equal(ours[0], expected)


@settings(max_examples=150, deadline=None)
@given(st.lists(parts(), min_size=1, max_size=3), st.integers(1, 150), st.integers(1, 150))
def test_whole_images_equal_pycocotools(segmentation, height, width):
    ours = rasterize_full(*csr([segmentation]), height, width)
    np.testing.assert_array_equal(ours[0], by_pycocotools(segmentation, height, width))


def test_twenty_thousand_rois_equal_pycocotools():
    rng = np.random.default_rng(7)
    mismatches = 0
    for size in (14, 28):
        segmentations = [random_segmentation(rng) for _ in range(2500)]
        rois = np.concatenate([jittered(rng, bounds(one), 4) for one in segmentations])
        index = np.repeat(np.arange(len(segmentations)), 4)
        ours = rasterize(*csr(segmentations), rois, index, size, size)
        for i, roi in enumerate(rois):
            mismatches += int((ours[i] != in_box(segmentations[index[i]], roi, size)).sum())
    assert mismatches == 0


def test_stock_ppdet_gives_the_same_mask():
    target = pytest.importorskip("ppdet.modeling.proposal_generator.target")
    rng = np.random.default_rng(3)
    for size in (14, 28):
        for _ in range(200):
            segmentation = random_segmentation(rng)
            roi = jittered(rng, bounds(segmentation), 1)[0]
            stock = target.rasterize_polygons_within_box(segmentation, roi, size).numpy()
            ours = rasterize(*csr([segmentation]), roi[None], np.array([0]), size, size)[0]
            assert ours.dtype == stock.dtype
            np.testing.assert_array_equal(ours, stock)


def test_every_taco_polygon(data):
    """RoIs jittered to IoU >= .5 round every polygon of a real data set, bow-ties included."""
    annotations = json.loads((data / "taco" / "annotations.json").read_text(encoding="utf-8"))["annotations"]
    segmentations = [a["segmentation"] for a in annotations if all(len(p) >= 6 for p in a["segmentation"])]
    assert len(segmentations) > 4000
    rng = np.random.default_rng(11)
    rois = np.concatenate([jittered(rng, bounds(one), 1, least=0.5) for one in segmentations])
    ours = rasterize(*csr(segmentations), rois, np.arange(len(segmentations)), 28, 28)
    wrong = [i for i, one in enumerate(segmentations) if (ours[i] != in_box(one, rois[i], 28)).any()]
    assert wrong == []


def test_repeated_vertices_and_closing_points_change_nothing():
    square = [10.0, 10.0, 30.0, 10.0, 30.0, 24.0, 10.0, 24.0]
    doubled = [v for i in range(0, 8, 2) for v in square[i : i + 2] * 2] + square[:2]
    masks = rasterize_full(*csr([[square], [doubled]]), 40, 40)
    assert masks[0].sum() == 20 * 14
    np.testing.assert_array_equal(masks[0], masks[1])


def test_parts_are_united_not_cut_out():
    outer, inner = [10, 10, 40, 10, 40, 40, 10, 40], [20, 20, 30, 20, 30, 30, 20, 30]
    mask = rasterize_full(*csr([[outer, inner]]), 50, 50)[0]
    assert mask.sum() == 900


def test_masks_are_not_biased():
    """Over random sub-pixel offsets the mask's centroid is the polygon's (pixel centres at +0.5)."""
    rng = np.random.default_rng(5)
    shifts = []
    for dx, dy in rng.uniform(0, 1, (200, 2)):
        square = np.array([[20.0, 15.0], [32.0, 15.0], [32.0, 25.0], [20.0, 25.0]]) + np.array([dx, dy])
        rows, columns = np.nonzero(rasterize_full(*csr([[square.reshape(-1).tolist()]]), 60, 60)[0])
        shifts.append((columns.mean() + 0.5 - 26 - dx, rows.mean() + 0.5 - 20 - dy))
    assert np.abs(np.mean(shifts, axis=0)).max() < 0.1


def test_threads_do_not_change_the_result():
    rng = np.random.default_rng(2)
    segmentations = [random_segmentation(rng) for _ in range(50)]
    rois = np.concatenate([jittered(rng, bounds(one), 10) for one in segmentations])
    index = np.repeat(np.arange(50), 10)
    one, many = (rasterize(*csr(segmentations), rois, index, 28, 28, threads=t) for t in (1, 8))
    np.testing.assert_array_equal(one, many)


def test_index_minus_one_is_empty_and_dtype_is_kept():
    square = csr([[[0, 0, 10, 0, 10, 10, 0, 10]]])
    box = np.array([[0, 0, 10, 10]] * 2, dtype=np.float32)
    masks = rasterize(*square, box, np.array([-1, 0]), 14, 14, np.uint8)
    assert masks.dtype == np.uint8 and masks[0].sum() == 0 and masks[1].sum() == 196


def test_no_boxes():
    masks = rasterize(np.zeros((0, 2)), [0], [0], np.zeros((0, 4), np.float32), np.zeros(0, np.int64), 28, 28)
    assert masks.shape == (0, 28, 28)


@pytest.mark.parametrize(
    "change",
    [
        {"xy": np.zeros((4, 3))},
        {"parts": [0, 5]},
        {"parts": [0, 3, 2, 4]},
        {"instances": [0, 2]},
        {"boxes": np.zeros((1, 5))},
        {"index": [1]},
        {"index": [0, 0]},
        {"height": 0},
        {"dtype": np.float32},
    ],
)
def test_what_does_not_fit_is_refused(change):
    arguments = {
        "xy": np.zeros((4, 2)), "parts": [0, 4], "instances": [0, 1], "boxes": np.zeros((1, 4)), "index": [0],
        "height": 4, "width": 4,
    }  # fmt: skip
    with pytest.raises(ValueError):
        rasterize(**{**arguments, **change})


def test_a_pixel_traced_outline():
    """A pixel-traced outline of 20,000 vertices is rasterised right."""
    rng = np.random.default_rng(1)
    angles = np.linspace(0, 2 * np.pi, 20000, endpoint=False)
    outline = np.round(
        300 + 250 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + rng.normal(0, 1, (20000, 2))
    )
    segmentation = [outline.reshape(-1).tolist()]
    box = np.array([40, 40, 560, 560], dtype=np.float32)
    ours = rasterize(*csr([segmentation]), box[None], np.array([0]), 28, 28)[0]
    np.testing.assert_array_equal(ours, in_box(segmentation, box, 28))
