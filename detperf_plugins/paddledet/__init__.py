"""Parts that run inside PaddleDetection. Importing this package imports no framework; `activate()` does.

In a config:  plugins: !!python/object/apply:detperf_plugins.paddledet.activate []
In a program: from detperf_plugins.paddledet import activate; activate()
"""

from __future__ import annotations

from detperf_plugins.paddledet.registry import activate, active, deactivate

__all__ = ["activate", "activate_replace", "active", "deactivate"]


def activate_replace() -> str:
    """`activate(replace=True)` for YAML, where `!!python/object/apply` takes no keywords in short form."""
    return activate(replace=True)
