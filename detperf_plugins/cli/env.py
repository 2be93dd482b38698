"""`detperf env`: what is installed, what can run and why not: the text that a bug report needs."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from detperf_plugins import __version__, configs_dir, hosts, native
from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, print_table, write_json
from detperf_plugins.mindocr import environment

__all__ = ["env", "report"]

# Versions from which on these decompress with zlib while they are imported (see `zlib_row`).
DECOMPRESS_AT_IMPORT = {"pycocotools": (2, 0, 9), "pyclipper": (1, 4, 0)}


def _row(
    topic: str, name: str, value: str, available: bool | None = None, reason: str = ""
) -> dict[str, Any]:
    return {"topic": topic, "name": name, "value": value, "available": available, "reason": reason}


def _first_line(*command: str) -> str | None:
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return next((line for line in lines if "release" in line), lines[0] if lines else None)


def zlib_row() -> dict[str, Any]:
    """Whether the zlib crash can happen: Paddle exports zlib symbols of its own, and the first use of
    Python's zlib after `import paddle` then crashes; newer pycocotools and pyclipper use it at import."""
    risky = []
    for name, first in DECOMPRESS_AT_IMPORT.items():
        version = hosts.version_of(name)
        if version is not None and hosts.version_numbers(version) >= first:
            risky.append(f"{name} {version}")
    preloaded = any((Path(folder) / "detperf_plugins_startup.pth").is_file() for folder in sys.path if folder)
    if preloaded:
        return _row(
            "safety", "zlib before paddle", "at every Python start", True, "detperf_plugins_startup.pth"
        )
    if risky:
        return _row("safety", "zlib before paddle", "not preloaded", False,
                    f"{', '.join(risky)} crash when imported after paddle; reinstall detperf-plugins, or "
                    "pip install 'pycocotools<2.0.9' 'pyclipper<1.4'")  # fmt: skip
    return _row(
        "safety", "zlib before paddle", "not preloaded", True, "no installed package needs it at import"
    )


def _device_rows() -> list[dict[str, Any]]:
    """What Paddle itself says about devices, asked in a process of its own: importing it takes seconds,
    and a broken installation must not take this report down."""
    if importlib.util.find_spec("paddle") is None:
        return []
    code = (
        "import zlib; zlib.decompress(zlib.compress(b'1')); import paddle; "
        "cuda = paddle.is_compiled_with_cuda(); n = paddle.device.cuda.device_count() if cuda else 0; "
        "print('DETPERF', paddle.__version__, cuda, n, paddle.version.cuda(), paddle.version.cudnn(), "
        "paddle.device.cuda.get_device_name(0) if n else '-', sep='|')"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return [_row("device", "paddle", "import takes over 120 s", False, "import paddle hangs")]
    lines = [line for line in done.stdout.splitlines() if line.startswith("DETPERF|")]
    if not lines:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [_row("device", "paddle", "cannot be imported", False, last)]
    _, version, cuda, count, toolkit, cudnn, name = lines[-1].split("|")
    gpu = int(count) > 0
    reason = "" if gpu else ("no GPU is visible" if cuda == "True" else "paddlepaddle is a CPU build")
    return [
        _row("device", "paddle", f"{version}, CUDA {toolkit}, cuDNN {cudnn}", True),
        _row("device", "gpu", f"{count} x {name}" if gpu else "none", gpu, reason),
    ]


def report() -> list[dict[str, Any]]:
    """All rows: topic, name, value, available (None where the question does not arise), reason."""
    rows = [
        _row("system", "detperf-plugins", __version__),
        _row("system", "python", f"{platform.python_version()} at {Path(sys.executable).name}"),
        _row("system", "platform", platform.platform()),
        _row("system", "processor", f"{hosts.processor_name()}, {os.cpu_count()} cores"),
        _row("system", "configs", str(len(list(configs_dir().rglob("*.yml")))) + " shipped"),
    ]
    for tool, arguments in {"c++": ["--version"], "nvcc": ["--version"], "nvidia-smi": ["-L"]}.items():
        line = _first_line(tool, *arguments)
        rows.append(_row("tool", tool, line or "not found", line is not None))
    rows += [_row("package", name, version) for name, version in hosts.versions().items()]
    paddledet = hosts.in_this_folder(hosts.paddledet_host(), "ppdet")
    mindocr = hosts.in_this_folder(hosts.mindocr_host(), "mindocr")
    for host in (hosts.paddle_host(), paddledet, mindocr):
        rows.append(_row("host", host.name, host.version or "-", host.supported, host.reason))
    rows += _device_rows()
    rows += [*environment.mindspore_rows(), *environment.ascend_rows(), *environment.rank_rows()]
    rows.append(zlib_row())
    built = native.available()
    state = ", ".join(filter(None, ("built", native.instructions()))) if built else "missing"
    rows.append(_row("part", "compiled kernels", state, built, native.why_not()))
    ready = hosts.paddle_host().supported and paddledet.supported
    for part, needs in {
        "PolygonMaskAssigner (host)": built,
        "PolyToBitmap, BitmapMaskAssigner": built,
    }.items():
        why = (
            "" if ready and needs else ("no compiled kernels" if ready else "PaddleDetection cannot run here")
        )
        rows.append(_row("part", part, "ready" if not why else "-", not why, why))
    rows.append(_cuda_row())
    return rows


def _cuda_row() -> dict[str, Any]:
    """Whether the CUDA raster is built for the first GPU here, asked of the cache without loading it."""
    from detperf_plugins.errors import DetperfError
    from detperf_plugins.native.cuda import build, driver

    name = "PolygonMaskAssigner (CUDA)"
    try:
        made = build.built(driver.driver().capability(0))
    except DetperfError as error:
        return _row("part", name, "-", False, str(error))
    return _row("part", name, f"{made.arch} by {made.compiler}", True)


@app.command()
def env(json_path: Optional[Path] = JSON_OPTION) -> None:
    """Print versions, devices, compilers, and what is available here or why it is not."""
    rows = report()
    words = {True: "yes", False: "no", None: ""}
    print_table(
        "Environment",
        ("topic", "name", "value", "available", "reason"),
        [(r["topic"], r["name"], r["value"], words[r["available"]], r["reason"]) for r in rows],
    )
    write_json(json_path, rows)
