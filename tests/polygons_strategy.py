"""Polygons, boxes and RoIs for tests: hypothesis strategies and seeded generators."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

# Small enough that pycocotools, which stores a point every fifth of a cell, stays quick on thin boxes.
finite = st.floats(-150, 150, allow_nan=False, width=32)
lattice = st.integers(-40, 240).map(lambda v: v / 2)


@st.composite
def parts(draw, coordinate=None, max_vertices=12):
    """One polygon part as a flat list of at least three points."""
    coordinate = coordinate or draw(st.sampled_from([finite, lattice]))
    count = draw(st.integers(3, max_vertices))
    return draw(st.lists(coordinate, min_size=2 * count, max_size=2 * count))


@st.composite
def boxes(draw):
    """x0 y0 x1 y1 as float32; may be thinner than a tenth of a pixel."""
    x, y = draw(finite), draw(finite)
    w, h = (draw(st.one_of(st.floats(0, 0.2), st.floats(0.5, 400))) for _ in range(2))
    return np.array([x, y, x + w, y + h], dtype=np.float32)


def blob(rng: np.random.Generator, centre: np.ndarray, radius: float, vertices: int) -> np.ndarray:
    """float64 [V, 2]: a star-convex outline, the usual shape of a hand-drawn polygon."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, vertices))
    radii = radius * rng.uniform(0.75, 1.05, vertices)
    return centre + np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii[:, None]


def random_segmentation(rng: np.random.Generator, size: float = 640) -> list[list[float]]:
    """One instance of one to three parts, partly outside the image now and then, some vertices whole."""
    centre, radius = rng.uniform(-20, size + 20, 2), float(rng.choice([3, 12, 60, 200]))
    segmentation = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        outline = blob(rng, centre + rng.normal(0, radius, 2), radius, int(rng.integers(3, 40)))
        if rng.random() < 0.3:
            outline = np.round(outline)
        if rng.random() < 0.1:
            outline = rng.permutation(outline)  # self-intersecting
        segmentation.append(outline.reshape(-1).tolist())
    return segmentation


def jittered(rng: np.random.Generator, box: np.ndarray, count: int, least: float = 0.0) -> np.ndarray:
    """float32 [count, 4]: boxes near `box`, each with IoU of at least `least` with it."""
    found: list[np.ndarray] = []
    size = np.maximum(box[2:] - box[:2], 1e-3)
    while len(found) < count:
        one = (box + rng.normal(0, 0.12, 4) * np.tile(size, 2)).astype(np.float32)
        if one[2] > one[0] and one[3] > one[1] and iou(box, one) >= least:
            found.append(one)
    return np.stack(found)


def iou(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes."""
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h
    return float(w * h / area)


def bounds(segmentation: list[list[float]]) -> np.ndarray:
    """float64 [4]: the box round all parts."""
    points = np.concatenate([np.reshape(part, (-1, 2)) for part in segmentation])
    return np.concatenate([points.min(axis=0), points.max(axis=0)])
