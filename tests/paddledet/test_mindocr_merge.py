"""The merge rules of MindOCR configs are PaddleDetection's own: compared on random trees and files."""

from __future__ import annotations

import copy

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ppdet.core import workspace

from detperf_plugins.mindocr import config
from detperf_plugins.overrides import parse_overrides

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["x", "y=z", ""]))
TREES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=4),
    lambda inner: st.dictionaries(KEYS, st.one_of(LEAVES, inner, st.lists(LEAVES, max_size=3)), max_size=4),
    max_leaves=20,
)


@settings(max_examples=500, deadline=None)
@given(TREES, TREES)
def test_merge_is_dict_merge(below, above):
    theirs = workspace.dict_merge(copy.deepcopy(below), copy.deepcopy(above))
    kept = copy.deepcopy((below, above))
    assert config.merge(below, above) == theirs
    assert (below, above) == kept


@settings(max_examples=100, deadline=None)
@given(st.lists(TREES, min_size=1, max_size=3), TREES)
def test_base_lists_load_as_in_paddledetection(tmp_path_factory, bases, top):
    folder = tmp_path_factory.mktemp("bases")
    names = [f"{index}.yml" for index in range(len(bases))]
    for name, tree in zip(names, bases):
        (folder / name).write_text(yaml.safe_dump(tree))
    path = folder / "top.yml"
    path.write_text(yaml.safe_dump({**top, "_BASE_": names}))
    kept = dict(workspace.global_config)
    workspace.global_config.clear()
    try:
        theirs = dict(workspace._load_config_with_base(str(path)))
        theirs = {**dict(workspace.global_config), **theirs}
    finally:
        workspace.global_config.clear()
        workspace.global_config.update(kept)
    assert config.read(path) == theirs


@settings(max_examples=200, deadline=None)
@given(TREES, st.lists(KEYS, min_size=1, max_size=3), LEAVES)
def test_one_override_as_the_stock_parser_merges_it(tree, keys, value):
    from ppdet.utils.cli import ArgsParser

    word = f"{'.'.join(keys)}={yaml.safe_dump(value).split(chr(10))[0]}"
    theirs = workspace.dict_merge(copy.deepcopy(tree), ArgsParser()._parse_opt([word]))
    if str(value).count("="):  # the stock parser cannot split it
        return
    assert config.merge(tree, parse_overrides([word])) == theirs
