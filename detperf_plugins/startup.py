"""Runs in a process whose environment has DETPERF_PLUGINS set: plugins come on once the host is imported.

The environment's `detperf_plugins_startup.pth` imports this at interpreter start, so that children of a
launcher (paddle.distributed.launch, DataLoader workers) are reached as well. The host is not imported
here: a script such as tools/train.py first puts its own checkout on sys.path.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["VARIABLE", "activate_on_import", "options"]

VARIABLE = "DETPERF_PLUGINS"
# Imported by every PaddleDetection script after ppdet.modeling and ppdet.data are complete.
TRIGGER = "ppdet.engine"


def options() -> dict[str, bool]:
    """What DETPERF_PLUGINS asks for: "1" registers the parts, "replace" also swaps the exact ones in."""
    return {"replace": os.environ.get(VARIABLE, "") == "replace"}


class _Trigger(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `TRIGGER` through the other finders, and activates the plugins when it has been executed."""

    def __init__(self) -> None:
        self._loader: importlib.abc.Loader | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != TRIGGER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        assert self._loader is not None
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert self._loader is not None
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        from detperf_plugins.paddledet import activate

        activate(**options())


def activate_on_import() -> None:
    """Activate now if PaddleDetection is already imported, else right after it is."""
    if TRIGGER in sys.modules:
        from detperf_plugins.paddledet import activate

        activate(**options())
    elif not any(isinstance(finder, _Trigger) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Trigger())


activate_on_import()
