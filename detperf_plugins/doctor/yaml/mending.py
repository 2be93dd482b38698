"""The repaired copy of a config: what `mend` puts right, and values that have one plain better spelling."""

from __future__ import annotations

import re

from detperf_plugins.doctor.findings import Change
from detperf_plugins.doctor.words import counted
from detperf_plugins.doctor.yaml.nodes import Node, YamlFault, compose
from detperf_plugins.doctor.yaml.repair import mend
from detperf_plugins.doctor.yaml.scalars import looks_like_number

__all__ = ["better_scalar", "repair_yaml"]

_PATHS = frozenset({"dataset_dir", "anno_path", "image_dir", "dataset_root", "data_dir", "label_file"})


def better_scalar(key: str, text: str) -> str | None:
    """The spelling that YAML 1.1 reads as meant, or None where there is nothing to improve."""
    if looks_like_number(text) and "name" not in key and "version" not in key:
        mantissa, _, exponent = f"{float(text):e}".partition("e")
        return f"{float(mantissa)}e{int(exponent):+d}"
    if re.fullmatch(r"\(\s*[\d.]+(\s*,\s*[\d.]*)+\s*\)", text):
        return "[" + ", ".join(re.findall(r"[\d.]+", text)) + "]"
    if key == "sample_ratio" and re.fullmatch(r"\d+", text):
        return f"{text}.0"
    if key in _PATHS and "\\" in text:
        return text.replace("\\", "/")
    return None


def repair_yaml(text: str, file: str) -> tuple[str, list[Change]]:
    """The repaired text and its changes; lines that cannot be read are kept as comments."""
    original = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    mended, _findings = mend(text, file)
    lines = mended.split("\n")
    changes = []
    indented = 0
    for number, (old, new) in enumerate(zip(original, lines)):
        if old == new:
            continue
        if old.strip() and not new.strip():
            lines[number] = f"# cannot be read: {old.strip()}"
            changes.append(
                Change(file, f"`{old.strip()[:60]}` cannot be read and is kept as a comment", number + 1)
            )
        elif old.strip() == new.strip():
            indented += 1
        else:
            changes.append(Change(file, f"`{old.strip()[:60]}` -> `{new.strip()[:60]}`", number + 1))
    if indented:
        changes.insert(0, Change(file, f"the indentation of {counted(indented, 'line')} put right"))
    repaired = "\n".join(lines)
    try:
        root = compose(repaired, file)
    except YamlFault:
        return repaired, changes
    edits = []
    for path, node in root.walk():
        better = better_scalar(path[-1] if path else "", node.text) if _is_plain(node) else None
        if better is not None:
            edits.append((node.start, node.end, better))
            changes.append(Change(file, f"{'.'.join(path)}: `{node.text}` -> `{better}`", node.line))
    for start, end, better in sorted(set(edits), reverse=True):
        repaired = repaired[:start] + better + repaired[end:]
    return repaired, changes


def _is_plain(node: Node) -> bool:
    return node.kind == "scalar" and node.plain and not node.tag
