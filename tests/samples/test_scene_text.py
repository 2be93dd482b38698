"""Generated words: labels that fit the pictures, and the same ones from the same seed."""

from __future__ import annotations

import json

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from detperf_plugins.samples.scene_text import write_scene_text  # noqa: E402


def test_labels_fit_their_pictures_and_depend_on_the_seed(tmp_path):
    path = write_scene_text(tmp_path / "a", images=12, size=160, seed=3)
    same = write_scene_text(tmp_path / "b", images=12, size=160, seed=3)
    other = write_scene_text(tmp_path / "c", images=12, size=160, seed=4)
    assert path.read_text() == same.read_text() != other.read_text()
    contrasts, ignored = [], 0
    for line in path.read_text().splitlines():
        name, label = line.split("\t")
        picture = cv2.imread(str(path.parent / "images" / name))
        assert picture.shape == (160, 160, 3)
        words = json.loads(label)
        assert 1 <= len(words) <= 4
        for word in words:
            points = np.array(word["points"])
            assert points.shape == (4, 2) and points.min() >= 0 and points.max() < 160
            assert cv2.contourArea(points.astype(np.float32)) > 100
            ignored += word["transcription"] == "###"
            mask = cv2.fillPoly(np.zeros((160, 160), np.uint8), [points], 1).astype(bool)
            contrasts.append(picture[mask].std() - picture[~mask].std())
    assert np.mean(contrasts) > -60 and len(contrasts) > 12
    assert ignored < len(contrasts) / 2
