"""Pictures marked as turned decode under use_minddata as they do in the stock pipeline."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from detperf_plugins.mindocr import activate, exif


@pytest.fixture(scope="module")
def decode():
    activate()
    from mindocr.data.transforms.general_transforms import DecodeImage

    return DecodeImage


def write(path, orientation):
    """A picture whose four quarters differ, so that every turn shows."""
    array = np.zeros((48, 80, 3), np.uint8)
    array[:24, :40] = (250, 20, 20)
    array[:24, 40:] = (20, 250, 20)
    array[24:, :40] = (20, 20, 250)
    mark = Image.Exif()
    mark[0x0112] = orientation
    Image.fromarray(array).save(path, quality=95, exif=mark)
    return {"img_path": str(path)}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_as_opencv_turns(decode, tmp_path, orientation):
    data = write(tmp_path / "a.jpg", orientation)
    stock = decode(img_mode="RGB")(dict(data))
    ours = decode(img_mode="RGB", use_minddata=True, keep_ori=True)(dict(data))
    assert ours["image"].shape == stock["image"].shape == ((48, 80, 3) if orientation < 5 else (80, 48, 3))
    # Two decoders of one JPEG differ by rounding.
    assert np.abs(ours["image"].astype(int) - stock["image"]).mean() < 3
    assert tuple(ours["raw_img_shape"]) == tuple(stock["raw_img_shape"])
    assert np.array_equal(ours["image_ori"], ours["image"])


def test_a_pipeline_that_ignores_the_mark_still_does(decode, tmp_path):
    data = write(tmp_path / "a.jpg", 6)
    assert decode(img_mode="RGB", use_minddata=True, ignore_orientation=True)(data)["image"].shape == (
        48,
        80,
        3,
    )


def test_channels_first(decode, tmp_path):
    data = write(tmp_path / "a.jpg", 6)
    turned = decode(img_mode="RGB", use_minddata=True, channel_first=True)(data)["image"]
    assert turned.shape == (3, 80, 48)


def test_wrapping_twice_changes_nothing(decode):
    assert not exif.mend_decode()


def test_a_patched_host_is_not_wrapped(decode, monkeypatch):
    def call(self, data):
        return data

    monkeypatch.setattr(decode, "__call__", call)
    monkeypatch.setattr(decode, "_is_turned", lambda self, image: False, raising=False)
    assert not exif.mend_decode()
    assert decode.__call__ is call


@pytest.mark.parametrize("orientation", [0, 1, 9, 77])
def test_marks_that_mean_nothing_turn_nothing(orientation):
    image = np.arange(24).reshape(2, 4, 3)
    assert exif.turn(image, orientation) is image
