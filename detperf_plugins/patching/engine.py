"""Which patches a tree needs, and putting them in and taking them out: all that are asked for, or none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching.mail import Change
from detperf_plugins.patching.series import Patch, Stack, read_all
from detperf_plugins.patching.store import Applied, Store
from detperf_plugins.patching.tree import Choice, Tree, blob_name, choose_stack, find_tree
from detperf_plugins.patching.workbench import Conflict, Content, Workbench

__all__ = ["Job", "Row", "open_job", "revert_all"]

# States of a patch in a tree.
APPLIES, IN, CONFLICTS, OUTSIDE = "applies", "in", "conflicts", "outside"


@dataclass
class Row:
    """What became of one patch. `state` is `applies`, `in` (the tree has it), `conflicts`, or `outside` (all
    of its files are left out, since an installed package does not hold them)."""

    patch: Patch
    state: str
    ours: bool = False  # put in by `detperf patch apply`
    conflicts: list[Conflict] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@contextmanager
def open_job(folder: Path, host: str | None = None, series: str | None = None) -> Iterator[Job]:
    """The tree at `folder` with its lock held, and the stack that fits it.

    Args:
        folder: a checkout, a site-packages folder, or the package's own folder.
        host: key of a host, where the folder holds more than one.
        series: name of a stack; without one, the one whose files the tree has.

    Raises:
        DetperfError: there is no host, no fitting stack, no git, or the tree is being patched already.
    """
    tree = find_tree(folder, read_all(), host)
    with Store(tree.root, tree.series.package) as store, Workbench() as bench:
        yield Job(tree, store, bench, series)


def revert_all(folder: Path, host: str | None = None) -> tuple[Tree, list[Applied], bool]:
    """Take out every patch that `Job.apply` put into the tree; this needs neither git nor a series.

    Returns:
        The tree, the patches taken out, and whether a killed command's work was put right first.

    Raises:
        DetperfError: as `open_job` and `Job.revert`.
    """
    tree = find_tree(folder, read_all(), host)
    with Store(tree.root, tree.series.package) as store:
        store.refuse_if_changed()
        gone = store.applied
        if gone:
            store.change(store.version or "", [], {})
        return tree, gone, store.healed


class Job:
    """One command's work on one tree.

    Raises:
        DetperfError: another series than `series` is applied in the tree.
    """

    def __init__(self, tree: Tree, store: Store, bench: Workbench, series: str | None) -> None:
        self.tree, self.store, self._bench = tree, store, bench
        if store.version is not None and series not in (None, store.version):
            raise DetperfError(
                f"series {store.version} is applied in {tree.root}: `detperf patch revert` it before {series}"
            )
        self.choice: Choice = choose_stack(tree, self._base, series or store.version)
        self.stack: Stack = self.choice.stack
        self._changes: dict[str, list[Change]] = {}
        self._left_out: dict[str, list[str]] = {}
        for number, mail in self.stack.mails.items():
            self._changes[number], self._left_out[number] = tree.split(mail.changes, self._base)
        self._ours = [entry.number for entry in store.applied]

    def _base(self, path: str) -> Content | None:
        """A file without the patches that this tool put in."""
        try:
            return self.store.original(path)
        except KeyError:
            return self.tree.read(path)

    def _fill(self) -> None:
        for path in {change.path for changes in self._changes.values() for change in changes}:
            self._bench.put(path, self._base(path))

    def _foreign(self) -> list[str]:
        """Patches that the tree seems to have from elsewhere, bottom first.

        Where every file is just as the lowest patches leave it, it is those. Else it is what can be taken
        out, from the top down.
        """
        below = self._below()
        if below is not None:
            return below
        self._fill()
        found = []
        for number in reversed(self.stack.numbers):
            changes = self._changes[number]
            if not changes or self._bench.apply(changes, reverse=True, keep=False):
                continue
            if self._starts(changes) and not self._bench.apply(changes, keep=False):
                continue  # it can be put in, and a file is just what it starts from
            self._bench.apply(changes, reverse=True)
            found.append(number)
        return found[::-1]

    def _below(self) -> list[str] | None:
        """The lowest patches that leave every file just as the tree has it: perhaps []; None without such."""
        blobs: dict[str, str | None] = {}
        for number in reversed(self.stack.numbers):
            blobs.update({change.path: change.old for change in self._changes[number]})
        have = {path: self._base(path) for path in blobs}
        names = {path: blob_name(content.data) if content else None for path, content in have.items()}
        fits = [_equal(names, blobs)]
        for number in self.stack.numbers:
            blobs.update({change.path: change.new for change in self._changes[number]})
            fits.append(_equal(names, blobs))
        if fits[0]:
            return []
        last = max((count for count, fit in enumerate(fits) if fit), default=0)
        return [number for number in self.stack.numbers[:last] if self._changes[number]] if last else None

    def _starts(self, changes: list[Change]) -> bool:
        """Whether a file on the bench is, to the byte, what a change starts from."""
        contents = ((self._bench.get(change.path), change.old) for change in changes)
        return any(old and content and blob_name(content.data).startswith(old) for content, old in contents)

    def _stack_up(self, wanted: list[str], ours: list[str]) -> dict[str, Row]:
        """Leave on the bench the tree with `wanted` and `ours` put in; the row of each patch that is in then.

        What the tree seems to have may be chance, as where one patch undoes another; then it is taken to have
        none, if the patches fit better so.
        """
        foreign = self._foreign()
        rows = self._attempt(foreign, wanted, ours)
        if foreign and _conflicts(rows):
            others = self._attempt([], wanted, ours)
            if _conflicts(others) < _conflicts(rows):
                return others
            rows = self._attempt(foreign, wanted, ours)
        return rows

    def _attempt(self, foreign: list[str], wanted: list[str], ours: list[str]) -> dict[str, Row]:
        self._fill()
        for number in reversed(foreign):
            self._bench.apply(self._changes[number], reverse=True)
        rows: dict[str, Row] = {}
        for number in self.stack.numbers:
            changes = self._changes[number]
            row = Row(self.stack[number], APPLIES, number in ours, left_out=self._left_out[number])
            if not changes:
                row.state = OUTSIDE
            elif number in foreign or number in wanted or row.ours:
                row.conflicts = self._missing(row.patch, rows) or self._bench.apply(changes)
                row.state = IN if number in foreign or row.ours else APPLIES
                row.state = CONFLICTS if row.conflicts else row.state
            else:
                continue
            rows[number] = row
        return rows

    def _missing(self, patch: Patch, rows: dict[str, Row]) -> list[Conflict]:
        below = [n for n in patch.depends if n in rows and rows[n].state == CONFLICTS]
        why = f"needs {', '.join(below)}, which conflicts"
        return [Conflict(self._changes[patch.number][0].path, 0, why)] if below else []

    def check(self, names: list[str]) -> list[Row]:
        """The state of each patch called by `names`, all for none: what `apply` would do with it."""
        shown = self.stack.find(names)
        rows = self._stack_up(self.stack.numbers, self._ours)
        return [rows[number] for number in shown]

    def apply(self, names: list[str]) -> list[Row]:
        """Put in the patches called by `names`, all for none, with what they depend on.

        Returns:
            One row a patch, `applies` for those that this call put in.

        Raises:
            DetperfError: one of them does not fit, or the tree was changed since the last call; then the tree
                is as it was.
        """
        self.store.refuse_if_changed()
        wanted = self.stack.with_dependencies(self.stack.find(names))
        rows = self._stack_up(wanted, self._ours)
        if any(rows[number].state == APPLIES for number in wanted) or self.store.put_back():
            self._bring(rows)
        return [rows[number] for number in wanted]

    def revert(self, names: list[str]) -> list[Applied]:
        """Take out the patches called by `names`, with those that depend on them; `revert_all` takes out all.

        Patches that the tree has from elsewhere stay.

        Returns:
            The patches taken out.

        Raises:
            DetperfError: a file was changed since they were put in; then the tree is as it was.
        """
        self.store.refuse_if_changed()
        numbers = self.stack.with_dependents(self.stack.find(names))
        gone = [entry for entry in self.store.applied if entry.number in numbers]
        if gone:
            rest = [number for number in self._ours if number not in numbers]
            self._bring(self._stack_up([], rest))
        return gone

    def _bring(self, rows: dict[str, Row]) -> None:
        """Make the tree what the bench holds, where every patch of `rows` fits."""
        faults = [f"{row.patch.file} at {fault}" for row in rows.values() for fault in row.conflicts]
        if faults:
            inside = [number for number, row in rows.items() if row.state == IN and not row.ours]
            hint = f" ({', '.join(inside)} are in the tree already)" if inside else ""
            raise DetperfError(f"nothing was changed, since not every patch fits{hint}: {'; '.join(faults)}")
        numbers = [n for n, row in rows.items() if row.ours or row.state == APPLIES]
        entries = [self._entry(number) for number in numbers]
        shipped = {entry.number: entry for entry in entries}
        for entry in self.store.applied:
            if shipped.get(entry.number, entry).sha256 != entry.sha256:
                raise DetperfError(
                    f"patch {entry.number} in {self.tree.root} is of another version of detperf-plugins: "
                    "`detperf patch revert` the whole series, then apply it again"
                )
        paths = {change.path for number in numbers for change in self._changes[number]}
        contents = {path: self._bench.get(path) for path in sorted(paths)}
        self.store.change(self.stack.name, entries, contents)
        self._ours = numbers

    def _entry(self, number: str) -> Applied:
        mail = self.stack.mails[number]
        return Applied(number, mail.subject, hashlib.sha256(mail.path.read_bytes()).hexdigest())


def _conflicts(rows: dict[str, Row]) -> int:
    return sum(row.state == CONFLICTS for row in rows.values())


def _equal(names: dict[str, str | None], blobs: dict[str, str | None]) -> bool:
    """Whether each name begins with its blob, which may be abbreviated; None is no file."""
    return all(
        name is None if blobs[path] is None else bool(name and name.startswith(str(blobs[path])))
        for path, name in names.items()
    )
