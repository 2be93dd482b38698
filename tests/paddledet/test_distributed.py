"""Two processes over gloo, with batch 1 each, train as one process with batch 2.

Equal, where the losses of the two ranks average to that of the whole batch: RPN losses are divided by a
number fixed for each image, box losses by the live RoIs, the mask loss by the foreground RoIs. So every image
fills all its RoI slots, one of them with foreground. Norms are frozen, since a rank's trainable norm sees its
own images alone; nothing is drawn at random; the images of a step are the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import paddle
import pytest

from detperf_plugins.samples.coco_shapes import write_coco_shapes
from tests.paddledet.scripts import OVERLAYS, run, tiny_config

# As a user's training script; the weights it starts from are kept, to know how far they have gone.
SCRIPT = """
import os, sys
import paddle
from ppdet.core.workspace import load_config
from ppdet.engine import Trainer, init_parallel_env, set_random_seed

def train(config):
    cfg = load_config(config)
    paddle.set_device("cpu")
    init_parallel_env()
    set_random_seed(paddle.distributed.get_rank())  # DataParallel must hand out rank 0's weights
    trainer = Trainer(cfg, mode="train")
    if paddle.distributed.get_rank() == 0:
        os.makedirs(cfg.save_dir, exist_ok=True)
        paddle.save(trainer.model.state_dict(), os.path.join(cfg.save_dir, "start.pdparams"))
    trainer.train()
    print("RANKS", paddle.distributed.get_world_size(), type(trainer.optimizer).__name__,
          trainer.model.backbone.channels_last, flush=True)

if __name__ == "__main__":
    two, one = sys.argv[1:]
    if os.environ["PADDLE_TRAINER_ID"] == "0" and os.fork() == 0:  # one import of the host for both
        for name in [name for name in os.environ if name.startswith("PADDLE_")]:
            del os.environ[name]
        train(one)
        os._exit(0)
    train(two)
    if os.environ["PADDLE_TRAINER_ID"] == "0":
        assert os.wait()[1] == 0
"""
TRANSFORMS = [
    {"Decode": {}},
    {"Resize": {"interp": 2, "target_size": [64, 64], "keep_ratio": True}},
    {"NormalizeImage": {"is_scale": True, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}},
    {"Permute": {}},
]


def weights(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The first and the last weights of a run, by name."""
    files = folder / "output" / "start.pdparams", folder / "output" / "config" / "model_final.pdparams"
    start, end = ({name: one.numpy() for name, one in paddle.load(str(file)).items()} for file in files)
    return start, end


@pytest.mark.slow
def test_two_processes_are_one_with_twice_the_batch(tmp_path):
    write_coco_shapes(tmp_path / "shapes" / "train", images=4, size=64, seed=0)
    write_coco_shapes(tmp_path / "shapes" / "val", images=1, size=64, seed=1)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    configs = {
        ranks: tiny_config(
            tmp_path / str(ranks),
            tmp_path / "shapes",
            OVERLAYS / "mask_rcnn_r50_nhwc_amp_fpn.yml",
            ResNet={"freeze_norm": True},
            BBoxAssigner={"batch_size_per_im": 8, "fg_fraction": 0.125, "use_random": False},
            TrainReader={"batch_size": 2 // ranks, "shuffle": False, "sample_transforms": TRANSFORMS},
        )
        for ranks in (1, 2)
    }
    logs = tmp_path / "logs"
    launcher = ["-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", str(logs)]
    command = [sys.executable, *launcher, str(script), str(configs[2]), str(configs[1])]
    run(command, cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    output = "".join(
        log.read_text(encoding="utf-8", errors="replace") for log in sorted(logs.glob("workerlog.*"))
    )
    said = sorted(line for line in output.splitlines() if line.startswith("RANKS "))
    assert said == [f"RANKS {ranks} PerfMomentum True" for ranks in (1, 2, 2)]
    found = {ranks: weights(tmp_path / str(ranks)) for ranks in configs}
    (start, one), (same_start, two) = found[1], found[2]
    gone = 0
    for name, before in start.items():
        np.testing.assert_array_equal(before, same_start[name], err_msg=name)
        update, other = one[name] - before, two[name] - before
        # float32 sums of other orders; what both have not moved is frozen.
        np.testing.assert_allclose(other, update, rtol=0, atol=1e-3 * np.abs(update).max(), err_msg=name)
        gone += bool(np.abs(update).max() > 0)
    assert gone > 40
