"""The tables in README and docs are those that docs/benchmarks gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure import regions, tables
from detperf_plugins.measure.markdown import table
from detperf_plugins.measure.regions import REGIONS
from detperf_plugins.measure.tables import BENCHMARKS, link_from, main, pages, regenerated

ROOT = Path(__file__).resolve().parents[2]
RESULT = {
    "command": ["detperf", "bench", "targets", "--json", "/somewhere/targets.json"],
    "versions": {"paddlepaddle": "2.6.2"},
    "conditions": {"processor": "some processor", "cores": 2, "date": "2026-01-02"},
    "rows": [
        {
            "part": part, "model": "c4", "batch_size": 2, "stock_ms": 90.04, "plugin_ms": 9.0, "ratio": 10.0,
            "ratio_low": 9.5, "ratio_high": 11.0, "stock_ops": 100, "plugin_ops": 10, "stock_host_reads": 8,
            "plugin_host_reads": 1, "mismatches": 0,
        }
        for part in ("mask", "rpn")
    ],
}  # fmt: skip
PAGE = "before\n\n<!-- bench:mask -->\nold\n<!-- /bench -->\nafter\n"


@pytest.fixture
def site(tmp_path):
    (tmp_path / BENCHMARKS).mkdir(parents=True)
    (tmp_path / BENCHMARKS / "targets.json").write_text(json.dumps(RESULT), encoding="utf-8")
    (tmp_path / "README.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "docs" / "mask.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda path: path.name)
def test_every_page_is_what_its_figures_give(page):
    text = page.read_text(encoding="utf-8")
    assert regenerated(text, ROOT / BENCHMARKS, link_from(page, ROOT)) == text, (
        "run python -m detperf_plugins.measure.tables"
    )


def test_a_region_shows_its_rows_and_their_conditions(site):
    text = regenerated(PAGE, site / BENCHMARKS)
    assert text.startswith("before\n\n<!-- bench:mask -->\n| model |")
    assert text.endswith("<!-- /bench -->\nafter\n") and "old" not in text
    assert "| c4 | 2 | 90.0 | 9.0 | 10.0 (9.5 to 11.0) | 100 to 10 | 8 to 1 | 0 |\n" in text
    assert text.count("| c4 |") == 1  # the rpn row is not this table's
    assert (
        "some processor, 2 cores; paddlepaddle 2.6.2; 2026-01-02; `detperf bench targets --json targets.json`"
        in text
    )
    assert regenerated(text, site / BENCHMARKS) == text


def test_a_column_is_shown_where_any_row_has_it(site):
    assert "peak memory" not in regenerated(PAGE, site / BENCHMARKS)
    known = {**RESULT["rows"][0], "stock_peak_mb": 60.52, "plugin_peak_mb": 2.0}
    unknown = {**known, "stock_peak_mb": None}
    result = {**RESULT, "rows": [known, unknown]}
    (site / BENCHMARKS / "targets.json").write_text(json.dumps(result), encoding="utf-8")
    text = regenerated(PAGE, site / BENCHMARKS)
    assert "| 8 to 1 | 60.5 to 2.0 | 0 |\n" in text and "| 8 to 1 |  | 0 |\n" in text


def test_a_region_of_several_files_waits_for_all_and_tells_their_rows_apart(site, monkeypatch):
    columns = (("pairs", regions._text("pairs")), ("ratio", regions._number("ratio", 1)))
    region = regions.Region(
        "one.json", columns, {"part": "mask"}, least=1, least_of="gain", more=("two.json",)
    )
    monkeypatch.setitem(REGIONS, "mask", region)
    for name, gains in (("one", (0.5, -3)), ("two", (None, 0))):
        assert regenerated(PAGE, site / BENCHMARKS) == PAGE.replace("old\n", "")
        rows = [{**RESULT["rows"][0], "gain": gain, "ratio": at} for at, gain in enumerate(gains)]
        result = {**RESULT, "conditions": {**RESULT["conditions"], "pairs": name}, "rows": rows}
        (site / BENCHMARKS / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
    text = regenerated(PAGE, site / BENCHMARKS)
    assert "| one | 1.0 |\n| two | 0.0 |\n\n" in text and text.count("| --- |") == 1
    assert "one.json" in text and "two.json" in text


def test_without_figures_a_region_is_empty(tmp_path):
    assert regenerated(PAGE, tmp_path) == PAGE.replace("old\n", "")


def test_faults_of_a_page_or_of_figures_are_named(site):
    with pytest.raises(UnreadableInput, match="no table is called 'msak'"):
        regenerated(PAGE.replace("mask", "msak"), site / BENCHMARKS)
    with pytest.raises(UnreadableInput, match="1 regions are opened"):
        regenerated(PAGE.replace("<!-- /bench -->", ""), site / BENCHMARKS)
    (site / BENCHMARKS / "targets.json").write_text('{"rows": [{"part": "mask"}]}', encoding="utf-8")
    with pytest.raises(UnreadableInput, match=r"targets\.json is no result"):
        regenerated(PAGE, site / BENCHMARKS)


def test_the_command_rewrites_and_checks(site):
    with pytest.raises(SystemExit, match=r"README\.md is not what docs/benchmarks says"):
        main(["--root", str(site), "--check"])
    assert (site / "README.md").read_text(encoding="utf-8") == PAGE
    main(["--root", str(site)])
    main(["--root", str(site), "--check"])
    assert "(docs/benchmarks/targets.json)" in (site / "README.md").read_text(encoding="utf-8")
    assert "(benchmarks/targets.json)" in (site / "docs" / "mask.md").read_text(encoding="utf-8")


def test_every_figure_of_this_repository_is_shown_somewhere():
    shown = {file for page in pages(ROOT)
             for match in tables.MARK.finditer(page.read_text(encoding="utf-8"))
             for file in REGIONS[match["name"]].files}  # fmt: skip
    assert {file.name for file in (ROOT / BENCHMARKS).glob("*.json")} <= shown


def test_bars_inside_a_cell_do_not_split_it():
    assert table(["a", "b"], [["x|y", 1]]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"
