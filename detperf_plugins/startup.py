"""Runs in a process whose environment has DETPERF_PLUGINS set: plugins come on once a host is imported.

The environment's `detperf_plugins_startup.pth` imports this at interpreter start, so that children of a
launcher (paddle.distributed.launch, msrun, DataLoader workers) are reached as well. No host is imported
here: a script such as tools/train.py first puts its own checkout on sys.path.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from detperf_plugins.imports import around_import

__all__ = ["VARIABLE", "activate_on_import", "options"]

VARIABLE = "DETPERF_PLUGINS"
PHASES_JSON = "DETPERF_PHASES_JSON"
# Imported by every PaddleDetection script after ppdet.modeling and ppdet.data are complete.
PADDLEDET = "ppdet.engine"


def options() -> dict[str, bool]:
    """What DETPERF_PLUGINS asks for: "1" registers the parts, "replace" also swaps the exact ones in."""
    return {"replace": os.environ.get(VARIABLE, "") == "replace"}


def _activate_paddledet(module: ModuleType) -> None:
    from detperf_plugins.paddledet import activate

    activate(**options())


def activate_on_import() -> None:
    """Activate each host's plugins now if it is already imported, else when it is."""
    from detperf_plugins.mindocr import activate
    from detperf_plugins.mindocr.session import SESSION
    from detperf_plugins.unread import warn_of_unread_keys

    around_import(PADDLEDET, after=_activate_paddledet)
    SESSION.lint = warn_of_unread_keys
    SESSION.phases_json = Path(os.environ[PHASES_JSON]) if os.environ.get(PHASES_JSON) else None
    activate(**options())


activate_on_import()
