"""The functions of MindOCR and MindSpore that a training calls, wrapped: timed, and mended where needed.

The same wrappers serve `detperf train` and an unmodified tools/train.py: both call MindOCR's own
functions, and both read their config through `session`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from detperf_plugins.imports import around_import
from detperf_plugins.mindocr import compat, downloads, exif, pipeline
from detperf_plugins.mindocr.session import SESSION

__all__ = ["activate"]

_DONE = "_detperf_wrapped"
_DOWNLOADS = "mindocr.models.backbones.mindcv_models.download"


def activate(replace: bool = False) -> str:
    """See `detperf_plugins.mindocr.activate`."""
    SESSION.replace = SESSION.replace or replace
    if compat.guard_onednn():
        SESSION.phases.facts[compat.ONEDNN_ISA] = "AVX2"
    compat.install()
    # Their time is part of the start-up.
    around_import("mindspore")
    around_import("mindocr", before=compat.mend_huggingface, after=_wrap_mindocr)
    around_import("tools.arg_parser", after=_wrap_arg_parser)
    return "detperf-plugins: MindOCR's training is timed, and mended where it needs it"


def _replace(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Put `make(original)` in the place of an attribute, once."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, _DONE):
        return
    wrapped = functools.wraps(original)(make(original))
    setattr(wrapped, _DONE, True)
    setattr(owner, name, wrapped)


def _timed(phase: str) -> Callable[[Any], Callable[..., Any]]:
    """A wrapper that counts the call's time for `phase`."""

    def make(original: Any) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with SESSION.phases.measure(phase):
                return original(*args, **kwargs)

        return call

    return make


def _wrap_arg_parser(module: ModuleType) -> None:
    """tools/arg_parser.py of a MindOCR checkout: `_BASE_` and free `-o`."""
    if not hasattr(module, "parse_args_and_config") or not hasattr(module, "create_parser"):
        return

    def make(original: Any) -> Callable[..., Any]:
        def parse_args_and_config(args: Any = None) -> tuple[Any, dict[str, Any]]:
            parsed = module.create_parser().parse_args(args)
            setup = getattr(module, "modelarts_setup", None)
            if setup is not None:
                setup(parsed)
            return parsed, SESSION.open_config(parsed.config, parsed.opt or ())

        return parse_args_and_config

    _replace(module, "parse_args_and_config", make)


def _wrap_mindocr(module: ModuleType) -> None:
    """Everything of MindOCR that training and evaluation call by name."""
    import mindspore as ms
    from mindspore.train.model import Model

    _replace(ms, "save_checkpoint", SESSION.saver)
    _replace(Model, "train", SESSION.trainer)
    for owner_name, method in (("SummaryRecord", "record"), ("SummaryCollector", "step_end")):
        _replace(getattr(ms, owner_name, None), method, _timed("summaries"))
    import mindocr.data
    import mindocr.models
    import mindocr.models.utils.load_model
    import mindocr.optim
    import mindocr.utils.callbacks as callbacks
    import mindocr.utils.checkpoint as checkpoint
    from mindocr.utils.evaluator import Evaluator
    from mindocr.utils.recorder import PerfRecorder

    for owner in (mindocr.data, mindocr.data.builder):
        _replace(owner, "build_dataset", SESSION.dataset_builder)
    for owner in (mindocr.models, mindocr.models.builder):
        _replace(owner, "build_model", SESSION.model_builder)
    # `mindocr.models.utils.load_model` is a function in the package and a module of the same name.
    loading = sys.modules["mindocr.models.utils.load_model"]
    _replace(loading, "load_checkpoint", _timed("checkpoint"))
    _replace(loading, "load_param_into_net", _timed("checkpoint"))
    _replace(sys.modules[_DOWNLOADS].DownLoad, "download_url", downloads.guarded)
    for name in ("create_optimizer", "create_group_params"):
        _replace(mindocr.optim, name, _timed("optimizer"))
    _replace(checkpoint, "resume_train_network", SESSION.resumer)
    _replace(checkpoint.CheckpointManager, "save", SESSION.history_saver)
    _replace(callbacks, "save_checkpoint", SESSION.saver)
    _replace(Evaluator, "eval", _timed("evaluation"))
    for name in ("add", "save_curves"):
        _replace(PerfRecorder, name, _timed("summaries"))
    exif.mend_decode()
    _leave_compile_cache_to_session()
    pipeline.register()


def _leave_compile_cache_to_session() -> None:
    """Where patch 0015 lets tools/train.py choose a compile cache, the session has done so before."""
    try:
        from mindocr.utils import compile_cache
    except ImportError:
        return
    _replace(compile_cache, "enable_compile_cache", lambda original: lambda *args: None)
