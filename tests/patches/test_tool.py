"""`detperf patch` on small trees: what it recognises, applies, and puts back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.patching.engine import open_job
from tests.patches.support import (
    BASE,
    FIRST,
    OLDER,
    PLAIN,
    SECOND,
    THIRD,
    apply,
    picture,
    revert,
    states,
    write_series,
    write_tree,
)


def test_apply_and_revert_the_whole_series(tree):
    (tree / "host" / "a.py").chmod(0o755)
    os.utime(tree / "host" / "a.py", (1000000000, 1000000000))
    before = picture(tree)
    assert states(tree) == {"0001": "applies", "0002": "applies", "0003": "applies"}
    assert picture(tree) == before
    assert apply(tree) == ["0001", "0002", "0003"]
    assert (tree / "host" / "a.py").read_bytes() == THIRD["host/a.py"]
    assert (tree / "host" / "a.py").stat().st_mode & 0o777 == 0o755
    assert (tree / "host" / "new" / "c.py").read_bytes() == b"created\n"
    assert states(tree) == {"0001": "in", "0002": "in", "0003": "in"}
    assert apply(tree) == []
    cache = tree / "host" / "new" / "__pycache__"
    cache.mkdir()
    (cache / "c.cpython-311.pyc").write_bytes(b"compiled")
    assert revert(tree) == ["0001", "0002", "0003"]
    assert picture(tree) == before
    assert (tree / "host" / "a.py").stat().st_mtime == 1000000000
    assert revert(tree) == []


def test_named_patches_bring_what_they_need_and_take_what_needs_them(tree):
    before = picture(tree)
    assert apply(tree, "2") == ["0001", "0002"]
    assert (tree / "host" / "b.py").read_bytes() == PLAIN
    assert apply(tree, "0003-step.patch") == ["0003"]
    assert (tree / "host" / "a.py").read_bytes() == THIRD["host/a.py"]
    assert revert(tree, "0001") == ["0001", "0002"]
    assert (tree / "host" / "a.py").read_bytes() == PLAIN
    assert not (tree / "host" / "new").exists()
    assert states(tree) == {"0001": "applies", "0002": "applies", "0003": "in"}
    assert revert(tree, "0003") == ["0003"]
    assert picture(tree) == before
    with pytest.raises(UnreadableInput, match="no patch of Made-up new is called '7'"):
        apply(tree, "7")


def test_folders_created_one_after_the_other_go_together(shipped, tmp_path):
    trees = [{}, {"host/x/one.py": b"1\n"}, {"host/x/one.py": b"1\n", "host/x/two.py": b"2\n"}]
    write_series(shipped, {"new": trees})
    root = write_tree(tmp_path / "checkout", {})
    before = picture(root)
    apply(root, "1", series="new")
    apply(root, "2")
    revert(root)
    assert picture(root) == before


def test_a_patch_that_is_in_already_stays_on_revert(tree):
    write_tree(tree, FIRST)
    before = picture(tree)
    assert states(tree) == {"0001": "in", "0002": "applies", "0003": "applies"}
    assert apply(tree) == ["0002", "0003"]
    revert(tree)
    assert picture(tree) == before


def test_patches_on_top_of_each_other_are_found_in_an_edited_tree(tree):
    """Patch 2 changes a line of patch 1: neither can be taken out alone from below."""
    write_tree(tree, {**SECOND, "host/b.py": PLAIN + b"mine\n"})
    assert states(tree) == {"0001": "in", "0002": "in", "0003": "applies"}
    assert apply(tree) == ["0003"]
    assert (tree / "host" / "b.py").read_bytes() == THIRD["host/b.py"] + b"mine\n"


def test_files_that_pip_put_back_are_no_obstacle(tree):
    before = picture(tree)
    apply(tree)
    (tree / "host" / "a.py").write_bytes(PLAIN)
    with open_job(tree) as job:
        assert job.store.put_back() == ["host/a.py"]
    revert(tree)
    assert picture(tree) == before


def test_the_version_is_recognised_by_content(shipped, tree, tmp_path):
    with open_job(tree) as job:
        assert (job.choice.stack.name, job.choice.matched, job.choice.total) == ("new", 3, 3)
    older = write_tree(tmp_path / "older", OLDER[0])
    with open_job(older) as job:
        assert job.stack.name == "old"
    with open_job(older, series="new") as job:
        assert job.stack.name == "new"
    strange = write_tree(tmp_path / "strange", {"host/a.py": b"", "host/b.py": b""})
    with pytest.raises(UnreadableInput, match="name one with --series: old, new"), open_job(strange):
        pass
    # Equal files: the installed version decides.
    write_series(shipped, {"1.0": [BASE, FIRST], "2.0": [BASE, FIRST]})
    (tmp_path / "site-packages" / "host-2.0.dist-info").mkdir(parents=True)
    with open_job(write_tree(tmp_path / "site-packages", BASE)) as job:
        assert job.stack.name == "2.0"


def test_an_installed_package_has_no_tools(tree, tmp_path):
    root = write_tree(tmp_path / "site-packages", {k: v for k, v in BASE.items() if k.startswith("host/")})
    before = picture(root)
    with open_job(root / "host") as job:
        rows = job.apply([])
    assert [row.left_out for row in rows] == [[], [], ["tools/run.py"]]
    assert (root / "host" / "b.py").read_bytes() == THIRD["host/b.py"]
    assert not (root / "tools").exists()
    revert(root)
    assert picture(root) == before


def test_links_stay_links_and_shared_data_stays(tree, tmp_path):
    """uv fills site-packages with links to its cache."""
    for name, link in (("a.py", os.symlink), ("b.py", os.link)):
        cached = tmp_path / name
        shutil.move(tree / "host" / name, cached)
        link(cached, tree / "host" / name)
    before = picture(tree)
    apply(tree)
    assert (tree / "host" / "a.py").read_bytes() == THIRD["host/a.py"]
    assert (tmp_path / "a.py").read_bytes() == (tmp_path / "b.py").read_bytes() == PLAIN
    revert(tree)
    assert picture(tree) == before


def test_a_users_git_configuration_has_no_say(tree, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[apply]\n\twhitespace = error-all\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert len(apply(tree)) == 3


def test_commands_and_their_json(tree, tmp_path):
    _load_verbs()

    def run(*words, status=0):
        result = CliRunner().invoke(app, ["patch", *map(str, words), "--json", str(tmp_path / "out.json")])
        assert result.exit_code == status, result.output
        return json.loads((tmp_path / "out.json").read_text())

    listed = run("list")
    assert [row["added"]["new"] for row in listed["rows"]] == [1, 2, 1]
    checked = run("check", tree)
    assert [row["state"] for row in checked["rows"]] == ["applies"] * 3
    assert checked["conditions"]["series"] == "new"
    assert [row["state"] for row in run("apply", tree, "2")["rows"]] == ["applied", "applied"]
    assert [row["patch"] for row in run("revert", tree, "2")["rows"]] == ["0002"]
    assert [row["patch"] for row in run("revert", tree)["rows"]] == ["0001"]
    (tree / "host" / "b.py").write_bytes(b"")
    rows = run("check", tree, status=1)["rows"]
    assert rows[2]["conflicts"][0]["path"] == "host/b.py"


def test_exported_mail_goes_through_git_am(tree, tmp_path):
    from detperf_plugins.patching.export import export
    from detperf_plugins.patching.series import read_series

    stack = read_series("made-up").stack("new")
    files = export(stack, ["2"], tmp_path / "mail", "A. U. Thor <author@example.org>")
    assert [path.name for path in files] == ["0000-cover-letter.txt", "0001-step.patch", "0002-step.patch"]
    letter = files[0].read_text()
    assert "2/2 Step 2" in letter and "Needs: 1/2" in letter and "host/new/c.py (+1 -0)" in letter
    who = ["-c", "user.name=c", "-c", "user.email=c@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        [*who, "commit", "-qm", "base"],
        [*who, "am", "-q", *files[1:]],
    ):
        subprocess.run(["git", *map(str, words)], cwd=tree, check=True)
    log = subprocess.run(
        ["git", "log", "--format=%an %ae %s"], cwd=tree, stdout=subprocess.PIPE, text=True
    ).stdout
    assert log.splitlines()[0] == "A. U. Thor author@example.org Step 2"
    with pytest.raises(DetperfError, match="holds patches already"):
        export(stack, [], tmp_path / "mail")
    with pytest.raises(DetperfError, match="is not of the form"):
        export(stack, [], tmp_path / "other", "nobody")
