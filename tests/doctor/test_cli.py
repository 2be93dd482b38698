"""The verbs: exit statuses, formats, JSON; the catalogue, its page, and the known errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detperf_plugins.doctor.explain import explain
from detperf_plugins.doctor.knowledge import ENTRIES
from detperf_plugins.doctor.pages import rule_rows, rules_page
from detperf_plugins.doctor.rules import all_rules, rule

from .log_lines import mindocr_epoch, ppdet
from .support import MINDOCR, PPDET, coco, run, write

ROOT = Path(__file__).resolve().parent.parent.parent


def test_exit_statuses_of_lint(tmp_path, capsys):
    clean = write(tmp_path, "clean.json", coco())
    hints = write(tmp_path, "hints.yml", "worker_num: 0\n")
    faulty = write(tmp_path, "faulty.yml", "epoch: ten\n")
    binary = write(tmp_path, "weights.pdparams", b"\x80\x04\0\0\0\0\0\0" * 50)
    assert run("lint", str(clean)) == 0
    assert run("lint", str(hints)) == 0
    assert run("lint", str(clean), str(faulty)) == 1
    for name in (tmp_path / "gone.yml", tmp_path, binary, write(tmp_path, "empty.yml", "")):
        assert run("lint", str(faulty), str(name)) == 2
    assert run("lint") == 2 and run("lint", str(faulty), "-o", "epoch") == 2
    assert run("lint", str(clean), str(faulty), "--fix", str(tmp_path / "x")) == 2


def test_overrides_of_lint(tmp_path):
    path = write(tmp_path, "c.yml", "epoch: ten\n")
    assert run("lint", str(path)) == 1 and run("lint", str(path), "-o", "epoch=10") == 0
    rate = write(tmp_path, "r.yml", "LearningRate: {base_lr: 0.02}\nTrainReader: {batch_size: 1}\n")
    assert run("lint", str(rate), "--cards", "1") == 1 and run("lint", str(rate), "--cards", "16") == 0


def test_json(tmp_path, capsys):
    path, out = write(tmp_path, "c.yml", "epoch: ten\n"), tmp_path / "out.json"
    assert run("lint", str(path), "--format", "json", "--json", str(out)) == 1
    printed = json.loads(capsys.readouterr().out)
    finding = printed["findings"][0]
    assert finding["rule"] == "ppdet-value-type" and finding["file"] == str(path) and finding["line"] == 1
    assert {"severity", "class", "message", "why", "fix", "source"} <= set(finding)
    result = json.loads(out.read_text())
    assert result["rows"] == printed["findings"] and {"command", "versions", "conditions"} <= set(result)


def test_records_are_in_the_json(tmp_path, capsys):
    path = write(tmp_path, "set.json", coco({"area": ...}))
    run("lint", str(path), "--format", "json")
    assert json.loads(capsys.readouterr().out)["findings"][0]["records"][0]["annotation_id"] == 13


def test_sarif(tmp_path, capsys):
    path = write(tmp_path, "c.yml", "epoch: ten\nworker_num: 0\n")
    run("lint", str(path), "--format", "sarif")
    log = json.loads(capsys.readouterr().out)
    (sarif_run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert {r["ruleId"] for r in sarif_run["results"]} == {
        r["id"] for r in sarif_run["tool"]["driver"]["rules"]
    }
    assert {r["level"] for r in sarif_run["results"]} == {"error", "note"}
    assert sarif_run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_github(tmp_path, capsys):
    path = write(tmp_path, "a,b.yml", "epoch: 'a%\\nb'\n")
    run("lint", str(path), str(tmp_path / "gone.yml"), "--format", "github")
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0].startswith("::error file=") and "a%2Cb.yml,line=1,col=1,title=ppdet-value-type::" in lines[0]
    )
    assert lines[1].startswith("::error") and "gone.yml" in lines[1] and len(lines) == 2


def test_text_says_where_what_and_what_to_do(tmp_path, capsys):
    path = write(tmp_path, "c.yaml", MINDOCR.replace("num_workers: 4", "num_workers: 0"))
    assert run("lint", str(path), "--verbose") == 1
    text = capsys.readouterr().out
    number = MINDOCR.split("\n").index("    num_workers: 4") + 1
    assert (
        f"{path}:{number}:5" in text
        and "ValueError" in text
        and "Set loader.num_workers" in text
        and "see: https://" in text
    )


def test_list(tmp_path, capsys):
    assert run("lint", "--list", "--json", str(tmp_path / "rules.json")) == 0
    text = capsys.readouterr().out
    rows = json.loads((tmp_path / "rules.json").read_text())["rows"]
    assert len(rows) == len(all_rules()) > 120 and all(row["id"] in text for row in rows)


def test_rules_are_complete():
    for row in rule_rows():
        assert all(row[key] for key in ("id", "severity", "class", "message", "why", "fix", "source")), row
        assert (
            row["source"].startswith("https://")
            and "\n" not in row["message"]
            and not row["message"].endswith(".")
        )
    with pytest.raises(ValueError, match="declared twice"):
        rule("coco-structure", "error", "correctness", "m", why="w", fix="f", source="s", room="coco")


def test_the_page_of_rules_is_current():
    page = ROOT / "docs" / "doctor-rules.md"
    assert page.read_text(encoding="utf-8") == rules_page(), (
        "run: python -m detperf_plugins.doctor.pages > docs/doctor-rules.md"
    )


def test_logs(tmp_path, capsys):
    path = write(
        tmp_path, "a.log", "\n".join([mindocr_epoch(1, 60), mindocr_epoch(2, 20), mindocr_epoch(3, 20)])
    )
    assert run("log", str(path), "--json", str(tmp_path / "a.json")) == 0
    text = capsys.readouterr().out
    assert "20.00" in text and "40.0" in text and "cannot tell" in text
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["rows"][0]["images_per_s"] == pytest.approx(20.0) and result["curves"][0]["loss"][0] == [
        1.0,
        3.5,
    ]
    bad = write(tmp_path, "b.log", "\n".join([ppdet(0), ppdet(20, loss="nan")]))
    assert run("log", str(bad), "--json", str(tmp_path / "b.json")) == 1
    assert json.loads((tmp_path / "b.json").read_text())["curves"][0]["loss"][1][1] == "nan"
    assert run("log", str(tmp_path / "none.log")) == 2
    assert run("log", str(write(tmp_path, "bin.log", b"\0\1\2" * 99))) == 2


def test_a_file_without_any_line_of_a_log(tmp_path, capsys):
    code = '"""Start training... save model in x."""\nimport paddle\nfps = 3\n'
    files = [
        write(tmp_path, "train.py", code),
        write(tmp_path, "set.json", coco(info={"date": "2017/09/01"})),
    ]
    for path in (*files, write(tmp_path, "notes.txt", "all is well\n")):
        assert run("log", str(path)) == 2
        assert f"{path} is no training log" in capsys.readouterr().out
    assert run("log", str(write(tmp_path, "e.txt", "ModuleNotFoundError: No module named 'te'\n"))) == 1
    start = "[12/01 02:44:58] ppdet.data INFO: Load [4 samples valid, 0 samples invalid]\n"
    assert run("log", str(write(tmp_path, "start.log", start))) == 0
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n'
    assert run("log", str(write(tmp_path, "died.log", start + trace))) == 1


def test_compare_and_chart(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    slow = write(
        tmp_path,
        "slow.log",
        "\n".join([mindocr_epoch(1, 60), mindocr_epoch(2, 20), mindocr_epoch(3, 20, loss="nan")]),
    )
    fast = write(
        tmp_path, "fast.log", "\n".join([mindocr_epoch(1, 50), mindocr_epoch(2, 10), mindocr_epoch(3, 10)])
    )
    assert run("log", "--compare", str(slow), str(fast), "--chart", str(tmp_path / "c.png")) == 1
    assert "2.00x" in capsys.readouterr().out
    assert (tmp_path / "c.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert run("log", "--compare", str(slow)) == 2


def test_explain(tmp_path, capsys):
    assert (
        run(
            "explain",
            "AttributeError: module 'numpy' has no attribute 'float'.",
            "--json",
            str(tmp_path / "e.json"),
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "numpy<1.24" in text and "https://github.com/" in text
    assert json.loads((tmp_path / "e.json").read_text())["rows"][0]["id"] == "numpy-alias"
    path = write(tmp_path, "err.txt", "Traceback\n  line 3\nModuleNotFoundError: No module named 'te'\n")
    assert run("explain", str(path)) == 0 and "line 3" in capsys.readouterr().out
    assert run("explain", "all is well") == 1
    assert run("explain", "gone.log") == 2


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("/lib/libz.so.1: version `ZLIB_1.2.11' not found (required by /lib/libpng16.so)", "libz-version"),
        ("Program received signal SIGSEGV, Segmentation fault.\n0x7f in inflateReset2 ()", "zlib-crash"),
        ("ImportError: No module named sklearn", "sklearn-missing"),
        ("AttributeError: module 'numpy' has no attribute 'bool'", "numpy-alias"),
        ("A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.1", "numpy-2"),
        ("RuntimeError: For primitive[TupleGetItem], the index 3 is out of range [-1, 1)", "tuple-index"),
        ("TypeError: must be real number, not NoneType", "amp-none"),
        ("SystemError: (Fatal) DataLoader process exited: Bus error", "bus-error"),
        ("ModuleNotFoundError: No module named 'hccl'", "hccl-te"),
        ("Please set find_unused_parameters=True", "unused-parameters"),
        ("AttributeError: module 'paddle.vision.ops' has no attribute 'roi_pool2'", "paddle-ops"),
        ("ResourceExhaustedError: Out of memory error on GPU 0.", "gpu-memory"),
        ("KeyError: 'gt_poly'", "gt-poly"),
        ("AssertionError: not found any coco record in d/train.json", "no-record"),
        ("shapely.errors.TopologicalError: The operation could not be performed", "topology"),
        ("ModuleNotFoundError: No module named 'mindspore.parallel._transformer'", "mindspore-transformer"),
        ("ImportError: cannot import name 'repo_type_and_id_from_hf_id' from 'huggingface_hub'", "hf-hub"),
        ("recommended to reduce num_parallel_workers to 2", "workers-memory"),
        ("ValueError: too many values to unpack (expected 2)", "tab-values"),
        ("UnicodeDecodeError: 'gbk' codec can't decode byte 0xad in position 2", "utf8"),
        ("Evaluation results empty", "eval-empty"),
        (
            "ValueError: Dataset /data/parts is not valid for reason above, please check again.",
            "dataset-path",
        ),
        (
            "TypeError: Argument 'bb' has incorrect type (expected numpy.ndarray, got list)",
            "segmentation-as-box",
        ),
        ("ValueError: ('Missing injection config:', 'PolygonMaskAssigner')", "not-registered"),
        ("ValueError: The module MaskRCN is not registered.", "not-registered"),
        ("AssertionError: should be a class or name of a class", "no-class-name"),
        (
            '  File "ppdet/modeling/necks/fpn.py", line 197, in forward\n    laterals[lvl - 1] += upsample\n'
            "ValueError: (InvalidArgument) Broadcast dimension mismatch. Operands",
            "fpn-padding",
        ),
        ("OSError: [Errno 98] Address already in use", "port-in-use"),
    ],
)
def test_known_errors(text, entry):
    assert [answer.entry.id for answer in explain(f"some\nlines\n{text}\n")] == [entry]
    assert explain(f"some\nlines\n{text}\n")[0].line >= 3


def test_the_reason_for_a_missing_data_set_is_quoted():
    reason = "[12/01] ppdet.utils.download WARNING: Config image_dir parts/photos is not a directory, dataset"
    trace = 'Traceback (most recent call last):\n  File "tools/train.py", line 1\n'
    text = f"{reason}\n{trace}ValueError: Dataset parts is not valid for reason above, please check again.\n"
    (answer,) = explain(f"one\n{text}")
    assert answer.quote == reason and answer.line == 2 and answer.entry.id == "dataset-path"
    assert explain(f"{reason}\nFound cached data\n") == []


def test_the_known_errors_are_listed(tmp_path, capsys):
    assert run("explain", "--list", "--json", str(tmp_path / "e.json")) == 0
    text = capsys.readouterr().out
    rows = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert [row["id"] for row in rows] == [entry.id for entry in ENTRIES]
    assert all(f"{row['id']}: {row['title']}" in text for row in rows)
    assert run("explain") == 2 and run("explain", "all is well") == 1
    assert "explain --list" in capsys.readouterr().out


def test_entries_are_distinct_and_sourced():
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.source.startswith("https://github.com/") for entry in ENTRIES)


@pytest.mark.parametrize("text", [MINDOCR, PPDET, mindocr_epoch(1, 9), ppdet(20)])
def test_ordinary_text_holds_no_error(text):
    assert explain(text) == []


def test_source_code_is_no_config(tmp_path, capsys):
    code = write(tmp_path, "a.py", "def f(x):\n    y: int = 3\nclass A:\n    name: str = 'b'\n    z: 1\n")
    assert run("lint", str(code)) == 2
    words = "is no config, annotation file, label file, training command or log"
    assert capsys.readouterr().out.strip() == f"unreadable {code} {words}"


def test_one_is_singular(tmp_path, capsys):
    run("lint", str(write(tmp_path, "set.json", coco({"iscrowd": 1}))))
    assert "2 images, 4 annotations, 2 categories" in (text := capsys.readouterr().out)
    assert "1 crowd region:" in text
    tabbed = write(tmp_path, "t.yml", "ResNet:\n\tdepth: 50\nepoch: 3\n")
    run("lint", str(tabbed), "--fix", str(tmp_path / "out.yml"))
    text = capsys.readouterr().out
    assert "(line 2)" in text and "1 change written" in text
    one = coco(categories=[{"id": 1, "name": "nut"}])
    run("lint", str(write(tmp_path, "one.json", one)))
    assert "1 category" in capsys.readouterr().out


def test_a_repair_is_named_as_it_is_typed():
    for row in rule_rows():
        assert "lint --fix" not in row["fix"], row["id"]


def test_overlays_are_named_by_their_names():
    fixes = {row["id"]: row["fix"] for row in rule_rows()}
    assert "bitmap_targets_fpn" in fixes["coco-rle-instance"]
    assert "bitmap_targets_c4" in fixes["coco-rle-instance"]
