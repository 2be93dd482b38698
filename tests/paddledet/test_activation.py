"""Switching on, all four ways, each in a process of its own, and back off."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from detperf_plugins.paddledet import activate, active, deactivate
from tests.paddledet.scripts import OVERLAYS, STOCK_SCRIPT, python, run, tiny_config

DETPERF = str(Path(sys.executable).with_name("detperf"))
KEY = "plugins: !!python/object/apply:detperf_plugins.paddledet.activate []\n"


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(STOCK_SCRIPT, encoding="utf-8")
    return path


def result(output: str, word: str) -> list[str]:
    return next(line.split()[1:] for line in output.splitlines() if line.startswith(word + " "))


def test_activate_is_idempotent_and_undone():
    from ppdet.core.workspace import global_config
    from ppdet.data import transform
    from ppdet.data.source.coco import COCODataSet

    before = (
        set(global_config),
        global_config["MaskAssigner"].pymodule,
        COCODataSet.parse_dataset,
        set(dir(transform)),
    )
    assert not active()
    for _ in range(2):
        sentence = activate(replace=True)
        assert isinstance(sentence, str) and "replace" in sentence
    assert active() and "PolygonMaskAssigner" in global_config and hasattr(transform, "PackPolygons")
    assert activate() == sentence
    for _ in range(2):
        deactivate()
    after = (
        set(global_config),
        global_config["MaskAssigner"].pymodule,
        COCODataSet.parse_dataset,
        set(dir(transform)),
    )
    assert before == after and not active()


def test_replacing_builds_ours_from_the_stock_section(activated):
    from ppdet.core.workspace import create, global_config

    from detperf_plugins.paddledet.mask_targets import PolygonMaskAssigner

    assert type(create("MaskAssigner")).__module__.startswith("ppdet")
    activate(replace=True)
    global_config["MaskAssigner"]["mask_resolution"] = 21
    try:
        made = create("MaskAssigner")
        assert isinstance(made, PolygonMaskAssigner) and made.mask_resolution == 21
    finally:
        del global_config["MaskAssigner"]["mask_resolution"]


def test_a_part_inherits_its_stock_section_and_its_own_wins(activated):
    from ppdet.core.workspace import create, global_config

    section = global_config["MaskAssigner"]
    section["mask_resolution"] = 19
    try:
        assert create("PolygonMaskAssigner").mask_resolution == 19
        section["mask_resolution"] = 23  # a config loaded later in the same process
        assert create("PolygonMaskAssigner").mask_resolution == 23
        global_config["PolygonMaskAssigner"]["mask_resolution"] = 7
        assert create("PolygonMaskAssigner").mask_resolution == 7
    finally:
        del section["mask_resolution"]


@pytest.mark.parametrize("where", ["first", "last"])
def test_yaml_key_under_a_script_that_knows_nothing(where, script, shapes, tmp_path):
    """A section of ours merged before or after `plugins:`, worker processes included."""
    config = tiny_config(
        tmp_path, shapes, head=KEY if where == "first" else "",
        MaskHead={"mask_assigner": "PolygonMaskAssigner"},
        PolygonMaskAssigner={"threads": 1}, worker_num=1,
        TrainReader={"batch_size": 4, "batch_transforms": [
            {"PadBatch": {"pad_to_stride": 32}}, {"PackPolygons": {"del_poly": True}}]},
    )  # fmt: skip
    if where == "last":
        config.write_text(config.read_text(encoding="utf-8") + KEY, encoding="utf-8")
    assert result(run([sys.executable, str(script), str(config)]), "ASSIGNER") == [
        "PolygonMaskAssigner",
        "28",
    ]


def test_module_runs_any_script(script, shapes, tmp_path):
    plain = tiny_config(tmp_path, shapes)
    command = [sys.executable, "-m", "detperf_plugins"]
    stock = run([*command, str(script), str(plain)])
    swapped = run([*command, "--replace", str(script), str(plain)])
    assert result(stock, "ASSIGNER") == ["MaskAssigner", "28"]
    assert result(swapped, "ASSIGNER") == ["PolygonMaskAssigner", "28"]
    # Two steps apart, sums in another order: the mask targets are equal, the losses to float32 rounding.
    assert float(result(swapped, "LOSS")[0]) == pytest.approx(float(result(stock, "LOSS")[0]), rel=1e-4)


@pytest.mark.slow
def test_module_under_paddles_launcher(script, shapes, tmp_path):
    plain = tiny_config(tmp_path, shapes, TrainReader={"batch_size": 2})
    run(
        [sys.executable, "-m", "detperf_plugins", "--replace", "-m", "paddle.distributed.launch",
         "--nproc_per_node", "2", "--log_dir", str(tmp_path / "logs"), str(script), str(plain)],
        cwd=tmp_path,
    )  # fmt: skip
    logs = sorted((tmp_path / "logs").glob("workerlog.*"))
    assert len(logs) == 2
    for log in logs:
        assert (
            result(log.read_text(encoding="utf-8", errors="replace"), "ASSIGNER")[0] == "PolygonMaskAssigner"
        )


@pytest.mark.slow
def test_command_trains_evaluates_and_resumes_without_tools(shapes, tmp_path):
    config = tiny_config(tmp_path, shapes, OVERLAYS / "exact_targets.yml")
    first = run([DETPERF, "train", "-c", str(config), "--seed", "1", "-o", "epoch=1", "snapshot_epoch=1"])
    assert "Trained 1 epoch" in first
    weights = first.split("weights in ")[1].split(".pdparams")[0]
    assert Path(f"{weights}.pdparams").is_file()
    again = run(
        [DETPERF, "train", "-c", str(config), "--eval", "--amp", "-r", str(weights), "-o", "epoch=2",
         "--json", str(tmp_path / "out.json")], cwd=tmp_path,
    )  # fmt: skip
    assert "Epoch: [1]" in again and "Epoch: [0]" not in again
    assert "AMP does nothing on a CPU" in again
    assert '"bbox_ap"' in (tmp_path / "out.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence", "status"),
    [
        (["-c", "nowhere.yml"], "no config file nowhere.yml", 2),
        (["-c", "{config}", "-o", "epoch"], "not of the form key=value", 2),
        (["-c", "{config}", "-r", "nothing"], "nothing to resume from", 1),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence, status, shapes, tmp_path):
    config = tiny_config(tmp_path, shapes)
    output = run([DETPERF, "train", *[a.format(config=config) for a in arguments]], ok=False)
    assert sentence in output and "Traceback" not in output


def test_zlib_is_bound_before_paddle_in_every_process():
    """Without the preload, the first zlib call after `import paddle` can kill the process."""
    output = python("import zlib, paddle; print(zlib.decompress(zlib.compress(b'alive')).decode())")
    assert "alive" in output
    startup = [Path(folder) / "detperf_plugins_startup.pth" for folder in sys.path if folder]
    assert any(path.is_file() for path in startup)


@pytest.mark.parametrize(
    ("value", "on", "warnings"),
    [("1", True, 0), ("replace", True, 0), ("0", False, 0), ("", False, 0), ("off", False, 1)],
)
def test_the_variable_switches_on_and_off(value, on, warnings):
    """A child that the process starts says nothing once more."""
    child = "subprocess.run([sys.executable, '-c', 'pass'], check=True)"
    code = f"import subprocess, sys; {child}"
    code += "; from detperf_plugins.imports import _WATCHER; print('ON', 'ppdet.engine' in _WATCHER.watched)"
    output = python(code, env={"DETPERF_PLUGINS": value})
    assert result(output, "ON") == [str(on)]
    assert output.count(f"detperf: DETPERF_PLUGINS={value} is unknown, the plugins stay off") == warnings


def test_the_startup_file_of_this_version_imports_nothing_when_off(tmp_path):
    startup = (Path(__file__).parents[2] / "detperf_plugins_startup.pth").read_text(encoding="utf-8")
    (tmp_path / "detperf_plugins").mkdir()
    for name in ("__init__", "startup"):
        (tmp_path / "detperf_plugins" / f"{name}.py").write_text("", encoding="utf-8")
    code = "import sys; exec(sys.argv[1]); print('LOADED', 'detperf_plugins.startup' in sys.modules)"
    for value, loaded in (("0", "False"), ("", "False"), ("1", "True")):
        output = run(
            [sys.executable, "-S", "-c", code, startup],
            env={"DETPERF_PLUGINS": value},
            cwd=tmp_path,
        )
        assert result(output, "LOADED") == [loaded]


def test_an_unsupported_paddle_is_refused_with_a_sentence(monkeypatch):
    from detperf_plugins import hosts
    from detperf_plugins.errors import UnsupportedHost

    monkeypatch.setattr(hosts, "version_of", lambda name: {"paddlepaddle": "2.4.1"}.get(name))
    with pytest.raises(UnsupportedHost, match=r"2\.4\.1 is older than 2\.6"):
        activate()
    assert not active()
    monkeypatch.setattr(hosts, "version_of", lambda name: {"paddlepaddle": "4.0.0"}.get(name))
    with pytest.raises(UnsupportedHost, match="newer"):
        activate()


@pytest.mark.skipif("PADDLEDETECTION" not in os.environ, reason="PADDLEDETECTION names no checkout")
@pytest.mark.slow
def test_stock_tools_of_a_checkout(shapes, tmp_path):
    """The real tools/train.py, with the YAML key alone and through the module."""
    checkout = Path(os.environ["PADDLEDETECTION"])
    config = tiny_config(tmp_path, shapes, OVERLAYS / "exact_targets.yml")
    for command in ([], ["-m", "detperf_plugins"]):
        output = run(
            [sys.executable, *command, str(checkout / "tools" / "train.py"), "-c", str(config)], cwd=tmp_path
        )
        assert "Epoch: [0]" in output and "loss_mask" in output
