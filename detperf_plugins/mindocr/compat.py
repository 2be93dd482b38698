"""What mindocr 0.5.0 misses on newer MindSpore, huggingface_hub and x86 processors, put back without edits.

Three things, each only where it is needed:

- `mindspore.parallel._transformer` is gone since MindSpore 2.7. Only MindOCR's ABINet uses it, but every
  `import mindocr.models` imports ABINet. A finder at the end of `sys.meta_path` serves stand-ins: a
  MindSpore that still has the package wins, and a stand-in that is used says what it stands for.
- huggingface_hub 1.x exports `repo_type_and_id_from_hf_id` no more; only LayoutXLM's tokenizer uses it.
- MindSpore 2.9 and 2.10 run convolutions 45 to 60 times slower on processors with AVX-512, where oneDNN
  falls to its reference code. `ONEDNN_MAX_CPU_ISA=AVX2`, set before MindSpore is imported, avoids it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from detperf_plugins import hosts

__all__ = ["REMOVED", "StandIn", "guard_onednn", "install", "mend_huggingface", "slow_convolution"]

logger = logging.getLogger("detperf_plugins")

REMOVED = "mindspore.parallel._transformer"
ONEDNN_ISA = "ONEDNN_MAX_CPU_ISA"
# First MindSpore whose oneDNN has the fault; the self-test of `slow_convolution` covers those to come.
FIRST_SLOW = (2, 9)

# What ABINet's module calls while it is imported, as opposed to when ABINet is built.
_AT_IMPORT: dict[str, Callable[..., Any]] = {
    "_args_type_validator_check": lambda *args, **kwargs: lambda function: function,
    "_valid_type_checks": lambda *args, **kwargs: None,
    "_valid_value_checks": lambda *args, **kwargs: None,
}


class StandIn:
    """A name that this MindSpore (or another library) no longer has: using it raises one clear sentence."""

    def __init__(self, name: str, advice: str) -> None:
        self._sentence = f"{name} does not exist in the installed version; {advice}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse with the sentence.

        Raises:
            ImportError: always.
        """
        raise ImportError(self._sentence)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(self._sentence)

    def __repr__(self) -> str:
        return f"<stand-in: {self._sentence}>"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves `REMOVED` and everything below it where no other finder does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == REMOVED or fullname.startswith(REMOVED + "."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def get(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            advice = "MindOCR's ABINet needs mindspore<2.7, other models are unaffected"
            return _AT_IMPORT.get(name) or StandIn(f"{module.__name__}.{name}", advice)

        module.__getattr__ = get  # type: ignore[method-assign]


def install() -> None:
    """Add the finder, once. Nothing is imported, and nothing changes where the real package exists."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def mend_huggingface() -> None:
    """Give huggingface_hub the one name back that MindOCR imports from it, if it lacks it."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub

    name = "repo_type_and_id_from_hf_id"
    if hasattr(huggingface_hub, name):
        return
    advice = "MindOCR's LayoutXLM tokenizer needs huggingface_hub<1.0, other models are unaffected"
    found: Any = StandIn(f"huggingface_hub.{name}", advice)
    try:
        from huggingface_hub import hf_api

        found = getattr(hf_api, name, found)
    except ImportError:
        pass
    setattr(huggingface_hub, name, found)


def guard_onednn() -> bool:
    """Set the oneDNN guard for MindSpore 2.9 and later on x86-64; call it before MindSpore is imported.

    Returns:
        Whether the variable was set here (False where it is not needed, or the user has set it).
    """
    version = hosts.version_of("mindspore")
    needed = (
        version is not None
        and hosts.version_numbers(version)[:2] >= FIRST_SLOW
        and platform.machine().lower() in {"x86_64", "amd64"}
        and "mindspore" not in sys.modules
    )
    if not needed or ONEDNN_ISA in os.environ:
        return False
    os.environ[ONEDNN_ISA] = "AVX2"
    return True


def slow_convolution(channels: int = 64, size: int = 40, limit_gflops: float = 1.0) -> float | None:
    """Time one convolution on the CPU, to recognise oneDNN's reference code.

    Args:
        channels, size: of the picture [1, channels, size, size] and its 3 x 3 convolution.
        limit_gflops: below this many 10^9 multiply-adds and adds a second the convolution is slow. One core
            of any x86-64 processor of the last ten years does tens of them, the reference code about 0.5.

    Returns:
        The rate in GFLOP/s if it is slow, else None.
    """
    import mindspore as ms
    import numpy as np
    from mindspore import ops

    # No layer: its initial weights would draw from the random numbers of the training that follows.
    weight = ms.Tensor(np.ones((channels, channels, 3, 3), np.float32))
    picture = ms.Tensor(np.ones((1, channels, size, size), np.float32))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        ops.conv2d(picture, weight, pad_mode="pad", padding=1).asnumpy()
        best = min(best, time.perf_counter() - start)
    rate = 2 * 9 * channels * channels * size * size / best / 1e9
    return rate if rate < limit_gflops else None


def warn_of_slow_convolution() -> None:
    """Run the self-test on a CPU, and say what to do where convolutions are slow."""
    import mindspore as ms

    if ms.get_context("device_target") != "CPU":
        return
    rate = slow_convolution()
    if rate is not None:
        logger.warning(
            f"convolutions run at {rate:.2f} GFLOP/s: oneDNN has fallen to its reference code; set "
            f"{ONEDNN_ISA}=AVX2 before Python starts, or use MindSpore 2.8"
        )
