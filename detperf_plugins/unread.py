"""Keys of a MindOCR config that nothing reads: MindOCR itself swallows them without a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["unread_keys", "warn_of_unread_keys"]

RULES = ("mindocr-unknown-key", "mindocr-transform-argument", "mindocr-key-wrong-parent")


def unread_keys(path: Path, overrides: Sequence[str] = ()) -> list[str]:
    """One sentence for each key in the merged config at `path` that has no consumer.

    Args:
        path: the config; its `_BASE_` chain counts.
        overrides: `key.sub=value` words merged over it.
    """
    from detperf_plugins.doctor.configs import mindocr_keys
    from detperf_plugins.doctor.configs.check import load_config
    from detperf_plugins.doctor.configs.overrides import parse_override

    words = [parse_override(word) for word in overrides]
    given = dict(word for word in words if word is not None)
    config = load_config(path.read_text(encoding="utf-8"), str(path), path, given)
    mindocr_keys.check(config)
    sentences = []
    for finding in config.findings:
        if finding.rule.id in RULES:
            place = f"{finding.file}:{finding.line}" if finding.line else finding.file
            sentences.append(f"{place}: {finding.message}" + (f". {finding.fix}" if finding.fix else ""))
    return sentences


def warn_of_unread_keys(path: Path, overrides: Sequence[str] = ()) -> None:
    """Print what `unread_keys` finds, on the first card only."""
    import os
    import sys

    if os.environ.get("RANK_ID", "0") in {"", "0"}:
        for sentence in unread_keys(path, overrides):
            print(f"detperf: {sentence}", file=sys.stderr)
