"""A config with its `_BASE_` chain merged as the hosts merge it; every value keeps its own file and line.

Later entries of a `_BASE_` list win over earlier ones, the file itself over all of them; mappings merge key
by key, anything else (lists above all) replaces what was there. Source: `_load_config_with_base` and
`dict_merge` of ppdet/core/workspace.py; MindOCR's trainer knows no `_BASE_`, this project's does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins import configs_dir
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.reading import read_text
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Entry, Node
from detperf_plugins.doctor.yaml.repair import read_yaml
from detperf_plugins.errors import UnreadableInput

__all__ = ["Chain", "load_chain", "merge"]

BASE_MISSING = rule(
    "yaml-base-missing",
    "error",
    "correctness",
    "a `_BASE_` file does not exist",
    why="The config cannot be loaded; `_BASE_` paths count from the folder of the file that names them.",
    fix="Correct the path, or copy the base file along with the config.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="yaml",
)
BASE_CYCLE = rule(
    "yaml-base-cycle",
    "error",
    "correctness",
    "`_BASE_` files include each other in a circle",
    why="Loading never ends: the host dies with RecursionError.",
    fix="Remove one of the two `_BASE_` entries.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    room="yaml",
)


@dataclass
class Chain:
    """A merged config.

    Attributes:
        root: the merged mapping.
        own: the file's mapping before merging.
        files: the file and all bases, in the order in which they were read.
        included: for every base: the `_BASE_` entry that names it, and its own mapping before merging.
        replaced: for every list that a later file replaced, its path and (old node, new node).
        findings: faults of reading and including.
        texts: the text of each file, for `# detperf: ignore` and for edits.
        complete: False where a base is missing or a file could be read only in part.
    """

    root: Node
    own: Node
    files: list[str] = field(default_factory=list)
    included: list[tuple[Node, Node]] = field(default_factory=list)
    replaced: list[tuple[tuple[str, ...], Node, Node]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    complete: bool = True


def merge(
    below: Node, above: Node, note: Callable[[tuple[str, ...], Node, Node], None], path: tuple[str, ...] = ()
) -> Node:
    """`above` merged over `below`, neither of them changed; `note` is told of each list replaced."""
    made = Node("map", above.file, above.line, above.column, above.start, above.end, above.tag or below.tag)
    made.entries = dict(below.entries)
    for key, entry in above.entries.items():
        old = made.entries.get(key)
        if old and old.node.kind == "map" and entry.node.kind == "map" and not entry.node.tag:
            node = merge(old.node, entry.node, note, (*path, key))
            made.entries[key] = Entry(entry.line, entry.column, node, entry.file)
            continue
        if old and old.node.kind == "list" and entry.node.kind == "list":
            note((*path, key), old.node, entry.node)
        made.entries[key] = entry
    return made


def load_chain(text: str, file: str, path: Path | None) -> Chain:
    """Read `text` and the files that it names in `_BASE_`.

    Args:
        text: the config.
        file: its name in findings.
        path: where it lies, from which bases are found; None when it is known only as text.
    """
    node, findings = read_yaml(text, file)
    chain = Chain(node, node, [file], findings=findings, texts={file: text})
    chain.complete = not any(f.rule.id.startswith("yaml-") and f.severity == "error" for f in findings)
    chain.root = _with_bases(node, path, chain, (path.resolve(),) if path else ())
    return chain


def _with_bases(node: Node, path: Path | None, chain: Chain, parents: tuple[Path, ...]) -> Node:
    entry = node.entries.get("_BASE_")
    if entry is None:
        return node
    names = entry.node.items if entry.node.kind == "list" else [entry.node]
    below: Node | None = None
    for name in names:
        if not isinstance(name.value, str) or path is None:
            chain.complete = False
            continue
        base = Path(name.value).expanduser()
        base = base if base.is_absolute() else Path(os.path.normpath(path.parent / base))
        loaded = _load_base(base, name, chain, parents)
        if loaded is not None:
            below = (
                loaded if below is None else merge(below, loaded, lambda *seen: chain.replaced.append(seen))
            )
    if below is None:
        return node
    own = Node("map", node.file, node.line, node.column, node.start, node.end)
    own.entries = {key: value for key, value in node.entries.items() if key != "_BASE_"}
    return merge(below, own, lambda *seen: chain.replaced.append(seen))


def _load_base(base: Path, name: Node, chain: Chain, parents: tuple[Path, ...]) -> Node | None:
    if base.resolve() in parents or len(parents) > 50:
        message = f"{name.value} leads back to this file"
        chain.findings.append(Finding(BASE_CYCLE, name.file, message, name.line, name.column))
        return None
    try:
        text = read_text(base)
    except (UnreadableInput, ValueError) as error:
        chain.complete = False
        reason = str(error) if base.exists() else f"there is no {base}"
        fix = "" if base.exists() else _shipped(base.name)
        chain.findings.append(Finding(BASE_MISSING, name.file, reason, name.line, name.column, fix))
        return None
    shown = str(base)
    node, findings = read_yaml(text.text, shown)
    chain.included.append((name, node))
    if shown not in chain.texts:
        chain.findings += [*text.findings, *findings]
        chain.files.append(shown)
        chain.texts[shown] = text.text
    return _with_bases(node, base, chain, (*parents, base.resolve()))


def _shipped(name: str) -> str:
    """What to do where a missing base has the name of a config of this project."""
    stem = name.removesuffix(".yml")
    if not any(path.stem == stem for path in configs_dir().rglob("*.yml")):
        return ""
    return f"Write the path that `detperf configs {stem}` prints."
