"""Geometry of one text polygon: order of corners, crossings, area on the pixel grid, convexity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detperf_plugins.doctor.coco.geometry import self_intersecting

__all__ = ["Point", "area", "crosses", "extent", "hull_share", "reordered"]

Point = tuple[float, float]


def area(points: Sequence[Point]) -> float:
    """Absolute shoelace area."""
    x0, y0 = points[0]
    total = 0.0
    for (xa, ya), (xb, yb) in zip(points, [*points[1:], points[0]]):
        total += (xa - x0) * (yb - y0) - (xb - x0) * (ya - y0)
    return abs(total) / 2


def crosses(points: Sequence[Point]) -> bool:
    """Whether two edges properly cross."""
    if len(points) < 4 or len(points) > 2000:
        return False
    return bool(self_intersecting(np.asarray(points, dtype=np.float64)[None])[0])


def reordered(points: Sequence[Point]) -> list[Point]:
    """Four corners going round their centre clockwise on the screen, from the one nearest to the top left."""
    cx, cy = sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points)
    turned = sorted(points, key=lambda p: np.arctan2(p[1] - cy, p[0] - cx))
    start = min(range(len(turned)), key=lambda i: turned[i][0] + turned[i][1])
    return turned[start:] + turned[:start]


def extent(points: Sequence[Point]) -> tuple[float, float, float, float]:
    """Smallest x and y, largest x and y."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs), max(ys)


def hull_share(points: Sequence[Point]) -> float:
    """Area divided by the area of the convex hull; 1 for a convex polygon or one without area."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return 1.0

    def half(items: list[Point]) -> list[Point]:
        chain: list[Point] = []
        for x, y in items:
            while len(chain) > 1:
                (xa, ya), (xb, yb) = chain[-2], chain[-1]
                if (xb - xa) * (y - ya) - (yb - ya) * (x - xa) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    hull = half(ordered) + half(ordered[::-1])
    whole = area(hull) if len(hull) > 2 else 0.0
    return area(points) / whole if whole > 0 else 1.0
