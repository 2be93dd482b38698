"""AssignRPNTargets in the loader, and the head that trains on its targets."""

from __future__ import annotations

import json

import numpy as np
import paddle
import pytest
from ppdet.data.reader import BatchCompose

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.counters import count
from detperf_plugins.paddledet.rpn_head import PerfRPNHead, rpn_losses
from detperf_plugins.paddledet.rpn_targets import RPNSample
from detperf_plugins.paddledet.rpn_transform import RPN_KEYS, AssignRPNTargets
from tests.paddledet.boxes import image_boxes
from tests.paddledet.scripts import python

pytestmark = pytest.mark.usefixtures("activated")

FPN = {"anchor_sizes": [[16], [32], [64]], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [4, 8, 16]}
C4 = {"anchor_sizes": [16, 32, 64], "aspect_ratios": [0.5, 1.0, 2.0], "strides": [16]}
RULE = {"batch_size_per_im": 64, "use_random": False}


def samples(kinds: list[str], height: int = 96, width: int = 128) -> list[dict]:
    rng = np.random.default_rng(0)
    made = []
    for kind in kinds:
        boxes, crowd = image_boxes(rng, kind, height, width)
        made.append(
            {
                "image": np.zeros((3, height, width), dtype=np.float32),
                "im_shape": np.array([height, width], dtype=np.float32),
                "gt_bbox": boxes,
                "is_crowd": crowd,
            }
        )
    return made


def as_batch(loaded: list[dict]) -> dict:
    """As ppdet's reader hands it over under collate_batch: false."""
    batch = BatchCompose([], collate_batch=False)(loaded)
    return {
        key: [paddle.to_tensor(one) if isinstance(one, np.ndarray) else one for one in value]
        if isinstance(value, list)
        else paddle.to_tensor(value)
        for key, value in batch.items()
    }


def feats(anchors: dict, images: int, height: int = 96, width: int = 128) -> list[paddle.Tensor]:
    paddle.seed(1)
    return [paddle.rand([images, 8, -(-height // s), -(-width // s)]) * 20 for s in anchors["strides"]]


@pytest.mark.parametrize("anchors", [FPN, C4])
@pytest.mark.parametrize("size", [(96, 128), (100, 93)])
def test_the_loaders_targets_give_the_steps_losses(anchors, size):
    kinds = ["plain", "crowd", "empty", "many"]
    paddle.seed(0)
    head = PerfRPNHead(anchor_generator=anchors, rpn_target_assign=RULE, in_channel=8)
    plain = as_batch(samples(kinds, *size))
    loaded = as_batch(AssignRPNTargets(anchors, RULE)(samples(kinds, *size)))
    assert set(loaded) - set(plain) == set(RPN_KEYS)
    given = feats(anchors, len(kinds), *size)
    _, _, in_step = head(given, plain)
    _, _, from_loader = head(given, loaded)
    for name in in_step:
        assert float(in_step[name]) == float(from_loader[name]) > 0


def test_shapes_and_types():
    loaded = AssignRPNTargets(FPN, {"batch_size_per_im": 64, "fg_fraction": 0.25})(
        samples(["plain", "empty"])
    )
    for sample in loaded:
        index, label, delta, text = (sample[key] for key in RPN_KEYS)
        assert (index.shape, label.shape, delta.shape) == ((64,), (64,), (16, 4))
        assert (index.dtype, label.dtype, delta.dtype) == (np.int32, np.int32, np.float32)
        assert json.loads(text)["batch_size_per_im"] == 64


def test_targets_cost_the_step_nothing_but_their_loss():
    head = PerfRPNHead(anchor_generator=FPN, rpn_target_assign=RULE, in_channel=8)
    loaded = as_batch(AssignRPNTargets(FPN, RULE)(samples(["plain", "crowd"])))
    given = feats(FPN, 2)
    head(given, loaded)
    assert count(lambda: head(given, loaded)).host_reads == 1  # the logits, for the proposals
    grid = next(iter(head._grids.values()))
    logits = paddle.rand([2, 5 * len(grid.anchors)])
    sample = RPNSample(*[paddle.stack(loaded[key]) for key in RPN_KEYS[:3]])
    assert count(lambda: rpn_losses(logits, grid.positions, sample, 128)).host_reads == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchor_generator": {**FPN, "strides": [4, 8, 32]}}, "strides is .* in AssignRPNTargets but"),
        ({"anchor_generator": {**FPN, "aspect_ratios": [0.5, 1.0]}}, "aspect_ratios is"),
        ({"rpn_target_assign": {**RULE, "positive_overlap": 0.6}}, "positive_overlap is 0.6 .* 0.7"),
        ({"rpn_target_assign": {**RULE, "batch_size_per_im": 32}}, "batch_size_per_im is 32.0"),
    ],
)
def test_a_mismatch_names_the_value(change, message):
    settings = {"anchor_generator": FPN, "rpn_target_assign": RULE, **change}
    loaded = as_batch(AssignRPNTargets(**settings)(samples(["plain"])))
    head = PerfRPNHead(anchor_generator=FPN, rpn_target_assign=RULE, in_channel=8)
    with pytest.raises(DetperfError, match=message):
        head(feats(FPN, 1), loaded)


def test_targets_made_before_padding_are_refused():
    with pytest.raises(DetperfError, match="put it after PadBatch"):
        AssignRPNTargets(FPN, RULE)(samples(["plain"]) + samples(["plain"], 64, 64))
    loaded = as_batch(AssignRPNTargets(FPN, RULE)(samples(["plain"])))
    head = PerfRPNHead(anchor_generator=FPN, rpn_target_assign=RULE, in_channel=8)
    with pytest.raises(DetperfError, match="grids is"):
        head(feats(FPN, 1, 128, 128), loaded)


def test_settings_come_from_the_config():
    from ppdet.core.workspace import global_config

    section = global_config["RPNHead"]
    before = dict(section)
    section.update({"anchor_generator": dict(C4), "rpn_target_assign": dict(RULE)})
    try:
        transform = AssignRPNTargets()
        assert transform.settings.strides == (16.0,)
        assert transform.assign.batch_size_per_im == 64
        assert AssignRPNTargets(anchor_generator=FPN).settings.strides == (4.0, 8.0, 16.0)
    finally:
        section.clear()
        section.update(before)


WORKERS = """
import json
from detperf_plugins.paddledet import activate
activate()
import numpy as np, paddle
from paddle.io import DataLoader, Dataset
from ppdet.data.reader import BatchCompose

class Alike(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return {"image": np.zeros((3, 96, 128), "float32"), "im_id": np.array([index]),
                "gt_bbox": np.array([[8, 8, 40, 40]], "float32"), "is_crowd": np.zeros((1, 1), "int32")}

def draws(seed):
    np.random.seed(seed)
    anchors = {"anchor_sizes": [[16], [32]], "aspect_ratios": [1.0], "strides": [4, 8]}
    assign = {"anchor_generator": anchors, "rpn_target_assign": {"batch_size_per_im": 32}}
    collate = BatchCompose([{"AssignRPNTargets": assign}], collate_batch=False)
    loader = DataLoader(Alike(), batch_size=2, num_workers=2, collate_fn=collate, use_shared_memory=False,
                        return_list=False)
    return [[one.numpy().tolist() for batch in loader for one in batch["gt_rpn_index"]] for _ in range(2)]

print("DRAWS", json.dumps([draws(1), draws(1), draws(2)]))
"""


def test_no_two_workers_or_epochs_draw_alike_and_a_seed_repeats_them():
    first, again, other = json.loads(python(WORKERS).split("DRAWS ")[1].splitlines()[0])
    assert first == again
    drawn = [tuple(index) for run in (first, other) for epoch in run for index in epoch]
    assert len(drawn) == 32
    assert len(set(drawn)) == 32
