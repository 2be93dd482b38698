"""Plain YAML scalars as PyYAML (YAML 1.1) reads them, which is what both hosts use.

The resolver matters to a user: `1e-4` is text there (no dot), `on` is true, `1:30` is ninety. Source: the
YAML 1.1 type repository (yaml.org/type) and PyYAML's documented implicit resolvers.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["looks_like_number", "resolve"]

_TRUE = {"yes", "true", "on"}
_FALSE = {"no", "false", "off"}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+)$")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
)
_NUMBER_AS_TEXT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$")


def _sexagesimal(text: str) -> float:
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


def resolve(text: str, plain: bool = True) -> Any:
    """The Python value of a scalar: None, bool, int, float or the text itself (always, if not `plain`)."""
    if not plain:
        return text
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    lower = text.lower()
    if text in {lower, lower.upper(), lower.capitalize()}:
        if lower in _TRUE:
            return True
        if lower in _FALSE:
            return False
    try:
        if _INT.match(text):
            return _integer(text.replace("_", ""))
        if _FLOAT.match(text):
            return _float(text.replace("_", "").lower())
    except (ValueError, OverflowError):
        return text
    return text


def _integer(text: str) -> int | float:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if ":" in digits:
        return sign * int(_sexagesimal(digits))
    if digits.startswith(("0b", "0x")):
        return sign * int(digits, 0)
    if len(digits) > 300:
        return sign * float("inf")
    return sign * int(digits, 8 if digits.startswith("0") and digits != "0" else 10)


def _float(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    digits = text.lstrip("+-")
    if digits in (".inf", ".nan"):
        return sign * float(digits[1:])
    return sign * (_sexagesimal(digits) if ":" in digits else float(digits))


def looks_like_number(text: str) -> bool:
    """Whether a scalar that `resolve` leaves as text was meant as a number, as `1e-4` or `5E3` is."""
    return bool(_NUMBER_AS_TEXT.match(text)) and isinstance(resolve(text), str)
