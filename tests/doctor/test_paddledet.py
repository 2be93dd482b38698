"""Kind b: faults of PaddleDetection (and PaddleOCR) configs, and training commands."""

from __future__ import annotations

import pytest

from detperf_plugins.doctor.configs.check import check_config
from detperf_plugins.doctor.lint import lint_file

from .support import PPDET, assert_found_at, check_text, edited, found, write


def changed(*edits: tuple[str, str]) -> str:
    """The correct config, edited."""
    return edited(PPDET, *edits)


NHWC = [("  depth: 50", "  depth: 50\n  data_format: NHWC")]
CASES = {
    "no polygons": ([("'gt_poly', ", "")], "ppdet-mask-needs-poly", "error", "data_fields"),
    "cascade": (
        [
            ("architecture: MaskRCNN", "architecture: CascadeRCNN"),
            ("MaskRCNN:\n", "CascadeRCNN:\n"),
            ("'gt_poly', ", ""),
        ],
        "ppdet-mask-needs-poly",
        "error",
        "data_fields",
    ),
    "VOC": ([("!COCODataSet", "!VOCDataSet")], "ppdet-voc-for-mask", "error", "TrainDataset:"),
    "crowds": (
        [("    dataset_dir: parts", "    dataset_dir: parts\n    load_crowd: true")],
        "ppdet-load-crowd",
        "warning",
        "load_crowd",
    ),
    "collate": (
        [("collate_batch: false", "collate_batch: true")],
        "ppdet-collate-batch",
        "error",
        "collate_batch",
    ),
    "collate missing": ([("  collate_batch: false\n", "")], "ppdet-collate-batch", "error", "TrainReader:"),
    "layout": (NHWC, "ppdet-nhwc-partial", "error", "data_format"),
    "layout without amp": ([*NHWC, ("amp: true\n", "")], "ppdet-nhwc-without-amp", "hint", "data_format"),
    "whole layout without amp": (
        [("amp: true\n", "data_format: NHWC\n")],
        "ppdet-nhwc-without-amp",
        "hint",
        "data_format: NHWC",
    ),
    "iterations": ([("[6, 9]", "[6000, 9000]")], "ppdet-milestones", "warning", "milestones"),
    "falling": ([("[6, 9]", "[9, 6]")], "ppdet-milestones", "warning", "milestones"),
    "after the end": ([("[6, 9]", "[6, 14]")], "ppdet-milestones", "hint", "milestones"),
    "cosine": (
        [
            (
                "  - !PiecewiseDecay\n    gamma: 0.1\n    milestones: [6, 9]",
                "  - !CosineDecay\n    max_epochs: 4",
            )
        ],
        "ppdet-decay-short",
        "warning",
        "max_epochs",
    ),
    "warm-up": ([("    steps: 20", "    epochs: 12")], "ppdet-warmup-too-long", "warning", "- !LinearWarmup"),
    "type": ([("epoch: 10", "epoch: ten")], "ppdet-value-type", "error", "epoch: ten"),
    "flag": ([("use_gpu: true", "use_gpu: 'false'")], "ppdet-value-type", "error", "use_gpu"),
    "argument": ([("  freeze_at: 0", "  freez_at: 0")], "ppdet-unknown-argument", "error", "freez_at"),
    "transform argument": (
        [("{prob: 0.5}", "{probability: 0.5}")],
        "ppdet-unknown-argument",
        "error",
        "RandomFlip",
    ),
    "scheduler argument": (
        [("    start_factor: 0.1", "    start: 0.1")],
        "ppdet-unknown-argument",
        "error",
        "start: 0.1",
    ),
    "transform": ([("- RandomFlip:", "- RandmFlip:")], "ppdet-unknown-name", "error", "RandmFlip"),
    "class": (
        [("neck: FPN", "neck: FPNN"), ("FPN:\n  out", "FPX:\n  out")],
        "ppdet-unknown-name",
        "error",
        "FPNN",
    ),
    "scheduler": ([("!PiecewiseDecay", "!PiecewiseDecy")], "ppdet-unknown-name", "error", "PiecewiseDecy"),
    "section": ([("LearningRate:", "LearningRates:")], "ppdet-unknown-section", "warning", "LearningRates"),
    "plain key": ([("worker_num: 2", "worker_nums: 2")], "ppdet-unknown-section", "warning", "worker_nums"),
    "plugin": (
        [("  batch_transforms:\n", "  batch_transforms:\n  - PackPolygons: {}\n")],
        "ppdet-plugin-not-activated",
        "hint",
        "PackPolygons",
    ),
    "amp": ([("amp: true\n", "")], "ppdet-amp-off", "hint", "architecture"),
    "workers": ([("worker_num: 2", "worker_num: 0")], "ppdet-no-workers", "hint", "worker_num: 0"),
    "pipes": (
        [("use_shared_memory: true", "use_shared_memory: false")],
        "ppdet-shared-memory-off",
        "hint",
        "use_shared",
    ),
    "one epoch": ([("epoch: 10", "epoch: 1"), ("[6, 9]", "[0]")], "ppdet-one-epoch", "hint", "epoch: 1"),
    "back-slashes": (
        [("dataset_dir: parts", "dataset_dir: sets\\parts")],
        "config-path-separator",
        "warning",
        "sets\\parts",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_at_its_line(name):
    edits, rule, severity, where = CASES[name]
    assert_found_at(changed(*edits), rule, severity, where)


def test_a_correct_config_is_clean():
    assert set(check_text(PPDET)) == {"config-path-missing"}
    activated = "plugins: !!python/object/apply:detperf_plugins.paddledet.activate []\n"
    ours = changed(("  batch_transforms:\n", "  batch_transforms:\n  - PackPolygons: {}\n"))
    assert set(check_text(activated + ours)) == {"config-path-missing"}


def test_milestones_are_taken_for_iterations_only_where_they_are_as_large():
    late = check_text(changed(("[6, 9]", "[8, 11]"), ("epoch: 10", "epoch: 1")))["ppdet-milestones"]
    assert "lie past the last epoch, 1" in late.message and late.severity == "hint"
    iterations = check_text(changed(("[6, 9]", "[6000, 9000]")))["ppdet-milestones"]
    assert "look like iterations" in iterations.message and iterations.severity == "warning"


def test_all_parts_in_one_layout_are_fine():
    text = PPDET
    for name in ("FPN", "ResNet", "RPNHead", "BBoxHead", "MaskHead"):
        text = text.replace(f": {name}\n", f": Perf{name}\n").replace(f"\n{name}:", f"\nPerf{name}:")
    text = text.replace("  depth: 50", "  depth: 50\n  data_format: NHWC")
    assert "ppdet-nhwc-partial" not in check_text(text)


def test_the_rate_is_judged_by_the_cards():
    text = changed(("base_lr: 0.0025", "base_lr: 0.01"), ("batch_size: 2", "batch_size: 1"))
    finding = check_text(text, cards=1)["ppdet-lr-cards"]
    assert (
        finding.severity == "warning" and "1 card x 1 image" in finding.message and "0.00125" in finding.fix
    )
    assert "ppdet-lr-cards" not in check_text(text, cards=8)
    assert check_text(text)["ppdet-lr-cards"].severity == "hint"
    ours = f"{text}\nOptimizerBuilder: {{optimizer: {{type: PerfMomentum}}}}\n"
    assert "ppdet-lr-cards" in check_text(ours, cards=1)
    assert "ppdet-lr-cards" not in check_text(PPDET, cards=1)


def test_bases_are_merged_and_faults_stay_in_their_file(tmp_path):
    write(
        tmp_path,
        "base/reader.yml",
        "TrainReader:\n  sample_transforms:\n  - Decode: {}\n  - Permute: {}\n"
        "  - NormalizeImage: {is_scale: true}\n  batch_size: 1\nResNet:\n  dept: 50\n",
    )
    child = (
        "_BASE_: ['base/reader.yml']\nTrainReader:\n  sample_transforms:\n  - Decode: {}\n  batch_size: 2\n"
    )
    report = lint_file(write(tmp_path, "exp.yml", child))
    findings = {f.rule.id: f for f in report.findings}
    lost = findings["config-override-lost-step"]
    assert "NormalizeImage, Permute" in lost.message and lost.file.endswith("exp.yml") and lost.line == 3
    inherited = findings["ppdet-unknown-argument"]
    assert inherited.file.endswith("base/reader.yml") and inherited.line == 8
    config, _ = check_config(child, "exp.yml", tmp_path / "exp.yml")
    assert config.get("TrainReader.batch_size") == 2


def test_later_bases_win(tmp_path):
    write(tmp_path, "a.yml", "epoch: 3\nlog_iter: 7\n")
    write(tmp_path, "b.yml", "epoch: 4\n")
    config, findings = check_config("_BASE_: [a.yml, b.yml]\nuse_gpu: true\n", "c.yml", tmp_path / "c.yml")
    assert (config.get("epoch"), config.get("log_iter")) == (4, 7) and not findings


def test_missing_and_circular_bases(tmp_path):
    finding = found(tmp_path, "c.yml", "_BASE_: ['gone.yml']\nepoch: 3\n")["yaml-base-missing"]
    assert str(tmp_path / "gone.yml") in finding.message and finding.line == 1
    assert finding.fix == finding.rule.fix
    for name in ("exact_targets", "exact_targets.yml"):
        finding = found(tmp_path, "c.yml", f"_BASE_: [{name}]\nepoch: 3\n")["yaml-base-missing"]
        assert finding.fix == "Write the path that `detperf configs exact_targets` prints."
    write(tmp_path, "a.yml", "_BASE_: [b.yml]\nepoch: 3\n")
    assert "yaml-base-cycle" in found(tmp_path, "b.yml", "_BASE_: [a.yml]\nepoch: 4\n")


def test_ignore_comments(tmp_path):
    text = changed(("worker_num: 2", "worker_num: 0  # detperf: ignore ppdet-no-workers"))
    assert "ppdet-no-workers" not in check_text(text)
    text = changed(("worker_num: 2", "# detperf: ignore ppdet-no-workers\nworker_num: 0"))
    assert "ppdet-no-workers" not in check_text(text)
    text = changed(("worker_num: 2", "worker_num: 0  # detperf: ignore other-rule"))
    assert "ppdet-no-workers" in check_text(text)
    whole = "# detperf: ignore ppdet-no-workers, config-path-missing\n" + changed(
        ("worker_num: 2", "worker_num: 0")
    )
    assert check_text(whole) == {}


def test_paddleocr_configs():
    post = "PostProcess:\n  name: DBPostProcess\n  det_unclip_ratio: 1.7\n"
    finding = check_text(post)["ppocr-unknown-key"]
    assert finding.line == 3 and "`unclip_ratio`" in finding.fix
    lr = "Optimizer:\n  lr:\n    name: Piecewise\n    decay_epochs: [30]\n    values: [0.1, 0.01, 0.001]\n"
    assert "must have 2" in check_text(lr)["ppocr-piecewise-values"].message
    assert check_text(lr.replace(", 0.001", "")) == {}
    assert "ppocr-no-workers" in check_text("Train:\n  loader:\n    num_workers: 0\nGlobal: {}\n")
