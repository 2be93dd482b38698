"""Parts that run inside PaddleDetection. Importing this package imports no framework; `activate()` does.

In a config:  plugins: !!python/object/apply:detperf_plugins.paddledet.activate []
              (or [true], which is activate(replace=True))
In a program: from detperf_plugins.paddledet import activate; activate()
"""

from __future__ import annotations

from detperf_plugins.paddledet.registry import activate, active, deactivate

__all__ = ["activate", "active", "deactivate"]
