"""Timed training runs put together: one row a config, precision and batch size, and the gain table."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from detperf_plugins.measure.matrix import Run
from detperf_plugins.measure.timers import timer_rows

__all__ = ["as_csv", "gain_table", "summarise"]


def summarise(results: Mapping[Run, Any], contents: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row a config, precision and batch size over all its repeats.

    Args:
        results: of each run: status, error, reader_s, batch_s, cpu_s, host_mb, device_mb, loader_bytes.
        contents: what each config changes, by name; the first is the baseline.

    Returns:
        direction, content, precision, batch_size, status, error, repeats, steps; reader_cost, batch_cost (s)
        and ips (images/s) each as _avg, _max, _min, _median over the steps of all repeats; gain (% of median
        ips over the baseline in its first precision: median over repeats), gain_low, gain_high (least and
        most of a repeat), cpu_cost_median (processor seconds a step), host_mb, device_mb,
        loader_bytes. What was not measured is None.
    """
    precisions = list(dict.fromkeys(run.precision for run in results))
    sizes = sorted({run.batch_size for run in results})
    rows = []
    for precision in precisions:
        for name, content in contents.items():
            for size in sizes:
                own = _repeats(results, name, precision, size)
                if own:
                    base = _repeats(results, next(iter(contents)), precisions[0], size)
                    row = {"direction": name, "content": content, "precision": precision, "batch_size": size}
                    rows.append({**row, **_measured(own, size), **_gain(own, base)})
    return rows


def _repeats(
    results: Mapping[Run, Mapping[str, Any]], name: str, precision: str, size: int
) -> dict[int, Mapping[str, Any]]:
    wanted = (name, precision, size)
    return {
        run.repeat: result
        for run, result in results.items()
        if (run.name, run.precision, run.batch_size) == wanted
    }


def _measured(repeats: Mapping[int, Mapping[str, Any]], size: int) -> dict[str, Any]:
    bad = [one for one in repeats.values() if one["status"] != "ok"]
    good = [one for one in repeats.values() if one["status"] == "ok"]
    row: dict[str, Any] = {
        "status": bad[0]["status"] if bad else "ok",
        "error": bad[0]["error"] if bad else None,
        "repeats": len(good),
        "steps": sum(len(one["batch_s"]) for one in good),
    }
    timers = []
    if good:
        reader_s, batch_s = ([s for one in good for s in one[key]] for key in ("reader_s", "batch_s"))
        timers = timer_rows(reader_s, batch_s, size)
    for index, timer in enumerate(("reader_cost", "batch_cost", "ips")):
        for key in ("avg", "max", "min", "median"):
            row[f"{timer}_{key}"] = timers[index][key] if timers else None
    row["cpu_cost_median"] = statistics.median(s for one in good for s in one["cpu_s"]) if good else None
    for key in ("host_mb", "device_mb", "loader_bytes"):
        known = [one[key] for one in good if one.get(key) is not None]
        row[key] = max(known) if known else None
    return row


def _gain(
    own: Mapping[int, Mapping[str, Any]], base: Mapping[int, Mapping[str, Any]]
) -> dict[str, float | None]:
    gains = [
        100 * (statistics.median(base[repeat]["batch_s"]) / statistics.median(one["batch_s"]) - 1)
        for repeat, one in own.items()
        if one["status"] == "ok" and base.get(repeat, {}).get("status") == "ok"
    ]
    if not gains:
        return {"gain": None, "gain_low": None, "gain_high": None}
    return {"gain": statistics.median(gains), "gain_low": min(gains), "gain_high": max(gains)}


def gain_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The optimisation table of Paddle issue 55907: direction, content, and per batch size "ips, gain".

    Returns:
        The header, and one line a config and precision.
    """
    sizes = sorted({row["batch_size"] for row in rows})
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        line = lines.setdefault(
            (row["direction"], row["precision"]),
            [row["direction"], row["content"], row["precision"], *["-"] * len(sizes)],
        )
        line[3 + sizes.index(row["batch_size"])] = _cell(row)
    header = ["direction", "content", "precision", *(f"BS={size}: ips, gain" for size in sizes)]
    return header, list(lines.values())


def _cell(row: Mapping[str, Any]) -> str:
    if row["ips_median"] is None or row["status"] != "ok":
        return row["status"]
    if row["gain"] is None:
        return f"{row['ips_median']:.3f}"
    text = f"{row['ips_median']:.3f}, {row['gain']:+.1f}%"
    if row["gain_low"] == row["gain_high"]:
        return text
    return f"{text} ({row['gain_low']:+.1f} to {row['gain_high']:+.1f})"


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """All fields of all rows as CSV with a header; None is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
