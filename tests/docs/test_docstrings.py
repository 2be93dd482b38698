"""Public functions say what they take and raise: arrays with their shapes, errors by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "detperf_plugins"
# The command turns every error into a sentence and an exit status.
MODULES = sorted(path for path in ROOT.rglob("*.py") if "cli" not in path.relative_to(ROOT).parts)
ARRAYS = ("ndarray", "Tensor")
SHAPE = re.compile(r"\[[^\]]*\]|\([A-Z], ")


def public(tree):
    """Functions that `__all__` names, and public methods of the classes that it names."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = set(ast.literal_eval(node.value))
    for node in tree.body:
        if getattr(node, "name", "") not in names:
            continue
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef):
            whole = ast.get_docstring(node) or ""
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and (
                    part.name in ("__init__", "__call__") or part.name[0] != "_"
                ):
                    yield f"{node.name}.{part.name}", part, whole + (ast.get_docstring(part) or "")


def raised(function):
    """Names of the exceptions that a function's own code raises, and does not catch itself."""
    caught = {
        name.id
        for handler in ast.walk(function)
        if isinstance(handler, ast.ExceptHandler) and handler.type is not None
        for name in ast.walk(handler.type)
        if isinstance(name, ast.Name)
    }
    for node in ast.walk(function):
        error = getattr(getattr(node.exc, "func", None), "id", None) if isinstance(node, ast.Raise) else None
        if error is not None and error not in caught | {"SystemExit"}:
            yield error


def missing(source):
    for name, function, text in public(ast.parse(source)):
        for error in sorted(set(raised(function))):
            if error not in text:
                yield f"{name} does not say that it raises {error}"
        types = [argument.annotation for argument in [*function.args.args, *function.args.kwonlyargs]]
        told = " ".join(ast.unparse(one) for one in [*types, function.returns] if one is not None)
        if any(word in told for word in ARRAYS) and not SHAPE.search(text):
            yield f"{name} takes or gives arrays and tells no shape"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_shapes_and_errors_are_told(path):
    assert list(missing(path.read_text(encoding="utf-8"))) == []


def test_the_check_finds_what_is_missing():
    source = '''
__all__ = ["f", "C"]
def f(a: np.ndarray):
    """Nothing said."""
    raise ValueError("no")
class C:
    """A class."""
    def g(self) -> paddle.Tensor:
        """float32 [N]."""
    def _h(self, a: np.ndarray):
        raise TypeError("private")
'''
    assert list(missing(source)) == [
        "f does not say that it raises ValueError",
        "f takes or gives arrays and tells no shape",
    ]
