"""`-o key=value` of the hosts' trainers: dotted keys, values read as YAML, merged over the config."""

from __future__ import annotations

from collections.abc import Mapping

from detperf_plugins.doctor.yaml.nodes import Entry, Node, YamlFault, compose

__all__ = ["COMMAND_LINE", "apply_overrides", "parse_override"]

COMMAND_LINE = "<command line>"


def parse_override(text: str) -> tuple[str, str] | None:
    """Key and value of `key=value`; None where it is not of that form. Options (`--x=1`) are no overrides."""
    key, equals, value = text.strip().partition("=")
    return (key, value) if equals and key and not key.startswith("-") else None


def apply_overrides(root: Node, overrides: Mapping[str, str]) -> Node:
    """`root` with the overrides merged over it; neither it nor its sections are changed."""
    root = _copy(root)
    for key, value in overrides.items():
        try:
            node = compose(f"v: {value}", COMMAND_LINE).get("v")
        except YamlFault:
            node = None
        if node is None:
            node = Node("scalar", COMMAND_LINE, 0, 0, 0, 0, text=value, value=value)
        node = _without_place(node)
        parts = key.split(".")
        section = root
        for part in parts[:-1]:
            entry = section.entries.get(part)
            inner_copy = (
                _copy(entry.node)
                if entry and entry.node.kind == "map"
                else Node("map", COMMAND_LINE, 0, 0, 0, 0)
            )
            place = (entry.line, entry.column) if entry else (0, 0)
            section.entries[part] = Entry(*place, inner_copy, entry.file if entry else COMMAND_LINE)
            section = inner_copy
        section.entries[parts[-1]] = Entry(0, 0, node, COMMAND_LINE)
    return root


def _without_place(node: Node) -> Node:
    made = _copy(node)
    made.line, made.text, made.plain, made.value = 0, node.text, node.plain, node.value
    made.items = [_without_place(item) for item in node.items]
    made.entries = {k: Entry(0, 0, _without_place(e.node), e.file) for k, e in node.entries.items()}
    return made


def _copy(node: Node) -> Node:
    made = Node(node.kind, node.file, node.line, node.column, node.start, node.end, node.tag)
    made.entries, made.items = dict(node.entries), list(node.items)
    return made
