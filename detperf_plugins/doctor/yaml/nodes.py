"""A YAML document as nodes that know their place, built from ruamel's event-level composer.

Nothing is constructed: a tag such as `!COCODataSet` or `!!python/object/apply:...` is kept as text, so a
config can be checked without running anything that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from detperf_plugins.doctor.yaml.scalars import resolve

__all__ = ["Entry", "Node", "YamlFault", "compose"]

_MAX_DEPTH = 100
_MAX_NODES = 100_000  # aliases of aliases can grow without end; no real config comes near


class YamlFault(Exception):
    """No YAML: `problem` at 1-based `line` and `column`; `hopeless` if no single line is at fault."""

    def __init__(self, problem: str, line: int, column: int, hopeless: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.line, self.column, self.hopeless = problem, line, column, hopeless


@dataclass
class Entry:
    """A key of a mapping: its place and its value."""

    line: int
    column: int
    node: Node
    file: str


@dataclass
class Node:
    """A value: `kind` is "map", "list" or "scalar"; `entries`, `items` or `value` holds what it is.

    `line` and `column` are 1-based; `start` and `end` are offsets in the text of `file`, for edits.
    """

    kind: str
    file: str
    line: int
    column: int
    start: int
    end: int
    tag: str = ""
    text: str = ""
    plain: bool = True
    value: Any = None
    entries: dict[str, Entry] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    duplicates: list[tuple[str, int, int]] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        """The value of `key`, or None when this is no mapping or has no such key."""
        entry = self.entries.get(key)
        return entry.node if entry else None

    def python(self) -> Any:
        """Plain Python data: dicts, lists and scalars; tags are dropped."""
        if self.kind == "map":
            return {key: entry.node.python() for key, entry in self.entries.items()}
        if self.kind == "list":
            return [item.python() for item in self.items]
        return self.value

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """This node and every node below it, with the keys (or list positions) that lead there."""
        yield path, self
        for key, entry in self.entries.items():
            yield from entry.node.walk((*path, key))
        for index, item in enumerate(self.items):
            yield from item.walk((*path, str(index)))


@lru_cache(maxsize=8)
def compose(text: str, file: str) -> Node:
    """The document in `text`; an empty one is an empty mapping. Callers share it and must not change it.

    Raises:
        YamlFault: the text is not YAML, holds several documents, or is nested without end.
    """
    if _bracket_depth(text) > _MAX_DEPTH:  # the parser needs seconds to give up on these
        raise YamlFault("nested too deeply", 1, 1, hopeless=True)
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    try:
        root = yaml.compose(text)
        return _Builder(file, text).build(root)
    except YAMLError as error:
        marks = [getattr(error, "problem_mark", None), getattr(error, "context_mark", None)]
        if re.search(r"quoted scalar|flow ", str(getattr(error, "context", ""))):
            marks.reverse()  # where the quote or bracket was opened, not where the file ends
        mark = marks[0] or marks[1]
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlFault(str(problem), line, column) from error
    except RecursionError as error:
        raise YamlFault("nested too deeply", 1, 1, hopeless=True) from error
    except YamlFault:
        raise
    except Exception as error:  # ruamel raises bare errors on some malformed directives and escapes
        raise YamlFault(f"cannot be read as YAML ({error})", 1, 1) from error


def _bracket_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


class _Builder:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.made = file, text, 0
        self.open: set[int] = set()

    def build(self, root: Any) -> Node:
        if root is None:
            return Node("map", self.file, 1, 1, 0, 0)
        return self._node(root)

    def _node(self, raw: Any) -> Node:
        mark = raw.start_mark
        self.made += 1
        if self.made > _MAX_NODES:
            problem = "anchors refer to each other so often that the config grows without end"
            raise YamlFault(problem, 1, 1, hopeless=True)
        if id(raw) in self.open:
            raise YamlFault("an anchor contains itself", mark.line + 1, mark.column + 1)
        place = (self.file, mark.line + 1, mark.column + 1, mark.index, raw.end_mark.index)
        tag = str(getattr(raw, "tag", None) or "")
        tag = "" if tag.startswith("tag:yaml.org,2002:") and ":python" not in tag else tag
        self.open.add(id(raw))
        try:
            if isinstance(raw, ScalarNode):
                plain = raw.style in (None, "")
                value = resolve(raw.value, plain and not tag)
                return Node("scalar", *place, tag=tag, text=raw.value, plain=plain, value=value)
            if isinstance(raw, SequenceNode):
                return Node("list", *place, tag=tag, items=[self._node(item) for item in raw.value])
            if isinstance(raw, MappingNode):
                return self._mapping(raw, Node("map", *place, tag=tag))
        finally:
            self.open.discard(id(raw))
        raise YamlFault("unknown kind of node", mark.line + 1, mark.column + 1)

    def _mapping(self, raw: Any, node: Node) -> Node:
        merged: dict[str, Entry] = {}
        for key, value in raw.value:
            mark = key.start_mark
            if not isinstance(key, ScalarNode):
                raise YamlFault("a mapping or list is used as a key", mark.line + 1, mark.column + 1)
            made = self._node(value)
            if key.value == "<<" and key.style in (None, ""):
                for source in made.items or [made]:
                    for name, entry in source.entries.items():
                        merged.setdefault(name, entry)
                continue
            if key.value in node.entries:
                first = node.entries[key.value]
                node.duplicates.append((key.value, first.line, mark.line + 1))
            node.entries[key.value] = Entry(mark.line + 1, mark.column + 1, made, self.file)
        for name, entry in merged.items():
            node.entries.setdefault(name, entry)
        return node
