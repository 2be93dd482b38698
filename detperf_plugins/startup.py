"""Runs in a process whose environment asks for the plugins: they come on once a host is imported.

DETPERF_PLUGINS is `1` (the parts are registered) or `replace` (the exact ones stand in for stock as well);
unset, empty and `0` are off, and so is anything else, with a warning.

The environment's `detperf_plugins_startup.pth` imports this at interpreter start, so that children of a
launcher (paddle.distributed.launch, msrun, DataLoader workers) are reached as well. No host is imported
here: a script such as tools/train.py first puts its own checkout on sys.path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

from detperf_plugins.imports import around_import

__all__ = ["VARIABLE", "activate_on_import", "options"]

VARIABLE = "DETPERF_PLUGINS"
MODES = ("1", "replace")
PHASES_JSON = "DETPERF_PHASES_JSON"
# Imported by every PaddleDetection script after ppdet.modeling and ppdet.data are complete.
PADDLEDET = "ppdet.engine"


def options() -> dict[str, bool]:
    """What DETPERF_PLUGINS asks for: "1" registers the parts, "replace" also swaps the exact ones in."""
    return {"replace": os.environ.get(VARIABLE, "") == "replace"}


def _wanted() -> bool:
    mode = os.environ.get(VARIABLE, "")
    if mode not in (*MODES, "", "0"):
        print(
            f"detperf: {VARIABLE}={mode} is unknown, the plugins stay off: 1 and replace switch them on, "
            "0 is off",
            file=sys.stderr,
        )
        os.environ[VARIABLE] = "0"  # children need not say it again
    return mode in MODES


def _activate_paddledet(module: ModuleType) -> None:
    from detperf_plugins.paddledet import activate

    activate(**options())


def activate_on_import() -> None:
    """Activate each host's plugins now if it is already imported, else when it is; nothing where off."""
    if not _wanted():
        return
    from detperf_plugins.mindocr import activate
    from detperf_plugins.mindocr.session import SESSION
    from detperf_plugins.unread import warn_of_unread_keys

    around_import(PADDLEDET, after=_activate_paddledet)
    SESSION.lint = warn_of_unread_keys
    SESSION.phases_json = Path(os.environ[PHASES_JSON]) if os.environ.get(PHASES_JSON) else None
    activate(**options())


activate_on_import()
