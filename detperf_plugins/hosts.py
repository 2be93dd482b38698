"""Which host framework and version is installed here, whether it is supported, and why not.

Versions are read from package metadata, so asking imports no framework.
"""

from __future__ import annotations

import importlib.metadata as metadata
import importlib.util
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from detperf_plugins.errors import UnsupportedHost

__all__ = [
    "Host",
    "in_this_folder",
    "install",
    "mindocr_host",
    "paddle_host",
    "paddledet_host",
    "processor_name",
    "require_paddledet",
    "version_numbers",
    "version_of",
    "versions",
]

# Every package whose version a bug report needs, by distribution name.
REPORTED = (
    "detperf-plugins",
    "paddlepaddle",
    "paddlepaddle-gpu",
    "paddledet",
    "mindspore",
    "mindocr",
    "numpy",
    "opencv-python",
    "opencv-python-headless",
    "pycocotools",
    "pyclipper",
    "shapely",
    "scikit-learn",
)


@dataclass(frozen=True)
class Host:
    """One framework: `supported` says whether a part may run on it, `reason` why not (or why so)."""

    name: str
    version: str | None
    supported: bool
    reason: str


def version_of(distribution: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Installed versions of everything in `REPORTED`, absent ones left out."""
    found = {name: version_of(name) for name in REPORTED}
    return {name: version for name, version in found.items() if version is not None}


def version_numbers(version: str) -> tuple[int, ...]:
    """The first three numbers of a version: "2.6.0.post1" gives (2, 6, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def install(extra: str) -> str:
    """How to install what an extra names, from a clone or a wheel: this package is on no index."""
    return f'pip install ".[{extra}]" in a clone of detperf-plugins, or "FILE.whl[{extra}]" with its wheel'


def in_this_folder(host: Host, package: str) -> Host:
    """The host, or, where it is not installed, the checkout of it that the working folder is.

    Args:
        host: as `paddledet_host` or `mindocr_host` gives it.
        package: the folder that such a checkout has: ppdet, mindocr.
    """
    if host.supported or host.version is not None or not Path(package, "__init__.py").is_file():
        return host
    if package == "mindocr" and version_of("mindspore") is None:
        return host
    reached = "python -m detperf_plugins SCRIPT reaches it; detperf does with PYTHONPATH=."
    return Host(host.name, "in this folder: a checkout", True, reached)


def paddle_host() -> Host:
    """PaddlePaddle, CPU or GPU build: 2.6.x and 3.x up to 3.3 are supported."""
    version = version_of("paddlepaddle-gpu") or version_of("paddlepaddle")
    if version is None:
        if importlib.util.find_spec("paddle") is None:
            return Host("paddlepaddle", None, False, f"paddlepaddle is not installed; {install('paddle')}")
        return Host("paddlepaddle", "unknown", True, "imported from a path without package metadata")
    numbers = version_numbers(version)
    if numbers[:2] < (2, 6) and numbers[:2] != (0, 0):
        return Host("paddlepaddle", version, False, f"paddlepaddle {version} is older than 2.6")
    if numbers[:2] > (3, 3):
        return Host(
            "paddlepaddle", version, False, f"paddlepaddle {version} is newer than 3.3, the last one tested"
        )
    return Host("paddlepaddle", version, True, "supported")


def _ppdet_folder() -> Path | None:
    module = sys.modules.get("ppdet")
    if module is not None and getattr(module, "__file__", None):
        return Path(str(module.__file__)).parent
    spec = importlib.util.find_spec("ppdet")
    return Path(spec.origin).parent if spec and spec.origin else None


def paddledet_host() -> Host:
    """PaddleDetection: the paddledet 2.6.x wheel, or a checkout (release 2.6 up to develop)."""
    folder = _ppdet_folder()
    if folder is None:
        remedy = f"{install('paddle')}, or put a checkout on PYTHONPATH"
        return Host("paddledet", None, False, f"ppdet (PaddleDetection) is not installed; {remedy}")
    version = version_of("paddledet")
    if not (folder.parent / "paddledet.egg-info").exists() and "site-packages" not in folder.parts:
        return Host("paddledet", f"checkout {folder.parent.name}", True, "a PaddleDetection checkout")
    if version is not None and version_numbers(version) < (2, 5):
        return Host("paddledet", version, False, f"paddledet {version} is older than 2.5")
    return Host("paddledet", version or "unknown", True, "supported")


def mindocr_host() -> Host:
    """MindOCR on MindSpore 2.7 or 2.8."""
    spore, ocr = version_of("mindspore"), version_of("mindocr")
    if spore is None:
        return Host("mindocr", ocr, False, f"mindspore is not installed; {install('mindspore')}")
    if ocr is None and importlib.util.find_spec("mindocr") is None:
        return Host("mindocr", None, False, "mindocr is not installed")
    return Host("mindocr", ocr or "checkout", True, f"on mindspore {spore}")


def require_paddledet() -> None:
    """Raise `UnsupportedHost` with the reason where PaddleDetection's parts cannot run."""
    for host in (paddle_host(), paddledet_host()):
        if not host.supported:
            if host.name == "paddledet" and in_this_folder(host, "ppdet").supported:
                raise UnsupportedHost(
                    "ppdet (PaddleDetection) is not installed, but this folder is a checkout of it: put "
                    "PYTHONPATH=. before the command"
                )
            raise UnsupportedHost(
                f"{host.reason}. Supported: paddlepaddle 2.6 to 3.3 with paddledet 2.6.0 "
                "or a PaddleDetection checkout."
            )


def processor_name() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or os.name
