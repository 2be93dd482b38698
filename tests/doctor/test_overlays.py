"""Overlays that do not fit: of the other host, for a part that the model lacks, for another kind of model."""

from __future__ import annotations

import pytest

from detperf_plugins import configs_dir

from .support import found

PADDLE, MIND = configs_dir() / "paddledet" / "mask_rcnn", configs_dir() / "mindocr" / "dbnet"
FPN, C4 = PADDLE / "mask_rcnn_r50_fpn_1x_coco.yml", PADDLE / "mask_rcnn_r50_1x_coco.yml"
DBNET = MIND / "db_r18_icdar15.yml"
RULES = {"config-base-other-host", "ppdet-no-mask-head", "ppdet-fpn-padding", "ppdet-c4-padding"}


def overlaid(folder, *files, extra=""):
    text = f"_BASE_: [{', '.join(map(str, files))}]\n{extra}"
    return {name: f for name, f in found(folder, "c.yml", text).items() if name in RULES}


@pytest.mark.parametrize(
    ("base", "overlay"),
    [
        (FPN, MIND / "fast_data.yml"),
        (C4, MIND / "amp_o2.yml"),
        (FPN, MIND / "workers_auto.yml"),
        (DBNET, PADDLE / "exact_parts.yml"),
        (DBNET, PADDLE / "mask_rcnn_r50_multi_tensor.yml"),
    ],
)
def test_an_overlay_of_the_other_host_is_reported(tmp_path, base, overlay):
    findings = overlaid(tmp_path, base, overlay)
    assert set(findings) == {"config-base-other-host"}
    finding = findings["config-base-other-host"]
    assert finding.file == str(tmp_path / "c.yml") and finding.line == 1 and str(overlay) in finding.message


def test_overlays_that_fit_are_not_reported(tmp_path):
    for overlay in sorted(PADDLE.glob("*.yml")):
        if overlay not in (FPN, C4):
            for base, other in ((FPN, "_c4.yml"), (C4, "_fpn.yml")):
                if not overlay.name.endswith(other):
                    assert overlaid(tmp_path, base, overlay) == {}, (base, overlay)
    for overlay in sorted(MIND.glob("*.yml")):
        assert overlaid(tmp_path, DBNET, overlay) == {}, overlay
    (tmp_path / "mine.yml").write_text(f"_BASE_: [{DBNET}]\n")
    assert overlaid(tmp_path, tmp_path / "mine.yml") == {}


def test_mask_targets_over_a_model_without_masks(tmp_path):
    faster = "architecture: FasterRCNN\nFasterRCNN: {backbone: ResNet, neck: FPN}\n"
    finding = overlaid(tmp_path, PADDLE / "exact_targets.yml", extra=faster)["ppdet-no-mask-head"]
    assert "FasterRCNN has no mask head" in finding.message and finding.file.endswith("exact_targets.yml")
    assert overlaid(tmp_path, PADDLE / "exact_parts.yml", extra=faster) == {}
    cascade = "architecture: CascadeRCNN\nCascadeRCNN: {neck: FPN, mask_head: MaskHead}\n"
    assert overlaid(tmp_path, PADDLE / "exact_targets.yml", extra=cascade) == {}


@pytest.mark.parametrize("name", ["exact_parts", "exact_targets", "bitmap_targets"])
def test_overlays_for_the_other_kind_of_model(tmp_path, name):
    finding = overlaid(tmp_path, FPN, PADDLE / f"{name}_c4.yml")["ppdet-fpn-padding"]
    assert (
        finding.severity == "error"
        and "-1" in finding.message
        and finding.file.endswith(f"{name}_c4.yml")
        and "_fpn" in finding.fix
    )
    finding = overlaid(tmp_path, C4, PADDLE / f"{name}_fpn.yml")["ppdet-c4-padding"]
    assert finding.severity == "warning" and "32" in finding.message and "_c4" in finding.fix


def test_an_unpadded_fpn_model_of_ones_own_is_a_hint(tmp_path):
    own = "TrainReader: {batch_transforms: [PadBatch: {pad_to_stride: -1}]}\n"
    assert overlaid(tmp_path, FPN, extra=own)["ppdet-fpn-padding"].severity == "hint"
