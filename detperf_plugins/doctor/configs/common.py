"""Faults of any YAML config: repeated keys, numbers that are text, list overrides that lost a step."""

from __future__ import annotations

import re

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node
from detperf_plugins.doctor.yaml.scalars import looks_like_number

__all__ = ["check"]

DUPLICATE = rule(
    "yaml-duplicate-key",
    "warning",
    "correctness",
    "a key stands twice in the same section",
    why="The hosts' YAML reader keeps the last one without a word; the first setting has no effect.",
    fix="Delete the one that is not meant.",
    source="mindspore-lab/mindocr/issues/683",
    room="yaml",
)
NUMBER_TEXT = rule(
    "yaml-number-as-text",
    "warning",
    "correctness",
    "a number is written so that YAML reads it as text",
    why="YAML 1.1, which both hosts use, wants a dot and a sign in the exponent: `1e-4` is the text "
    "'1e-4', and "
    "the optimizer gets a string.",
    fix="Write 1.0e-4 for 1e-4.",
    source="https://yaml.org/type/float.html",
    room="yaml",
)
TUPLE_TEXT = rule(
    "yaml-tuple-as-text",
    "warning",
    "correctness",
    "a Python tuple is text in YAML",
    why="`(736,1280)` is the text '(736,1280)', not two numbers.",
    fix="Write a list: [736, 1280].",
    source="mindspore-lab/mindocr/issues/683",
    room="yaml",
)
OVERRIDE = rule(
    "config-override-lost-step",
    "warning",
    "correctness",
    "a list override dropped a step that the base config had",
    why="A list in a config replaces the whole list of its `_BASE_`; nothing is merged into it. Without "
    "NormalizeImage or Permute the network gets raw, wrongly laid out pictures and learns nothing.",
    fix="Repeat the base's whole list and insert the new step into it.",
    source="PaddlePaddle/PaddleDetection/issues/3461",
    room="yaml",
)

_ESSENTIAL = {
    "Decode", "NormalizeImage", "Permute", "PadBatch",
    "DecodeImage", "DetLabelEncode", "ToCHWImage", "ShrinkBinaryMap", "BorderMap",
}  # fmt: skip
# A replacement does the work of the step it replaces.
_INSTEAD = {
    "NormalizeImage": {"PerfNormalizeToCHW"},
    "ToCHWImage": {"PerfNormalizeToCHW"},
    "Permute": {"PerfNormalizeToCHW"},
    "ShrinkBinaryMap": {"PerfDetTargets"},
    "BorderMap": {"PerfDetTargets"},
}


def check(config: Config) -> None:
    """Report the faults named above, in every file of the chain."""
    _duplicates(config)
    for path, node in config.root.walk():
        if node.kind == "scalar" and isinstance(node.value, str) and node.plain and not node.tag:
            key = path[-1] if path else ""
            if looks_like_number(node.value) and "name" not in key and "version" not in key:
                value = float(node.value)
                mantissa, _, exponent = f"{value:e}".partition("e")
                better = f"{float(mantissa)}e{int(exponent):+d}"
                message = f"{'.'.join(path)}: `{node.value}` is text for YAML, not the number {value:g}"
                config.report(NUMBER_TEXT, node, message, f"Write {better}.")
            elif re.fullmatch(r"\(\s*[\d.]+(\s*,\s*[\d.]*)+\s*\)", node.value):
                better = "[" + ", ".join(re.findall(r"[\d.]+", node.value)) + "]"
                config.report(
                    TUPLE_TEXT, node, f"{'.'.join(path)}: `{node.value}` is text", f"Write {better}."
                )
    _lost_steps(config)


def _duplicates(config: Config) -> None:
    for path, node in [*config.chain.own.walk(), *config.root.walk()]:
        for key, first, second in node.duplicates:
            where = ".".join((*path, key))
            message = f"`{where}` is set in line {first} and again in line {second}; the last one counts"
            entry = node.entries[key]
            if entry.line == second:
                config.report(DUPLICATE, entry, message)


def _step_names(node: Node) -> set[str]:
    return {key for item in node.items for key in item.entries} | {
        item.value for item in node.items if isinstance(item.value, str)
    }


def _lost_steps(config: Config) -> None:
    for path, old, new in config.chain.replaced:
        if config.node(".".join(path)) is not new:
            continue
        parent = config.node(".".join(path[:-1]))
        kept = set()
        for entry in parent.entries.values() if parent is not None else []:
            kept |= _step_names(entry.node)
        lost = [
            name for name in _step_names(old) & _ESSENTIAL if not ({name} | _INSTEAD.get(name, set())) & kept
        ]
        if lost and _step_names(new):
            names = ", ".join(sorted(lost))
            where = ".".join(path)
            config.report(
                OVERRIDE, where, f"`{where}` replaces the list of {old.file} and no longer has {names}"
            )
