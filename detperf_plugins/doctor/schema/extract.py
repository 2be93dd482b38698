"""Read from a checkout of a host which names its configs may use.

The doctor imports no host. What it knows of class names and parameters lies in `paddledet.json` and
`mindocr.json` beside this file; they are made from the host's syntax trees alone (nothing of the host runs):

    python -m detperf_plugins.doctor.schema.extract paddledet CHECKOUT OUT.json
    python -m detperf_plugins.doctor.schema.extract mindocr   CHECKOUT OUT.json
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["extract"]

_MINDOCR_ROOMS = {
    "transforms": "mindocr/data/transforms",
    "datasets": "mindocr/data",
    "backbones": "mindocr/models/backbones",
    "necks": "mindocr/models/necks",
    "heads": "mindocr/models/heads",
    "losses": "mindocr/losses",
    "postprocess": "mindocr/postprocess",
    "metrics": "mindocr/metrics",
}
_MINDOCR_FUNCTIONS = {
    "create_scheduler": "mindocr/scheduler/scheduler_factory.py",
    "create_optimizer": "mindocr/optim/optim_factory.py",
}


def _decorators(node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    names = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names


def _signature(function: ast.FunctionDef, skip_self: bool) -> tuple[list[str], list[str], bool]:
    """Parameter names, those without a default, and whether `**kwargs` takes the rest."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    required = names[: len(names) - len(function.args.defaults)]
    names += [a.arg for a in function.args.kwonlyargs]
    if skip_self:
        names, required = names[1:], required[1:]
    return names, required, function.args.kwarg is not None


def _string_list(node: ast.ClassDef, name: str) -> list[str]:
    for item in node.body:
        if isinstance(item, ast.Assign) and any(getattr(t, "id", "") == name for t in item.targets):
            return [str(e.value) for e in getattr(item.value, "elts", []) if isinstance(e, ast.Constant)]
    return []


def _classes(folder: Path) -> dict[str, tuple[ast.ClassDef, str]]:
    found: dict[str, tuple[ast.ClassDef, str]] = {}
    for path in sorted(folder.rglob("*.py") if folder.is_dir() else [folder]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            earlier = found.get(node.name)
            if earlier is None or not _decorators(earlier[0]):  # a registered class beats a namesake
                found[node.name] = (node, path.as_posix())
    return found


def _init(name: str, classes: dict[str, tuple[ast.ClassDef, str]], depth: int = 0) -> ast.FunctionDef | None:
    """The `__init__` that a class has or inherits from a class of the same checkout."""
    if name not in classes or depth > 8:
        return None
    node = classes[name][0]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return item
    for base in node.bases:
        base_name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        inherited = _init(base_name, classes, depth + 1)
        if inherited is not None:
            return inherited
    return None


def _describe(name: str, classes: dict[str, tuple[ast.ClassDef, str]]) -> dict[str, Any]:
    init = _init(name, classes)
    if init is None:
        return {"params": [], "open": bool(classes[name][0].bases)}
    params, _, open_ended = _signature(init, skip_self=True)
    described: dict[str, Any] = {"params": params, "open": open_ended}
    read = _read_from_kwargs(init)
    if read:
        described["kwargs_keys"] = read
    return described


def _stock_keys(root: Path) -> list[str]:
    """The top-level keys that the host's own configs set."""
    found = set()
    for path in (root / "configs").rglob("*.y*ml"):
        found |= set(re.findall(r"^([A-Za-z_]\w*):", path.read_text(encoding="utf-8"), re.MULTILINE))
    return sorted(found)


def _read_from_kwargs(init: ast.FunctionDef) -> list[str]:
    """The keys that a constructor takes out of its `**kwargs` by name."""
    found = set()
    for node in ast.walk(init):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "kwargs":
            found.add(getattr(node.slice, "value", ""))
        if (
            isinstance(node, ast.Call)
            and node.args
            and ast.unparse(node.func) in ("kwargs.get", "kwargs.pop")
        ):
            found.add(getattr(node.args[0], "value", ""))
    return sorted(key for key in found if isinstance(key, str) and key)


def _stock_roots(root: Path) -> list[str]:
    """The data folders that the host's own configs name: nobody has them before downloading the data."""
    found = set()
    for path in (root / "configs").rglob("*.y*ml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*(?:dataset_dir|dataset_root):\s*['\"]?([^'\"#\s]+)", line)
            if match and match.group(1)[0] not in "&*":
                found.add(match.group(1).rstrip("/"))
    return sorted(found)


def _paddledet(root: Path) -> dict[str, Any]:
    classes = _classes(root / "ppdet")
    modules: dict[str, Any] = {}
    transforms: dict[str, Any] = {}
    for name, (node, path) in classes.items():
        marks = _decorators(node)
        if "/data/transform/" in path:
            transforms[name] = _describe(name, classes)
        elif marks & {"register", "serializable"}:
            modules[name] = {
                **_describe(name, classes),
                "inject": _string_list(node, "__inject__"),
                "shared": _string_list(node, "__shared__"),
            }
    return {
        "modules": modules,
        "transforms": transforms,
        "stock_roots": _stock_roots(root),
        "stock_keys": _stock_keys(root),
        "classes": sorted(classes),
    }


def _mindocr(root: Path) -> dict[str, Any]:
    result: dict[str, Any] = {"stock_roots": _stock_roots(root)}
    every = _classes(root / "mindocr")
    for room, folder in _MINDOCR_ROOMS.items():
        table = {}
        for name, (_node, path) in _classes(root / folder).items():
            if room == "datasets" and "/transforms/" in path:
                continue
            table[name] = _describe(name, every)
        if room in ("backbones", "transforms"):
            for path_ in sorted((root / folder).rglob("*.py")):
                for node in ast.parse(path_.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.FunctionDef) and "register_backbone" in _decorators(node):
                        params, _, open_ended = _signature(node, skip_self=False)
                        table[node.name] = {"params": params, "open": open_ended}
        result[room] = table
    for function, file in _MINDOCR_FUNCTIONS.items():
        for node in ast.parse((root / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                params, _, open_ended = _signature(node, skip_self=False)
                result[function] = {"params": params, "open": open_ended}
    return result


def extract(host: str, checkout: Path) -> dict[str, Any]:
    """The name tables of `host` ("paddledet" or "mindocr") as they stand in `checkout`.

    Raises:
        KeyError: no such host.
        OSError, SyntaxError: the checkout lacks a file or holds one that is not Python.
    """
    return {"paddledet": _paddledet, "mindocr": _mindocr}[host](checkout)


if __name__ == "__main__":
    tables = extract(sys.argv[1], Path(sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(tables, indent=0, sort_keys=True) + "\n", encoding="utf-8")
