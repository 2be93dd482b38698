"""What newer versions removed: real modules win, stand-ins speak, and DBNet trains without them."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from detperf_plugins.mindocr import compat
from tests.mindocr.scripts import run


@pytest.fixture()
def finder(monkeypatch):
    """The finder alone at the end of a copy of sys.meta_path, and none of its modules loaded."""
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if type(f).__name__ != "_Finder"])
    for name in [name for name in sys.modules if name.startswith(compat.REMOVED)]:
        monkeypatch.delitem(sys.modules, name)
    compat.install()
    return sys.meta_path[-1]


def test_stand_ins_speak_when_used(finder):
    layers = importlib.import_module(f"{compat.REMOVED}.layers")
    decorate = layers._args_type_validator_check(a=1)
    assert decorate(len) is len
    with pytest.raises(ImportError, match=r"MoE does not exist .* ABINet needs mindspore<2\.7"):
        importlib.import_module(f"{compat.REMOVED}.moe").MoE(hidden=8)
    with pytest.raises(ImportError, match="ABINet"):
        layers._LayerNorm.shape  # noqa: B018
    assert not hasattr(layers, "__path_that_is_not_there__")


def test_a_real_module_wins(finder, tmp_path, monkeypatch):
    folder = tmp_path / "_transformer"
    folder.mkdir()
    (folder / "__init__.py").write_text("MoE = 'the real one'\n")
    parent = types.ModuleType("mindspore.parallel")
    parent.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "mindspore.parallel", parent)
    assert importlib.import_module(compat.REMOVED).MoE == "the real one"


def test_install_twice_adds_one(finder):
    before = list(sys.meta_path)
    compat.install()
    assert sys.meta_path == before


def test_huggingface_name_is_there_and_is_the_real_one_where_it_exists(monkeypatch):
    import huggingface_hub

    compat.mend_huggingface()
    assert hasattr(huggingface_hub, "repo_type_and_id_from_hf_id")
    monkeypatch.setattr(huggingface_hub, "repo_type_and_id_from_hf_id", "real", raising=False)
    compat.mend_huggingface()
    assert huggingface_hub.repo_type_and_id_from_hf_id == "real"


@pytest.mark.parametrize(
    ("version", "machine", "given", "expected"),
    [
        ("2.8.0", "x86_64", None, None),
        ("2.9.0", "x86_64", None, "AVX2"),
        ("2.10.0", "AMD64", None, "AVX2"),
        ("2.10.0", "aarch64", None, None),
        ("2.10.0", "x86_64", "AVX512_CORE", "AVX512_CORE"),
    ],
)
def test_onednn_guard(monkeypatch, version, machine, given, expected):
    monkeypatch.setattr(compat.hosts, "version_of", lambda name: version)
    monkeypatch.setattr(compat.platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "modules", {name: m for name, m in sys.modules.items() if name != "mindspore"})
    monkeypatch.delenv(compat.ONEDNN_ISA, raising=False)
    if given is not None:
        monkeypatch.setenv(compat.ONEDNN_ISA, given)
    assert compat.guard_onednn() is (expected == "AVX2")
    import os

    assert os.environ.get(compat.ONEDNN_ISA) == expected


def test_convolutions_are_fast_with_the_guard_and_the_self_test_can_tell():
    from detperf_plugins.mindocr import activate

    activate()
    assert compat.slow_convolution() is None
    assert compat.slow_convolution(limit_gflops=1e9) > 0


def test_the_room_and_the_package_import_no_framework():
    code = (
        "import detperf_plugins.mindocr.runner, sys; assert not {'mindspore', 'mindocr'} & set(sys.modules)"
    )
    run([sys.executable, "-c", code])
