"""`detperf bench targets`: its rows, and when it fails. Timings decide nothing here."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("ppdet")

from detperf_plugins.cli import bench as bench_module
from detperf_plugins.cli.bench import regressions, target_rows, targets
from detperf_plugins.errors import DetperfError, UnreadableInput

ROW = {
    "part": "rpn", "model": "c4", "batch_size": 2, "stock_ms": 90.0, "plugin_ms": 9.0, "ratio": 10.0,
    "ratio_low": 9.0, "ratio_high": 11.0, "stock_ops": 100, "plugin_ops": 10, "stock_host_reads": 8,
    "plugin_host_reads": 1, "stock_peak_mb": 60.5, "plugin_peak_mb": 2.0, "mismatches": 0,
}  # fmt: skip


def test_every_part_gives_a_row_and_equals_stock(activated):
    rows = list(
        target_rows(
            ("mask", "rpn", "bbox", "proposals", "bitmap"), ["c4"], [2], boxes=3, vertices=12, height=320,
            width=400, crop_sizes=(56,), scene_images=1,
        )
    )  # fmt: skip
    assert [row["part"] for row in rows] == ["mask", "rpn", "bbox", "proposals", "all", "bitmap"]
    assert [row["crop_size"] for row in rows[5:]] == [56]
    assert all(row["differing_percent"] > 0 and 0.9 < row["mean_iou"] < 1 for row in rows[5:])
    assert [row["bitmap_kb"] for row in rows[5:]] == [3.1]
    for row in rows:
        assert set(ROW) <= set(row)
        assert row["mismatches"] == (None if row["part"] == "bitmap" else 0)
        assert row["stock_peak_mb"] > 0 and row["plugin_peak_mb"] is not None
        assert row["stock_ms"] > 0 < row["plugin_ms"]
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    assert rows[4]["plugin_ops"] < rows[4]["stock_ops"]
    assert {row["part"]: row["plugin_host_reads"] for row in rows} == {
        "mask": 1, "rpn": 1, "bbox": 0, "proposals": 1, "all": 3, "bitmap": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ratio": 7.0}, "ratio 7.0 was 10.0"),
        ({"plugin_ops": 11}, "plugin_ops 11 was 10"),
        ({"plugin_host_reads": 2}, "plugin_host_reads 2 was 1"),
        ({"mismatches": 1}, "mismatches 1 was 0"),
    ],
)
def test_what_counts_as_a_regression(change, words):
    assert regressions([ROW], [ROW], 0.25) == []
    assert regressions([{**ROW, "ratio": 8.0}], [ROW], 0.25) == []
    assert regressions([{**ROW, **change}], [{**ROW, "model": "fpn"}], 0.25) == []
    (sentence,) = regressions([{**ROW, **change}], [ROW], 0.25)
    assert sentence == f"rpn c4 at batch size 2: {words}"


def run(monkeypatch, rows, **options):
    monkeypatch.setattr(bench_module, "target_rows", lambda *args, **kwargs: iter(rows))
    defaults = {
        "part": ["rpn"], "model": ["c4"], "batch_size": [2], "boxes": 5, "vertices": 9, "pairs": 7,
        "crop_size": [224], "fail_below": None, "compare_with": None, "tolerance": 0.25, "json_path": None,
    }  # fmt: skip
    targets(**{**defaults, **options})


def test_json_and_comparison(monkeypatch, tmp_path):
    path = tmp_path / "old.json"
    run(monkeypatch, [ROW], json_path=path)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["rows"] == [ROW]
    assert written["conditions"]["pairs"] == 7 and len(written["conditions"]["date"]) == 10
    run(monkeypatch, [ROW], compare_with=path)
    with pytest.raises(DetperfError, match=r"ratio 2\.0 was 10\.0"):
        run(monkeypatch, [{**ROW, "ratio": 2.0}], compare_with=path)


def test_failures_are_sentences(monkeypatch, tmp_path):
    run(monkeypatch, [ROW], fail_below=10.0)
    with pytest.raises(DetperfError, match=r"rpn c4 at batch size 2: ratio 10\.0 is below 11\.0"):
        run(monkeypatch, [ROW], fail_below=11.0)
    with pytest.raises(DetperfError, match="3 values differ from stock's"):
        run(monkeypatch, [{**ROW, "mismatches": 3}])
    with pytest.raises(UnreadableInput, match="--part roi is unknown"):
        run(monkeypatch, [ROW], part=["roi"])
    with pytest.raises(UnreadableInput, match="--crop-size 3 is outside 8 to 4096"):
        run(monkeypatch, [ROW], crop_size=[3])
    broken = tmp_path / "broken.json"
    broken.write_text('{"rows": [{"part": "rpn"}]}', encoding="utf-8")
    for path in (broken, tmp_path / "missing.json"):
        with pytest.raises(UnreadableInput, match="is not a result of"):
            run(monkeypatch, [ROW], compare_with=path)
