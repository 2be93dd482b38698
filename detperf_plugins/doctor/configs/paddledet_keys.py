"""PaddleDetection names: sections, their parameters, transforms, and the classes that sections refer to."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import PADDLEDET_PLAIN, Config
from detperf_plugins.doctor.configs.names import OUR_NAMES, nearest, paddledet
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Entry, Node

__all__ = ["check"]

UNKNOWN_SECTION = rule(
    "ppdet-unknown-section",
    "warning",
    "correctness",
    "a top-level name is almost, but not quite, one that PaddleDetection knows",
    why="An unknown section is ignored without a word, and the defaults are used.",
    fix="Correct the spelling.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="paddledet",
)
UNKNOWN_ARGUMENT = rule(
    "ppdet-unknown-argument",
    "error",
    "correctness",
    "a class is given a parameter that it does not take",
    why="TypeError: unexpected keyword argument, when the class is built.",
    fix="Correct the spelling or delete the line.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="paddledet",
)
UNKNOWN_NAME = rule(
    "ppdet-unknown-name",
    "error",
    "correctness",
    "a class name is unknown to PaddleDetection",
    why="'Missing injection config' or AttributeError when the model or reader is built.",
    fix="Correct the spelling, or activate the plugin that brings the class.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="paddledet",
)
PLUGIN_OFF = rule(
    "ppdet-plugin-not-activated",
    "hint",
    "correctness",
    "the config uses a part of this project, but does not activate it",
    why="Stock tools/train.py does not know the name; `detperf train` and `python -m detperf_plugins` do.",
    fix="Add `plugins: !!python/object/apply:detperf_plugins.paddledet.activate []`, or start with "
    "`python -m detperf_plugins tools/train.py ...`.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="paddledet",
)

_PLAIN = PADDLEDET_PLAIN | {
    "EvalReader",
    "TestReader",
    "TrainReader",
    "amp",
    "amp_level",
    "find_unused_parameters",
    "norm_type",
    "num_joints",
    "use_ema",
}
_SLOTS = frozenset(
    [
        "backbone",
        "neck",
        "rpn_head",
        "bbox_head",
        "mask_head",
        "head",
        "mask_assigner",
        "bbox_assigner",
        "bbox_post_process",
        "mask_post_process",
    ]
)


def check(config: Config) -> None:
    """Report every fault named above."""
    modules = paddledet()["modules"]
    stock = set(paddledet()["stock_keys"]) | _PLAIN
    used_ours: dict[str, Entry] = {}
    for name, entry in config.sections():
        if name in modules:
            _arguments(config, name, entry.node)
        elif name in OUR_NAMES:
            used_ours.setdefault(name, entry)
        elif name not in stock and entry.node.kind == "map":
            near = nearest(name, (set(modules) | _PLAIN) - set(config.root.entries), 0.86)
            if near and near not in config.root.entries and not _referred(config, name):
                message = f"nothing is called `{name}`"
                config.report(UNKNOWN_SECTION, entry, message, f"Did you mean `{near}`?")
        elif name not in stock and entry.node.kind != "map":
            near = nearest(name, stock, 0.86)
            if near and near not in config.root.entries and len(name) > 4:
                config.report(UNKNOWN_SECTION, entry, f"`{name}` is not read", f"Did you mean `{near}`?")
        _references(config, entry.node, used_ours)
    for reader in ("TrainReader", "EvalReader", "TestReader"):
        for key in ("sample_transforms", "batch_transforms"):
            _transforms(config, f"{reader}.{key}", used_ours)
    _schedulers(config)
    if used_ours and config.node("plugins") is None:
        name, entry = next(iter(used_ours.items()))
        config.report(PLUGIN_OFF, entry, f"{name} belongs to detperf_plugins, which nothing here activates")


def _referred(config: Config, name: str) -> bool:
    """Whether the config itself uses the section by name (a class of the user's own)."""
    return any(node.value == name for _path, node in config.root.walk() if node.kind == "scalar")


def _arguments(config: Config, name: str, node: Node) -> None:
    table = paddledet()["modules"][name]
    if node.kind != "map" or table["open"]:
        return
    known = set(table["params"]) | set(table["inject"]) | set(table["shared"])
    for key, entry in node.entries.items():
        if key in known or key in ("name", "data_format", "_BASE_"):  # data_format: see ppdet-nhwc-partial
            continue
        near = nearest(key, known)
        message = f"{name}.{key}: {name} takes no `{key}`"
        config.report(UNKNOWN_ARGUMENT, entry, message, f"Did you mean `{near}`?" if near else "")


def _references(config: Config, node: Node, used_ours: dict[str, Entry]) -> None:
    modules, classes = paddledet()["modules"], paddledet()["classes"]
    for key, entry in node.entries.items():
        value = entry.node.value
        if key not in _SLOTS or not isinstance(value, str) or not value[:1].isupper():
            continue
        if value in OUR_NAMES:
            used_ours.setdefault(value, entry)
        elif value not in classes and value not in config.root.entries:
            near = nearest(value, {*modules, *OUR_NAMES}, 0.75)
            if near:
                config.report(
                    UNKNOWN_NAME, entry, f"{key}: no class is called {value}", f"Did you mean {near}?"
                )


def _transforms(config: Config, path: str, used_ours: dict[str, Entry]) -> None:
    table = paddledet()["transforms"]
    for step in config.transforms(path):
        if step.name in OUR_NAMES:
            entry = next(iter(step.node.entries.values()), None)
            if entry is not None:
                used_ours.setdefault(step.name, entry)
            continue
        if step.name not in table:
            near = nearest(step.name, {*table, *OUR_NAMES}, 0.75)
            if near:
                message = f"{path}: no transform is called {step.name}"
                config.report(UNKNOWN_NAME, step.node, message, f"Did you mean {near}?")
            continue
        known = table[step.name]
        for key, entry in (
            step.params.entries.items() if step.params is not None and not known["open"] else ()
        ):
            if key not in known["params"]:
                near = nearest(key, known["params"])
                message = f"{step.name}.{key}: {step.name} takes no `{key}`"
                config.report(UNKNOWN_ARGUMENT, entry, message, f"Did you mean `{near}`?" if near else "")


def _schedulers(config: Config) -> None:
    node = config.node("LearningRate.schedulers")
    for item in node.items if node is not None else []:
        name = item.tag.lstrip("!")
        table = paddledet()["modules"].get(name)
        if name and table is None and ":" not in name:
            near = nearest(
                name, ("PiecewiseDecay", "LinearWarmup", "CosineDecay", "ExpWarmup", "BurninWarmup"), 0.7
            )
            message = f"LearningRate.schedulers: no class is called {name}"
            config.report(UNKNOWN_NAME, item, message, f"Did you mean {near}?" if near else "")
        elif table is not None and not table["open"]:
            for key, entry in item.entries.items():
                if key not in table["params"]:
                    near = nearest(key, table["params"])
                    message = f"{name}.{key}: {name} takes no `{key}`"
                    config.report(UNKNOWN_ARGUMENT, entry, message, f"Did you mean `{near}`?" if near else "")
