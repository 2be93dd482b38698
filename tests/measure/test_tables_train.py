"""Runs in turns, kept and put together: the gain table of a training benchmark."""

from __future__ import annotations

import csv
import io

import pytest

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.matrix import Run, interleaved, keep, kept
from detperf_plugins.measure.train_table import as_csv, gain_table, summarise

CONTENTS = {"baseline": "as it is", "tuned": "faster"}


def result(*batch_s, status="ok", error=None):
    return {
        "status": status, "error": error, "reader_s": [0.01] * len(batch_s), "batch_s": list(batch_s),
        "cpu_s": [0.5 * s for s in batch_s],
        "host_mb": 700.0, "device_mb": None, "loader_bytes": 1000,
    }  # fmt: skip


RESULTS = {
    Run("baseline", 2, "fp32", 0): result(1.0, 1.0, 4.0),
    Run("tuned", 2, "fp32", 0): result(0.5, 0.5, 0.5),
    Run("tuned", 2, "fp32", 1): result(1.0, 1.0, 1.0),
    Run("baseline", 2, "fp32", 1): result(1.5, 1.5, 1.5),
    Run("baseline", 8, "fp32", 0): result(8.0),
    Run("tuned", 8, "fp32", 0): result(status="out of memory", error="MemoryError: 9 GB"),
    Run("tuned", 2, "amp", 0): result(0.25),
    Run("baseline", 2, "amp", 0): result(1.0),
}


def test_configs_take_turns_and_the_order_alternates():
    runs = interleaved(["a", "b"], [2, 4], ["fp32"], 2)
    assert [(run.name, run.batch_size, run.repeat) for run in runs] == [
        ("a", 2, 0), ("b", 2, 0), ("a", 4, 0), ("b", 4, 0),
        ("b", 2, 1), ("a", 2, 1), ("b", 4, 1), ("a", 4, 1),
    ]  # fmt: skip
    assert len({run.key for run in runs}) == len(runs)


def test_a_run_is_kept_for_the_same_files_and_settings_alone(tmp_path):
    run = Run("a b/c", 2, "fp32", 0)
    assert kept(tmp_path, run, "mark") is None
    keep(tmp_path, run, "mark", result(1.0))
    assert kept(tmp_path, run, "mark") == result(1.0)
    assert kept(tmp_path, run, "other") is None
    (tmp_path / f"{run.key}.json").write_text("{cut off", encoding="utf-8")
    assert kept(tmp_path, run, "mark") is None


def test_a_run_that_cannot_be_kept_says_so(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DetperfError, match="cannot write"):
        keep(tmp_path / "file", Run("a", 2, "fp32", 0), "mark", {})


def test_rows_pool_steps_and_gains_are_taken_repeat_by_repeat():
    rows = {
        (row["direction"], row["precision"], row["batch_size"]): row for row in summarise(RESULTS, CONTENTS)
    }
    tuned = rows["tuned", "fp32", 2]
    assert (tuned["repeats"], tuned["steps"], tuned["batch_cost_median"]) == (2, 6, 0.75)
    assert tuned["cpu_cost_median"] == 0.375
    assert (tuned["gain_low"], tuned["gain"], tuned["gain_high"]) == (50, 75, 100)
    assert tuned["ips_max"] == 4 and tuned["loader_bytes"] == 1000 and tuned["device_mb"] is None
    assert rows["baseline", "fp32", 2]["gain"] == 0
    # AMP is compared with the baseline in the first precision.
    assert rows["tuned", "amp", 2]["gain"] == 300 and rows["baseline", "amp", 2]["gain"] == 0
    full = rows["tuned", "fp32", 8]
    assert full["status"] == "out of memory" and full["ips_avg"] is None and full["gain"] is None


def test_the_gain_table_and_the_csv():
    rows = summarise(RESULTS, CONTENTS)
    header, lines = gain_table(rows)
    assert header == ["direction", "content", "precision", "BS=2: ips, gain", "BS=8: ips, gain"]
    assert lines == [
        ["baseline", "as it is", "fp32", "1.333, +0.0%", "1.000, +0.0%"],
        ["tuned", "faster", "fp32", "2.667, +75.0% (+50.0 to +100.0)", "out of memory"],
        ["baseline", "as it is", "amp", "2.000, +0.0%", "-"],
        ["tuned", "faster", "amp", "8.000, +300.0%", "-"],
    ]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert len(read) == len(rows) and read[3]["error"] == "MemoryError: 9 GB"
    assert read[0]["ips_median"] == str(rows[0]["ips_median"])
