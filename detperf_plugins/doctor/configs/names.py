"""What the hosts' configs may name: classes, parameters, section keys, and the nearest spelling."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["MINDOCR_KEYS", "OUR_NAMES", "mindocr", "nearest", "paddledet"]

# Names this project adds to the hosts (docs of the plugins); their parameters are checked by the plugins.
OUR_NAMES = frozenset(
    [
        "PolyToBitmap",
        "PackPolygons",
        "AssignRPNTargets",
        "PolygonMaskAssigner",
        "BitmapMaskAssigner",
        "PerfRPNTargetAssign",
        "PerfBBoxAssigner",
        "PerfResNet",
        "PerfRes5Head",
        "PerfFPN",
        "PerfRPNHead",
        "PerfBBoxHead",
        "PerfCascadeHead",
        "PerfMaskHead",
        "PerfMomentum",
        "PerfNormalizeToCHW",
        "PerfDetTargets",
        "PerfValidatePolygons",
        "PerfRandomGeometry",
    ]
)

# Keys that MindOCR's tools/train.py, its loader builder and callbacks read (source: those files of the host).
MINDOCR_KEYS: dict[str, frozenset[str]] = {
    section: frozenset(keys.split())
    for section, keys in {
        "": "system common model postprocess metric loss scheduler optimizer loss_scaler train eval predict",
        "system": "mode distribute device_id amp_level amp_level_infer seed log_interval log_level "
        "val_while_train "
        "val_start_epoch val_interval drop_overflow_update ckpt_save_policy ckpt_max_keep refine_batch_size "
        "jit_level compile_cache_path ckpt_save_interval",
        "model": "type name transform backbone neck head pretrained resume",
        "loss_scaler": "type loss_scale scale_factor scale_window",
        "train": "ckpt_save_dir dataset_sink_mode gradient_accumulation_steps clip_grad clip_norm ema "
        "ema_decay "
        "pred_cast_fp32 max_call_depth dataset loader",
        "eval": "ckpt_load_path dataset_sink_mode pred_cast_fp32 dataset loader",
        "predict": "ckpt_load_path output_save_dir dataset_sink_mode vis_font_path category_dict color_dict "
        "dataset loader",
        "dataset": "type dataset_root data_dir label_file sample_ratio shuffle transform_pipeline "
        "output_columns "
        "net_input_column_index label_column_index meta_data_column_index use_minddata perf",
        "loader": "shuffle batch_size drop_remainder num_workers prefetch_size max_rowsize",
    }.items()
}


@cache
def _table(host: str) -> dict[str, Any]:
    source = resources.files("detperf_plugins.doctor.schema").joinpath(f"{host}.json")
    return json.loads(source.read_text(encoding="utf-8"))


def paddledet() -> dict[str, Any]:
    """`modules` and `transforms` of PaddleDetection: name to `params`, `open`, `inject`, `shared`."""
    return _table("paddledet")


def mindocr() -> dict[str, Any]:
    """Rooms of MindOCR (`transforms`, `heads`, ...): name to `params` and `open`."""
    return _table("mindocr")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known name that is most like `name`, or None.

    A name that another contains as whole words (`det_box_type` and `box_type`) counts as like it.
    """
    known = list(known)
    lower = {candidate.lower(): candidate for candidate in known}
    hits = difflib.get_close_matches(name.lower(), lower, 1, cutoff)
    if hits:
        return lower[hits[0]]
    words = name.lower().split("_")
    for candidate in sorted(known, key=len, reverse=True):
        parts = candidate.lower().split("_")
        if len(parts) > 1 and (words[-len(parts) :] == parts or words[: len(parts)] == parts):
            return candidate
    return None
