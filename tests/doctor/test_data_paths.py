"""Data paths of a config: folders, annotation and label files, and the pictures that these name."""

from __future__ import annotations

from detperf_plugins.doctor.lint import lint_file

from .support import MINDOCR, PPDET, coco, edited, found, line_of, run, write


def test_the_annotation_file_is_counted(tmp_path):
    write(tmp_path, "parts/train.json", coco())
    pictures(tmp_path / "parts" / "pictures")
    assert "config-path-missing" not in found(tmp_path, "c.yml", PPDET)
    finding = found(tmp_path, "c.yml", edited(PPDET, ("num_classes: 2", "num_classes: 3")))[
        "ppdet-num-classes"
    ]
    assert "2 categories" in finding.message and finding.fix == "Set num_classes: 2." and finding.line == 3
    finding = found(tmp_path, "c.yml", edited(PPDET, ("steps: 20", "steps: 500")))["ppdet-warmup-too-long"]
    assert "the whole training about 10" in finding.message


def test_a_missing_annotation_file_is_printed(tmp_path):
    finding = found(tmp_path, "c.yml", edited(PPDET, ("dataset_dir: parts", "dataset_dir: sets\\parts")))[
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


def test_the_label_file_is_counted(tmp_path):
    (tmp_path / "texts" / "pictures").mkdir(parents=True)
    write(tmp_path, "texts/pictures/p.jpg", b"x")
    write(tmp_path, "texts/labels.txt", "p.jpg\t[]\n" * 9)
    findings = found(tmp_path, "c.yaml", MINDOCR)
    assert "has 9 pictures" in findings["mindocr-batch-over-data"].message
    write(tmp_path, "texts/labels.txt", "p.jpg\t[]\n" * 64)
    findings = found(tmp_path, "c.yaml", edited(MINDOCR, ("sink_mode: True", "sink_mode: False")))
    assert "an epoch has 4 steps (64 pictures)" in findings["mindocr-log-interval"].message
    assert "config-path-missing" not in findings


def test_paths_are_resolved(tmp_path):
    finding = found(
        tmp_path, "c.yaml", edited(MINDOCR, ("dataset_root: ./texts", "dataset_root: /no/such/folder"))
    )
    assert "absolute path /no/such/folder" in finding["config-path-missing"].message
    (tmp_path / "texts" / "pictures").mkdir(parents=True)
    finding = found(tmp_path, "c.yaml", MINDOCR)
    assert "is empty" in finding["config-path-missing"].message


def test_pictures_that_the_labels_name_are_looked_for(tmp_path):
    text = MINDOCR.replace("./texts", str(tmp_path / "texts"))
    label = '[{"transcription": "a", "points": [[0, 0], [9, 0], [9, 9], [0, 9]]}]'
    labels = write(tmp_path, "texts/labels.txt", f"a.jpg\t{label}\nb.jpg\t{label}\n")
    folder = write(tmp_path, "texts/pictures/a.jpg", b"").parent
    finding = found(tmp_path, "c.yml", text)["config-pictures-missing"]
    assert f"1 of the 2 pictures that {labels} names are not in {folder}: b.jpg" in finding.message
    assert finding.severity == "error" and finding.line == line_of(text, "data_dir")
    write(tmp_path, "texts/pictures/b.jpg", b"")
    assert "config-pictures-missing" not in found(tmp_path, "c.yml", text)
