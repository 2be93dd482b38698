"""Polygons in bulk: areas, extents and self-intersections of many rings at once."""

from __future__ import annotations

import numpy as np

__all__ = ["Rings", "self_intersecting"]

_LARGEST_RING = 2000  # pairs of edges grow with the square; beyond, only the vertex count is reported


class Rings:
    """Many rings as one array: `points` (N, 2) float64 and `starts` (R + 1,) offsets of each ring.

    Built from flat [x, y, x, y, ...] lists of an even number of finite numbers, at least 6 each.
    """

    def __init__(self, flat: list[float], lengths: list[int]) -> None:
        self.points = np.asarray(flat, dtype=np.float64).reshape(-1, 2)
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64) // 2)])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def areas(self) -> np.ndarray:
        """(R,) float64 absolute shoelace areas, in pixels, taken about each ring's first vertex."""
        if not len(self):
            return np.zeros(0)
        first, last = self.starts[:-1], self.starts[1:] - 1
        local = self.points - np.repeat(self.points[first], np.diff(self.starts), axis=0)
        following = np.roll(local, -1, axis=0)
        following[last] = local[first]
        cross = local[:, 0] * following[:, 1] - local[:, 1] * following[:, 0]
        return np.abs(np.add.reduceat(cross, first)) / 2

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """(R, 2) smallest and (R, 2) largest x and y of each ring."""
        if not len(self):
            return np.zeros((0, 2)), np.zeros((0, 2))
        first = self.starts[:-1]
        return np.minimum.reduceat(self.points, first), np.maximum.reduceat(self.points, first)

    def crossing(self) -> np.ndarray:
        """(R,) bool: which rings cross themselves; rings of equal length are tested together."""
        counts = np.diff(self.starts)
        found = np.zeros(len(self), dtype=bool)
        for count in np.unique(counts):
            if not 4 <= count <= _LARGEST_RING:
                continue
            members = np.flatnonzero(counts == count)
            step = max(1, 2_000_000 // int(count) ** 2)
            for block in (members[i : i + step] for i in range(0, len(members), step)):
                rows = self.starts[block][:, None] + np.arange(count)
                found[block] = self_intersecting(self.points[rows])
        return found


def self_intersecting(rings: np.ndarray) -> np.ndarray:
    """Which closed rings have two edges that properly cross (touching does not count).

    Edge i crosses edge j when the ends of j lie strictly on both sides of i and the other way round. The
    orientation of every vertex about every edge comes from one batched matrix product.

    Args:
        rings: float [B, n, 2], vertices in pixels.

    Returns:
        bool [B].
    """
    points = rings - rings.mean(axis=1, keepdims=True)
    edges = np.roll(points, -1, axis=1) - points
    offset = edges[..., 0] * points[..., 1] - edges[..., 1] * points[..., 0]
    lines = np.stack([edges[..., 0], -edges[..., 1], -offset], axis=2)
    corners = np.stack([points[..., 1], points[..., 0], np.ones(points.shape[:2])], axis=1)
    side = lines @ corners  # (B, edge, vertex)
    scale = np.abs(points).max(axis=(1, 2), initial=1.0)[:, None, None]
    side[np.abs(side) < 1e-9 * scale * scale] = 0.0
    sign = np.sign(side).astype(np.int8)
    split = sign * np.roll(sign, -1, axis=2) < 0
    return (split & split.transpose(0, 2, 1)).any(axis=(1, 2))
