"""What a file is: a config, COCO annotations, DBNet labels, a shell command, or a training log."""

from __future__ import annotations

import json
import re
from pathlib import Path

from detperf_plugins.doctor.labels.lines import is_icdar, is_label_text

__all__ = ["KINDS", "kind_of"]

KINDS = {
    "yaml": "a config (YAML)",
    "coco": "COCO annotations",
    "labels": "DBNet labels",
    "command": "a training command",
    "log": "a training log",
    "unknown": "a file of unknown kind",
}
_CODE = frozenset([".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".ipynb", ".py", ".pyi"])
_COMMAND = re.compile(
    r"\b(?:tools/\w+\.py|detperf\s+train|-m detperf_plugins)\b[^\n]*\s-{1,2}c(?:onfig)?[ =]"
)
_LOG = re.compile(
    r"batch_cost|per step time:|fps per card|avg_reader_cost|ppdet\.engine|mindocr\.(?:train|utils)|"
    r"Found inf or nan|\[(?:WARNING|ERROR|INFO)\] \w+\(\d+|ppocr INFO|root INFO:"
)


def kind_of(path: Path, head: bytes, text: str) -> str:
    """A key of `KINDS`.

    Args:
        path: its name decides for .yml, .yaml and .json.
        head: its first bytes.
        text: its decoded content, or the first part of it.
    """
    suffix = path.suffix.lower()
    start = text.lstrip("\ufeff \t\r\n")
    if suffix in (".yml", ".yaml"):
        return "yaml"
    if suffix in _CODE:
        return "unknown"
    if start.startswith("{") and '"' in start[:200]:
        return "coco"
    if is_label_text(text) or is_icdar(text):
        return "labels"
    if suffix == ".json":
        return "coco"
    if suffix == ".sh" or _COMMAND.search(text[:20_000]):
        return "command"
    if _LOG.search(text[:200_000]):
        return "log"
    if start.startswith("[") and _is_json(text):
        return "coco"
    colons = sum(
        bool(re.match(r"^\s*(?:- )?[A-Za-z_][\w.]*\s*[:：]", line)) for line in text.split("\n")[:400]
    )
    if colons >= 2:
        return "yaml"
    if suffix == ".txt" and "\t" in text:
        return "labels"
    return "unknown"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
