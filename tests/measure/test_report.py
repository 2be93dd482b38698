"""The report: one page that needs nothing else, and a child process whose output it shows."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import run_child, write_file
from detperf_plugins.measure.report import page

pytest.importorskip("matplotlib")

RESULT = {
    "command": ["detperf", "bench", "targets", "--json", "a file.json"],
    "versions": {"paddlepaddle": "2.6.2"},
    "conditions": {"processor": "<some> processor", "cores": 2},
    "rows": [
        {"part": "mask", "batch_size": 2, "ratio": 20.5, "nothing": None},
        {"part": "<b>rpn</b>", "batch_size": 4, "ratio": 3.25, "nothing": None},
        {"part": "bbox", "batch_size": 8, "ratio": 110.0, "nothing": None},
    ],
    "timers": [{"timer": "ips", "avg": 1.5}],
    "coverage": 0.99,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "targets.json").write_text(json.dumps(RESULT), encoding="utf-8")
    (tmp_path / "trace.json").write_text('{"traceEvents": []}', encoding="utf-8")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.log").write_text("first\n<last>\n", encoding="utf-8")
    return tmp_path


class Reader(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_everything_is_on_the_page_and_nothing_outside_it(folder):
    text = page(folder)
    read = Reader(text)
    assert "detperf bench targets --json 'a file.json'" in read.text
    for shown in ("<some> processor", "<b>rpn</b>", "20.5", "timers", "coverage", "<last>", "run.log"):
        assert shown in read.text
    assert "nothing" not in read.text  # a column without a value
    sources = [attributes["src"] for _, attributes in read.tags if "src" in attributes]
    assert len(sources) == 1 and sources[0].startswith("data:image/png;base64,")
    assert not re.search(r"https?://|@import|url\(", text)
    assert not [tag for tag, _ in read.tags if tag in ("link", "iframe", "b")]
    assert [tag for tag, _ in read.tags].count("tr") == 2 + len(RESULT["rows"]) + 1


def test_a_chart_that_the_verb_drew_is_taken(folder):
    (folder / "targets.png").write_bytes(b"drawn by the verb")
    assert 'src="data:image/png;base64,ZHJhd24gYnkgdGhlIHZlcmI="' in page(folder)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(UnreadableInput, match="no such folder"):
        page(tmp_path / "nowhere")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="no result in"):
        page(tmp_path)


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_tables_sort_in_a_browser(folder, tmp_path):
    click = (
        '<script>[...document.querySelectorAll("th button")].find(b => b.textContent == "ratio").click();'
        'document.title = [...document.querySelectorAll("tbody")].map(b => b.rows[0].cells[0].textContent)'
        "</script></body>"
    )
    file = tmp_path / "clicked.html"
    file.write_text(page(folder).replace("</body>", click), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
    done = subprocess.run(
        ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert re.search(r"<title>([^<]*)</title>", done.stdout)[1] == "bbox,ips"
    assert 'aria-sort="descending"' in done.stdout


CHILD = """
import sys
from detperf_plugins.measure.child import emit
emit(step=1)
print("a line")
print("half a line", end="")
emit(result={"x": [1, None]})
sys.exit("detperf: the reason" if "fail" in sys.argv else 0)
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    (tmp_path / "a_child.py").write_text(CHILD, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return "a_child"


def test_a_child_reports_events_and_logs_the_rest(child, tmp_path):
    events = []
    ended = run_child(child, [], tmp_path / "new" / "log", events.append)
    assert events == [{"step": 1}, {"result": {"x": [1, None]}}]
    assert (ended.status, ended.last_line, ended.interrupted) == (0, "half a line", False)
    assert (tmp_path / "new" / "log").read_text(encoding="utf-8").splitlines() == ["a line", "half a line"]
    ended = run_child(child, ["fail"], tmp_path / "log", events.append)
    assert (ended.status, ended.last_line) == (1, "detperf: the reason")
    assert ended.sentence == "the reason"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_sentence(child, tmp_path, monkeypatch):
    events = []
    ended = run_child(child, [], Path("/dev/full"), events.append)
    assert ended.fault == "cannot write /dev/full: No space left on device"
    assert events == [{"step": 1}, {"result": {"x": [1, None]}}]  # what was measured still arrives
    with pytest.raises(DetperfError, match="cannot write /dev/null/log"):
        run_child(child, [], Path("/dev/null/log"), events.append)
    old = write_file(tmp_path / "rows.json", "old")

    def full(self, *args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DetperfError, match="No space left on device"):
        write_file(old, "new")
    assert old.read_bytes() == b"old" and not list(tmp_path.glob("*.part"))
