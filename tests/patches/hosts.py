"""What the tests of both hosts do with a real series, on a copy of the package and on a checkout."""

from __future__ import annotations

import py_compile
import shutil
import subprocess
from pathlib import Path

from detperf_plugins.patching.engine import open_job, revert_all
from detperf_plugins.patching.series import read_all
from detperf_plugins.patching.store import Store
from detperf_plugins.patching.tree import choose_stack, find_tree
from detperf_plugins.patching.workbench import Workbench
from tests.patches.support import picture

__all__ = ["alone", "apply_and_revert", "copy_of", "through_git_am"]

IDENTITY = ["-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "core.autocrlf=false"]


def copy_of(package: Path, folder: Path) -> Path:
    """The package's files in `folder/site-packages`."""
    root = folder / "site-packages"
    shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def apply_and_revert(root: Path, series: str | None = None) -> str:
    """The whole series goes in, is valid Python, is found again, and comes out to the byte; its name."""
    before = picture(root)
    with open_job(root, series=series) as job:
        name = job.stack.name
        rows = job.check([])
        assert {row.state for row in rows} <= {"applies", "outside"}, [
            (row.patch.file, row.state, list(map(str, row.conflicts))) for row in rows
        ]
        assert job.choice.matched == job.choice.total
    assert picture(root) == before
    with open_job(root, series=series) as job:
        applied = [row.patch.number for row in job.apply([]) if row.state == "applies"]
        assert applied
        for path in job.store.paths:
            if path.endswith(".py"):
                py_compile.compile(str(root / path), cfile=str(root.parent / "compiled.pyc"), doraise=True)
    with open_job(root) as job:
        assert all(row.state in ("in", "outside") for row in job.check([]))
    assert [entry.number for entry in revert_all(root)[1]] == applied
    assert picture(root) == before
    return name


def alone(root: Path) -> list[str]:
    """Patches that do not apply with just the patches that they say they need, and why."""
    tree = find_tree(root, read_all())
    stack = choose_stack(tree, tree.read).stack
    faults = []
    with Workbench() as bench:
        changes = {number: tree.split(stack.mails[number].changes, tree.read)[0] for number in stack.numbers}
        paths = {change.path for part in changes.values() for change in part}
        for number in stack.numbers:
            for path in paths:
                bench.put(path, tree.read(path))
            for needed in stack.with_dependencies([number]):
                faults += [f"{stack[number].file}: {fault}" for fault in bench.apply(changes[needed])]
    return faults


def through_git_am(checkout: Path, folder: Path) -> None:
    """`git am` of the series that fits a checkout, in a repository of the files that it touches; then the
    tool finds every patch in."""
    tree = find_tree(checkout, read_all())
    stack = choose_stack(tree, tree.read).stack
    root = folder / "checkout"
    mails = [mail.path for mail in stack.mails.values()]
    (root / tree.series.package).mkdir(parents=True)
    (root / tree.series.package / "__init__.py").touch()
    (root / "setup.py").touch()
    for path in {change.path for mail in stack.mails.values() for change in mail.changes}:
        content = tree.read(path)
        if content is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content.data)
            (root / path).chmod(0o755 if content.executable else 0o644)
    for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "base"], ["am", "-q", *mails]):
        done = subprocess.run(
            ["git", *IDENTITY, *map(str, words)],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
    with open_job(root, series=stack.name) as job:
        assert {row.state for row in job.check([])} == {"in"}
        assert job.apply([]) and not job.store.applied
    with Store(root, tree.series.package) as store:
        assert not store.applied
