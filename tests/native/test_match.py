"""The matching and proposal kernels against plain numpy, without any host framework."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from detperf_plugins.native import instructions
from detperf_plugins.native.match import match_boxes
from detperf_plugins.native.proposals import propose
from tests.tied_overlaps import ANCHOR, PADDLES_ROWS, boxes_with, heights


def overlaps(boxes: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """float32 [G, A]."""
    side = np.minimum(boxes[:, None, 2:], anchors[:, 2:]) - np.maximum(boxes[:, None, :2], anchors[:, :2])
    inter = np.prod(np.maximum(side, 0), axis=2, dtype=np.float32)
    area = [(b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (boxes, anchors)]
    union = area[0][:, None] + area[1] - inter
    return np.divide(inter, union, out=np.zeros_like(inter), where=inter > 0)


def expected_labels(anchors, boxes, crowd, positive, negative, ignore, low_quality):
    """label_box's labels, written plainly."""
    good = crowd == 0
    if not good.any():
        return np.zeros(len(anchors), dtype=int)
    overlap = overlaps(boxes, anchors)
    ignored = np.zeros(len(anchors), dtype=bool)
    if ignore > 0:
        ignored = (overlap[~good] > np.float32(ignore)).any(axis=0)
    usable = np.where(ignored, -1, overlap[good])
    best = usable.max(axis=0)
    labels = np.where(best >= np.float32(positive), 1, np.where(best < np.float32(negative), 0, -1))
    labels[ignored] = -1
    if low_quality:
        reached = (usable == usable.max(axis=1, keepdims=True)) & (usable > 0)
        labels[reached.any(axis=0)] = 1
    return labels


def box_arrays(count: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    """Corners on a grid of eighths: ties, touching edges and boxes without area are common there."""
    return count.flatmap(
        lambda n: hnp.arrays(np.int64, (n, 4), elements=st.integers(0, 400)).map(
            lambda a: (
                np.concatenate([np.minimum(a[:, :2], a[:, 2:]), np.maximum(a[:, :2], a[:, 2:])], 1).astype(
                    np.float32
                )
                / 8
            )
        )
    )


@settings(max_examples=150, deadline=None)
@given(
    anchors=box_arrays(st.integers(1, 600)),
    boxes=box_arrays(st.integers(0, 12)),
    data=st.data(),
    ignore=st.sampled_from([-1.0, 0.2, 0.5]),
    low_quality=st.booleans(),
)
def test_labels(anchors, boxes, data, ignore, low_quality):
    crowd = data.draw(hnp.arrays(np.bool_, len(boxes)))
    labels, matches = match_boxes(anchors, boxes, [0, len(boxes)], crowd, 0.7, 0.3, ignore, low_quality)
    expected = expected_labels(anchors, boxes, crowd, 0.7, 0.3, ignore, low_quality)
    np.testing.assert_array_equal(labels[0], expected)
    if (~crowd).any():
        overlap = overlaps(boxes, anchors)
        matched = overlap[matches[0], np.arange(len(anchors))]
        decided = (labels[0] == 1) & ~crowd[matches[0]]
        np.testing.assert_array_equal(matched[decided], overlap[~crowd].max(axis=0)[decided])
        assert decided.sum() == (labels[0] == 1).sum()
    else:
        assert not matches.any()


def test_among_equal_overlaps_the_match_is_paddles():
    """Whatever standard library the kernels were built with: the wheels are not built with Paddle's."""
    found = []
    for count in range(1, len(PADDLES_ROWS) + 1):
        boxes = boxes_with(heights(count))
        found.append(int(match_boxes(ANCHOR, boxes, [0, count], np.zeros(count), 0.7, 0.3)[1][0, 0]))
    assert found == PADDLES_ROWS


def test_the_kernels_use_what_the_processor_has():
    """Asked of the system: a wheel's own runtime may not know."""
    try:
        flags = set(re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1].split())
    except (OSError, TypeError):
        pytest.skip("this system does not say what its processor has")
    assert instructions() == next((name for name in ("avx2", "ssse3") if name in flags), "")


def random_boxes(rng: np.random.Generator, count: int, extent: float = 500) -> np.ndarray:
    start = rng.uniform(0, extent, (count, 2))
    return np.concatenate([start, start + rng.uniform(4, 200, (count, 2))], axis=1).astype(np.float32)


def test_a_batch_is_its_images_whatever_the_threads():
    rng = np.random.default_rng(0)
    anchors = random_boxes(rng, 40_000)
    images = [random_boxes(rng, count) for count in (7, 0, 130, 3)]
    crowd = [rng.random(len(image)) < 0.2 for image in images]
    offsets = np.cumsum([0] + [len(image) for image in images])
    rule = (0.7, 0.3, 0.4, True)
    together = match_boxes(anchors, np.concatenate(images), offsets, np.concatenate(crowd), *rule, threads=1)
    shared_out = match_boxes(
        anchors, np.concatenate(images), offsets, np.concatenate(crowd), *rule, threads=5
    )
    for whole, again in zip(together, shared_out):
        np.testing.assert_array_equal(whole, again)
    for index, (image, flags) in enumerate(zip(images, crowd)):
        alone = match_boxes(anchors, image, [0, len(image)], flags, *rule)
        for whole, one in zip(together, alone):
            np.testing.assert_array_equal(whole[index], one[0])


def test_near_equal_overlaps_count_as_equal_under_a_tolerance():
    box = np.array([[0, 0, 400, 400]], dtype=np.float32)
    anchors = np.array([[0, 0, 40, 40], [0, 0, 40, 40.00001], [0, 0, 39, 40]], dtype=np.float32)
    exact, _ = match_boxes(anchors, box, [0, 1], [0], 0.7, 0.3)
    loose, _ = match_boxes(anchors, box, [0, 1], [0], 0.7, 0.3, equal_tolerance=1e-8)
    assert exact.tolist() == [[0, 1, 0]]
    assert loose.tolist() == [[1, 1, 0]]


MEMORY = """
import resource, numpy as np
from detperf_plugins.native.match import match_boxes
rng = np.random.default_rng(0)
def boxes(n):
    start = rng.uniform(0, 1200, (n, 2))
    return np.concatenate([start, start + rng.uniform(8, 300, (n, 2))], 1).astype(np.float32)
anchors, truth = boxes(267069), boxes(1000)
match_boxes(anchors[:10], truth[:1], [0, 1], [0], 0.7, 0.3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
labels, _ = match_boxes(anchors, truth, [0, 1000], np.zeros(1000), 0.7, 0.3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, int((labels == 1).sum()))
"""


def test_memory_does_not_grow_with_the_product():
    """1,000 boxes on 267,069 anchors: one overlap matrix would be 1.07 GB."""
    out = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    kilobytes, foreground = map(int, out.split())
    assert foreground > 0
    assert kilobytes < 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchors": np.zeros((3, 3))}, "anchors must be"),
        ({"boxes": np.zeros(4)}, "boxes must be"),
        ({"crowd": np.zeros(1)}, "crowd has 1 entries for 2 boxes"),
        ({"offsets": [0, 1]}, "offsets must rise"),
        ({"offsets": [0, 2, 1, 2]}, "offsets must rise"),
    ],
)
def test_shapes_are_checked(change, message):
    given_ = {
        "anchors": np.zeros((3, 4)),
        "boxes": np.zeros((2, 4)),
        "offsets": [0, 2],
        "crowd": np.zeros(2),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        match_boxes(**given_, positive_overlap=0.7, negative_overlap=0.3)


def plain_proposals(scores, deltas, anchors, size, before, after, threshold):
    """One level in float64, box by box."""
    order = np.argsort(-scores, kind="stable")[:before]
    w, h = anchors[order, 2] - anchors[order, 0], anchors[order, 3] - anchors[order, 1]
    x = deltas[order, 0] * w + anchors[order, 0] + w / 2
    y = deltas[order, 1] * h + anchors[order, 1] + h / 2
    half = np.exp(np.minimum(deltas[order, 2:], np.log(1000 / 16))) * np.stack([w, h], 1) / 2
    boxes = np.stack([x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1]], 1)
    boxes = np.clip(boxes, 0, [size[1], size[0], size[1], size[0]])
    boxes = boxes[((boxes[:, 2:] - boxes[:, :2]) >= 1).all(1)]
    kept: list[np.ndarray] = []
    for box in boxes:
        if not kept or overlaps(np.stack(kept), box[None]).max() <= threshold:
            kept.append(box)
    return np.stack(kept[:after]) if kept else np.zeros((1, 4))


@pytest.mark.parametrize("channels_last", [False, True])
def test_proposals_of_two_levels(channels_last):
    rng = np.random.default_rng(1)
    grids, per_cell, images = [(12, 16), (6, 8)], 3, 3
    rows, levels, wanted = [], [], []
    anchors = [random_boxes(rng, h * w * per_cell, 90) for h, w in grids]
    start = first = 0
    for (h, w), anchor in zip(grids, anchors):
        count = h * w * per_cell
        levels.append([start, start + count, first, h * w, per_cell])
        scores = rng.standard_normal((images, h, w, per_cell)).astype(np.float32)
        deltas = (rng.standard_normal((images, h, w, per_cell, 4)) * 0.3).astype(np.float32)
        wanted.append((scores.reshape(images, -1), deltas.reshape(images, -1, 4), anchor))
        if not channels_last:
            scores = scores.transpose(0, 3, 1, 2)
            deltas = deltas.reshape(images, h, w, -1).transpose(0, 3, 1, 2)
        rows += [scores.reshape(images, -1), deltas.reshape(images, -1)]
        start, first = start + 5 * count, first + count
    size = np.array([[100, 120], [80, 130], [100, 130]], dtype=np.float32)
    logits = np.concatenate(rows, axis=1)
    boxes, scores = propose(
        logits, np.array(levels), channels_last, np.concatenate(anchors), size, 100, 30, 0.6, 0.0, 10_000
    )
    for image in range(images):
        each = [plain_proposals(s[image], d[image], a, size[image], 100, 30, 0.6) for s, d, a in wanted]
        np.testing.assert_allclose(boxes[image], np.concatenate(each), atol=1e-3)
    best, best_scores = propose(
        logits, np.array(levels), channels_last, np.concatenate(anchors), size, 100, 30, 0.6, 0.0, 20
    )
    for image in range(images):
        assert len(best[image]) == 20
        np.testing.assert_array_equal(best_scores[image], np.sort(scores[image])[::-1][:20])


def test_a_level_without_a_box_gives_one_of_zeros():
    boxes, scores = propose(
        np.zeros((1, 5), dtype=np.float32), np.array([[0, 1, 0, 1, 1]]), False, np.array([[0, 0, 0.5, 0.5]]),
        np.array([[50, 50]]), 10, 10, 0.7, 0.0, 10,
    )  # fmt: skip
    assert boxes[0].tolist() == [[0, 0, 0, 0]]
    assert scores[0].tolist() == [0]


def test_nan_scores_come_last():
    logits = np.array([[np.nan, 1, 2] + [0] * 12], dtype=np.float32)
    anchors = np.array([[0, 0, 9, 9], [20, 20, 29, 29], [40, 40, 49, 49]])
    boxes, _ = propose(
        logits, np.array([[0, 3, 0, 1, 3]]), True, anchors, np.array([[60, 60]]), 2, 5, 0.7, 0.0, 5
    )
    assert boxes[0][:, 0].tolist() == [40, 20]


def test_levels_outside_the_logits_are_refused():
    with pytest.raises(ValueError, match="reach outside"):
        propose(
            np.zeros((1, 4)), np.array([[0, 1, 0, 1, 1]]), False, np.zeros((1, 4)), np.array([[9, 9]]),
            1, 1, 0.7, 0.0, 1,
        )  # fmt: skip
