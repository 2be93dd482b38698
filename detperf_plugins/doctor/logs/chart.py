"""A chart of one or several logs: loss, learning rate and speed, as a PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from detperf_plugins.doctor.logs.analyse import Analysis
from detperf_plugins.errors import DetperfError

__all__ = ["draw"]


def draw(analyses: Sequence[Analysis], path: Path) -> None:
    """Write the chart of `analyses` to `path`.

    Losses that are NaN or infinite are marked on the axis; records left out of the steady speed are hollow.

    Raises:
        DetperfError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise DetperfError("the chart needs matplotlib: pip install 'matplotlib<4'") from error
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    loss, rate, speed = figure.subplots(3, 1)
    for index, analysis in enumerate(analyses):
        colour, name = f"C{index}", Path(analysis.file).name
        finite = [(x, y) for x, y in analysis.losses if math.isfinite(y)]
        broken = [x for x, y in analysis.losses if not math.isfinite(y)]
        if finite:
            loss.plot(
                *zip(*finite), color=colour, label=name, linewidth=1.2, marker="." if len(finite) < 60 else ""
            )
        if broken:
            floor = min((y for _x, y in finite), default=0.0)
            loss.plot(broken, [floor] * len(broken), "x", color=colour, label=f"{name}: NaN or Inf")
        if analysis.learning_rates:
            rate.plot(*zip(*analysis.learning_rates), color=colour, linewidth=1.2)
        used = [(i, r.ips) for i, r in enumerate(analysis.used) if r.ips]
        if used:
            speed.plot(*zip(*used), ".", color=colour, label=name)
        if analysis.ips:
            speed.axhline(
                analysis.ips, color=colour, linewidth=0.8, label=f"{name}: {analysis.ips:.2f} images/s"
            )
    positive = [y for a in analyses for _x, y in a.losses if math.isfinite(y)]
    if positive and min(positive) > 0 and max(positive) > 30 * min(positive):
        loss.set_yscale("log")
    loss.set(xlabel="epoch (or step)", ylabel="loss")
    rate.set(xlabel="epoch (or step)", ylabel="learning rate")
    speed.set(xlabel="record, warm-up left out", ylabel="images/s")
    for axes in (loss, speed):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    for axes in (loss, rate, speed):
        axes.grid(alpha=0.3)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise DetperfError(f"cannot write {path}: {error.strerror or error}") from error
