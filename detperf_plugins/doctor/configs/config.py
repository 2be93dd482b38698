"""A config as the checks see it: merged settings by path, each with its own place, and the host it is for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.configs.names import MINDOCR_KEYS, OUR_NAMES, paddledet
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.rules import Rule
from detperf_plugins.doctor.yaml.bases import Chain
from detperf_plugins.doctor.yaml.nodes import Entry, Node

__all__ = ["Config", "Transform", "host_of", "host_of_keys", "key_counts", "number"]

_PADDLEOCR = frozenset(
    {"Global", "Architecture", "PostProcess", "Optimizer", "Loss", "Train", "Eval", "Metric"}
)
PADDLEDET_PLAIN = frozenset(
    [
        "_BASE_",
        "architecture",
        "epoch",
        "metric",
        "num_classes",
        "pretrain_weights",
        "weights",
        "use_gpu",
        "log_iter",
        "save_dir",
        "snapshot_epoch",
        "worker_num",
        "TrainDataset",
        "EvalDataset",
        "TestDataset",
        "plugins",
    ]
)


def host_of(root: Node) -> str:
    """ "mindocr", "paddledet", "paddleocr" or "" (no config of either), from the top-level keys."""
    return host_of_keys(root.entries.keys())


def host_of_keys(keys: Collection[str]) -> str:
    """As `host_of`, from the names alone."""
    scores = key_counts(keys)
    host = max(scores, key=lambda name: scores[name])
    return host if scores[host] else ""


def key_counts(keys: Collection[str]) -> dict[str, int]:
    """How many of the top-level keys each host knows; a key may count for several."""
    names = set(keys)
    return {
        "mindocr": len(names & (MINDOCR_KEYS[""] - {"common"})),
        "paddleocr": len(names & _PADDLEOCR),
        "paddledet": len(names & (PADDLEDET_PLAIN | paddledet()["modules"].keys() | OUR_NAMES)),
    }


def number(value: Any) -> float | None:
    """A real number, or None for anything else (booleans included)."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@dataclass
class Transform:
    """One item of a transform list: its name, its parameters (a mapping node or None), and its node."""

    name: str
    params: Node | None
    node: Node


@dataclass
class Config:
    """A merged config under check.

    Attributes:
        chain: the files it is made of.
        host: "mindocr", "paddledet", "paddleocr" or "".
        path: where the file lies; None when it is known only as text.
        cards: how many devices train, where the user or a command says so.
        folders: further folders from which data paths may count.
        findings: what the checks reported.
    """

    chain: Chain
    host: str
    path: Path | None = None
    cards: int | None = None
    folders: list[Path] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def root(self) -> Node:
        """The mapping at the top of the merged config."""
        return self.chain.root

    def node(self, path: str) -> Node | None:
        """The node at a dotted path, or None."""
        entry = self.entry(path)
        return entry.node if entry else None

    def entry(self, path: str) -> Entry | None:
        """The key at a dotted path, or None."""
        node: Node | None = self.root
        entry = None
        for key in path.split("."):
            entry = node.entries.get(key) if node is not None else None
            if entry is None:
                return None
            node = entry.node
        return entry

    def get(self, path: str, default: Any = None) -> Any:
        """The plain value at a dotted path, or `default` where the key is absent."""
        node = self.node(path)
        return default if node is None else node.python()

    def number(self, path: str) -> float | None:
        """The number at a dotted path, or None."""
        return number(self.get(path))

    def names(self, path: str) -> list[str]:
        """The strings of the list at a dotted path."""
        value = self.get(path)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def transforms(self, path: str) -> list[Transform]:
        """The transform list at a dotted path; items of another shape are left out."""
        node = self.node(path)
        found = []
        for item in node.items if node is not None else []:
            if item.kind == "map" and len(item.entries) == 1:
                name, entry = next(iter(item.entries.items()))
                found.append(Transform(name, entry.node if entry.node.kind == "map" else None, item))
            elif item.kind == "scalar" and isinstance(item.value, str):
                found.append(Transform(item.value, None, item))
        return found

    def report(
        self, rule: Rule, at: str | Entry | Node, message: str, fix: str = "", severity: str = ""
    ) -> None:
        """Add a finding at a dotted path (or its nearest existing parent), a key or a value."""
        if isinstance(at, str):
            parts = at.split(".")
            while parts:
                entry = self.entry(".".join(parts))
                if entry is not None:
                    break
                parts.pop()
            at = entry if parts and entry is not None else self.root
        line, column = (at.line, at.column) if at.line else (None, None)
        finding = Finding(rule, at.file, message, line, column, fix, severity=severity)
        if not any(
            f.rule is rule and f.place == finding.place and f.message == message for f in self.findings
        ):
            self.findings.append(finding)

    def sections(self) -> Iterator[tuple[str, Entry]]:
        """The top-level keys."""
        yield from self.root.entries.items()

    @property
    def whole(self) -> bool:
        """Whether the config is complete enough to reason about what is absent from it."""
        if not self.chain.complete:
            return False
        if self.host == "mindocr":
            return {"train", "model", "scheduler"} <= self.root.entries.keys()
        return {"architecture", "TrainReader", "TrainDataset"} <= self.root.entries.keys()
