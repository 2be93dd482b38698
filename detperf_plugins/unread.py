"""Keys of a config, and of `-o`, that nothing reads: both hosts swallow them without a word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

__all__ = ["unread_keys", "unread_overrides", "warn_of_unread_keys", "warn_of_unread_overrides"]

RULES = ("mindocr-unknown-key", "mindocr-transform-argument", "mindocr-key-wrong-parent")
# How like a known key of its own a plain one must be to count as a slip: PaddleDetection reads many that no
# config of it has.
NEAR = 0.86
# Read by PaddleDetection's code, and in no config of it.
CODE_KEYS = ("amp", "amp_level", "classwise", "find_unused_parameters", "norm_type", "use_ema")


def unread_overrides(overrides: Sequence[str], known: Collection[str]) -> list[str]:
    """One sentence for each `-o` word of PaddleDetection's whose first key has no reader.

    Args:
        overrides: `key.sub=value` words.
        known: the keys of the merged config, registered classes among them.
    """
    from detperf_plugins.doctor.configs.config import PADDLEDET_PLAIN
    from detperf_plugins.doctor.configs.names import nearest, paddledet

    everything = {*known, *CODE_KEYS, *PADDLEDET_PLAIN, *paddledet()["stock_keys"]}
    sentences = []
    for word in overrides:
        path = word.partition("=")[0].strip()
        key, dot, _ = path.partition(".")
        near = nearest(key, everything, NEAR)
        if key not in everything and (dot or near):
            sentences.append(
                f"-o {path}: nothing reads `{key}`" + (f". Did you mean `{near}`?" if near else "")
            )
    return sentences


def warn_of_unread_overrides(overrides: Sequence[str], known: Collection[str]) -> None:
    """Print what `unread_overrides` finds, on the first card only."""
    import os
    import sys

    if os.environ.get("PADDLE_TRAINER_ID", "0") in {"", "0"}:
        for sentence in unread_overrides(overrides, known):
            print(f"detperf: {sentence}", file=sys.stderr)


def unread_keys(path: Path, overrides: Sequence[str] = ()) -> list[str]:
    """One sentence for each key in MindOCR's merged config at `path` that has no consumer.

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
