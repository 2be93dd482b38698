"""PaddleOCR configs of DBNet, as far as people bring them along."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.names import nearest
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

UNKNOWN_KEY = rule(
    "ppocr-unknown-key",
    "warning",
    "correctness",
    "the post-processing class does not read this key",
    why="The class takes **kwargs, so a name that differs by a prefix is ignored and the default is used.",
    fix="Correct the spelling.",
    source="PaddlePaddle/PaddleOCR/pull/12463",
    room="paddleocr",
)
PIECEWISE = rule(
    "ppocr-piecewise-values",
    "error",
    "correctness",
    "Piecewise needs one value more than decay_epochs",
    why="n boundaries divide the training into n + 1 stretches; the scheduler's builder fails otherwise.",
    fix="Give values one more entry than decay_epochs.",
    source="PaddlePaddle/PaddleOCR/issues/10565",
    room="paddleocr",
)
NO_WORKERS = rule(
    "ppocr-no-workers",
    "hint",
    "performance",
    "num_workers is 0: the training process itself loads the pictures",
    why="While it decodes, crops and draws the maps, the device waits.",
    fix="Set Train.loader.num_workers to 4 or more.",
    source="PaddlePaddle/Paddle/issues/60601",
    room="paddleocr",
)

_POSTPROCESS = {
    "DBPostProcess": [
        "name",
        "thresh",
        "box_thresh",
        "max_candidates",
        "unclip_ratio",
        "use_dilation",
        "score_mode",
        "box_type",
    ],
    "EASTPostProcess": ["name", "score_thresh", "cover_thresh", "nms_thresh"],
    "PSEPostProcess": ["name", "thresh", "box_thresh", "min_area", "box_type", "scale"],
    "SASTPostProcess": [
        "name",
        "score_thresh",
        "nms_thresh",
        "sample_pts_num",
        "shrink_ratio_of_width",
        "expand_scale",
        "tcl_map_thresh",
    ],
}


def check(config: Config) -> None:
    """Report every fault named above."""
    post = config.node("PostProcess")
    name = config.get("PostProcess.name")
    known = _POSTPROCESS.get(name if isinstance(name, str) else "")
    for key, entry in post.entries.items() if post is not None and known else ():
        if known and key not in known:
            near = nearest(key, known)
            message = f"PostProcess.{key}: {name} reads no `{key}`"
            config.report(UNKNOWN_KEY, entry, message, f"Did you mean `{near}`?" if near else "")
    if config.get("Optimizer.lr.name") == "Piecewise":
        values, epochs = config.get("Optimizer.lr.values"), config.get("Optimizer.lr.decay_epochs")
        if isinstance(values, list) and isinstance(epochs, list) and len(values) != len(epochs) + 1:
            message = (
                f"values has {len(values)} entries, decay_epochs {len(epochs)}; values must have "
                f"{len(epochs) + 1}"
            )
            config.report(PIECEWISE, "Optimizer.lr.values", message)
    if config.get("Train.loader.num_workers") == 0:
        config.report(NO_WORKERS, "Train.loader.num_workers", "Train.loader.num_workers: 0")
