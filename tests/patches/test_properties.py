"""Random trees and patches: the tool agrees with the trees that the patches were made from, and puts back
every byte, after an apply that fails and after one that is killed too."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching import series
from detperf_plugins.patching.engine import open_job, revert_all
from tests.patches.support import picture, write_series, write_tree

# Each example starts some ten processes, so a failing one is not made smaller.
FEW = settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
PATHS = ["host/a.py", "host/b.py", "host/sub/c.py", "host/sub/deep/d.txt", "host/e f.py", "tools/g.py"]
LINES = st.lists(
    st.sampled_from([b"x\n", b"y\n", b"\n", b"x = 1\n", b"\tz\r\n", b"\xff\xfe\n", b"end"]), max_size=12
)


def content(lines: list[bytes]) -> bytes:
    # Only a last line may lack its end.
    return b"".join(
        line if line != b"end" or index == len(lines) - 1 else b"end\n" for index, line in enumerate(lines)
    )


TREES = st.lists(
    st.dictionaries(st.sampled_from(PATHS), LINES.map(content), max_size=4), min_size=2, max_size=4
)


@contextmanager
def laid_out(trees):
    """The first tree as a checkout, and the series that leads through the others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_series(folder / "shipped", {"one": trees})
        root = write_tree(folder / "checkout", trees[0])
        (root / ".git").mkdir()
        with mock.patch.object(series, "patches_dir", lambda: folder / "shipped"):
            yield root


def changing(trees):
    """Trees without repetitions: a patch that changes nothing is none."""
    kept = trees[:1]
    for tree in trees[1:]:
        if tree != kept[-1]:
            kept.append(tree)
    return kept


def files(root):
    return {
        path: seen[2]
        for path, seen in picture(root).items()
        if seen[0] == "file" and not path.startswith(".detperf") and path != "host/__init__.py"
    }


@FEW
@given(
    trees=TREES.map(changing).filter(lambda trees: len(trees) > 1),
    modes=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_apply_gives_the_last_tree_and_revert_the_first(trees, modes):
    with laid_out(trees) as root:
        for path, executable in zip(PATHS, modes):
            if executable and path in trees[0]:
                (root / path).chmod(0o755)
        before = picture(root)
        with open_job(root, series="one") as job:
            job.apply([])
        assert files(root) == trees[-1]
        for path in set(trees[0]) & set(trees[-1]):
            if all(path in tree for tree in trees):
                assert picture(root)[path][1] == before[path][1]
        revert_all(root)
        assert picture(root) == before


@FEW
@given(
    trees=TREES.map(changing).filter(lambda trees: len(trees) > 1),
    other=st.dictionaries(st.sampled_from(PATHS), LINES.map(content), max_size=3),
)
def test_an_apply_that_does_not_fit_changes_nothing(trees, other):
    """A tree that the series was not made for: whatever fits or not, it is all or nothing, and comes back."""
    with laid_out(trees) as root:
        for path, data in other.items():
            write_tree(root, {path: data})
        before = picture(root)
        try:
            with open_job(root, series="one") as job:
                job.apply([])
        except DetperfError:
            assert picture(root) == before
        else:
            revert_all(root)
            assert picture(root) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
@settings(FEW, max_examples=6)
@given(trees=TREES.map(changing).filter(lambda trees: len(trees) > 2), moment=st.integers(0, 12))
def test_a_killed_command_is_put_right_by_the_next(trees, moment):
    """Dies at any of the moments at which a file takes another's place or goes; in apply, then in revert."""
    with laid_out(trees) as root:
        before = picture(root)
        killed_at(moment, lambda: work(root))
        with open_job(root, series="one") as job:
            job.check([])
        assert without_record(picture(root)) == before or files(root) == trees[-1]
        work(root)
        assert files(root) == trees[-1]
        after = without_record(picture(root))
        killed_at(moment, lambda: revert_all(root))
        with open_job(root, series="one") as job:
            job.check([])
        assert picture(root) == before or without_record(picture(root)) == after
        revert_all(root)
        assert picture(root) == before


def work(root):
    with open_job(root, series="one") as job:
        job.apply([])


def without_record(seen):
    return {path: what for path, what in seen.items() if not path.startswith(".detperf")}


def killed_at(moment, call):
    """Run `call` in a process that dies just before its `moment`-th replacement or removal of a file."""
    child = os.fork()
    if child == 0:
        left = [moment]

        def dying(real):
            def stand_in(*words, **options):
                if left[0] == 0:
                    os._exit(9)
                left[0] -= 1
                return real(*words, **options)

            return stand_in

        try:
            os.replace, os.unlink, os.mkdir = dying(os.replace), dying(os.unlink), dying(os.mkdir)
            call()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
