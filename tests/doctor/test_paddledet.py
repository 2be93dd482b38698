"""Kind b: faults of PaddleDetection (and PaddleOCR) configs, and training commands."""

from __future__ import annotations

import pytest

from detperf_plugins.doctor.configs.check import check_config
from detperf_plugins.doctor.configs.commands import parse_commands
from detperf_plugins.doctor.lint import lint_file

from .support import MINDOCR, PPDET, assert_found_at, check_text, coco, edited, found, line_of, run, write


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


def test_the_annotation_file_is_counted(tmp_path):
    write(tmp_path, "parts/train.json", coco())
    pictures(tmp_path / "parts" / "pictures")
    assert "config-path-missing" not in found(tmp_path, "c.yml", PPDET)
    finding = found(tmp_path, "c.yml", changed(("num_classes: 2", "num_classes: 3")))["ppdet-num-classes"]
    assert "2 categories" in finding.message and finding.fix == "Set num_classes: 2." and finding.line == 3
    finding = found(tmp_path, "c.yml", changed(("steps: 20", "steps: 500")))["ppdet-warmup-too-long"]
    assert "the whole training about 10" in finding.message


def test_a_missing_annotation_file_is_printed(tmp_path):
    finding = found(tmp_path, "c.yml", changed(("dataset_dir: parts", "dataset_dir: sets\\parts")))[
        "config-path-missing"
    ]
    assert "sets/parts/train.json does not exist" in finding.message and finding.severity == "error"


def pictures(folder, *names):
    for name in names or ("p1.png", "p2.png"):
        write(folder, name, b"")


def test_a_missing_picture_folder_is_reported(tmp_path):
    write(tmp_path, "parts/train.json", coco())
    finding = found(tmp_path, "c.yml", PPDET)["config-path-missing"]
    assert f"the folder {tmp_path / 'parts' / 'pictures'} does not exist" in finding.message
    assert finding.severity == "error" and finding.line == line_of(PPDET, "image_dir")
    evaluated = PPDET + "EvalDataset:\n  !COCODataSet\n    image_dir: gone\n    anno_path: train.json\n"
    evaluated += "    dataset_dir: parts\nTestDataset:\n  !ImageFolder\n    image_dir: nowhere\n"
    pictures(tmp_path / "parts" / "pictures")
    findings = lint_file(write(tmp_path, "c.yml", evaluated)).findings
    missing = {f.message.split(":")[0]: f.severity for f in findings if f.rule.id == "config-path-missing"}
    assert missing == {"EvalDataset.image_dir": "error", "TestDataset.image_dir": "hint"}


def test_a_data_set_without_annotation_path_has_its_folders_checked(tmp_path):
    text = "architecture: MaskRCNN\nEvalDataset:\n  !ImageFolder\n    dataset_dir: gone\n"
    assert "gone does not exist" in found(tmp_path, "c.yml", text)["config-path-missing"].message


def test_pictures_that_the_annotations_name_are_looked_for(tmp_path):
    names = ("p1.png", "deep/p2.png", "deep/p3.png")
    images = [{"id": i, "file_name": n, "width": 100, "height": 80} for i, n in enumerate(names, 1)]
    annotations = write(tmp_path, "parts/train.json", coco(images=images))
    folder = tmp_path / "parts" / "pictures"
    pictures(folder, "p1.png", "deep/p3.png")
    finding = found(tmp_path, "c.yml", PPDET)["config-pictures-missing"]
    assert f"1 of the 3 pictures that {annotations} names are not in {folder}: deep/p2.png" in finding.message
    assert finding.severity == "error" and finding.line == line_of(PPDET, "image_dir")
    pictures(folder, "deep/p2.png")
    assert "config-pictures-missing" not in found(tmp_path, "c.yml", PPDET)
    write(tmp_path, "parts/other.json", coco())
    override = {"TrainDataset.anno_path": "other.json"}
    assert "p2.png" in found(tmp_path, "c.yml", PPDET, overrides=override)["config-pictures-missing"].message


def test_annotations_checked_beside_their_config_use_its_picture_folder(tmp_path, capsys):
    config = write(tmp_path, "kitchen.yml", PPDET.replace("image_dir: pictures", "image_dir: deep/photos"))
    annotations = write(tmp_path, "parts/train.json", coco())
    pictures(tmp_path / "parts" / "deep" / "photos")
    run("lint", str(annotations))
    assert "were not found" in capsys.readouterr().out
    run("lint", str(config), str(annotations))
    assert "2 of 2 pictures found in" in capsys.readouterr().out
    labels = write(
        tmp_path, "ann/labels.txt", 'a.jpg\t[{"transcription": "a", "points": [[0, 0], [9, 0], [9, 9]]}]'
    )
    write(tmp_path, "photos/a.jpg", b"")
    text = MINDOCR.replace("./texts", ".").replace("data_dir: pictures", "data_dir: photos")
    text = text.replace("label_file: labels.txt", "label_file: ann/labels.txt")
    run("lint", str(write(tmp_path, "db.yml", text)), str(labels))
    assert "1 of 1 pictures found" in capsys.readouterr().out


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


COMMAND = (
    "CUDA_VISIBLE_DEVICES=0,1 python -m paddle.distributed.launch --gpus 0,1 tools/train.py -c {config} \\\n"
    "  -o LearningRate.base_lr=3e-2 epoch=4 worker_num=0 TrainReader.shuffle=False weights=out/x --amp "
    "--enable_ce=True\n"
)


def test_commands_are_taken_apart():
    (command,) = parse_commands(COMMAND.format(config="c.yml"))
    assert command.config == "c.yml" and command.cards == 2 and command.line == 1
    assert command.overrides == {
        "LearningRate.base_lr": "3e-2",
        "epoch": "4",
        "worker_num": "0",
        "TrainReader.shuffle": "False",
        "weights": "out/x",
        "amp": "true",
    }
    assert "enable_ce" not in command.overrides
    assert parse_commands("echo hello")[:] == []
    msrun = parse_commands("msrun --worker_num=4 --local_worker_num=4 python tools/train.py --config a.yaml")[
        0
    ]
    assert (msrun.cards, msrun.config) == (4, "a.yaml")


def test_overrides_are_merged_before_checking(tmp_path):
    config = write(tmp_path, "c.yml", PPDET)
    findings = found(tmp_path, "run.sh", COMMAND.format(config=config))
    assert findings["ppdet-no-workers"].file.endswith("run.sh") and findings["ppdet-no-workers"].line == 1
    assert "yaml-number-as-text" in findings  # 3e-2 is text for the trainer too
    notes = lint_file(tmp_path / "run.sh").notes
    assert (
        "epoch = 4 (int)" in notes[0]
        and "TrainReader.shuffle = False (bool)" in notes[0]
        and "2 cards" in notes[0]
    )


def test_a_single_card_command_has_one_card(tmp_path):
    config = write(
        tmp_path, "c.yml", changed(("base_lr: 0.0025", "base_lr: 0.01"), ("batch_size: 2", "batch_size: 1"))
    )
    finding = found(tmp_path, "run.sh", f"python tools/train.py -c {config}\n")["ppdet-lr-cards"]
    assert finding.severity == "warning"


def test_commands_of_mindocr(tmp_path):
    config = write(tmp_path, "m.yaml", "train:\n  loader:\n    batch_size: 4\nsystem:\n  mode: 0\n")
    command = f"python tools/train.py -c {config} -o train.clip_grad=True system.note=a=b system.mode=1\n"
    findings = found(tmp_path, "run.sh", command)
    assert "train.clip_grad" in findings["mindocr-override-new-key"].message
    assert "system.note" in findings["mindocr-override-equals"].message


def test_export_with_a_batch(tmp_path):
    text = (
        "python tools/export_model.py -c a.yml && python deploy/python/infer.py --model_dir out "
        "--batch_size=4\n"
    )
    assert "--batch_size=4" in found(tmp_path, "run.sh", text)["ppdet-export-batch"].message
