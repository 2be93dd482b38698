"""A generated set may be made anew; what someone else made is never written over, and nothing before it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from detperf_plugins import cli
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.samples.convert import convert

cli._load_verbs()
VERBS = (("shapes", "annotations.json", "--size=64"), ("scene-text", "labels.txt", "--size=96"))
USERS = {
    "annotations.json": '{"images": [], "annotations": [], "categories": []}',
    "labels.txt": 'img_0.jpg\t[{"transcription": "Ein Wort", "points": [[0, 0], [9, 0], [9, 9], [0, 9]]}]\n',
}


def generate(verb, folder, *options):
    return CliRunner().invoke(cli.app, ["samples", verb, str(folder), "--images=4", *options])


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("verb", "name", "size"), VERBS)
@pytest.mark.parametrize("part", ["train", "val"])
def test_a_users_annotations_stay_as_they_are(tmp_path, verb, name, size, part):
    (tmp_path / part).mkdir()
    (tmp_path / part / name).write_text(USERS[name], encoding="utf-8")
    before = files(tmp_path)
    result = generate(verb, tmp_path, size)
    assert isinstance(result.exception, UnreadableInput) and str(tmp_path / part / name) in str(
        result.exception
    )
    assert files(tmp_path) == before


@pytest.mark.parametrize(("verb", "name", "size"), VERBS)
def test_a_users_pictures_stay_as_they_are(tmp_path, verb, name, size):
    (tmp_path / "val" / "images").mkdir(parents=True)
    (tmp_path / "val" / "images" / "mine.png").write_bytes(b"picture")
    result = generate(verb, tmp_path, size)
    assert isinstance(result.exception, UnreadableInput) and not (tmp_path / "train").exists()


@pytest.mark.parametrize(("verb", "name", "size"), VERBS)
def test_a_generated_set_may_be_made_anew(tmp_path, verb, name, size):
    assert generate(verb, tmp_path, size).exit_code == 0
    before = (tmp_path / "train" / name).read_bytes()
    assert generate(verb, tmp_path, size, "--seed=1").exit_code == 0
    assert (tmp_path / "train" / name).read_bytes() != before


@pytest.mark.parametrize(("verb", "name", "size"), VERBS)
def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, verb, name, size):
    (tmp_path / "file").write_text("", encoding="utf-8")
    error = generate(verb, tmp_path / "file" / "x", size).exception
    assert isinstance(error, DetperfError) and "cannot write" in str(error) and "\n" not in str(error)


def test_a_conversion_writes_over_nothing_but_its_like(tmp_path):
    words = [{"polygon": [0, 0, 9, 0, 9, 5], "text": "a"}]
    source, out = tmp_path / "textdet.json", tmp_path / "labels.txt"
    source.write_text(json.dumps({"data_list": [{"img_path": "a.jpg", "instances": words}]}))
    convert(source, out)
    assert convert(source, out).words == 1
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="exists and holds something else"):
        convert(source, out)
    assert out.read_text() == "mine"
    arguments = ["samples", "convert", str(source), "--out", str(source / "x.txt")]
    error = CliRunner().invoke(cli.app, arguments).exception
    assert isinstance(error, DetperfError) and "cannot write" in str(error)
