"""The cache of decoded pictures: the same pixels, bounded, shared, and unharmed by killed runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from detperf_plugins.mindocr.cache import DecodedCache
from tests.mindocr.support import make, write_set

LIMIT = 1 << 24


def picture(seed=0, height=30, width=40):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.fixture(autouse=True)
def room(tmp_path):
    """A cache takes nothing on a disk that is over 95 % full."""
    system = os.statvfs(tmp_path)
    if system.f_bavail < 0.051 * system.f_blocks:
        pytest.skip("the disk is nearly full, where the cache keeps nothing")


@pytest.fixture()
def files(tmp_path):
    names = []
    for index in range(6):
        names.append(str(tmp_path / f"{index}.jpg"))
        Path(names[-1]).write_bytes(b"x" * (index + 1))
    return names


def test_what_was_put_comes_back_and_cannot_be_written_to(tmp_path, files):
    cache = DecodedCache(tmp_path / "c", LIMIT, "rgb0")
    assert cache.get(files[0]) is None
    assert cache.put(files[0], picture())
    got = cache.get(files[0])
    np.testing.assert_array_equal(got, picture())
    with pytest.raises(ValueError, match="read-only"):
        got[0, 0, 0] = 1
    assert DecodedCache(tmp_path / "c", LIMIT, "bgr0").get(files[0]) is None
    Path(files[0]).write_bytes(b"changed")
    assert cache.get(files[0]) is None and cache.get(files[1]) is None


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path, files, monkeypatch):
    cache = DecodedCache(tmp_path / "c", LIMIT, "rgb0")
    real = os.statvfs(tmp_path)
    for share, kept in ((0.04, False), (0.5, True)):
        fields = list(real)
        fields[4] = int(share * real.f_blocks)  # f_bavail
        monkeypatch.setattr(os, "statvfs", lambda _, fields=fields: os.statvfs_result(fields))
        assert cache.put(files[0], picture()) is kept


def test_the_bound_holds_across_instances(tmp_path, files):
    one = 16 + 30 * 40 * 3
    first = DecodedCache(tmp_path / "c", 3 * one, "rgb0")
    assert [first.put(name, picture(i)) for i, name in enumerate(files)] == [True] * 3 + [False] * 3
    second = DecodedCache(tmp_path / "c", 3 * one, "rgb0")
    assert not second.put(files[4], picture(4))
    assert sum(f.stat().st_size for f in (tmp_path / "c").glob("*.pixels")) == 3 * one
    np.testing.assert_array_equal(second.get(files[2]), picture(2))


def test_workers_share_it(tmp_path, files):
    cache = DecodedCache(tmp_path / "c", LIMIT, "rgb0")
    child = multiprocessing.get_context("fork").Process(target=cache.put, args=(files[3], picture(3)))
    child.start()
    child.join()
    np.testing.assert_array_equal(cache.get(files[3]), picture(3))


def test_a_cut_off_file_is_no_picture(tmp_path, files):
    cache = DecodedCache(tmp_path / "c", LIMIT, "rgb0")
    cache.put(files[0], picture())
    (file,) = (tmp_path / "c").glob("*.pixels")
    file.write_bytes(file.read_bytes()[:-1])
    assert cache.get(files[0]) is None
    file.write_bytes(b"")
    assert cache.get(files[0]) is None


def test_a_run_killed_while_writing_leaves_nothing_behind(tmp_path, files):
    """A process is killed while it writes without end; the next run finds whole pictures only."""
    script = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from detperf_plugins.mindocr.cache import DecodedCache\n"
        f"cache = DecodedCache(Path({str(tmp_path / 'c')!r}), 1 << 30, 'rgb0')\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        f"    for seed, name in enumerate({files!r}):\n"
        "        cache.put(name, np.full((900, 900, 3), seed, np.uint8))\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert run.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    left = tmp_path / "c" / f"{'0' * 32}.pixels.{run.pid}.1.part"  # as if the kill had fallen into a write
    left.write_bytes(b"half a picture")
    cache = DecodedCache(tmp_path / "c", 1 << 30, "rgb0")
    assert not list((tmp_path / "c").glob("*.part"))
    for seed, name in enumerate(files):
        got = cache.get(name)
        assert got is None or ((got == seed).all() and got.shape == (900, 900, 3))
    held = sum(f.stat().st_size for f in (tmp_path / "c").glob("*.pixels"))
    assert int((tmp_path / "c" / "bytes").read_text()) == held > 0


def test_the_memory_cache_goes_with_its_process(files):
    script = (
        "import numpy as np\n"
        "from detperf_plugins.mindocr.cache import DecodedCache\n"
        "cache = DecodedCache.open('memory', 1 << 24, 'rgb0')\n"
        f"cache.put({files[0]!r}, np.ones((9, 9, 3), np.uint8))\n"
        f"assert cache.get({files[0]!r}).all()\n"
        "print(cache._folder)\n"
    )
    folder = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert folder and not os.path.exists(folder)


def test_decoding_through_the_cache_gives_the_same_pictures(tmp_path):
    write_set(tmp_path, [[], []])
    options = {"img_mode": "RGB", "cache": str(tmp_path / "c"), "cache_gb": 0.1}
    decode = make([{"PerfDecodeImage": options}])[0]
    stock = make([{"DecodeImage": {"img_mode": "RGB"}}])[0]
    for _ in range(2):
        for name in ("0.jpg", "1.jpg"):
            path = str(tmp_path / name)
            got = decode({"img_path": path})
            np.testing.assert_array_equal(got["image"], stock({"img_path": path})["image"])
            got["image"][:] = 0  # a copy: the next visit sees none of it
    assert len(list((tmp_path / "c").glob("*.pixels"))) == 2
