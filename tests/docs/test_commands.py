"""Every command of README and docs: it exists, takes the options shown, and where it can run here, runs.

The blocks that take minutes run with DETPERF_DOCS=all (`make test-docs`); the others always. A block that
needs hardware, a checkout or data says so in a comment above it, and is only parsed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from detperf_plugins import cli
from tests.conftest import HAS_MINDOCR, HAS_PADDLEDET
from tests.docs.blocks import ROOT, Block, blocks

BLOCKS = blocks()
ALL = os.environ.get("DETPERF_DOCS") == "all"
# Pages of the MindOCR room; every other page is run where PaddleDetection is.
MINDOCR_PAGES = re.compile(r"mindocr|dbnet")
QUICK = {"configs", "env", "lint", "log", "explain", "samples"}
# Installing and building: done by the fresh clone that each release is tried in.
SETTING_UP = {"pip", "make"}
# What a block may need and still run: time, and the host that its page is not about.
SUPPLIED = {"", "minutes", "a quarter of an hour", "half an hour", "MindOCR"}
UNSUPPLIED = re.compile(r"\b(?:VERB|NAME|OVERLAY|HOST)\b")


def detperf(words: list[str]) -> None:
    """Parse as the command itself would, running nothing."""
    command = typer.main.get_command(cli.app)
    context = command.make_context("detperf", [], resilient_parsing=True)
    while hasattr(command, "commands"):
        name = words.pop(0)
        if name.startswith("-"):
            command.make_context("detperf", [name], resilient_parsing=True)
            return
        assert name in command.commands, f"no verb {name!r}"
        command = command.commands[name]
    command.make_context(command.name, words, parent=context)


def parse(words: list[str]) -> None:
    """Check one command: the program is known, and so are its target, extra, script or options."""
    while re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    program, rest = words[0], words[1:]
    if "detperf" in words and program in {"msrun", "nsys"}:
        detperf(words[words.index("detperf") + 1 :])
    elif program == "detperf":
        detperf(rest)
    elif program == "make":
        targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert rest[0] in targets, f"no target {rest[0]!r}"
    elif program == "pip":
        known = set(re.findall(r"^([a-z0-9-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
        for extra in re.findall(r"\[([^\]]*)\]", " ".join(rest)):
            assert extra in known, f"no extra {extra!r}"
    elif words[:3] == ["python", "-m", "detperf_plugins"]:
        assert rest[2] in {"--replace", "--phases-json", "-m"} or rest[2].endswith(".py"), rest
    elif words[:2] == ["python", "-m"]:
        module = words[2].split(".")
        assert module[0] != "detperf_plugins" or (ROOT / Path(*module)).with_suffix(".py").is_file(), words
    elif program == "pytest":
        files = [word for word in rest if word.startswith("tests/")]
        assert files and all((ROOT / file).exists() for file in files), words
    else:
        assert program in {"cat", "cd", "git", "export", "nvidia-smi"}, (
            f"{program!r} is not checked by this test"
        )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.page)
def test_command_exists_and_takes_its_options(block: Block):
    cli._load_verbs()
    for words in block.commands():
        parse(words)


def runnable(block: Block) -> bool:
    """Whether this environment can run it."""
    commands = [words for words in block.commands() if words[0] not in SETTING_UP]
    needs = set(re.split(r", and | and |, ", block.needs))
    if needs - SUPPLIED or not commands or UNSUPPLIED.search(block.text):
        return False
    mindocr = "MindOCR" in needs or bool(MINDOCR_PAGES.search(block.page))
    if not (HAS_MINDOCR if mindocr else HAS_PADDLEDET):
        return False
    return ALL or all(words[0] != "detperf" or words[1] in QUICK for words in commands)


@pytest.fixture()
def work(tmp_path, monkeypatch) -> Path:
    """A working folder with what the placeholders of the pages name."""
    from detperf_plugins.samples.coco_shapes import write_coco_shapes
    from detperf_plugins.samples.scene_text import write_scene_text

    write_coco_shapes(tmp_path / "DIR", images=8, size=96)
    write_scene_text(tmp_path / "words" / "train", 8, 160, 0)
    shutil.copytree(tmp_path / "DIR" / "images", tmp_path / "FOLDER")
    shutil.copy(tmp_path / "DIR" / "annotations.json", tmp_path / "annotations.json")
    shutil.copytree(tmp_path / "words" / "train" / "images", tmp_path / "FOLDER", dirs_exist_ok=True)
    shutil.copy(tmp_path / "words" / "train" / "labels.txt", tmp_path / "labels.txt")
    if HAS_PADDLEDET:
        base = ROOT / "configs" / "paddledet" / "tiny" / "mask_rcnn_r18_fpn_shapes.yml"
        sets = "".join(
            f"{name}: {{dataset_dir: {tmp_path}/DIR}}\n" for name in ("TrainDataset", "EvalDataset")
        )
        (tmp_path / "CONFIG.yml").write_text(f"_BASE_: ['{base}']\n{sets}")
        (tmp_path / "my_config.yml").write_text("_BASE_: [CONFIG.yml]\nweight_decay: 0.0002\n")
    else:
        base = ROOT / "configs" / "mindocr" / "tiny" / "db_r18_scene_text.yml"
        (tmp_path / "CONFIG.yml").write_text(f"_BASE_: ['{base}']\nscheduler: {{num_epochs: 1}}\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("block", [one for one in BLOCKS if runnable(one)], ids=lambda block: block.page)
def test_block_runs(block: Block, work: Path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    lines = [line for line in block.text.splitlines() if line.split(" ")[0] not in SETTING_UP]
    text = re.sub(r"\bCONFIG\b", "CONFIG.yml", "\n".join(lines))
    done = subprocess.run(
        ["bash", "-ec", text],
        cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.page}\n{done.stdout[-4000:]}"
