"""Training commands: taken apart, and the configs that they name checked with their settings."""

from __future__ import annotations

from detperf_plugins.doctor.configs.commands import parse_commands
from detperf_plugins.doctor.lint import lint_file

from .support import PPDET, edited, found, write

COMMAND = (
    "CUDA_VISIBLE_DEVICES=0,1 python -m paddle.distributed.launch --gpus 0,1 tools/train.py -c {config} \\\n"
    "  -o LearningRate.base_lr=3e-2 epoch=4 worker_num=0 TrainReader.shuffle=False weights=out/x --amp "
    "--enable_ce=True\n"
)


def test_commands_are_taken_apart():
    (command,) = parse_commands(COMMAND.format(config="c.yml"))
    assert command.config == "c.yml" and command.cards == 2 and command.line == 1
    assert command.overrides == {
        "LearningRate.base_lr": "3e-2",
        "epoch": "4",
        "worker_num": "0",
        "TrainReader.shuffle": "False",
        "weights": "out/x",
        "amp": "true",
    }
    assert "enable_ce" not in command.overrides
    assert parse_commands("echo hello")[:] == []
    msrun = parse_commands("msrun --worker_num=4 --local_worker_num=4 python tools/train.py --config a.yaml")[
        0
    ]
    assert (msrun.cards, msrun.config) == (4, "a.yaml")


def test_overrides_are_merged_before_checking(tmp_path):
    config = write(tmp_path, "c.yml", PPDET)
    findings = found(tmp_path, "run.sh", COMMAND.format(config=config))
    assert findings["ppdet-no-workers"].file.endswith("run.sh") and findings["ppdet-no-workers"].line == 1
    assert "yaml-number-as-text" in findings  # 3e-2 is text for the trainer too
    notes = lint_file(tmp_path / "run.sh").notes
    assert (
        "epoch = 4 (int)" in notes[0]
        and "TrainReader.shuffle = False (bool)" in notes[0]
        and "2 cards" in notes[0]
    )


def test_a_single_card_command_has_one_card(tmp_path):
    config = write(
        tmp_path,
        "c.yml",
        edited(PPDET, ("base_lr: 0.0025", "base_lr: 0.01"), ("batch_size: 2", "batch_size: 1")),
    )
    finding = found(tmp_path, "run.sh", f"python tools/train.py -c {config}\n")["ppdet-lr-cards"]
    assert finding.severity == "warning"


def test_commands_of_mindocr(tmp_path):
    config = write(tmp_path, "m.yaml", "train:\n  loader:\n    batch_size: 4\nsystem:\n  mode: 0\n")
    command = f"python tools/train.py -c {config} -o train.clip_grad=True system.note=a=b system.mode=1\n"
    findings = found(tmp_path, "run.sh", command)
    assert "train.clip_grad" in findings["mindocr-override-new-key"].message
    assert "system.note" in findings["mindocr-override-equals"].message


def test_export_with_a_batch(tmp_path):
    text = (
        "python tools/export_model.py -c a.yml && python deploy/python/infer.py --model_dir out "
        "--batch_size=4\n"
    )
    assert "--batch_size=4" in found(tmp_path, "run.sh", text)["ppdet-export-batch"].message
