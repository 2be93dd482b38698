"""The wheel: built from the tree, installed alone, it serves the command, the configs and the kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, cwd=None):
    environment = {
        key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PIP_CONSTRAINT"}
    }
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.slow
def test_wheel_in_a_clean_environment(tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("detperf_plugins-*.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", str(wheel))
    detperf = str(tmp_path / "venv" / "bin" / "detperf")
    listed = run(detperf, "configs", cwd=tmp_path)
    assert "exact_targets.yml" in listed and "mask_rcnn_r50_1x_coco.yml" in listed
    path = Path(run(detperf, "configs", "exact_targets", cwd=tmp_path).strip())
    assert path.is_file() and tmp_path in path.parents
    assert "PolygonMaskAssigner" in path.read_text(encoding="utf-8")
    assert "Bind zlib before Paddle is loaded" in run(detperf, "patch", "list", cwd=tmp_path)
    code = (
        "import sys, numpy as np, detperf_plugins\n"
        "from detperf_plugins.native.raster import rasterize_full\n"
        "square = np.array([[1, 1], [5, 1], [5, 5], [1, 5]], float)\n"
        "print(rasterize_full(square, [0, 4], [0, 1], 8, 8).sum(), 'paddle' in sys.modules)\n"
    )
    assert run(python, "-c", code, cwd=tmp_path).split() == ["16", "False"]
    code = "from detperf_plugins.native.cuda.build import source_hash; print(len(source_hash()))"
    assert run(python, "-c", code, cwd=tmp_path).strip() == "16"  # raster.cu and its header are there
    report = run(detperf, "env", cwd=tmp_path)
    assert "paddlepaddle is not installed" in report.replace("\n", " ")
