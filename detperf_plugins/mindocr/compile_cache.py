"""MindSpore's compile cache: a folder of its own for every graph, and whether the graph came from it.

MindSpore checks the source files of the network before it reuses a graph, but not the settings that were
compiled into it as constants. A folder named after them keeps a changed config from getting an old graph.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detperf_plugins import hosts

__all__ = ["CompileCache", "key_of"]

# Sections of a MindOCR config whose values go into the graph; `dataset` and `loader` decide its shapes.
COMPILED = ("system", "model", "loss", "scheduler", "optimizer", "loss_scaler", "train")


def key_of(config: Mapping[str, Any], devices: int = 1, steps: int = 0) -> str:
    """Twelve hexadecimal digits that differ where the config, a version or one of the numbers does.

    Args:
        config: merged.
        devices: number of devices.
        steps: of an epoch; it follows from the data set, and the learning rates of all steps are constants.
    """
    ignored = {"system": {"compile_cache_path", "log_interval"}, "train": {"ckpt_save_dir"}}
    parts = {
        name: {
            key: value for key, value in (config.get(name) or {}).items() if key not in ignored.get(name, ())
        }
        for name in COMPILED
    }
    text = json.dumps([parts, hosts.versions(), devices, steps], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class CompileCache:
    """The cache of one graph below `root`; `enable` it before the network is compiled."""

    def __init__(self, root: Path, key: str) -> None:
        self.folder = root.resolve() / key
        self._before: set[tuple[str, int, int]] = set()

    def enable(self) -> None:
        """Make the folder and tell MindSpore."""
        import mindspore as ms

        self.folder.mkdir(parents=True, exist_ok=True)
        self._before = self._files()
        ms.set_context(enable_compile_cache=True, compile_cache_path=str(self.folder))

    def _files(self) -> set[tuple[str, int, int]]:
        """Name, size and time of every graph file."""
        found = set()
        for path in self.folder.rglob("*"):
            if path.is_file() and path.suffix != ".lock":
                stat = path.stat()
                found.add((str(path.relative_to(self.folder)), stat.st_size, stat.st_mtime_ns))
        return found

    def report(self) -> dict[str, Any]:
        """After the first step: `result` ("hit" or "miss"), `size_mb` and `folder`."""
        now = self._files()
        result = "hit" if self._before and now == self._before else "miss"
        size = sum(size for _, size, _ in now)
        return {"result": result, "size_mb": round(size / 2**20, 3), "folder": str(self.folder)}
