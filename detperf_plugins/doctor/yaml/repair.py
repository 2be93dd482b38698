"""Broken YAML: say what is wrong at its line, mend what can be mended, read the rest.

Repairs keep the number of lines, so that every later finding still names the user's own line. They are tried
from the most telling to the crudest: characters of a Chinese input method, tabs, a lost `!` tag, indentation
lost in a paste (`reindent`), and at last leaving out the line that the parser stops at.
"""

from __future__ import annotations

import re

from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml import reindent
from detperf_plugins.doctor.yaml.nodes import Node, YamlFault, compose

__all__ = ["mend", "read_yaml"]

_SOURCE = "PaddlePaddle/PaddleDetection/issues/5841"
FULL_WIDTH = rule(
    "yaml-full-width",
    "error",
    "correctness",
    "full-width punctuation where YAML needs ASCII",
    why='A Chinese input method writes ：！［］，“” for :![],"; YAML reads them as letters of a word.',
    fix="Type the ASCII character; `detperf lint FILE --fix OUT` replaces them.",
    source=_SOURCE,
    room="yaml",
)
TAB = rule(
    "yaml-tab",
    "error",
    "correctness",
    "a tab is used as indentation",
    why="YAML forbids tabs in indentation: the parser stops there.",
    fix="Indent with blanks; `detperf lint FILE --fix OUT` replaces each tab by two.",
    source="https://yaml.org/spec/1.1/#id871998",
    room="yaml",
)
TAG_LOST = rule(
    "yaml-tag-lost",
    "error",
    "correctness",
    "a list item lost its `!` tag",
    why="`- PiecewiseDecay` followed by deeper keys is no YAML; the hosts write `- !PiecewiseDecay`.",
    fix="Put the exclamation mark back.",
    source=_SOURCE,
    room="yaml",
)
SYNTAX = rule(
    "yaml-syntax",
    "error",
    "correctness",
    "the YAML cannot be parsed here",
    why="The host stops before training with a ScannerError or ParserError at this line.",
    fix="Correct the line; the rest of the file was checked without it.",
    source="https://yaml.org/spec/1.1/",
    room="yaml",
)

_WIDE = {"：": ":", "！": "!", "［": "[", "］": "]", "【": "[", "】": "]", "，": ",", "｛": "{", "｝": "}"}
_WIDE |= {"“": '"', "”": '"', "‘": "'", "’": "'", "－": "-", "＃": "#", "\u3000": " ", "\u00a0": " "}
_WIDE_SYNTAX = re.compile(
    r"^\s*(?:-\s*)?[\w.\"']+\s*：|[：，]\s*[［【｛]|^\s*-?\s*！|[:：]\s*[！［【｛“‘]|［|】|^\s*[\u3000\u00a0]"
)
_CODE = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^"'#]|(?<!\s)#)*""")
_BARE_ITEM = re.compile(r"^(\s*)- ([A-Z][A-Za-z0-9_]*)\s*(#.*)?$")
_MAX_DROPPED = 20
_LONG = 200_000  # characters; no config comes near, and each attempt reads them all


def read_yaml(text: str, file: str) -> tuple[Node, list[Finding]]:
    """The document in `text`, mended where it is broken, and what was wrong with it.

    Anything that is not a mapping after all repairs comes back as an empty one.
    """
    mended, findings = mend(text, file)
    try:
        node = compose(mended, file)
    except YamlFault as fault:  # mend() stops only when compose() succeeds or nothing is left to drop
        findings.append(Finding(SYNTAX, file, _explain(fault, mended), fault.line, fault.column))
        node = Node("map", file, 1, 1, 0, 0)
    if node.kind != "map":
        node = Node("map", file, 1, 1, 0, 0)
    return node, findings


def mend(text: str, file: str) -> tuple[str, list[Finding]]:
    """Text of the same number of lines that parses, and a finding for each kind of repair."""
    findings: list[Finding] = []
    text = _printable(text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _full_width(text, file, findings)
    fault = _fault(text, file)
    if fault is None and not reindent.is_flat(text):
        return text, findings
    if "\t" in text:
        text = _tabs(text, file, findings)
    if reindent.is_flat(text):
        text = reindent.restore(text, file, findings)
    text = _lost_tags(text, file, findings)
    for _ in range(_MAX_DROPPED):
        fault = _fault(text, file)
        if fault is None:
            return text, findings
        findings.append(Finding(SYNTAX, file, _explain(fault, text), fault.line, fault.column))
        if fault.hopeless or len(text) > _LONG:
            return "\n" * text.count("\n"), findings
        text = _drop(text, fault)
    return _readable_prefix(text, file), findings


def _fault(text: str, file: str) -> YamlFault | None:
    try:
        compose(text, file)
    except YamlFault as fault:
        return fault
    return None


def _printable(text: str) -> str:
    """Control characters that YAML forbids, as blanks; other line ends as blanks too."""
    return re.sub(
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]", " ", text
    )


def _full_width(text: str, file: str, findings: list[Finding]) -> str:
    """Replace full-width characters outside quotes and comments, where they stand for YAML's own signs."""
    lines = text.split("\n")
    places: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines):
        if line.isascii():
            continue
        match = _CODE.match(line)
        code = line[: match.end()] if match else line
        if not _WIDE_SYNTAX.search(code):
            continue
        fixed = ""
        for column, char in enumerate(code):
            if char in _WIDE:
                places.append((number + 1, column + 1, char))
                space = " " if char in "：，" and code[column + 1 : column + 2] not in ("", " ") else ""
                fixed += _WIDE[char] + space
            else:
                fixed += char
        lines[number] = fixed + line[len(code) :]
    for number, column, char in places[:20]:
        shown = {"\u3000": "an ideographic blank", "\u00a0": "a no-break blank"}.get(
            char, f"full-width {char!r}"
        )
        message = f"{shown} where YAML needs {_WIDE[char]!r}"
        findings.append(Finding(FULL_WIDTH, file, message, number, column, count=1))
    return "\n".join(lines)


def _tabs(text: str, file: str, findings: list[Finding]) -> str:
    lines, hit = text.split("\n"), []
    for number, line in enumerate(lines):
        body = line.lstrip(" \t")
        if "\t" in line[: len(line) - len(body)] and body and not body.startswith("#"):
            hit.append(number + 1)
        lines[number] = line[: len(line) - len(body)].replace("\t", "  ") + body.replace("\t", " ")
    if hit:
        numbers = ", ".join(map(str, hit[:8])) + (" ..." if len(hit) > 8 else "")
        where = f"line{'s' if len(hit) > 1 else ''} {numbers}"
        message = f"{len(hit)} line{'s are' if len(hit) > 1 else ' is'} indented with tabs ({where})"
        findings.append(Finding(TAB, file, message, hit[0], 1, count=len(hit)))
    return "\n".join(lines)


def _lost_tags(text: str, file: str, findings: list[Finding]) -> str:
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        match = _BARE_ITEM.match(line)
        following = next(
            (ln for ln in lines[number + 1 :] if ln.strip() and not ln.lstrip().startswith("#")), ""
        )
        deeper = len(following) - len(following.lstrip()) > len(match.group(1)) if match else False
        if match and deeper and ":" in following and not following.lstrip().startswith("- "):
            name = match.group(2)
            lines[number] = f"{match.group(1)}- !{name}{'  ' + match.group(3) if match.group(3) else ''}"
            findings.append(
                Finding(
                    TAG_LOST,
                    file,
                    f"`- {name}` is followed by its own keys",
                    number + 1,
                    len(match.group(1)) + 3,
                    fix=f'Write "- !{name}" (a scheduler or data set) or "- {name}:" (a transform).',
                )
            )
    return "\n".join(lines)


def _explain(fault: YamlFault, text: str) -> str:
    lines = text.split("\n")
    line = lines[fault.line - 1] if 0 < fault.line <= len(lines) else ""
    shown = line.strip()[:60]
    problem = fault.problem
    if "mapping values are not allowed" in problem:
        return (
            f"`{shown}`: a second colon, or a key deeper than the line above it allows; quote a value "
            "that holds ': '"
        )
    if "could not find expected ':'" in problem:
        return f"`{shown}`: a key without a colon, or no blank after the colon of the line above"
    if "undefined alias" in problem:
        return f"`{shown}`: the anchor it refers to is not defined above"
    if "expected ',' or" in problem or "while parsing a flow" in problem:
        return f"`{shown}`: a bracket opened above is not closed, or a comma is missing"
    if "quoted scalar" in problem or "unexpected end of stream" in problem:
        return f"`{shown}`: a quotation mark is not closed"
    if "block end" in problem or "block collection" in problem or "block mapping" in problem:
        return f"`{shown}`: the indentation fits no line above it"
    return f"`{shown}`: {problem}"


def _drop(text: str, fault: YamlFault) -> str:
    lines = text.split("\n")
    index = min(fault.line, len(lines)) - 1
    while index > 0 and not lines[index].strip():
        index -= 1
    lines[index] = ""
    return "\n".join(lines)


def _readable_prefix(text: str, file: str) -> str:
    """The longest head of the text that parses, found by halving."""
    lines = text.split("\n")
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _fault("\n".join(lines[:middle]), file) is None:
            good = middle
        else:
            bad = middle
    return "\n".join(lines[:good] + [""] * (len(lines) - good))
