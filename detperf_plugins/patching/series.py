"""The series of patches for a host, read from its `series.yml`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Optional

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from detperf_plugins import patches_dir
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.patching.mail import Mail, read_mail

__all__ = ["Patch", "Series", "Stack", "read_all", "read_series"]


class Patch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry of `patches`; patches/README.md explains the fields."""

    file: str
    title: str
    purpose: str
    tests: str
    measured: str
    depends: list[str] = []
    versions: Optional[list[str]] = None

    @property
    def number(self) -> str:
        """What stands before the first hyphen of the file's name; patches are called by it."""
        return self.file.split("-", 1)[0]


class Version(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A version of the host that a stack of patches is written for."""

    commit: str
    about: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    package: str
    distribution: str
    repository: str
    versions: dict[str, Version]
    patches: list[Patch] = []


class Stack:
    """The patches of one version, bottom first."""

    def __init__(self, series: Series, name: str) -> None:
        self.series, self.name = series, name
        self.commit, self.about = series.versions[name].commit, series.versions[name].about
        self.patches = [p for p in series.patches if p.versions is None or name in p.versions]
        self.numbers = [patch.number for patch in self.patches]

    def __getitem__(self, number: str) -> Patch:
        return self.patches[self.numbers.index(number)]

    @cached_property
    def mails(self) -> dict[str, Mail]:
        """The patch files, by number."""
        folder = self.series.folder / self.name
        return {patch.number: read_mail(folder / patch.file) for patch in self.patches}

    def find(self, names: list[str]) -> list[str]:
        """Numbers of the patches called by number, file name or unique part of it; all for an empty list.

        Raises:
            UnreadableInput: no patch, or more than one, is called so.
        """
        numbers = []
        for name in names:
            hits = [p.number for p in self.patches if name in (p.number, p.file, p.file[: -len(".patch")])]
            hits = hits or [p.number for p in self.patches if name in p.file]
            if len(hits) != 1:
                why = f"{len(hits)} patches of {self} are" if hits else f"no patch of {self} is"
                files = ", ".join(patch.file for patch in self.patches)
                raise UnreadableInput(f"{why} called {name!r}; there are: {files}")
            numbers += hits
        return [number for number in self.numbers if not names or number in numbers]

    def with_dependencies(self, numbers: list[str]) -> list[str]:
        """`numbers` and all that they need and this version has, in the order of the stack."""
        wanted = set(numbers)
        for patch in reversed(self.patches):
            if patch.number in wanted:
                wanted.update(patch.depends)
        return [number for number in self.numbers if number in wanted]

    def with_dependents(self, numbers: list[str]) -> list[str]:
        """`numbers` and all that need one of them, in the order of the stack."""
        wanted = set(numbers)
        for patch in self.patches:
            if wanted.intersection(patch.depends):
                wanted.add(patch.number)
        return [number for number in self.numbers if number in wanted]

    def __str__(self) -> str:
        return f"{self.series.host} {self.name}"


class Series:
    """All patches for one host. `key` is the folder's name, which the command's --host takes.

    Raises:
        UnreadableInput: the folder holds no usable series.yml.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "series.yml"
        try:
            raw: Any = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
            content = msgspec.convert(raw, _File)
        except (OSError, YAMLError, msgspec.ValidationError) as error:
            raise UnreadableInput(f"{path} is no series of patches: {error}") from error
        self.folder, self.key = folder, folder.name
        self.host, self.package = content.host, content.package
        self.distribution, self.repository = content.distribution, content.repository
        self.versions, self.patches = content.versions, content.patches
        self._check(path)
        self.stacks = {name: Stack(self, name) for name in self.versions}

    def _check(self, path: Path) -> None:
        """Numbers differ, dependencies stand before what needs them, and versions are listed."""
        seen: set[str] = set()
        for patch in self.patches:
            missing = sorted(set(patch.depends) - seen)
            unknown = sorted(set(patch.versions or ()) - set(self.versions))
            fault = (
                f"needs {', '.join(missing)}, which is not before it" if missing
                else "has a number that is taken" if patch.number in seen
                else f"is for {', '.join(unknown)}, which is not listed" if unknown
                else ""
            )  # fmt: skip
            if fault:
                raise UnreadableInput(f"{path}: {patch.file} {fault}")
            seen.add(patch.number)

    def stack(self, name: str) -> Stack:
        """The stack of a version, by its name.

        Raises:
            UnreadableInput: there is none of that name.
        """
        if name not in self.stacks:
            raise UnreadableInput(f"{self.host} has no series {name!r}; there are: {', '.join(self.stacks)}")
        return self.stacks[name]


def read_series(key: str, root: Path | None = None) -> Series:
    """The series of the host called `key`.

    Raises:
        UnreadableInput: there is none, or its file is not what patches/README.md describes.
    """
    root = root or patches_dir()
    known = sorted(path.parent.name for path in root.glob("*/series.yml"))
    if key not in known:
        raise UnreadableInput(f"there are no patches for a host {key!r}; there are: {', '.join(known)}")
    return Series(root / key)


def read_all(root: Path | None = None) -> list[Series]:
    """Every series that is shipped."""
    root = root or patches_dir()
    return [Series(path.parent) for path in sorted(root.glob("*/series.yml"))]
