"""PerfDecodeImage against DecodeImage, and reduced decoding against the whole one."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.mindocr.support import make, seeded, stock, write_set
from tests.mindocr.test_transforms import equal, run


@pytest.mark.parametrize("mode", ["RGB", "BGR"])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("orientation", [1, 6])
def test_pictures_are_decoded_as_stock_decodes_them(tmp_path, mode, ignore, orientation):
    """EXIF-rotated ones too: with the same flag, the same convention."""
    from PIL import Image

    file = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, 3)).astype(np.uint8)
    Image.fromarray(cv2.resize(pixels, (120, 80))).save(file, exif=exif)
    options = {"img_mode": mode, "ignore_orientation": ignore}
    expected = stock("DecodeImage", **options)({"img_path": str(file)})
    got = make([{"PerfDecodeImage": options}])[0]({"img_path": str(file)})
    equal(got, expected, ("image",))
    assert got["raw_img_shape"] == expected["raw_img_shape"]
    assert (got["raw_img_shape"] == (120, 80)) == (orientation == 6 and not ignore)


def test_what_is_no_picture_is_named(tmp_path):
    from detperf_plugins.errors import UnreadableInput

    decode = make([{"PerfDecodeImage": {}}])[0]
    (tmp_path / "a.jpg").write_bytes(b"not a picture")
    (tmp_path / "b.jpg").write_bytes(b"")
    for name, words in (("a.jpg", "no picture"), ("b.jpg", "no picture"), ("c.jpg", "No such file")):
        with pytest.raises(UnreadableInput, match=f"{name}.*{words}"):
            decode({"img_path": str(tmp_path / name)})


def test_reduced_decoding_is_near_the_whole_one(tmp_path):
    """A smooth 960 x 1280 picture drawn at a quarter and below."""
    file = tmp_path / "0.jpg"
    coarse = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    cv2.imwrite(str(file), cv2.resize(coarse, (1280, 960), interpolation=cv2.INTER_CUBIC))
    steps = [
        {"RandomScale": {"scale_range": [0.4, 1.0], "p": 1.0}},
        {"RandomCropWithBBox": {"crop_size": [240, 240], "p": 0.0}},
    ]
    plain = make([{"PerfDecodeImage": {"img_mode": "RGB"}}, {"PerfRandomGeometry": {"steps": steps}}])
    fewer = make(
        [{"PerfDecodeImage": {"img_mode": "RGB", "defer": True}}, {"PerfRandomGeometry": {"steps": steps}}]
    )
    for seed in range(4):
        data = {
            "img_path": str(file),
            "polys": np.zeros((1, 4, 2), np.float32),
            "ignore_tags": np.array([True]),
        }
        a, b = (seeded(seed, run, transforms, dict(data)) for transforms in (plain, fewer))
        equal(a, b, ("polys", "actual_size"))
        assert a["raw_img_shape"] == b["raw_img_shape"] == (960, 1280)
        assert 0 < np.abs(a["image"].astype(int) - b["image"]).mean() < 3


def test_reduced_decoding_never_goes_below_the_drawn_size(tmp_path):
    file = write_set(tmp_path, [[]], size=(96, 128)).parent / "0.jpg"
    deferred = make([{"PerfDecodeImage": {"img_mode": "RGB", "defer": True}}])[0]({"img_path": str(file)})[
        "image"
    ]
    assert deferred.shape == (96, 128, 3)
    for scale, factor in ((1.2, 1), (0.51, 1), (0.5, 2), (0.3, 2), (0.25, 4), (0.1, 8)):
        picture, reduced = deferred.decode(scale)
        assert reduced == factor and picture.shape[:2] == (96 // factor, 128 // factor)
