"""A false alarm is a fault: the hosts' own configs and clean public data have no error and no warning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from detperf_plugins.doctor.configs import names
from detperf_plugins.doctor.lint import lint_file
from detperf_plugins.doctor.logs.analyse import analyse
from detperf_plugins.doctor.logs.read import read_log
from detperf_plugins.doctor.schema.extract import extract

ROOT = Path(__file__).resolve().parent.parent.parent


def checkout(variable: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout")
    return Path(folder)


def alarms(path: Path) -> list[str]:
    report = lint_file(path)
    assert report.unreadable is None, report.unreadable
    return [f"{f.place} {f.rule.id}: {f.message}" for f in report.findings if f.severity != "hint"]


@pytest.mark.parametrize(
    "pattern", ["mask_rcnn/*.yml", "cascade_rcnn/*mask*.yml", "faster_rcnn/*.yml", "datasets/*.yml"]
)
def test_stock_paddledetection(pattern):
    files = sorted((checkout("PADDLEDETECTION") / "configs").glob(pattern))
    assert files and [alarm for path in files for alarm in alarms(path)] == []


@pytest.mark.parametrize(
    "pattern", ["det/dbnet/*.yaml", "det/east/*.yaml", "det/psenet/*.yaml", "rec/*/*.yaml", "cls/*/*.yaml"]
)
def test_stock_mindocr(pattern):
    files = sorted((checkout("MINDOCR") / "configs").glob(pattern))
    assert files and [alarm for path in files for alarm in alarms(path)] == []


@pytest.mark.parametrize(("host", "variable"), [("paddledet", "PADDLEDETECTION"), ("mindocr", "MINDOCR")])
def test_the_tables_of_names_are_those_of_the_host(host, variable):
    assert extract(host, checkout(variable)) == getattr(names, host)()


def test_shipped_configs_are_clean():
    files = sorted((ROOT / "configs").rglob("*.y*ml"))
    assert files and [alarm for path in files for alarm in alarms(path) if "config-path" not in alarm] == []


def test_clean_annotations(data):
    assert alarms(data / "fruit_nuts" / "trainval.json") == []
    assert alarms(data / "icevision_coco6" / "annotations.json") == []


def test_the_faults_of_a_public_set_are_told(data):
    report = lint_file(data / "taco" / "annotations.json")
    severe = {f.rule.id: f.count for f in report.findings if f.severity != "hint"}
    assert severe == {"coco-duplicate-id": 2}  # ids 309 and 4040 are used twice there
    hints = {f.rule.id for f in report.findings if f.severity == "hint"}
    assert {"coco-over-edge", "coco-self-intersection", "coco-mask-memory"} <= hints


@pytest.mark.parametrize("name", ["det_train_gt.txt", "det_val_gt.txt"])
def test_clean_labels(name, data):
    assert alarms(data / "mindocr_icdar15_labels" / name) == []


def test_the_maintainers_log_of_issue_683():
    path = ROOT.parent / "shared" / "sources" / "mindocr_issue_683.txt"
    if not path.is_file():
        pytest.skip("the issue's text is not here")
    result = analyse(read_log(path))
    assert result.ips == pytest.approx(62.6, abs=0.1) and result.compile == pytest.approx(59, abs=0.5)
    assert result.epochs == 20 and result.first_nan is None
