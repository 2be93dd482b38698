"""`detperf patch` on small trees: what it refuses, in which words, and that nothing is left behind."""

from __future__ import annotations

import json
import os

import pytest

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.patching.engine import open_job
from tests.patches.support import (
    BASE,
    FIRST,
    PLAIN,
    apply,
    mail,
    patch_text,
    picture,
    revert,
    states,
)


def test_a_conflict_names_the_place_and_nothing_is_done(tree):
    (tree / "host" / "b.py").write_bytes(PLAIN.replace(b"line 9\n", b"line nine\n"))
    before = picture(tree)
    with open_job(tree) as job:
        rows = {row.patch.number: row for row in job.check([])}
    assert [row.state for row in rows.values()] == ["applies", "applies", "conflicts"]
    (conflict,) = rows["0003"].conflicts
    assert str(conflict) == "host/b.py:9: 'line 9' was expected, 'line nine' was found"
    with pytest.raises(DetperfError, match=r"nothing was changed.*0003-step.patch at host/b.py:9"):
        apply(tree)
    assert picture(tree) == before
    assert apply(tree, "1") == ["0001"]


def test_what_depends_on_a_conflict_says_so(tree):
    (tree / "host" / "a.py").write_bytes(PLAIN.replace(b"line 3\n", b"line three\n"))
    with open_job(tree) as job:
        rows = job.check([])
    assert [row.state for row in rows] == ["conflicts", "conflicts", "applies"]
    assert "needs 0001, which conflicts" in str(rows[1].conflicts[0])


def test_files_changed_since_are_not_touched(tree):
    apply(tree)
    place = tree / "host" / "a.py"
    patched = place.read_bytes()
    place.write_bytes(patched + b"mine\n")
    before = picture(tree)
    for call in (revert, apply):
        with pytest.raises(DetperfError, match=r"changed since the patches were applied.*host/a.py"):
            call(tree)
    assert picture(tree) == before
    place.write_bytes(patched)
    assert len(revert(tree)) == 3


def test_another_command_at_work(tree):
    with open_job(tree), pytest.raises(DetperfError, match="another `detperf patch` is at work"):
        revert(tree)


def test_a_failure_half_way_leaves_the_tree_as_it_was(tree):
    if os.geteuid() == 0:
        (tree / "host" / "new").write_bytes(b"a file where the patch wants a folder")
    else:
        (tree / "host").chmod(0o500)
    before = picture(tree)
    with pytest.raises(DetperfError):
        apply(tree)
    assert picture(tree) == before
    (tree / "host").chmod(0o755)


def test_no_git_needed_to_revert(tree, monkeypatch):
    before = picture(tree)
    apply(tree)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DetperfError, match="git is not installed"):
        states(tree)
    revert(tree)
    assert picture(tree) == before


def test_folders_that_hold_no_host(tree, tmp_path):
    for folder, sentence in (
        (tmp_path / "missing", "there is no folder"),
        (tmp_path, "holds no package host"),
    ):
        with pytest.raises(UnreadableInput, match=sentence), open_job(folder):
            pass
    with pytest.raises(UnreadableInput, match="--host other is unknown"), open_job(tree, host="other"):
        pass


def test_bad_series_are_named(shipped, tree):
    place = shipped / "made-up" / "series.yml"
    content = json.loads(place.read_text())
    content["patches"][0]["depends"] = ["0002"]
    place.write_text(json.dumps(content))
    with pytest.raises(UnreadableInput, match=r"0001-step\.patch needs 0002, which is not before it"):
        states(tree)
    place.write_text("host: 1\n")
    with pytest.raises(UnreadableInput, match="is no series of patches"):
        states(tree)


def test_mails_that_the_tool_cannot_take(shipped, tree):
    place = shipped / "made-up" / "new" / "0001-step.patch"
    diff = patch_text(BASE, FIRST)
    for content, sentence in (
        (b"no patch at all\n\n", "is no mail patch"),
        (mail("x", diff.replace(b"b/host/a.py", b"b/host/z.py")), "renames a file"),
        (mail("x", diff.replace(b"host/a.py", b"../a.py")), "leaves the tree"),
    ):
        place.write_bytes(content)
        with pytest.raises(UnreadableInput, match=sentence):
            states(tree)
