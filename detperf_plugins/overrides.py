"""`-o key.sub=value` words as a nested mapping: PaddleDetection's rules, used for both hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detperf_plugins.errors import UnreadableInput

__all__ = ["parse_overrides"]


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """`key.sub=value` words as a nested dict, values read as YAML: PaddleDetection's own `-o` rules,
    except that several keys below one section add up instead of the last one winning. The value may
    itself contain `=`, and keys may be new.

    Raises:
        UnreadableInput: a word has no `=`.
    """
    import yaml

    merged: dict[str, Any] = {}
    for word in overrides:
        key, equals, value = word.strip().partition("=")
        if not equals or not key:
            raise UnreadableInput(f"-o {word!r} is not of the form key=value")
        *sections, last = key.split(".")
        target = merged
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise UnreadableInput(f"-o {word!r}: {section} was given a value of its own before")
        try:
            target[last] = yaml.load(value, Loader=yaml.Loader)
        except yaml.YAMLError as error:
            raise UnreadableInput(f"-o {word!r}: the value is no YAML: {error}") from error
    return merged
