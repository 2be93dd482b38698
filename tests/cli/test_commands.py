"""The command as a user types it: configs, env, version, JSON, and one-sentence errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from detperf_plugins import __version__, cli, configs_dir
from detperf_plugins.cli.configs import find_config
from detperf_plugins.cli.output import write_json
from detperf_plugins.errors import DetperfError

cli._load_verbs()
runner = CliRunner()


def invoke(*arguments):
    return runner.invoke(cli.app, list(arguments))


def test_version():
    assert invoke("--version").stdout.strip() == f"detperf-plugins {__version__}"


def test_every_verb_has_help_and_json():
    for verb in cli.VERBS:
        result = invoke(verb.replace("_", "-"), "--help")
        assert result.exit_code == 0, verb


def test_configs_lists_and_finds(tmp_path):
    out = tmp_path / "deep" / "configs.json"
    result = invoke("configs", "--json", str(out))
    assert result.exit_code == 0 and "exact_targets.yml" in result.stdout
    written = json.loads(out.read_text(encoding="utf-8"))
    assert set(written) == {"command", "versions", "conditions", "rows"}
    assert {"name", "path", "changes"} == set(written["rows"][0])
    for name in ("exact_targets", "exact_targets.yml", "paddledet/mask_rcnn/exact_targets.yml"):
        path = invoke("configs", name).stdout.strip()
        assert path == str(configs_dir() / "paddledet" / "mask_rcnn" / "exact_targets.yml")
    assert invoke("configs", "--dir").stdout.strip() == str(configs_dir())


def test_an_unknown_config_is_named():
    result = invoke("configs", "nothing_like_it")
    assert isinstance(result.exception, DetperfError) and "nothing_like_it" in str(result.exception)
    assert result.exception.status == 2


def test_an_unknown_config_is_answered_with_near_names_or_those_of_the_host():
    words = str(invoke("configs", "exact_target").exception)
    assert "did you mean exact_targets" in words and "fast_data" not in words and len(words) < 160
    words = str(invoke("configs", "bitmap").exception)
    assert "did you mean bitmap_targets_c4 or bitmap_targets_fpn?" in words
    words = str(invoke("configs", "zzz").exception)
    assert words == "no shipped config is called 'zzz'; `detperf configs` lists them"
    words = str(invoke("configs", "mindocr/zzz").exception)
    assert "there is no file mindocr/zzz" in words and "fast_data" in words and "exact_targets" not in words
    with pytest.raises(DetperfError, match="exact_parts") as error:
        find_config("zzz", "paddledet")
    assert "fast_data" not in str(error.value)


def test_env_says_what_is_available_and_why_not(tmp_path):
    out = tmp_path / "env.json"
    assert invoke("env", "--json", str(out)).exit_code == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    topics = {row["topic"] for row in rows}
    assert {"system", "tool", "package", "host", "safety", "part"} <= topics
    assert all(
        row["reason"] for row in rows if row["available"] is False and row["topic"] in {"host", "part"}
    )
    names = {row["name"] for row in rows}
    assert {"python", "compiled kernels", "zlib before paddle", "c++", "nvcc", "paddlepaddle"} <= names


@pytest.mark.parametrize(
    "words",
    [
        ["configs"],
        ["configs", "exact_targets"],
        ["explain", "--list"],
        ["lint", "c.yml", "--format", "json"],
        ["samples", "shapes", "set", "--images", "4", "--size", "64"],
    ],
)
def test_json_to_standard_output_is_alone_there(words, tmp_path):
    (tmp_path / "c.yml").write_text("epoch: ten\n", encoding="utf-8")
    command = [sys.executable, "-c", "from detperf_plugins.cli import main; main()", *words, "--json", "-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert set(json.loads(done.stdout)) >= {"command", "versions", "conditions", "rows"}
    assert done.stderr and not (tmp_path / "-").exists()


def test_json_to_standard_output_inside_a_process():
    result = runner.invoke(cli.app, ["configs", "exact_targets", "--json", "-"])
    assert json.loads(result.stdout)["rows"][0]["name"].endswith("exact_targets.yml")
    assert "exact_targets.yml" in invoke("configs", "exact_targets").stdout


def test_json_follows_links_and_replaces_no_pipe(tmp_path):
    (tmp_path / "real").mkdir()
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "real" / "out.json")
    write_json(link, [{"a": 1}])
    assert link.is_symlink() and json.loads((tmp_path / "real" / "out.json").read_text())["rows"] == [
        {"a": 1}
    ]
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    write_json(pipe, [{"a": 2}])
    assert json.loads(reader.communicate(timeout=30)[0])["rows"] == [{"a": 2}]
    assert pipe.is_fifo()


def test_json_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = invoke("configs", "--json", str(tmp_path / "file" / "x.json"))
    assert isinstance(result.exception, DetperfError) and "cannot write" in str(result.exception)


def test_what_is_missing_is_installed_from_a_clone_or_a_wheel(monkeypatch):
    """The package is on no index: its name alone installs nothing."""
    from detperf_plugins import hosts

    monkeypatch.setattr(hosts, "version_of", lambda name: None)
    monkeypatch.setattr(hosts.importlib.util, "find_spec", lambda name: None)
    for name in ("ppdet", "mindocr"):  # another test may have imported it
        monkeypatch.delitem(sys.modules, name, raising=False)
    paddle, spore = (hosts.paddle_host(), hosts.paddledet_host()), (hosts.mindocr_host(),)
    for host, extra in (*((host, "paddle") for host in paddle), *((host, "mindspore") for host in spore)):
        assert f'pip install ".[{extra}]" in a clone of detperf-plugins' in host.reason
        assert "detperf-plugins[" not in host.reason and not host.supported


def test_a_checkout_in_this_folder_is_found(tmp_path, monkeypatch):
    from detperf_plugins import hosts
    from detperf_plugins.cli import env
    from detperf_plugins.errors import UnsupportedHost

    missing = {"paddledet": hosts.Host("paddledet", None, False, "ppdet is not installed"),
               "mindocr": hosts.Host("mindocr", None, False, "mindocr is not installed")}  # fmt: skip
    monkeypatch.setattr(hosts, "paddle_host", lambda: hosts.Host("paddlepaddle", "3.3.1", True, "supported"))
    monkeypatch.setattr(hosts, "paddledet_host", lambda: missing["paddledet"])
    monkeypatch.setattr(hosts, "mindocr_host", lambda: missing["mindocr"])
    monkeypatch.setattr(hosts, "version_of", lambda name: "2.7.1" if name == "mindspore" else None)
    monkeypatch.setattr(env, "_device_rows", list)
    monkeypatch.chdir(tmp_path)

    def rows():
        return {row["name"]: row for row in env.report() if row["topic"] == "host"}

    assert not rows()["paddledet"]["available"] and not rows()["mindocr"]["available"]
    for package in ("ppdet", "mindocr"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("", encoding="utf-8")
    for name in ("paddledet", "mindocr"):
        row = rows()[name]
        assert row["available"] and row["value"] == "in this folder: a checkout"
        assert "python -m detperf_plugins" in row["reason"]
    with pytest.raises(UnsupportedHost, match="PYTHONPATH="):
        hosts.require_paddledet()


@pytest.mark.parametrize("installed", ["pycocotools", "pyclipper"])
def test_env_warns_of_the_zlib_crash(installed, monkeypatch):
    from detperf_plugins.cli import env

    monkeypatch.setattr(env.hosts, "version_of", lambda name: "9.0" if name == installed else None)
    monkeypatch.setattr(env.sys, "path", [])
    row = env.zlib_row()
    assert row["available"] is False and installed in row["reason"]
