"""Bar charts as PNG files. matplotlib is imported where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.plots import COLOURS

__all__ = ["bars"]


def bars(
    path: Path,
    title: str,
    unit: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
) -> Path:
    """Horizontal bars, one group a label and one bar of it a series; None leaves a gap.

    Args:
        path: the PNG to write.
        title, unit: above the chart, and below its axis.
        labels: of the groups, from top to bottom.
        series: values by name, as many as labels.

    Returns:
        `path`.

    Raises:
        DetperfError: it cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    height = 0.8 / max(1, len(series))
    figure, axes = plt.subplots(
        figsize=(9, 1.2 + 0.32 * len(labels) * max(1, 0.7 * len(series))), layout="constrained"
    )
    for index, (name, values) in enumerate(series.items()):
        shown = [value or 0.0 for value in values]
        places = [place + (index - (len(series) - 1) / 2) * height for place in range(len(labels))]
        drawn = axes.barh(places, shown, height * 0.92, label=name, color=COLOURS[index % len(COLOURS)])
        texts = ["" if value is None else f"{value:.3g}" for value in values]
        axes.bar_label(drawn, texts, padding=3, fontsize=8)
    axes.set(title=title, xlabel=unit, yticks=range(len(labels)), yticklabels=labels)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        axes.legend(loc="lower right", fontsize=8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise DetperfError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        plt.close(figure)
    return path
