"""Indentation lost in a paste: put it back with what is known of the hosts' sections.

A web form strips leading blanks, and every line of the config starts in column 1. The order of the lines is
still there, and the hosts' keys are known, so a stack of open sections tells where each line belongs: a key
goes to the deepest open section that knows it; a transform takes the keys that follow it; a section name
without a value opens that section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from detperf_plugins.doctor.configs.names import MINDOCR_KEYS, mindocr, paddledet
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.rules import rule

__all__ = ["is_flat", "restore"]

FLAT = rule(
    "yaml-indentation-lost",
    "error",
    "correctness",
    "the indentation is lost",
    why="Every section of the config is empty for the parser, or it stops at the first repeated key.",
    fix="Paste the config as a code block, or attach the file; the checks below read it with the "
    "indentation put "
    "back as the host's keys demand, and `detperf lint FILE --fix OUT` writes it so.",
    source="mindspore-lab/mindocr/issues/683",
    room="yaml",
)
PROSE = rule(
    "yaml-comment-mark-lost",
    "warning",
    "correctness",
    "a line of prose stands among the keys",
    why="It was a comment whose `#` was lost (a web page takes `# text` for a heading); YAML cannot read it.",
    fix="Put the `#` back in front of it.",
    source="mindspore-lab/mindocr/issues/683",
    room="yaml",
)

_KEY = re.compile(r"^(-\s+)?([A-Za-z_][\w./-]*|<<)\s*:(?:\s+(.*))?$")
_TAGGED = re.compile(r"^- !([A-Za-z]\w*)\s*(?:#.*)?$")
# Sections whose keys are a class's own parameters: anything may stand there.
_FREE = frozenset(
    {"common", "backbone", "neck", "head", "transform", "postprocess", "metric", "loss", "optimizer"}
)


@dataclass
class _Section:
    name: str
    depth: int
    known: frozenset[str] = frozenset()
    free: bool = False
    listing: bool = False
    seen: set[str] = field(default_factory=set)


def _code_lines(text: str) -> list[str]:
    return [ln for ln in text.split("\n") if ln.strip() and not ln.lstrip().startswith(("#", "---", "%"))]


def is_flat(text: str) -> bool:
    """Whether the text is a config whose lines all start in the first column though it has sections."""
    lines = _code_lines(text)
    if len(lines) < 4:
        return False
    flat = sum(not ln[0].isspace() for ln in lines)
    if flat < 0.97 * len(lines):
        return False
    headings = [m for m in map(_KEY.match, (ln.strip() for ln in lines)) if m and _is_empty(m.group(3))]
    known = MINDOCR_KEYS[""] | paddledet()["modules"].keys()
    return sum(1 for m in headings if m.group(2) in known and not m.group(1)) >= 1 and len(headings) >= 1


def _is_empty(value: str | None) -> bool:
    return (
        value is None
        or not value.strip()
        or value.lstrip().startswith("#")
        or bool(re.match(r"&\w+\s*$", value))
    )


def restore(text: str, file: str, findings: list[Finding]) -> str:
    """The same lines with indentation; findings tell that it was lost, and which lines are prose."""
    lines = text.split("\n")
    heads = {m.group(2) for m in map(_KEY.match, map(str.strip, lines)) if m and _is_empty(m.group(3))}
    grammar = (
        _Mindocr()
        if len(heads & MINDOCR_KEYS[""]) >= len(heads & paddledet()["modules"].keys())
        else _Paddledet()
    )
    stack = [grammar.root()]
    first = 0
    for index, raw in enumerate(lines):
        line = raw.strip()
        if not line or line.startswith(("#", "---", "%")):
            continue
        match = _KEY.match(line)
        tagged = _TAGGED.match(line)
        if tagged and any(section.listing for section in stack):
            while not stack[-1].listing:
                stack.pop()
            depth = stack[-1].depth
            lines[index] = "  " * depth + line
            stack.append(grammar.open(tagged.group(1), depth + 1, stack[-1], False))
            continue
        if line.startswith("!"):
            lines[index] = "  " * stack[-1].depth + line
            continue
        if match is None:
            if line.startswith("- ") and any(s.listing for s in stack):
                while not stack[-1].listing:
                    stack.pop()
                lines[index] = "  " * stack[-1].depth + line
            elif re.match(r"^[^\s:\[\]{}]+\s+[^:]*$", line):
                findings.append(Finding(PROSE, file, f"`{line[:60]}` is no key and no value", index + 1, 1))
                lines[index] = "# " + line
            continue
        first = first or index + 1
        dash, key, value = match.group(1), match.group(2), match.group(3)
        section = grammar.place(stack, key, bool(dash), _is_empty(value))
        lines[index] = "  " * section.depth + line
        section.seen.add(key)
        if _is_empty(value):
            depth = section.depth + (2 if dash else 1)
            stack.append(grammar.open(key, depth, section, bool(dash)))
    message = "every line starts in the first column"
    findings.insert(0, Finding(FLAT, file, message, first or 1, 1))
    return "\n".join(lines)


class _Grammar:
    """Where a key belongs, given the open sections."""

    def root(self) -> _Section:
        raise NotImplementedError

    def open(self, key: str, depth: int, parent: _Section, dash: bool) -> _Section:
        raise NotImplementedError

    def lists(self, key: str) -> bool:
        return key.endswith(("_pipeline", "_transforms", "schedulers", "_BASE_"))

    def place(self, stack: list[_Section], key: str, dash: bool, empty: bool) -> _Section:
        """Pop `stack` down to the section that takes `key`, and return it."""
        if dash:
            for level in range(len(stack) - 1, -1, -1):
                if stack[level].listing:
                    del stack[level + 1 :]
                    return stack[level]
        for wanted in (lambda s: key in s.known and key not in s.seen, lambda s: key in s.known):
            for level in range(len(stack) - 1, -1, -1):
                section = stack[level]
                if section.listing and not dash:
                    continue
                free = section.free and not (empty and self._claimed(stack, level, key))
                if wanted(section) or (free and not self._claimed_above(stack, level, key, empty)):
                    del stack[level + 1 :]
                    return section
        while len(stack) > 1 and stack[-1].listing:
            stack.pop()
        return stack[-1]

    @staticmethod
    def _claimed(stack: list[_Section], level: int, key: str) -> bool:
        return any(key in section.known for section in stack[:level])

    @staticmethod
    def _claimed_above(stack: list[_Section], level: int, key: str, empty: bool) -> bool:
        """Whether a section further out knows the key and the free one is a transform, which ends there."""
        return stack[level].name.startswith("- ") and any(
            key in section.known for section in stack[1:level] if section.name != "common"
        )


class _Mindocr(_Grammar):
    def root(self) -> _Section:
        return _Section("", 0, MINDOCR_KEYS[""])

    def open(self, key: str, depth: int, parent: _Section, dash: bool) -> _Section:
        if dash:
            params = mindocr()["transforms"].get(key, {}).get("params", ())
            return _Section(f"- {key}", depth, frozenset(params), free=True)
        if key in _FREE:
            return _Section(key, depth, free=True)
        known = MINDOCR_KEYS.get(key, frozenset())
        if key in ("scheduler", "optimizer"):
            known = frozenset(mindocr()[f"create_{key}"]["params"])
        return _Section(key, depth, known, free=not known, listing=self.lists(key))


class _Paddledet(_Grammar):
    def root(self) -> _Section:
        return _Section("", 0, frozenset(paddledet()["modules"]) | frozenset(paddledet()["stock_keys"]))

    def open(self, key: str, depth: int, parent: _Section, dash: bool) -> _Section:
        table = paddledet()["transforms" if dash else "modules"].get(key, {})
        if dash:
            return _Section(f"- {key}", depth, frozenset(table.get("params", ())), free=True)
        known = frozenset(table.get("params", ()))
        if key.endswith("Reader"):
            known |= {"use_shared_memory", "mixup_epoch", "inputs_def"}
        return _Section(key, depth, known, free=not known, listing=self.lists(key))
