"""`detperf patch` on small trees: what it recognises, applies, refuses, and puts back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.patching.engine import open_job, revert_all
from tests.patches.support import mail, patch_text, picture, write_series, write_tree

PLAIN = b"".join(b"line %d\n" % number for number in range(1, 21))
BASE = {"host/a.py": PLAIN, "host/b.py": PLAIN, "tools/run.py": PLAIN}
FIRST = {**BASE, "host/a.py": PLAIN.replace(b"line 3\n", b"line 3\nthree and a half\n")}
SECOND = {
    **FIRST,
    "host/a.py": FIRST["host/a.py"].replace(b"half\n", b"half, changed\n"),
    "host/new/c.py": b"created\n",
}
THIRD = {
    **SECOND,
    "host/b.py": PLAIN.replace(b"line 9\n", b""),
    "tools/run.py": PLAIN.replace(b"line 5\n", b"five\n"),
}
OLDER = [{**tree, "host/a.py": b"older\n" + tree["host/a.py"]} for tree in (BASE, FIRST, SECOND, THIRD)]


@pytest.fixture()
def tree(shipped, tmp_path):
    """A checkout of the newer version; patch 2 needs 1, and 3 stands alone."""
    write_series(shipped, {"old": OLDER, "new": [BASE, FIRST, SECOND, THIRD]}, depends={2: [1]})
    root = write_tree(tmp_path / "checkout", BASE)
    (root / "setup.py").write_text("")
    return root


def states(root, **options):
    with open_job(root, **options) as job:
        return {row.patch.number: row.state for row in job.check([])}


def apply(root, *names, **options):
    with open_job(root, **options) as job:
        return [row.patch.number for row in job.apply(list(names)) if row.state == "applies"]


def revert(root, *names):
    if not names:
        return [entry.number for entry in revert_all(root)[1]]
    with open_job(root) as job:
        return [entry.number for entry in job.revert(list(names))]


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


def test_a_users_git_configuration_has_no_say(tree, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[apply]\n\twhitespace = error-all\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert len(apply(tree)) == 3


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
