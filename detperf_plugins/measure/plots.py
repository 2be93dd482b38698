"""Charts as PNG files. matplotlib is imported where it is used: nothing else here needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from detperf_plugins.rle import decode_rle

__all__ = ["demo_picture"]

# Okabe-Ito colours: told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")


def demo_picture(
    path: Path,
    curves: Mapping[str, Sequence[float]],
    pictures: Sequence[Mapping[str, Any]],
    names: Mapping[int, str],
    caption: str = "Predicted masks after training",
) -> Path:
    """Loss curves on top, predicted masks or polygons over pictures below.

    Args:
        path: the PNG to write.
        curves: total loss of each step by run.
        pictures: each with `path` of the image and `masks`: COCO results with an RLE `segmentation`,
            `category_id` and `score`, and `none`, what to say where there are none; or `polygons`:
            [[x, y], ...] each, in pixels.
        names: class name by category id.
        caption: above the pictures.

    Returns:
        `path`.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 7), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1))
    axes = top.subplots()
    for index, (run, losses) in enumerate(curves.items()):
        style = {"linewidth": 3.5, "alpha": 0.45} if index == 0 else {"linewidth": 1.2}
        axes.plot(range(1, len(losses) + 1), losses, color=COLOURS[index], label=run, **style)
    axes.set(xlabel="step", ylabel="total loss", title="Two runs from one seed", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    if pictures:
        bottom.suptitle(caption)
        for axis, one in zip(np.atleast_1d(bottom.subplots(1, len(pictures))), pictures):
            if "polygons" in one:
                _draw_polygons(axis, one)
            else:
                _draw_masks(axis, one, names)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _draw_polygons(axis: Any, picture: Mapping[str, Any]) -> None:
    from PIL import Image

    axis.imshow(np.asarray(Image.open(picture["path"]).convert("RGB")))
    for polygon in picture["polygons"]:
        corners = np.asarray([*polygon, polygon[0]])
        axis.plot(corners[:, 0], corners[:, 1], color=COLOURS[1], linewidth=1.6)
    axis.set_axis_off()


def _draw_masks(axis: Any, picture: Mapping[str, Any], names: Mapping[int, str]) -> None:
    from matplotlib.colors import to_rgb
    from PIL import Image

    image = np.asarray(Image.open(picture["path"]).convert("RGB"), dtype=np.float64) / 255
    best = sorted(picture["masks"], key=lambda one: -one["score"])[:8]
    for one in reversed(best):
        mask = decode_rle(one["segmentation"]).astype(bool)
        colour = to_rgb(COLOURS[int(one["category_id"]) % len(COLOURS)])
        height, width = min(mask.shape[0], image.shape[0]), min(mask.shape[1], image.shape[1])
        mask = mask[:height, :width]
        region = image[:height, :width]
        region[mask] = 0.45 * region[mask] + 0.55 * np.array(colour)
    axis.imshow(image)
    for one in best:
        rows, columns = np.nonzero(decode_rle(one["segmentation"]))
        if len(rows):
            label = f"{names.get(one['category_id'], one['category_id'])} {one['score']:.2f}"
            axis.text(columns.min(), rows.min(), label, fontsize=6, color="white", va="bottom",
                      bbox={"facecolor": "black", "alpha": 0.6, "pad": 1, "linewidth": 0})  # fmt: skip
    if not best:
        axis.set_title(picture.get("none", "nothing found"), fontsize=8)
    axis.set_axis_off()
