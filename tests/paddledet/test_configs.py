"""The shipped configs: each says what it changes, complete ones are stock's, all travel with the wheel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from detperf_plugins import configs_dir
from tests.paddledet.scripts import OVERLAYS, run

COMPLETE = {"c4": OVERLAYS / "mask_rcnn_r50_1x_coco.yml", "fpn": OVERLAYS / "mask_rcnn_r50_fpn_1x_coco.yml"}


def test_every_shipped_config_says_what_it_changes():
    from detperf_plugins.cli.configs import list_configs

    rows = list_configs()
    assert {Path(row["name"]).name for row in rows} >= {"exact_parts.yml", "mask_rcnn_r50_nhwc_amp.yml"}
    assert all(len(row["changes"]) > 20 for row in rows)


@pytest.mark.skipif("PADDLEDETECTION" not in os.environ, reason="PADDLEDETECTION names no checkout")
@pytest.mark.parametrize("kind", COMPLETE)
def test_complete_configs_are_stocks(kind):
    """Our one-file configs merge to what the checkout's files merge to."""
    code = (
        "import json, sys\nfrom ppdet.core.workspace import load_config\nimport ppdet.engine\n"
        "cfg = load_config(sys.argv[1])\n"
        "print('RESULT ' + json.dumps({k: v for k, v in cfg.items() if v}, default=str))"
    )
    stock = Path(os.environ["PADDLEDETECTION"], "configs", "mask_rcnn", COMPLETE[kind].name)
    merged = []
    for path in (COMPLETE[kind], stock):
        output = run([sys.executable, "-c", code, str(path)])
        merged.append(
            json.loads(next(line for line in output.splitlines() if line.startswith("RESULT "))[7:])
        )
    for key in merged[1]:
        if "LearningRate" not in key:
            assert merged[0].get(key) == merged[1][key], key


def test_configs_travel_with_the_package():
    assert (configs_dir() / "paddledet" / "mask_rcnn" / "exact_targets.yml").is_file()
