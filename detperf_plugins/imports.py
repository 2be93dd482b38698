"""Running something just before or after a module is imported by somebody else, and timing that import.

A host script puts its own checkout on `sys.path` before it imports the framework, so the framework must
not be imported for it. A finder in front of the others watches for the names of interest.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType

__all__ = ["STARTED", "around_import", "seconds"]

# time.perf_counter() when this package came up, from which a run's start-up is counted.
STARTED = time.perf_counter()

# How long the watched modules took to import, by name; one that imports another includes it.
seconds: dict[str, float] = {}


class _Loader(importlib.abc.Loader):
    """Stands in for a module's own loader while the module is executed."""

    def __init__(
        self,
        loader: importlib.abc.Loader,
        before: Callable[[], None] | None,
        after: Callable[[ModuleType], None] | None,
    ) -> None:
        self._loader, self._before, self._after = loader, before, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        if self._before is not None:
            self._before()
        start = time.perf_counter()
        _WATCHER.watched.pop(module.__name__, None)
        self._loader.exec_module(module)
        seconds[module.__name__] = time.perf_counter() - start
        if self._after is not None:
            self._after(module)


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds the watched modules through the other finders; each is watched for one import only."""

    def __init__(self) -> None:
        self.watched: dict[str, tuple[Callable[[], None] | None, Callable[[ModuleType], None] | None]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.watched:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, *self.watched[fullname])
                return spec
        return None


_WATCHER = _Watcher()


def around_import(
    name: str,
    before: Callable[[], None] | None = None,
    after: Callable[[ModuleType], None] | None = None,
) -> None:
    """Call `before()` before module `name` is executed and `after(module)` after it.

    Where the module is imported already, both are called now. A second call for one name replaces the first.
    """
    if name in sys.modules:
        if before is not None:
            before()
        if after is not None:
            after(sys.modules[name])
        return
    _WATCHER.watched[name] = (before, after)
    if _WATCHER not in sys.meta_path:
        sys.meta_path.insert(0, _WATCHER)
