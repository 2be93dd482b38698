"""The training log says which parts are in use, or why none is."""

from __future__ import annotations

import sys

import pytest

from tests.paddledet.scripts import OVERLAYS, python, run, tiny_config

BUILD = """
import sys
from pathlib import Path
from detperf_plugins.paddledet import runner
cfg = runner.load(Path(sys.argv[1]), sys.argv[3:], replace=sys.argv[2] == "replace")
runner.build_trainer(cfg, Path(sys.argv[1]))
"""
# What a user's own training script does: nothing in it knows of the plugins.
OWN = """
import sys
from ppdet.core.workspace import load_config
from ppdet.engine import Trainer
cfg = load_config(sys.argv[1])
Trainer(cfg, mode="train")
"""


def told(output: str) -> str:
    (line,) = [line for line in output.splitlines() if "detperf-plugins" in line]
    return line


@pytest.mark.parametrize(
    ("overlay", "line"),
    [
        ("exact_targets.yml", "in use: PolygonMaskAssigner"),
        ("mask_rcnn_r50_multi_tensor.yml", "in use: PerfMomentum"),
        ("bitmap_targets_fpn.yml", "in use: PolyToBitmap, BitmapMaskAssigner"),
        (
            "exact_parts_fpn.yml",
            "in use: PackPolygons, PolygonMaskAssigner, AssignRPNTargets, PerfRPNTargetAssign, PerfResNet, "
            "PerfFPN, PerfRPNHead, PerfBBoxAssigner, PerfBBoxHead, PerfMaskHead",
        ),
    ],
)
def test_parts_are_listed(overlay, line, shapes, tmp_path):
    output = python(BUILD, str(tiny_config(tmp_path, shapes, OVERLAYS / overlay)), "plain")
    assert told(output).endswith(f"ppdet.detperf INFO: detperf-plugins: {line}")


def test_none_is_a_warning_with_a_remedy(shapes, tmp_path):
    config = str(tiny_config(tmp_path, shapes))
    line = told(python(BUILD, config, "plain"))
    assert "WARNING: no part of detperf-plugins is in this model: MaskAssigner, RPNTargetAssign, " in line
    assert line.endswith("(detperf configs lists them), or start with --replace")
    assert "in use: PolygonMaskAssigner, PerfRPNTargetAssign, " in told(python(BUILD, config, "replace"))


def test_an_overlay_over_a_model_without_its_head_is_named(shapes, tmp_path):
    config = tiny_config(
        tmp_path, shapes, OVERLAYS / "exact_targets.yml", architecture="FasterRCNN",
        FasterRCNN={"backbone": "ResNet", "neck": "FPN", "rpn_head": "RPNHead", "bbox_head": "BBoxHead",
                    "bbox_post_process": "BBoxPostProcess"},
    )  # fmt: skip
    line = told(python(BUILD, str(config), "plain"))
    assert (
        "the config sets MaskHead.mask_assigner: PolygonMaskAssigner, but FasterRCNN has no MaskHead" in line
    )


def test_a_setting_that_needs_no_part_is_in_use(shapes, tmp_path):
    line = told(
        python(BUILD, str(tiny_config(tmp_path, shapes, OVERLAYS / "mask_rcnn_r50_amp_o1.yml")), "plain")
    )
    assert line.endswith("in use: amp_from_config")


def test_a_script_of_the_users_own_is_told_on_rank_0(shapes, tmp_path):
    script = tmp_path / "own.py"
    script.write_text(OWN, encoding="utf-8")
    config = str(tiny_config(tmp_path, shapes))
    command = [sys.executable, "-m", "detperf_plugins", "--replace", str(script), config]
    assert "in use: PolygonMaskAssigner" in told(run(command))
    other = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}
    assert "detperf-plugins" not in run(command, env=other)
    stock = run([sys.executable, str(script), config])
    assert "detperf-plugins" not in stock
