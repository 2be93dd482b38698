"""How the cost of DBNet's target maps grows with texts and corners: stock's two transforms beside ours."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from detperf_plugins.mindocr.det_targets import PerfDetTargets

__all__ = ["grow"]

SIZE = 1280
MAPS = ("binary_map", "mask", "thresh_map", "thresh_mask")


def _sample(polygons: int, vertices: int) -> dict[str, Any]:
    """A picture of SIZE x SIZE with ellipses of about 40 x 24 pixels, turned at random."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(40, SIZE - 40, (polygons, 1, 2))
    angle = np.linspace(0, 2 * np.pi, vertices, endpoint=False) + np.pi / vertices
    turn = rng.uniform(-0.4, 0.4, (polygons, 1))
    x, y = 20 * np.cos(angle), 12 * np.sin(angle)
    xy = np.stack([x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)], axis=2)
    return {
        "image": np.zeros((SIZE, SIZE, 3), np.uint8),
        "polys": (centre + xy).astype(np.float32),
        "ignore_tags": np.zeros(polygons, dtype=bool),
    }


def grow(
    polygons: Sequence[int], vertices: Sequence[int], fixed: tuple[int, int] = (200, 4), passes: int = 3
) -> Iterator[dict[str, Any]]:
    """One row for each number of polygons (of `fixed[1]` corners) and of corners (`fixed[0]` polygons).

    Yields:
        part ("target maps"), polygons, vertices, stock_ms, plugin_ms (median over the passes), ratio (of
        these), mismatches: values that differ, in thresh_map by more than 2e-7.
    """
    from mindocr.data.transforms.det_transforms import BorderMap, ShrinkBinaryMap

    from detperf_plugins.mindocr.transform_bench import differences

    ours = PerfDetTargets(min_text_size=8, shrink_ratio=0.4, thresh_min=0.3, thresh_max=0.7)
    shrink = ShrinkBinaryMap(min_text_size=8, shrink_ratio=0.4)
    border = BorderMap(shrink_ratio=0.4, thresh_min=0.3, thresh_max=0.7)
    settings = [(count, fixed[1]) for count in polygons] + [(fixed[0], corners) for corners in vertices]
    for count, corners in dict.fromkeys(settings):
        times: dict[str, list[float]] = {"stock": [], "plugin": []}
        made = {}
        for turn in range(passes + 1):  # the first one is not counted
            for name, run in (("stock", lambda data: border(shrink(data))), ("plugin", ours)):
                sample = _sample(count, corners)
                begin = time.perf_counter()
                made[name] = run(sample)
                if turn:
                    times[name].append((time.perf_counter() - begin) * 1e3)
        stock, plugin = (statistics.median(times[name]) for name in ("stock", "plugin"))
        yield {
            "part": "target maps",
            "polygons": count,
            "vertices": corners,
            "stock_ms": round(stock, 2),
            "plugin_ms": round(plugin, 3),
            "ratio": round(stock / plugin, 2),
            "mismatches": differences(made["stock"], made["plugin"], MAPS),
        }
