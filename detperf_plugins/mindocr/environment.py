"""What MindOCR can run on here: MindSpore and its CPU convolutions, Ascend cards, CANN and its packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from detperf_plugins import hosts

__all__ = ["ascend_rows", "mindspore_rows", "rank_rows"]

# Python packages that come with CANN and must be installed into the environment: te compiles operators,
# hccl is the collective communication that several cards need (mindspore-lab/mindocr issue 683).
CANN_PACKAGES = ("te", "hccl")
HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
DEFAULT_HOME = Path("/usr/local/Ascend/ascend-toolkit/latest")


def _row(name: str, value: str, available: bool | None = None, reason: str = "") -> dict[str, Any]:
    return {"topic": "mindocr", "name": name, "value": value, "available": available, "reason": reason}


def mindspore_rows() -> list[dict[str, Any]]:
    """MindSpore's device and the convolution self-test, asked in a process of its own."""
    if hosts.version_of("mindspore") is None:
        return []
    code = (
        "from detperf_plugins.mindocr import compat; guarded = compat.guard_onednn(); "
        "import mindspore as ms; "
        "target = ms.get_context('device_target'); "
        "slow = compat.slow_convolution() if target == 'CPU' else None; "
        "print('DETPERF', ms.__version__, target, guarded, slow, sep='|')"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False
        )
    except subprocess.TimeoutExpired:
        return [_row("mindspore", "import takes over 180 s", False, "import mindspore hangs")]
    lines = [line for line in done.stdout.splitlines() if line.startswith("DETPERF|")]
    if not lines:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [_row("mindspore", "cannot be imported", False, last)]
    _, version, target, guarded, slow = lines[-1].split("|")
    rows = [_row("mindspore", f"{version}, device {target}", True)]
    if target == "CPU":
        reason = "ONEDNN_MAX_CPU_ISA=AVX2 is set for this version by the plugin" if guarded == "True" else ""
        if slow != "None":
            reason = f"{float(slow):.2f} GFLOP/s: set ONEDNN_MAX_CPU_ISA=AVX2, or use MindSpore 2.8"
        rows.append(_row("cpu convolution", "slow" if slow != "None" else "fast", slow == "None", reason))
    return rows


def _cann_versions(home: Path) -> dict[str, str]:
    """Version by component, from the `ascend_*_install.info` and `version.info` files of a CANN folder."""
    found = {}
    for path in [*home.glob("ascend_*_install.info"), *home.glob("*/ascend_*_install.info"),
                 *home.glob("*/version.info")]:  # fmt: skip
        try:
            match = re.search(r"^\s*version\s*=\s*(\S+)", path.read_text(errors="replace"), re.I | re.M)
        except OSError:
            continue
        if match:
            name = path.stem if path.name.endswith("_install.info") else path.parent.name
            found[name.replace("ascend_", "").replace("_install", "")] = match[1]
    return found


def ascend_rows(
    environ: Mapping[str, str] = os.environ,
    devices: Path = Path("/dev"),
    version_of: Callable[[str], str | None] = hosts.version_of,
    default_home: Path = DEFAULT_HOME,
) -> list[dict[str, Any]]:
    """Cards, CANN, whether its parts have one version, and whether te and hccl are installed.

    Args:
        environ: environment variables.
        devices: where davinci0, davinci1, ... lie.
        version_of: version of an installed distribution, or None.
        default_home: CANN's folder where no variable names it.

    Returns:
        One row a check; a single row where there is neither a card nor CANN.
    """
    cards = sorted(path.name for path in devices.glob("davinci[0-9]*"))
    home = next((Path(environ[name]) for name in HOMES if environ.get(name)), default_home)
    if not cards and not home.is_dir():
        return [_row("ascend", "no card", False, "no /dev/davinci* and no CANN: MindSpore runs on the CPU")]
    rows = [
        _row("ascend cards", ", ".join(cards) or "none", bool(cards), "" if cards else "no /dev/davinci*")
    ]
    versions = _cann_versions(home) if home.is_dir() else {}
    if not versions:
        rows.append(_row("CANN", "not found", False, f"no version in {home}; source CANN's set_env.sh"))
    else:
        shown = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        same = len({_release(version) for version in versions.values()}) == 1
        rows.append(
            _row("CANN", shown, same, "" if same else "its parts have different versions: reinstall one")
        )
    for name in CANN_PACKAGES:
        version = version_of(name)
        releases = {_release(one) for one in versions.values()}
        reason = ""
        if version is None:
            reason = f"pip install the {name} wheel from {home}/lib64 or fwkacllib/lib64"
        elif _plain(version) and releases and _release(version) not in releases:
            reason = f"{name} {version} does not match CANN: install the wheel that came with it"
        rows.append(_row(f"CANN package {name}", version or "missing", not reason, reason))
    return rows


def _release(version: str) -> str:
    """What two parts of one CANN share: "8.0.RC2.1" and "8.0.rc2" give "8.0"."""
    return ".".join(re.findall(r"\d+", version)[:2])


def _plain(version: str) -> bool:
    """Whether a wheel is numbered as CANN is; te and hccl of older CANN have numbers of their own (0.4.0)."""
    return not version.startswith("0.")


def rank_rows(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """What a launcher has told this process about several cards; no row outside one."""
    if "MS_WORKER_NUM" in environ:
        workers, rank = environ["MS_WORKER_NUM"], environ.get("RANK_ID", environ.get("MS_NODE_ID", "-"))
        return [_row("ranks", f"rank {rank} of {workers} (msrun)", True)]
    if "RANK_TABLE_FILE" in environ:
        path = Path(environ["RANK_TABLE_FILE"])
        count = len(re.findall(r'"rank_id"', path.read_text(errors="replace"))) if path.is_file() else 0
        reason = "" if count else f"{path} is missing or lists no rank_id"
        return [_row("ranks", f"{count} in the rank table", bool(count), reason)]
    return []
