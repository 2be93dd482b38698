"""The rules: what the doctor can say, each with why it matters, what to do, and who established it.

A rule is declared beside the code that checks it, with `rule(...)`; `all_rules()` imports every such module
and returns the whole catalogue in a fixed order, from which `detperf lint --list` and docs/doctor-rules.md
are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

__all__ = ["CLASSES", "ROOMS", "SEVERITIES", "Rule", "all_rules", "rule"]

SEVERITIES = ("error", "warning", "hint")
ROOMS = ("yaml", "mindocr", "paddledet", "paddleocr", "coco", "labels", "log")
CLASSES = ("correctness", "measurement", "performance")

_MODULES = (
    "reading",
    "yaml.repair",
    "yaml.reindent",
    "yaml.bases",
    "configs.common",
    "configs.paths",
    "configs.overlays",
    "configs.mindocr_faults",
    "configs.mindocr_keys",
    "configs.mindocr_pipeline",
    "configs.mindocr_speed",
    "configs.mindocr_values",
    "configs.paddledet_faults",
    "configs.paddledet_data",
    "configs.paddledet_keys",
    "configs.paddledet_speed",
    "configs.paddleocr",
    "configs.commands",
    "coco.faults",
    "labels.faults",
    "logs.faults",
)


@dataclass(frozen=True)
class Rule:
    """One thing the doctor can find.

    Attributes:
        id: the stable name, used in reports and in `# detperf: ignore ID`.
        severity: "error" (the run dies or trains on something else than meant), "warning" (very likely not
            what was meant), "hint" (worth knowing).
        kind: "correctness", "measurement" or "performance".
        message: one line saying what is wrong, without the particulars.
        why: what happens if nothing is done.
        fix: what to do.
        source: the public report, or the host's own source, that established it.
        weight: below 0 for what to read first among its equals, above 0 for what to read last.
        room: what the rule looks at: "yaml", "mindocr", "paddledet", "paddleocr", "coco", "labels", "log".
    """

    id: str
    severity: str
    kind: str
    message: str
    why: str
    fix: str
    source: str
    room: str
    weight: int = 0


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    severity: str,
    kind: str,
    message: str,
    *,
    why: str,
    fix: str,
    source: str,
    room: str,
    weight: int = 0,
) -> Rule:
    """Declare a rule; a second one of the same id, or an unknown word, is a ValueError."""
    known = severity in SEVERITIES and kind in CLASSES and room in ROOMS
    if id in _RULES or not known:
        raise ValueError(f"rule {id!r}: declared twice, or {severity!r}, {kind!r} or {room!r} is unknown")
    if source and "/" in source and not source.startswith("http"):
        source = f"https://github.com/{source}"
    made = _RULES[id] = Rule(id, severity, kind, message, why, fix, source, room, weight)
    return made


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by what it looks at and its id."""
    for module in _MODULES:
        import_module(f"detperf_plugins.doctor.{module}")
    return tuple(sorted(_RULES.values(), key=lambda rule: (ROOMS.index(rule.room), rule.id)))
