"""The exact stand-ins against the stock transforms, and the single warp against them as a distribution."""

from __future__ import annotations

import copy
import random

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mindocr.support import make, seeded, stock

MOVES = [
    {"RandomHorizontalFlip": {"p": 0.5}},
    {"RandomRotate": {"degrees": [-10, 10], "expand_canvas": False, "p": 0.9}},
    {"RandomScale": {"scale_range": [0.5, 3.0], "p": 0.9}},
]
CROP = {"RandomCropWithBBox": {"max_tries": 10, "min_crop_ratio": 0.1, "crop_size": [64, 64], "p": 0.9}}
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def sample(seed, height=72, width=100, texts=4, smooth=False):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height // 8, width // 8, 3) if smooth else (height, width, 3)).astype(
        np.uint8
    )
    if smooth:
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC)
    corners = rng.uniform(0, [width - 30, height - 20], (texts, 1, 2)) + np.array(
        [[0, 0], [24, 1], [25, 12], [1, 11]]
    )
    polys = corners.astype(np.float32) if texts else np.array([], np.float32)
    tags = rng.random(texts) < 0.3
    return {"image": image, "polys": polys, "ignore_tags": tags, "texts": ["a"] * texts}


def equal(a, b, keys=("image", "polys", "ignore_tags", "actual_size")):
    for key in keys:
        if key in a or key in b:
            x, y = a[key], b[key]
            if isinstance(x, list):
                assert len(x) == len(y)
                for one, other in zip(x, y):
                    np.testing.assert_array_equal(one, other, err_msg=key)
                continue
            assert x.dtype == y.dtype and x.shape == y.shape, key
            np.testing.assert_array_equal(x, y, err_msg=key)


def run(transforms, data):
    for transform in transforms:
        data = transform(data)
    return data


@settings(max_examples=120, **QUIET)
@given(
    st.integers(0, 2**31),
    st.permutations(MOVES),
    st.integers(0, 3),
    st.integers(0, 5),
    st.tuples(st.integers(24, 90), st.integers(32, 120)),
    st.booleans(),
)
def test_geometry_gives_the_pixels_and_draws_of_stock(seed, moves, count, texts, size, expand):
    steps = copy.deepcopy([*moves[:count], CROP])
    for step in steps:
        if "RandomRotate" in step:
            step["RandomRotate"]["expand_canvas"] = expand
    data = sample(seed, *size, texts)
    expected = seeded(seed % 2**32, run, make(steps), copy.deepcopy(data))
    left = np.random.random(), random.random()
    got = seeded(seed % 2**32, run, make([{"PerfExactGeometry": {"steps": steps}}]), copy.deepcopy(data))
    equal(got, expected)
    assert (np.random.random(), random.random()) == left


@pytest.mark.parametrize("size", [(91, 128), (90, 127), (91, 127), (92, 128)])
def test_shrinking_to_a_half_rounds_as_opencv(size):
    from detperf_plugins.mindocr.geometry import Scale, shrink

    picture = np.random.default_rng(0).integers(0, 256, (46, 64, 3)).astype(np.uint8)
    random.seed(0)
    drawn, _ = Scale(scale_range=(2.0, 2.0), p=1.0).draw(
        random, picture.shape[:2], np.zeros((0, 4, 2), np.float32)
    )
    whole, window = (0, 0, *picture.shape[:2]), (0, 0, *size)
    expected = cv2.resize(drawn.part(picture, whole, window), None, fx=0.5, fy=0.5)
    np.testing.assert_array_equal(shrink(drawn, picture, whole, window, 0.5), expected)


@pytest.mark.parametrize("kind", ["grey", "float"])
def test_geometry_of_other_pictures_is_stock_s(kind):
    data = sample(3)
    data["image"] = (
        data["image"].astype(np.float32) if kind == "float" else data["image"][..., :1].repeat(3, 2) * 1.0
    )
    expected = seeded(5, run, make([*MOVES, CROP]), copy.deepcopy(data))
    equal(
        seeded(5, run, make([{"PerfExactGeometry": {"steps": [*MOVES, CROP]}}]), copy.deepcopy(data)),
        expected,
    )


def test_geometry_renders_whole_pictures_where_opencv_rounds_otherwise(monkeypatch):
    from detperf_plugins.mindocr import geometry_transforms

    monkeypatch.setattr(geometry_transforms, "regions_are_exact", lambda: False)
    expected = seeded(6, run, make([*MOVES, CROP]), sample(4))
    equal(seeded(6, run, make([{"PerfExactGeometry": {"steps": [*MOVES, CROP]}}]), sample(4)), expected)


def test_the_window_kernels_round_as_the_installed_opencv():
    from detperf_plugins.mindocr.geometry import regions_are_exact

    assert regions_are_exact()


def test_colour_jitter_of_the_window_is_that_of_the_picture():
    """With a seed MindSpore's jitter repeats itself, so that both draw alike."""
    import mindspore.dataset as msd

    before = msd.config.get_seed()
    msd.config.set_seed(11)
    try:
        colour = {"brightness": 0.1255, "saturation": 0.5}
        theirs = make([{"RandomColorAdjust": colour}, *MOVES, CROP])
        ours = make([{"PerfExactGeometry": {"steps": [*MOVES, CROP], "colour": colour}}])
        for seed in range(8):
            equal(seeded(seed, run, ours, sample(seed)), seeded(seed, run, theirs, sample(seed)))
    finally:
        msd.config.set_seed(before)


def test_text_over_the_whole_picture_leaves_no_place_to_cut():
    data = sample(1, texts=1)
    data["polys"] = np.array([[[0, 0], [99, 0], [99, 71], [0, 71]]], np.float32)
    data["ignore_tags"] = np.array([False])
    expected = seeded(1, run, make([CROP]), copy.deepcopy(data))
    got = seeded(1, run, make([{"PerfExactGeometry": {"steps": [CROP]}}]), copy.deepcopy(data))
    equal(got, expected)
    assert got["actual_size"].max() == 64


def test_the_single_warp_draws_alike_and_differs_little():
    """On smooth pictures: equal polygons and sizes; pixels differ by 0.6 grey levels in the mean."""
    means, worst = [], []
    for seed in range(25):
        data = sample(seed, 180, 240, smooth=True)
        expected = seeded(seed, run, make([*MOVES, CROP]), copy.deepcopy(data))
        got = seeded(
            seed, run, make([{"PerfRandomGeometry": {"steps": [*MOVES, CROP]}}]), copy.deepcopy(data)
        )
        equal(got, expected, ("polys", "ignore_tags", "actual_size"))
        inner = tuple(slice(2, max(size - 2, 3)) for size in got["actual_size"])
        differ = np.abs(got["image"].astype(int) - expected["image"])[inner]
        means.append(differ.mean())
        worst.append(np.percentile(differ, 95))
    assert np.mean(means) < 1.5 and np.median(worst) < 5


def test_the_single_warp_s_jitter_has_stock_s_distribution():
    """Brightness and saturation over many draws. MindSpore's operator draws once a seed: it gets many."""
    import mindspore.dataset as msd

    image = np.zeros((4, 4, 3), np.uint8) + np.array([150, 90, 60], np.uint8)
    colour = {"brightness": 0.1255, "saturation": 0.5}
    steps = [{"RandomCropWithBBox": {"crop_size": [4, 4], "p": 0.0}}]
    ours = make([{"PerfRandomGeometry": {"steps": steps, "colour": colour}}])[0]
    theirs = stock("RandomColorAdjust", **colour)

    def features(transform, before=lambda index: None):
        made = []
        for index in range(1500):
            before(index)
            data = {"image": image.copy(), "polys": np.array([], np.float32), "ignore_tags": np.array([])}
            pixel = transform(data)["image"][1, 1].astype(float)
            grey = pixel @ [0.299, 0.587, 0.114]
            made.append((grey / (image[0, 0] @ [0.299, 0.587, 0.114]), np.ptp(pixel) / grey))
        return np.array(made)

    seed = msd.config.get_seed()
    np.random.seed(0)
    a = features(ours)
    try:
        b = features(theirs, msd.config.set_seed)
    finally:
        msd.config.set_seed(seed)
    np.testing.assert_allclose(a.mean(axis=0), b.mean(axis=0), atol=0.04)
    np.testing.assert_allclose(a.std(axis=0), b.std(axis=0), rtol=0.12)
    np.testing.assert_allclose(
        np.quantile(a, [0.05, 0.95], axis=0), np.quantile(b, [0.05, 0.95], axis=0), atol=0.06
    )


@settings(max_examples=150, **QUIET)
@given(st.integers(0, 2**31), st.sampled_from([{}, {"min_area": 40.0}]))
def test_validation_keeps_what_stock_keeps(seed, options):
    rng = np.random.default_rng(seed)
    polys = []
    for _ in range(5):
        corners = int(rng.integers(3, 9))
        angles = 2 * np.pi * (np.arange(corners) + rng.uniform(0, 0.9, corners)) / corners
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(1, 30, (corners, 1))
        poly = rng.uniform(-20, 90, 2) + ring
        polys.append(np.round(poly) if rng.random() < 0.5 else poly)
    data = {
        "image": np.zeros((80, 80, 3), np.uint8), "actual_size": np.array([60, 80]), "polys": polys,
        "texts": list("abcde"), "ignore_tags": rng.random(5) < 0.3,
    }  # fmt: skip
    from shapely.geometry import Polygon

    valid = [i for i, poly in enumerate(polys) if Polygon(poly).is_valid]
    for key in ("polys", "texts", "ignore_tags"):
        data[key] = [data[key][i] for i in valid]
    expected = stock("ValidatePolygons", **options)(copy.deepcopy(data))
    got = make([{"PerfValidatePolygons": options}])[0](copy.deepcopy(data))
    equal(got, expected, ("polys", "ignore_tags"))
    assert got["texts"] == expected["texts"]


def test_validation_of_polygons_that_touch_the_border_only():
    data = {
        "image": np.zeros((50, 60, 3), np.uint8), "texts": list("abc"), "ignore_tags": np.zeros(3, bool),
        "polys": [np.array(p, float) for p in (
            [[60, 10], [80, 10], [80, 20], [60, 20]], [[-9, 10], [0, 12], [-9, 20]],
            [[-20, 20], [-5, -20], [20, -22], [-2, -2]],  # round the corner, without touching it
        )],
    }  # fmt: skip
    expected = stock("ValidatePolygons")(copy.deepcopy(data))
    got = make([{"PerfValidatePolygons": {}}])[0](copy.deepcopy(data))
    equal(got, expected, ("polys", "ignore_tags"))
    assert got["texts"] == expected["texts"] == ["a", "b"]


def test_validation_ignores_a_bow_tie_where_stock_loses_the_picture():
    bow_tie, good = [[-9, 10], [40, 10], [-9, 40], [40, 40]], [[5, 45], [40, 45], [40, 49], [5, 49]]
    data = {
        "image": np.zeros((50, 60, 3), np.uint8), "texts": ["a", "b"], "ignore_tags": np.zeros(2, bool),
        "polys": np.array([bow_tie, good], float),
    }  # fmt: skip
    with pytest.raises(Exception, match="GEOSIntersection"):
        stock("ValidatePolygons")(copy.deepcopy(data))
    got = make([{"PerfValidatePolygons": {}}])[0](copy.deepcopy(data))
    assert got["ignore_tags"].tolist() == [True, False] and got["texts"] == ["a", "b"]


def test_a_text_that_the_crop_cuts_in_two_keeps_both_pieces():
    horseshoe = [[5, -30], [15, -30], [15, 20], [40, 20], [40, -30], [50, -30], [50, 30], [5, 30]]
    data = {
        "image": np.zeros((10, 60, 3), np.uint8), "texts": ["a"], "ignore_tags": np.zeros(1, bool),
        "polys": np.array([horseshoe], float),
    }  # fmt: skip
    got = make([{"PerfValidatePolygons": {"clip_to_visible_area": True}}])[0](copy.deepcopy(data))
    assert got["texts"] == ["a", "a"] and got["ignore_tags"].tolist() == [False, False]
    assert sorted(float(poly[:, 0].min()) for poly in got["polys"]) == [5, 40]
    plain = make([{"PerfValidatePolygons": {}}])[0](copy.deepcopy(data))
    equal(plain, stock("ValidatePolygons")(copy.deepcopy(data)), ("polys", "ignore_tags"))


@pytest.mark.parametrize(
    "options", [{}, {"mean": [1.5, 100, 7], "std": [3, 58.395, 0.1]}, {"bgr_to_rgb": True}]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_normalisation_is_bit_equal(options, dtype):
    image = np.random.default_rng(0).integers(0, 256, (37, 41, 3)).astype(dtype)
    expected = stock("ToCHWImage")(stock("NormalizeImage", **options)({"image": image.copy()}))["image"]
    got = make([{"PerfNormalizeToCHW": options}])[0]({"image": image.copy()})["image"]
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_labels_are_encoded_as_stock_encodes_them(data):
    ours, theirs = make([{"PerfDetLabelEncode": None}])[0], stock("DetLabelEncode")
    lines = (data / "mindocr_icdar15_labels" / "det_train_gt.txt").read_text(encoding="utf-8").splitlines()
    labels = [line.split("\t")[1] for line in lines]
    labels += ["[]", '[{"transcription": "é\\ud83d", "points": [[1, 2], [3.5, 4], [5, NaN]]}]']
    labels += [
        '[{"transcription": "*", "points": [[1,2],[3,4],[5,6]]},'
        ' {"transcription": 7, "points": [[1,2],[3,4],[5,6],[7,8]]}]'
    ]
    for label in labels:
        got, expected = ours({"label": label}), theirs({"label": label})
        equal(got, expected, ("polys", "ignore_tags"))
        assert got["texts"] == expected["texts"]
