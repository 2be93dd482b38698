"""The shipped series: whole, in order, small, and readable by a maintainer. No host is needed."""

from __future__ import annotations

import re

import pytest

from detperf_plugins import patches_dir
from detperf_plugins.patching.series import Stack, read_all

STACKS = [stack for series in read_all() for stack in series.stacks.values()]
PATCHES = [(stack, number) for stack in STACKS for number in stack.numbers]
SENDER = "detperf-plugins developers <detperf-plugins@users.noreply.github.com>"
# What no public patch may name: package registries, and paths of a developer's machine.
PRIVATE = re.compile(rb"pypi\.|/simple\b|index-url|(?<![\w.])/(home|root|work|tmp/work|Users)/")


def name(case):
    return f"{case.series.key}-{case.name}" if isinstance(case, Stack) else str(case)


@pytest.mark.parametrize("stack", STACKS, ids=name)
def test_every_file_is_in_the_series(stack):
    files = {path.name for path in (stack.series.folder / stack.name).iterdir()}
    assert files == {patch.file for patch in stack.patches}
    assert [patch.file for patch in stack.patches] == sorted(files)
    folders = {path.name for path in stack.series.folder.iterdir() if path.is_dir()}
    assert folders == set(stack.series.versions)
    assert re.fullmatch("[0-9a-f]{40}", stack.commit)


@pytest.mark.parametrize("stack", STACKS, ids=name)
def test_patches_stack_in_order(stack):
    """Each patch starts from the very files that those below it leave behind."""
    left_behind: dict[str, str | None] = {}
    for number in stack.numbers:
        for change in stack.mails[number].changes:
            if change.path in left_behind:
                assert change.old == left_behind[change.path], f"{stack[number].file}: {change.path}"
            left_behind[change.path] = change.new


@pytest.mark.parametrize(("stack", "number"), PATCHES, ids=name)
def test_a_patch_is_fit_to_be_sent(stack, number):
    patch, mail = stack[number], stack.mails[number]
    data = mail.path.read_bytes()
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.patch", patch.file)
    assert mail.headers["From"] == SENDER
    assert mail.subject == patch.title
    assert len(mail.subject) <= 72 and not mail.subject.endswith(".")
    assert len(mail.message) > 100, "the message does not say why"
    assert mail.added < 300
    for change in mail.changes:
        assert change.old is None or len(change.old) == 40, "made without --full-index"
        assert all(hunk.context <= 1 for hunk in change.hunks), f"{change.path}: more context than a line"
        assert b"\nold mode " not in change.text
    assert not PRIVATE.search(data)
    assert b"\n-- \n" not in data
    for field in ("purpose", "measured"):
        assert getattr(patch, field)[-1] in ".'`" or getattr(patch, field) == "correctness"
    tests = [change.path for change in mail.changes if "test" in change.path]
    assert set(patch.tests.split(", ")) <= set(tests), "the named test is not in the patch"


def test_series_lie_where_the_wheel_takes_them():
    assert (patches_dir() / "paddledetection" / "series.yml").is_file()
    assert len(STACKS) == 4
