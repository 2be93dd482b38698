"""Two CPU processes through msrun: the result of one process on the doubled batch, and one set of weights."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from detperf_plugins.mindocr import environment
from tests.mindocr.scripts import PIPELINE, config, run

# Trains, and prints losses, cards and a sum over the trained weights.
SCRIPT = """
import json, os, sys
from pathlib import Path
from detperf_plugins.mindocr import runner
kept, real = [], runner._step_network
def step_network(cfg, network, *rest):
    kept.append(network)
    return real(cfg, network, *rest)
runner._step_network = step_network
result = runner.train(Path(sys.argv[1]))
weights = sum(float(abs(one.asnumpy()).astype("float64").sum()) for one in kept[0].trainable_params())
Path(sys.argv[2] + os.environ.get("RANK_ID", "")).write_text(
    json.dumps({"losses": result["losses"], "devices": result["facts"]["devices"], "weights": weights}))
"""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow
def test_two_processes_train_as_one_on_the_doubled_batch(words, tmp_path):
    # Card 0 gets lines 0, 2, 4, ..., card 1 lines 1, 3, 5, ...: for two steps both see the same pictures, so
    # that batch norm sees what it sees in one process; then each sees its own.
    lines = (words / "train" / "labels.txt").read_text().splitlines()
    lines = [lines[index] for index in (0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7)]
    (words / "train" / "doubled.txt").write_text("\n".join(lines) + "\n")
    fixed = [
        {"DetResize": {"target_size": [64, 64], "keep_ratio": False, "limit_type": "none", "divisor": 32}}
    ]
    pipeline = [step for step in PIPELINE if not next(iter(step)).startswith("Random")]
    pipeline[2:2] = fixed
    paths = {}
    for name, batch in (("one", 4), ("two", 2)):
        data = {"dataset_root": str(words), "label_file": "train/doubled.txt", "shuffle": False,
                "transform_pipeline": pipeline}  # fmt: skip
        changes = {
            "system": {"val_while_train": False, "distribute": name == "two"},
            "scheduler": {"num_epochs": 1},
            "train": {"dataset": data, "loader": {"batch_size": batch, "shuffle": False},
                      "ckpt_save_dir": str(tmp_path / name / "out")},
        }  # fmt: skip
        paths[name] = config(tmp_path / name, words, **changes)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run([sys.executable, str(script), str(paths["one"]), str(tmp_path / "one.json")])
    bin_folder = Path(sys.executable).parent
    run(
        [str(bin_folder / "msrun"), "--worker_num=2", "--local_worker_num=2", f"--master_port={_free_port()}",
         f"--log_dir={tmp_path / 'log'}", "--join=True", str(script), str(paths["two"]),
         str(tmp_path / "two.json")],
        PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip
    one = json.loads((tmp_path / "one.json").read_text())
    cards = [json.loads((tmp_path / f"two.json{rank}").read_text()) for rank in (0, 1)]
    assert [card["devices"] for card in cards] == [2, 2]
    for card in cards:
        assert card["losses"][:2] == pytest.approx(one["losses"][:2], rel=1e-4)
    assert cards[0]["losses"][2] != cards[1]["losses"][2], "both cards saw the same pictures to the end"
    assert cards[0]["weights"] == cards[1]["weights"], "the gradients were not averaged"
    assert {"phases.json", "phases_rank1.json"} <= {
        path.name for path in (tmp_path / "two" / "out").iterdir()
    }


def _cann(tmp_path, **versions):
    home = tmp_path / "latest"
    for name, version in versions.items():
        folder = home / "x86_64-linux"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"ascend_{name}_install.info").write_text(
            f"package_name=Ascend-cann-{name}\nversion={version}\n"
        )
    devices = tmp_path / "dev"
    devices.mkdir(exist_ok=True)
    for card in (0, 1):
        (devices / f"davinci{card}").touch()
    (devices / "davinci_manager").touch()
    return {
        "environ": {"ASCEND_TOOLKIT_HOME": str(home)},
        "devices": devices,
        "default_home": tmp_path / "none",
    }


def test_two_cards_with_matching_cann_are_ready(tmp_path):
    given = _cann(tmp_path, toolkit="8.0.RC2", kernels="8.0.RC2.1")
    rows = environment.ascend_rows(version_of={"te": "0.4.0", "hccl": "8.0.0"}.get, **given)
    assert [row["available"] for row in rows] == [True, True, True, True]
    assert rows[0]["value"] == "davinci0, davinci1"


@pytest.mark.parametrize(
    ("versions", "packages", "name", "reason"),
    [
        ({"toolkit": "8.0.RC2"}, {"te": "0.4.0"}, "CANN package hccl", "pip install the hccl wheel"),
        ({"toolkit": "8.0.RC2"}, {"te": "7.0.0", "hccl": "0.1.0"}, "CANN package te", "does not match CANN"),
        (
            {"toolkit": "8.0.RC2", "kernels": "7.0.0"},
            {"te": "0.4", "hccl": "0.1"},
            "CANN",
            "different versions",
        ),
        ({}, {"te": "0.4.0", "hccl": "0.1.0"}, "CANN", "source CANN's set_env.sh"),
    ],
)
def test_what_two_cards_lack_is_said(tmp_path, versions, packages, name, reason):
    rows = environment.ascend_rows(version_of=packages.get, **_cann(tmp_path, **versions))
    faults = {row["name"]: row["reason"] for row in rows if row["available"] is False}
    assert reason in faults[name]


def test_without_cards_and_cann_there_is_one_row(tmp_path):
    rows = environment.ascend_rows({}, tmp_path, lambda name: None, tmp_path / "none")
    assert [row["available"] for row in rows] == [False]


def test_ranks_are_counted(tmp_path):
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"server_list": [{"device": [{"rank_id": "0"}, {"rank_id": "1"}]}]}))
    assert environment.rank_rows({"RANK_TABLE_FILE": str(table)})[0]["value"] == "2 in the rank table"
    assert environment.rank_rows({"RANK_TABLE_FILE": "nowhere"})[0]["available"] is False
    assert environment.rank_rows({"MS_WORKER_NUM": "2", "RANK_ID": "1"})[0]["value"] == "rank 1 of 2 (msrun)"
    assert environment.rank_rows({}) == []


def test_the_device_is_reported():
    rows = environment.mindspore_rows()
    assert rows[0]["available"] and "device" in rows[0]["value"]
