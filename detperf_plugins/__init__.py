"""detperf-plugins: Mask R-CNN in PaddleDetection and DBNet in MindOCR, faster, to the same result.

This package imports no framework. The rooms that need one are `detperf_plugins.paddledet` and
`detperf_plugins.mindocr`; `detperf_plugins.hosts` tells which of them can run here.
"""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

__all__ = ["__version__", "configs_dir", "patches_dir"]


def configs_dir() -> Path:
    """The folder that holds the shipped overlays and configs."""
    return _shipped("configs")


def patches_dir() -> Path:
    """The folder that holds the patches for the hosts."""
    return _shipped("patches")


def _shipped(name: str) -> Path:
    """A folder that lies inside an installed wheel, and beside the package in a source checkout."""
    here = Path(__file__).resolve().parent
    inside = here / name
    return inside if inside.is_dir() else here.parent / name
