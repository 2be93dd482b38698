"""YAML itself: scalars as PyYAML reads them, places, broken text explained and read on, lost indentation."""

from __future__ import annotations

import math

import pytest

from detperf_plugins.doctor.configs.check import check_config
from detperf_plugins.doctor.yaml.nodes import YamlFault, compose
from detperf_plugins.doctor.yaml.repair import mend, read_yaml
from detperf_plugins.doctor.yaml.scalars import looks_like_number, resolve

from .support import MINDOCR, PPDET


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0e-4", 1e-4),
        ("1e-4", "1e-4"),
        ("1.e+3", 1000.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5e3", "5e3"),
        ("yes", True),
        ("Off", False),
        ("oFF", "oFF"),
        ("~", None),
        ("", None),
        ("null", None),
        ("none", "none"),
        ("017", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("1:30", 90),
        ("+12", 12),
        ("08", "08"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1.5.2", "1.5.2"),
        ("(1,2)", "(1,2)"),
    ],
)
def test_scalars_are_read_as_yaml_1_1(text, value):
    assert resolve(text) == value and type(resolve(text)) is type(value)


def test_numbers_that_yaml_reads_as_text():
    assert looks_like_number("1e-4") and looks_like_number("5E3") and looks_like_number("2.5e8")
    assert not looks_like_number("1.0e-4") and not looks_like_number("v1") and not looks_like_number("12")


def test_nodes_know_their_place():
    root = compose("a:\n  - b: &x {c: 1}\n  - *x\nd: 'text'\n", "f.yml")
    inner = root.entries["a"].node.items[0].entries["b"]
    assert (inner.line, inner.column, inner.node.line) == (2, 5, 2)
    assert root.python() == {"a": [{"b": {"c": 1}}, {"c": 1}], "d": "text"}


def test_merge_keys_and_tags():
    root = compose("base: &b {x: 1, y: 2}\nmade: {<<: *b, y: 3}\nset: !COCODataSet {a: 1}\n", "f.yml")
    assert root.python()["made"] == {"y": 3, "x": 1}
    assert root.entries["set"].node.tag == "!COCODataSet"


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "? [1, 2]\n: 3\n", "a: 1\n---\nb: 2\n", "[" * 5000])
def test_what_no_config_may_be_is_a_fault(text):
    with pytest.raises(YamlFault):
        compose(text, "f.yml")


def test_anchors_that_explode_are_a_fault():
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(YamlFault, match="grows without end"):
        compose("\n".join(rows), "f.yml")


def rules(text: str) -> dict[str, list]:
    by_rule: dict[str, list] = {}
    for finding in check_config(text, "f.yml")[1]:
        by_rule.setdefault(finding.rule.id, []).append(finding)
    return by_rule


def test_repeated_keys_numbers_and_tuples():
    found = rules("epoch: 3\nLearningRate:\n  base_lr: 1e-2\nepoch: 5\neval_size: (640, 640)\n")
    assert found["yaml-duplicate-key"][0].line == 4 and "line 1" in found["yaml-duplicate-key"][0].message
    assert found["yaml-number-as-text"][0].line == 3 and "1.0e-2" in found["yaml-number-as-text"][0].fix
    assert "[640, 640]" in found["yaml-tuple-as-text"][0].fix


def test_full_width_signs_are_named_with_their_place():
    found = rules(
        "epoch：3\nTrainReader：\n  batch_size: 2   # 注释：全角\n  name: '全角：文字'\n  x: ［1，2］\n"
    )
    places = [(f.line, f.column) for f in found["yaml-full-width"]]
    assert places == [(1, 6), (2, 12), (5, 6), (5, 8), (5, 10)]
    config, _ = check_config("epoch：3\nTrainReader：\n  x: ［1，2］\n", "f.yml")
    assert config.root.python() == {"epoch": 3, "TrainReader": {"x": [1, 2]}}


def test_chinese_text_is_left_alone():
    assert rules("epoch: 3  # 轮数：三\nsave_dir: 输出！结果\n") == {}


def test_tabs_are_named():
    text = "TrainReader:\n\tbatch_size: 2\n\tshuffle: true\n"
    found = rules(text)
    assert found["yaml-tab"][0].line == 2 and found["yaml-tab"][0].count == 2
    assert read_yaml(text, "f.yml")[0].python() == {"TrainReader": {"batch_size": 2, "shuffle": True}}


def test_a_lost_tag_is_named():
    text = PPDET.replace("!LinearWarmup", "LinearWarmup")
    finding = rules(text)["yaml-tag-lost"][0]
    assert (
        text.split("\n")[finding.line - 1].strip() == "- LinearWarmup" and '"- !LinearWarmup"' in finding.fix
    )
    assert read_yaml(text, "f.yml")[0].python() == compose(PPDET, "f.yml").python()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("save_dir: out: put", "second colon"),
        ("x: [1, 2", "bracket"),
        ("x: 'text", "quotation mark"),
        ("x: *nowhere", "anchor"),
        ("   y: 3", ""),
    ],
)
def test_a_broken_line_is_explained_and_the_rest_checked(broken, words):
    text = f"epoch: 3\n{broken}\nworker_num: 0\n"
    found = rules(text)
    assert found["yaml-syntax"] and abs(found["yaml-syntax"][0].line - 2) <= 1
    assert words in found["yaml-syntax"][0].message
    assert read_yaml(text, "f.yml")[0].get("epoch") is not None


def flattened(text: str) -> str:
    """What a web form leaves of a config."""
    return "\n".join(line.strip() for line in text.split("\n"))


@pytest.mark.parametrize("text", [MINDOCR, PPDET])
def test_lost_indentation_is_put_back(text):
    mended, findings = mend(flattened(text), "f.yml")
    assert compose(mended, "f.yml").python() == compose(text, "f.yml").python()
    assert [f.rule.id for f in findings] == ["yaml-indentation-lost"]
    assert mended.count("\n") == text.count("\n")


def test_prose_that_lost_its_mark():
    text = flattened(MINDOCR.replace("loss_scaler:", "\nused when training in half precision\nloss_scaler:"))
    found = rules(text)
    assert "half precision" in found["yaml-comment-mark-lost"][0].message
    assert "yaml-syntax" not in found


def test_the_faults_of_a_flattened_config_are_found_most_important_first():
    """The same kind as the config of mindocr issue 683: at least ten findings."""
    from detperf_plugins.doctor.findings import by_importance

    text = MINDOCR
    for old, new in (
        (
            "    label_column_index: [ 1, 2, 3, 4 ]",
            "    output_columns: ['image'] # timing\n    label_column_index: [ 1, 2, 3, 4 ]",
        ),
        ("    adaptive: True", "    adaptive: True\n    resume: True\n    pretrained: False"),
        ("num_epochs: 60", "num_epochs: 1"),
        ("'O2'", "'O0'"),
        ("dataset_sink_mode: True", "dataset_sink_mode: False"),
        ("batch_size: 16", "batch_size: 1"),
        ("  seed: 7", "  seed: 7\n  ckpt_max_keep: 0"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    findings = by_importance(check_config(flattened(text), "c.yaml", None)[1])
    ids = [f.rule.id for f in findings]
    assert ids[0] == "mindocr-column-index"
    wanted = {
        "yaml-indentation-lost",
        "mindocr-column-index",
        "mindocr-key-wrong-parent",
        "mindocr-warmup-too-long",
        "mindocr-amp-off",
        "mindocr-one-epoch",
        "mindocr-sink-off",
        "mindocr-small-batch",
        "mindocr-ckpt-keep-zero",
        "mindocr-lr-batch",
        "yaml-duplicate-key",
    }
    assert wanted <= set(ids) and ids.count("mindocr-key-wrong-parent") == 2
    severities = [f.severity for f in findings]
    assert severities == sorted(severities, key=("error", "warning", "hint").index)
    lines = flattened(text).split("\n")
    by_rule = {f.rule.id: f for f in findings}
    assert lines[by_rule["mindocr-column-index"].line - 1].startswith("output_columns: ['image']")


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    from .support import found

    findings = found(tmp_path, "c.yml", "# 轮数\nepoch: 1\n".encode("gbk"))
    assert (
        "byte 2" in findings["encoding-not-utf8"].message and "GBK" in findings["encoding-not-utf8"].message
    )
    assert "ppdet-one-epoch" in findings
    assert "encoding-bom" in found(tmp_path, "c.yml", b"\xef\xbb\xbfepoch: 3\n")
    assert "ppdet-one-epoch" in found(tmp_path, "c.yml", "epoch: 1\n".encode("utf-16"))
