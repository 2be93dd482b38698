"""Training commands: the config they name, what `-o` changes in it, and the number of cards."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins.doctor.configs.check import load_config, run_checks
from detperf_plugins.doctor.configs.overrides import COMMAND_LINE, parse_override
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.reading import read_text
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import YamlFault, compose
from detperf_plugins.errors import UnreadableInput

__all__ = ["Command", "check_commands", "parse_commands"]

CONFIG_MISSING = rule(
    "command-config-missing",
    "warning",
    "correctness",
    "the command names a config that is not here",
    why="Only the overrides could be checked.",
    fix="Run the check where the command is run, or name the config itself.",
    source="PaddlePaddle/PaddleDetection/pull/8640",
    room="yaml",
)
NEW_KEY = rule(
    "mindocr-override-new-key",
    "error",
    "correctness",
    "-o sets a key that the config does not have",
    why="MindOCR's -o can only change keys that exist: AssertionError 'is not in config'.",
    fix="Add the key to the YAML.",
    source="mindspore-lab/mindocr/blob/main/tools/arg_parser.py",
    room="mindocr",
)
EQUALS = rule(
    "mindocr-override-equals",
    "error",
    "correctness",
    "the value of an override holds another =",
    why="MindOCR's -o splits at every =: 'too many values to unpack'.",
    fix="Put the value into the YAML.",
    source="mindspore-lab/mindocr/blob/main/tools/arg_parser.py",
    room="mindocr",
)
EXPORT_BATCH = rule(
    "ppdet-export-batch",
    "warning",
    "correctness",
    "an exported R-CNN is run with a batch larger than 1",
    why="Exported two-stage models take one picture at a time: a larger batch fails or returns boxes "
    "without masks.",
    fix="Use --batch_size=1.",
    source="PaddlePaddle/PaddleDetection/issues/1586",
    room="paddledet",
)


@dataclass
class Command:
    """One command line.

    Attributes:
        line: its 1-based line in the file.
        words: the command, split as a shell does.
        config: the file after -c, if any.
        overrides: `-o` settings, dotted key to text.
        cards: devices it trains on.
        options: `--name` to value ("" for a bare switch).
    """

    line: int
    words: list[str]
    config: str = ""
    overrides: dict[str, str] = field(default_factory=dict)
    cards: int = 1
    options: dict[str, str] = field(default_factory=dict)


def parse_commands(text: str) -> list[Command]:
    """The Python training, export and inference commands of a shell text."""
    found = []
    joined = re.sub(r"\\\r?\n", lambda m: "\0", text)
    number = 1
    for row in joined.split("\n"):
        for part in re.split(r"&&|\|\||;|(?<!\|)\|(?!\|)", row.replace("\0", " ")):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                words = part.split()
            if any(re.search(r"\.py$|^detperf$|^msrun$|^mpirun$", word) for word in words):
                found.append(_parse(words, number))
        number += 1 + row.count("\0")
    return found


def _parse(words: list[str], line: int) -> Command:
    command = Command(line, words)
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in ("-c", "--config"):
            command.config = following
            index += 1
        elif word.startswith(("-c=", "--config=")):
            command.config = word.partition("=")[2]
        elif word in ("-o", "--opt"):
            while index + 1 < len(words) and not words[index + 1].startswith("-"):
                index += 1
                pair = parse_override(words[index])
                if pair:
                    command.overrides[pair[0]] = pair[1]
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and following and not following.startswith("-"):
                value = following
            command.options[name] = value
        elif word in ("-n", "-np") and following.isdigit():
            command.cards = int(following)
        index += 1
    if "amp" in command.options:
        command.overrides.setdefault("amp", "true")
    command.cards = _cards(command)
    return command


def _cards(command: Command) -> int:
    for name in ("gpus", "devices", "selected_gpus"):
        value = command.options.get(name, "")
        if re.fullmatch(r"\d+(,\d+)*", value):
            return len(value.split(","))
    for name in ("nproc_per_node", "worker_num"):
        value = command.options.get(name, "")
        if value.isdigit() and int(value):
            return int(value)
    for word in command.words:
        match = re.fullmatch(r"(?:CUDA_VISIBLE_DEVICES|ASCEND_RT_VISIBLE_DEVICES)=(\d+(?:,\d+)*)", word)
        if match and any("launch" in w for w in command.words):
            return len(match.group(1).split(","))
    return max(command.cards, 1)


def check_commands(text: str, file: str, folder: Path) -> tuple[list[Finding], list[str]]:
    """Check every command of a shell text: its config with its overrides merged in.

    Args:
        text, file: the commands, and their name in findings.
        folder: where relative config paths are looked up beside the current folder.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    for command in parse_commands(text):
        findings += _check_export(command, file)
        if not command.config and not command.overrides:
            continue
        shown = ", ".join(f"{key} = {value} ({_type(value)})" for key, value in command.overrides.items())
        cards = f"{command.cards} card{'s' if command.cards > 1 else ''}"
        notes.append(
            f"line {command.line}: {command.config or 'no config'}, {cards}; overrides: {shown or 'none'}"
        )
        findings += _check_one(command, file, folder)
    return findings, notes


def _type(value: str) -> str:
    try:
        node = compose(f"v: {value}", COMMAND_LINE).get("v")
    except YamlFault:
        return "text"
    if node is None or node.kind != "scalar":
        return node.kind if node is not None else "text"
    names = {bool: "bool", int: "int", float: "float", type(None): "null"}
    return names.get(type(node.value), "text")


def _check_one(command: Command, file: str, folder: Path) -> list[Finding]:
    path = next(
        (p for p in (Path(command.config), folder / command.config) if command.config and p.is_file()), None
    )
    content, shown = "", command.config or file
    extra: list[Finding] = []
    if path is not None:
        try:
            content = read_text(path).text
        except UnreadableInput:
            path = None
    if path is None and command.config:
        extra.append(Finding(CONFIG_MISSING, file, f"{command.config} does not exist", command.line))
    config = load_config(content, shown, path, command.overrides, command.cards)
    if config.host == "mindocr" and path is not None:
        extra += _mindocr_limits(command, file, content, shown, path)
    found = run_checks(config)
    for finding in found:
        if finding.file == COMMAND_LINE:
            finding.file, finding.line = file, command.line
    return extra + found


def _mindocr_limits(command: Command, file: str, content: str, shown: str, path: Path) -> list[Finding]:
    plain = load_config(content, shown, path)
    found = []
    for key, value in command.overrides.items():
        if "=" in value:
            found.append(Finding(EQUALS, file, f"-o {key}={value}", command.line))
        if plain.node(key) is None:
            found.append(
                Finding(NEW_KEY, file, f"-o {key}={value}: {command.config} has no {key}", command.line)
            )
    return found


def _check_export(command: Command, file: str) -> list[Finding]:
    batch = command.options.get("batch_size", "")
    if any("deploy/python" in word for word in command.words) and batch.isdigit() and int(batch) > 1:
        return [Finding(EXPORT_BATCH, file, f"--batch_size={batch} with an exported model", command.line)]
    return []
