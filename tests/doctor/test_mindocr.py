"""MindOCR configs: every fault of the catalogue, at its own line, and none in a correct config."""

from __future__ import annotations

import re

import pytest

from .support import MINDOCR, assert_found_at, check_text, edited

HINT_ONLY = {"config-path-missing"}


def changed(*edits: tuple[str, str]) -> str:
    """The correct config, edited."""
    return edited(MINDOCR, *edits)


CASES = {
    # name: (edits, rule, severity, a part of the line where it must be reported)
    "columns": (
        [("[ 'image', 'binary_map', 'mask', 'thresh_map', 'thresh_mask' ]", "['image']")],
        "mindocr-column-index",
        "error",
        "output_columns: ['image']",
    ),
    "key of model under head": (
        [("    adaptive: True", "    adaptive: True\n    resume: out/a.ckpt")],
        "mindocr-key-wrong-parent",
        "error",
        "resume:",
    ),
    "pretrained true": (
        [("  transform: null", "  transform: null\n  pretrained: True")],
        "mindocr-pretrained-bool",
        "error",
        "pretrained: True",
    ),
    "pretrained false": (
        [("  transform: null", "  transform: null\n  pretrained: False")],
        "mindocr-pretrained-bool",
        "error",
        "pretrained: False",
    ),
    "long warm-up": (
        [("warmup_epochs: 2", "warmup_epochs: 60")],
        "mindocr-warmup-too-long",
        "warning",
        "warmup_epochs",
    ),
    "default warm-up": (
        [("  warmup_epochs: 2\n", ""), ("num_epochs: 60", "num_epochs: 2")],
        "mindocr-warmup-too-long",
        "warning",
        "num_epochs: 2",
    ),
    "iterations as milestones": (
        [("polynomial_decay", "multi_step_decay\n  milestones: [400, 9000]")],
        "mindocr-milestones",
        "warning",
        "milestones",
    ),
    "falling milestones": (
        [("polynomial_decay", "multi_step_decay\n  milestones: [40, 20]")],
        "mindocr-milestones",
        "error",
        "milestones",
    ),
    "long decay": (
        [("polynomial_decay", "cosine_decay\n  decay_epochs: 59")],
        "mindocr-decay-too-long",
        "hint",
        "decay_epochs",
    ),
    "no workers": ([("num_workers: 4", "num_workers: 0")], "mindocr-workers-zero", "error", "num_workers: 0"),
    "workers missing": ([("    num_workers: 4\n", "")], "mindocr-workers-zero", "hint", "  loader:"),
    "int ratio": (
        [("sample_ratio: 1.0", "sample_ratio: 1")],
        "mindocr-sample-ratio-int",
        "error",
        "sample_ratio: 1",
    ),
    "eval batch": ([("batch_size: 1\n", "batch_size: 4\n")], "mindocr-eval-batch", "error", "batch_size: 4"),
    "no checkpoint": (
        [("  seed: 7", "  seed: 7\n  ckpt_max_keep: 0")],
        "mindocr-ckpt-keep-zero",
        "warning",
        "ckpt_max_keep",
    ),
    "policy": (
        [("  seed: 7", "  seed: 7\n  ckpt_save_policy: topk")],
        "mindocr-ckpt-policy",
        "error",
        "ckpt_save_policy",
    ),
    "loss scaler": (
        [("  type: dynamic\n  loss_scale: 512", "  type: automatic")],
        "mindocr-loss-scaler",
        "error",
        "loss_scaler",
    ),
    "rate too high": ([("batch_size: 16", "batch_size: 2")], "mindocr-lr-batch", "warning", "lr: 0.007"),
    "text for a number": (
        [("num_epochs: 60", "num_epochs: sixty")],
        "mindocr-value-type",
        "error",
        "num_epochs",
    ),
    "text for a flag": (
        [("dataset_sink_mode: True", "dataset_sink_mode: 'False'")],
        "mindocr-value-type",
        "error",
        "sink",
    ),
    "amp level": ([("'O2'", "'O5'")], "mindocr-amp-level", "error", "amp_level"),
    "unknown head": ([("name: DBHead", "name: DBHeat")], "mindocr-unknown-name", "error", "DBHeat"),
    "unknown transform": ([("- BorderMap:", "- BoarderMap:")], "mindocr-unknown-name", "error", "BoarderMap"),
    "unknown argument": ([("    k: 50", "    kk: 50")], "mindocr-unknown-argument", "error", "kk: 50"),
    "scheduler argument": (
        [("decay_rate: 0.9", "decay_rates: 0.9")],
        "mindocr-unknown-argument",
        "error",
        "decay_rates",
    ),
    "unknown key": (
        [("val_interval: 20", "val_intervall: 20")],
        "mindocr-unknown-key",
        "warning",
        "val_intervall",
    ),
    "unknown data key": (
        [("    label_file: labels.txt", "    label_file: labels.txt\n    cache: True")],
        "mindocr-unknown-key",
        "warning",
        "cache",
    ),
    "swallowed": (
        [("thresh_min: 0.3", "tresh_min: 0.3")],
        "mindocr-transform-argument",
        "warning",
        "tresh_min",
    ),
    "wrong section": (
        [("  seed: 7", "  seed: 7\n  num_workers: 3")],
        "mindocr-key-wrong-parent",
        "warning",
        "num_workers: 3",
    ),
    "top level": (
        [("model:\n", "amp_level: O2\nmodel:\n")],
        "mindocr-key-wrong-parent",
        "error",
        "amp_level: O2",
    ),
    "unused anchor": (
        [("system:\n", "common:\n  batch_size: &bs 3\nsystem:\n")],
        "mindocr-common-unused",
        "warning",
        "batch_size: &bs",
    ),
    "no maker": (
        [
            (
                "      - BorderMap:\n          shrink_ratio: 0.4\n          thresh_min: 0.3\n          "
                "thresh_max: 0.7\n",
                "",
            )
        ],
        "mindocr-column-not-made",
        "error",
        "output_columns",
    ),
    "step missing": (
        [
            (
                "      - ToCHWImage:\n    output_columns: [ 'image', 'binary_map'",
                "    output_columns: [ 'image', 'binary_map'",
            )
        ],
        "mindocr-step-missing",
        "error",
        "transform_pipeline",
    ),
    "shapes differ": (
        [("keep_ratio: False", "keep_ratio: True"), ("batch_size: 1\n", "batch_size: 2\n")],
        "mindocr-dynamic-shape",
        "error",
        "DetResize",
    ),
    "one epoch": (
        [("num_epochs: 60", "num_epochs: 1"), ("warmup_epochs: 2", "warmup_epochs: 0")],
        "mindocr-one-epoch",
        "warning",
        "num_epochs: 1",
    ),
    "amp off": ([("'O2'", "'O0'")], "mindocr-amp-off", "hint", "amp_level"),
    "sink off": (
        [("dataset_sink_mode: True", "dataset_sink_mode: False")],
        "mindocr-sink-off",
        "hint",
        "dataset_sink_mode",
    ),
    "tiny batch": (
        [("batch_size: 16", "batch_size: 1"), ("lr: 0.007", "lr: 0.0003")],
        "mindocr-small-batch",
        "hint",
        "batch_size: 1",
    ),
    "accumulation": (
        [
            ("batch_size: 16", "batch_size: 1"),
            ("lr: 0.007", "lr: 0.003"),
            ("  ckpt_save_dir: ./out", "  ckpt_save_dir: ./out\n  gradient_accumulation_steps: 8"),
        ],
        "mindocr-accumulation",
        "hint",
        "gradient_accumulation_steps",
    ),
    "one worker": ([("num_workers: 4", "num_workers: 1")], "mindocr-one-worker", "hint", "num_workers: 1"),
    "many workers": (
        [("num_workers: 4", "num_workers: 300")],
        "mindocr-worker-memory",
        "hint",
        "num_workers: 300",
    ),
    "minddata": (
        [("    sample_ratio: 1.0", "    sample_ratio: 1.0\n    use_minddata: True")],
        "mindocr-minddata",
        "hint",
        "use_minddata",
    ),
    "evaluated often": (
        [("num_epochs: 60", "num_epochs: 600"), ("  val_interval: 20\n", "")],
        "mindocr-eval-every-epoch",
        "hint",
        "val_while_train",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_at_its_line(name):
    edits, rule, severity, where = CASES[name]
    assert_found_at(changed(*edits), rule, severity, where)


def test_a_correct_config_is_clean():
    assert set(check_text(MINDOCR)) <= HINT_ONLY


def test_near_names_are_offered():
    fixes = check_text(changed(("thresh_min: 0.3", "tresh_min: 0.3"), ("name: DBHead", "name: DBHeat")))
    assert "`thresh_min`" in fixes["mindocr-transform-argument"].fix
    assert "DBHead" in fixes["mindocr-unknown-name"].fix


def test_our_own_transforms_are_known():
    text = re.sub(
        r"      - ShrinkBinaryMap:.*?- NormalizeImage:.*?- ToCHWImage:\n",
        "      - PerfDetTargets:\n      - PerfNormalizeToCHW:\n",
        MINDOCR,
        count=1,
        flags=re.S,
    )
    assert set(check_text(text)) <= HINT_ONLY


def test_the_rate_is_judged_by_the_whole_batch():
    small = changed(("batch_size: 16", "batch_size: 2"))
    assert "mindocr-lr-batch" in check_text(small)
    assert "mindocr-lr-batch" not in check_text(small, cards=8)
    accumulated = small.replace("  ckpt_save_dir", "  gradient_accumulation_steps: 8\n  ckpt_save_dir", 1)
    assert "mindocr-lr-batch" not in check_text(accumulated)


def test_stock_placeholders_are_a_hint():
    finding = check_text(MINDOCR.replace("dataset_root: ./texts", "dataset_root: /data/ocr_datasets"))
    assert finding["config-path-missing"].severity == "hint"
