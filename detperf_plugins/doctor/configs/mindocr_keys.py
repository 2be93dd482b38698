"""MindOCR keys and names: unknown, under the wrong parent, or not taken by the class."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.names import MINDOCR_KEYS, OUR_NAMES, mindocr, nearest
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

WRONG_PARENT = rule(
    "mindocr-key-wrong-parent",
    "error",
    "correctness",
    "a key stands under a section that does not take it",
    why="The class gets a parameter it does not know (TypeError), and the section that reads the key never "
    "sees it.",
    fix="Move the key; mind the indentation.",
    source="mindspore-lab/mindocr/issues/683",
    room="mindocr",
)
UNKNOWN_ARGUMENT = rule(
    "mindocr-unknown-argument",
    "error",
    "correctness",
    "a class is given a parameter that it does not take",
    why="TypeError while the model, loss or scheduler is built.",
    fix="Correct the spelling or delete the line.",
    source="mindspore-lab/mindocr/blob/main/mindocr/models/heads/builder.py",
    room="mindocr",
)
UNKNOWN_NAME = rule(
    "mindocr-unknown-name",
    "error",
    "correctness",
    "a class name is unknown to MindOCR",
    why="AssertionError or NameError: MindOCR looks names up among its own classes.",
    fix="Correct the spelling.",
    source="mindspore-lab/mindocr/blob/main/mindocr/data/transforms/transforms_factory.py",
    room="mindocr",
)
UNKNOWN_KEY = rule(
    "mindocr-unknown-key",
    "warning",
    "correctness",
    "nothing reads this key",
    why="MindOCR ignores keys that it does not know: the setting has no effect and no message says so.",
    fix="Correct the spelling or delete the line.",
    source="PaddlePaddle/PaddleOCR/pull/12463",
    room="mindocr",
)
SWALLOWED = rule(
    "mindocr-transform-argument",
    "warning",
    "correctness",
    "a transform is given a parameter that it does not read",
    why="Transforms take **kwargs: a misspelt parameter is swallowed and the default is used.",
    fix="Correct the spelling or delete the line.",
    source="mindspore-lab/mindocr/blob/main/mindocr/data/transforms/det_transforms.py",
    room="mindocr",
)
UNUSED_ANCHOR = rule(
    "mindocr-common-unused",
    "warning",
    "correctness",
    "a setting under common is used nowhere",
    why="MindOCR reads nothing under `common`; a value there counts only where `*anchor` repeats it.",
    fix="Refer to it with `*anchor` where it is meant, or delete it.",
    source="mindspore-lab/mindocr/issues/683",
    room="mindocr",
)

_ROOMS = {
    "model.backbone": "backbones",
    "model.neck": "necks",
    "model.head": "heads",
    "loss": "losses",
    "metric": "metrics",
    "postprocess": "postprocess",
}
_BUILT_IN = {"in_channels", "name"}  # MindOCR itself passes these
_EXTRA = {"metric": {"device_num", "save_dir", "main_indicator"}, "postprocess": {"rescale_fields"}}
# Keys whose place is so well known that finding them elsewhere tells which section was meant.
_HOME = {
    "resume": "model",
    "pretrained": "model",
    "warmup_epochs": "scheduler",
    "num_epochs": "scheduler",
    "batch_size": "train.loader",
    "num_workers": "train.loader",
    "dataset_sink_mode": "train",
    "gradient_accumulation_steps": "train",
    "clip_grad": "train",
    "clip_norm": "train",
    "ema": "train",
    "amp_level": "system",
    "log_interval": "system",
    "ckpt_save_dir": "train",
    "use_minddata": "train.dataset",
    "drop_remainder": "train.loader",
    "weight_decay": "optimizer",
}


def check(config: Config) -> None:
    """Report every fault named above."""
    _top(config)
    for path, room in _ROOMS.items():
        _module(config, path, room)
    _arguments(config, "scheduler", "create_scheduler", {"steps_per_epoch"})
    for section in ("system", "model", "loss_scaler", "train", "eval", "predict"):
        _section(config, section, MINDOCR_KEYS[section])
    for section in ("train", "eval", "predict"):
        if config.get(f"{section}.dataset.type") == "DetDataset":
            _section(config, f"{section}.dataset", MINDOCR_KEYS["dataset"])
        _section(config, f"{section}.loader", MINDOCR_KEYS["loader"])
        _pipeline(config, f"{section}.dataset.transform_pipeline")
    _common(config)


def _top(config: Config) -> None:
    for key, entry in config.sections():
        if key in MINDOCR_KEYS[""] or key in ("_BASE_", "plugins"):
            continue
        home = _HOME.get(key)
        near = nearest(key, MINDOCR_KEYS[""], 0.75)
        if home:
            config.report(
                WRONG_PARENT,
                entry,
                f"`{key}` stands at the top level; it belongs under {home}.",
                f"Move it to {home}.",
            )
        elif near:
            config.report(UNKNOWN_KEY, entry, f"no section is called `{key}`", f"Did you mean `{near}`?")


def _module(config: Config, path: str, room: str) -> None:
    node, table = config.node(path), mindocr()[room]
    if node is None or node.kind != "map":
        return
    name = config.get(f"{path}.name")
    if not isinstance(name, str):
        return
    if name not in table:
        if room != "backbones" and name not in OUR_NAMES:
            near = nearest(name, table, 0.7)
            message = f"{path}.name: MindOCR has no {name}"
            config.report(UNKNOWN_NAME, f"{path}.name", message, f"Did you mean {near}?" if near else "")
        elif room == "backbones" and name not in OUR_NAMES:
            near = nearest(name, table, 0.8)
            if near:
                config.report(
                    UNKNOWN_NAME,
                    f"{path}.name",
                    f"{path}.name: MindOCR has no {name}",
                    f"Did you mean {near}?",
                )
        return
    known = set(table[name]["params"]) | _BUILT_IN | _EXTRA.get(path, set())
    for key, entry in node.entries.items():
        if key in known or (room == "backbones" and table[name]["open"]):
            continue
        home = _HOME.get(key)
        if (home and not path.startswith(home + ".")) or (home == "model" and path.startswith("model.")):
            message = f"`{key}` stands under {path}: {name} takes no `{key}`; it belongs under {home}."
            fix = f"Move it to {home}.{key}."
            if key == "pretrained" and isinstance(entry.node.value, bool):
                fix = (
                    "Delete it: under model. a boolean is a ValueError; model.pretrained takes a path, a "
                    "URL or null."
                )
            config.report(WRONG_PARENT, entry, message, fix)
        elif not table[name]["open"]:
            near = nearest(key, known - {"name"})
            message = f"{path}.{key}: {name} takes no `{key}`"
            config.report(UNKNOWN_ARGUMENT, entry, message, f"Did you mean `{near}`?" if near else "")


def _arguments(config: Config, section: str, function: str, given: set[str]) -> None:
    node, table = config.node(section), mindocr()[function]
    for key, entry in node.entries.items() if node is not None else ():
        if (key in table["params"] and key not in given) or table["open"]:
            continue
        home = _HOME.get(key)
        near = nearest(key, set(table["params"]) - given)
        if home and home != section:
            message = f"`{key}` stands under {section}, which takes no `{key}`; it belongs under {home}."
            config.report(WRONG_PARENT, entry, message, f"Move it to {home}.{key}.")
        else:
            message = f"{section}.{key}: {function}() takes no `{key}`"
            config.report(UNKNOWN_ARGUMENT, entry, message, f"Did you mean `{near}`?" if near else "")


def _section(config: Config, section: str, known: frozenset[str]) -> None:
    node = config.node(section)
    for key, entry in node.entries.items() if node is not None else ():
        if key in known:
            continue
        home = _HOME.get(key)
        near = nearest(key, known)
        if home and home != section:
            message = f"`{key}` stands under {section}, where nothing reads it; it belongs under {home}."
            config.report(WRONG_PARENT, entry, message, f"Move it to {home}.{key}.", severity="warning")
        else:
            message = f"{section}.{key}: MindOCR reads no such key"
            config.report(UNKNOWN_KEY, entry, message, f"Did you mean `{near}`?" if near else "")


def _pipeline(config: Config, path: str) -> None:
    table = mindocr()["transforms"]
    for step in config.transforms(path):
        if step.name in OUR_NAMES or not step.name[:1].isupper():
            continue
        if step.name not in table:
            near = nearest(step.name, {*table, *OUR_NAMES}, 0.7)
            message = f"{path}: MindOCR has no transform {step.name} (NameError)"
            config.report(UNKNOWN_NAME, step.node, message, f"Did you mean {near}?" if near else "")
            continue
        known = set(table[step.name]["params"])
        for key, entry in step.params.entries.items() if step.params is not None else ():
            near = nearest(key, known)
            if key not in known and (near or known) and not _read_from_kwargs(step.name, key):
                message = f"{step.name}.{key}: {step.name} reads no `{key}`, the setting is swallowed"
                config.report(SWALLOWED, entry, message, f"Did you mean `{near}`?" if near else "")


def _read_from_kwargs(transform: str, key: str) -> bool:
    return key in mindocr()["transforms"][transform].get("kwargs_keys", ())


def _common(config: Config) -> None:
    """Values under `common` that no alias repeats (only then can they have no effect)."""
    node = config.chain.own.get("common")
    text = config.chain.texts.get(config.chain.own.file, "")
    lines = text.split("\n")
    for key, entry in node.entries.items() if node is not None else ():
        line = lines[entry.line - 1] if 0 < entry.line <= len(lines) else ""
        anchor = line.split(":", 1)[-1].strip().split(" ")[0].lstrip("&") if "&" in line else ""
        if (anchor and f"*{anchor}" in text) or key == "character_dict_path":
            continue
        home = _HOME.get(key)
        where = f" (it belongs under {home}.)" if home else ""
        config.report(
            UNUSED_ANCHOR,
            entry,
            f"common.{key} is set, but nothing refers to it{where}",
            severity="" if home else "hint",
        )
