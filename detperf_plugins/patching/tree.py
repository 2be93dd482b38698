"""The folder that the user names: which host it holds, a checkout or an installed package, which version."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.patching.mail import Change
from detperf_plugins.patching.series import Series, Stack
from detperf_plugins.patching.workbench import Content

__all__ = ["Choice", "Reader", "Tree", "blob_name", "choose_stack", "find_tree"]

# Content of a file by its path below the tree's root, None where there is no such file.
Reader = Callable[[str], Optional[Content]]


@dataclass(frozen=True)
class Tree:
    """A host's files. `root` is the folder that holds the package folder."""

    root: Path
    series: Series
    installed: bool

    def read(self, path: str) -> Content | None:
        """The file as it is, None where there is none; symbolic links are followed.

        Raises:
            UnreadableInput: it is there and cannot be read.
        """
        place = self.root / path
        try:
            return Content(place.read_bytes(), bool(place.stat().st_mode & 0o100))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnreadableInput(f"{place} cannot be read: {error.strerror or error}") from error

    def split(self, changes: tuple[Change, ...], read: Reader) -> tuple[list[Change], list[str]]:
        """Changes that concern this tree, and the paths of those that do not.

        An installed package has no files outside its folder (tests, tools, configs), and of those inside it
        some that are no Python may not have been packed.
        """
        if not self.installed:
            return list(changes), []
        kept, left_out = [], []
        for change in changes:
            inside = change.path.startswith(self.series.package + "/")
            packed = change.path.endswith(".py") or change.old is None or read(change.path) is not None
            if inside and packed:
                kept.append(change)
            else:
                left_out.append(change.path)
        return kept, left_out

    def __str__(self) -> str:
        kind = "installed package" if self.installed else "checkout"
        return f"{self.series.host} {kind} in {self.root}"


def find_tree(folder: Path, all_series: list[Series], host: str | None = None) -> Tree:
    """The tree at `folder`: a checkout, a site-packages folder, or the package's own folder.

    Args:
        host: key of the series to use, where the folder holds more than one host.

    Raises:
        UnreadableInput: the folder holds no host that there are patches for, or several.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise UnreadableInput(f"there is no folder {folder}")
    candidates = [series for series in all_series if host in (None, series.key)]
    if not candidates:
        raise UnreadableInput(f"--host {host} is unknown; there are: {', '.join(s.key for s in all_series)}")
    found = []
    for series in candidates:
        if (folder / series.package / "__init__.py").is_file():
            found.append(Tree(folder, series, _is_installed(folder)))
        elif folder.name == series.package and (folder / "__init__.py").is_file():
            found.append(Tree(folder.parent, series, _is_installed(folder.parent)))
    if len(found) > 1:
        keys = " or ".join(tree.series.key for tree in found)
        raise UnreadableInput(f"{folder} holds more than one host: add --host {keys}")
    if not found:
        packages = " or ".join(series.package for series in candidates)
        raise UnreadableInput(
            f"{folder} holds no package {packages}: name a checkout, a site-packages folder, "
            "or the package's own folder"
        )
    return found[0]


def _is_installed(root: Path) -> bool:
    if root.name in ("site-packages", "dist-packages"):
        return True
    return not any((root / name).exists() for name in (".git", "setup.py", "pyproject.toml"))


@dataclass(frozen=True)
class Choice:
    """A stack for a tree: `matched` of its `total` touched files are as the stack expects them."""

    stack: Stack
    matched: int
    total: int
    asked: bool

    def __str__(self) -> str:
        why = "as asked" if self.asked else f"{self.matched} of {self.total} files are as it expects"
        return f"series {self.stack.name} ({why})"


def choose_stack(tree: Tree, read: Reader, name: str | None = None) -> Choice:
    """The stack written for what the tree holds, or the one called `name`.

    A file counts for a stack if it is one of the files that the stack's patches start from or leave behind.
    Stacks that match alike are told apart by the installed version, or by the commit in a git checkout.

    Raises:
        UnreadableInput: there is no stack of that name, or nothing in the tree matches any.
    """
    series = tree.series
    if name is not None:
        series.stack(name)
    choices = []
    for stack in series.stacks.values():
        if name in (None, stack.name):
            choices.append(Choice(stack, *_match(tree, stack, read), asked=name is not None))
    best = max(choice.matched / max(1, choice.total) for choice in choices)
    equal = [choice for choice in choices if choice.matched / max(1, choice.total) == best]
    if best == 0 and name is None:
        equal = [choice for choice in equal if _is_version(tree, choice.stack)]
        if not equal:
            raise UnreadableInput(
                f"no file of {tree.root} is as one of the series for {series.host} expects it; "
                f"name one with --series: {', '.join(series.versions)}"
            )
    return next((choice for choice in equal if _is_version(tree, choice.stack)), equal[0])


def _match(tree: Tree, stack: Stack, read: Reader) -> tuple[int, int]:
    expected: dict[str, set[str]] = {}
    for mail in stack.mails.values():
        kept, _ = tree.split(mail.changes, read)
        for change in kept:
            # A file that the stack creates says nothing about the version beneath.
            if change.old is not None or change.path in expected:
                names = expected.setdefault(change.path, set())
                names.update(blob for blob in (change.old, change.new) if blob)
    matched = 0
    for path, blobs in expected.items():
        content = read(path)
        if content is not None and any(blob_name(content.data).startswith(blob) for blob in blobs):
            matched += 1
    return matched, len(expected)


def blob_name(data: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _is_version(tree: Tree, stack: Stack) -> bool:
    if tree.installed:
        distribution = tree.series.distribution
        return any(tree.root.glob(f"{distribution}-{stack.name}.dist-info"))
    if not (tree.root / ".git").exists():
        return False
    try:
        command = ["git", "-C", str(tree.root), "merge-base", "--is-ancestor", stack.commit, "HEAD"]
        return not subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    except OSError:
        return False
