"""All checks of one config: read it with its bases, apply overrides, tell the host, run the host's checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from detperf_plugins.doctor.configs import (
    common,
    mindocr_faults,
    mindocr_keys,
    mindocr_pipeline,
    mindocr_speed,
    mindocr_values,
    overlays,
    paddledet_data,
    paddledet_faults,
    paddledet_keys,
    paddledet_speed,
    paddleocr,
    paths,
)
from detperf_plugins.doctor.configs.config import Config, host_of
from detperf_plugins.doctor.configs.overrides import apply_overrides
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.yaml.bases import Chain, load_chain

__all__ = ["check_config", "load_config", "run_checks"]

_CHECKS = {
    "mindocr": (mindocr_faults, mindocr_values, mindocr_keys, mindocr_pipeline, mindocr_speed),
    "paddledet": (paddledet_faults, paddledet_data, paddledet_keys, paddledet_speed),
    "paddleocr": (paddleocr,),
    "": (),
}
_IGNORE = re.compile(r"#\s*detperf:\s*ignore\b[ \t]*([\w\-, ]*)")


def load_config(
    text: str,
    file: str,
    path: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    cards: int | None = None,
) -> Config:
    """Read a config, its bases and the `-o` overrides over them, without checking it."""
    chain = load_chain(text, file, path)
    if overrides:
        chain.root = apply_overrides(chain.root, overrides)
    return Config(chain, host_of(chain.root), path, cards)


def run_checks(config: Config) -> list[Finding]:
    """Everything found in a loaded config, without what a comment asks to ignore."""
    common.check(config)
    paths.check(config)
    overlays.check(config)
    for module in _CHECKS[config.host]:
        module.check(config)
    return [f for f in [*config.chain.findings, *config.findings] if not _ignored(f, config.chain)]


def check_config(
    text: str,
    file: str,
    path: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    cards: int | None = None,
) -> tuple[Config, list[Finding]]:
    """`load_config` and `run_checks` in one."""
    config = load_config(text, file, path, overrides, cards)
    return config, run_checks(config)


def _ignored(finding: Finding, chain: Chain) -> bool:
    """Whether `# detperf: ignore [RULE, ...]` stands on the line, on the comment lines above it, or on the
    file's first line, where it counts for the whole file."""
    lines = chain.texts.get(finding.file, "").split("\n")
    candidates = [lines[0]] if lines and lines[0].lstrip().startswith("#") else []
    if finding.line and finding.line <= len(lines):
        candidates.append(lines[finding.line - 1])
        above = finding.line - 2
        while above >= 0 and lines[above].lstrip().startswith("#"):
            candidates.append(lines[above])
            above -= 1
    for line in candidates:
        match = _IGNORE.search(line)
        if match:
            names = set(re.findall(r"[\w\-]+", match.group(1)))
            if not names or finding.rule.id in names:
                return True
    return False
