"""Whole training steps of every architecture: stock, then all parts in its place, in one process."""

from __future__ import annotations

import json

import pytest

from tests.paddledet.scripts import TINY, python

C4 = """
ResNet: {return_idx: [2], num_stages: 3}
Res5Head: {depth: 18}
RPNHead:
  anchor_generator: {anchor_sizes: [16, 32, 64, 96], strides: [16]}
  train_proposal: {topk_after_collect: false}
BBoxHead: {head: Res5Head, with_pool: true, roi_extractor: {resolution: 8, sampling_ratio: 0, aligned: true}}
MaskHead: {share_bbox_feat: true, roi_extractor: {resolution: 8, sampling_ratio: 0, aligned: true}}
MaskFeat: {num_convs: 0}
MaskAssigner: {mask_resolution: 8}
BBoxAssigner: {batch_size_per_im: 16}
"""
MASK_C4 = C4 + "MaskRCNN: {neck: null}\n"
FASTER = """
architecture: FasterRCNN
FasterRCNN: {backbone: ResNet, neck: NECK, rpn_head: RPNHead, bbox_head: BBoxHead,
  bbox_post_process: BBoxPostProcess}
"""
FASTER_FPN, FASTER_C4 = FASTER.replace("NECK", "FPN"), FASTER.replace("NECK", "null") + C4
CASCADE = """
architecture: CascadeRCNN
CascadeRCNN: {backbone: ResNet, neck: FPN, rpn_head: RPNHead, bbox_head: CascadeHead, mask_head: MaskHead,
  bbox_post_process: BBoxPostProcess, mask_post_process: MaskPostProcess}
CascadeHead: {head: CascadeTwoFCHead, roi_extractor: {resolution: 7, sampling_ratio: 0, aligned: true},
  bbox_assigner: BBoxAssigner}
CascadeTwoFCHead: {out_channel: 96}
BBoxAssigner: {cascade_iou: [0.5, 0.6, 0.7]}
"""

SCRIPT = """
import json, sys
from detperf_plugins.paddledet import activate
activate()
import numpy as np, paddle
from ppdet.core.workspace import create, load_config
from detperf_plugins.measure.counters import count

cfg = load_config(sys.argv[1])
empty = sys.argv[2] == "empty"
rng = np.random.default_rng(0)

def image(count):
    start = rng.uniform(0, 80, (count, 2))
    boxes = np.concatenate([start, np.minimum(start + rng.uniform(10, 60, (count, 2)), 127)], 1)
    return boxes.astype("float32").reshape(-1, 4)

def batch(counts):
    boxes = [image(0 if empty else count) for count in counts]
    tensors = lambda arrays: [paddle.to_tensor(array) for array in arrays]
    return {
        "image": paddle.to_tensor(rng.standard_normal((2, 3, 128, 128)).astype("float32")),
        "im_shape": paddle.to_tensor(np.full((2, 2), 128, "float32")),
        "scale_factor": paddle.ones([2, 2]), "im_id": paddle.to_tensor([[0], [1]]),
        "gt_bbox": tensors(boxes),
        "gt_class": tensors([rng.integers(0, 3, (len(one), 1)).astype("int32") for one in boxes]),
        # float32: stock cannot multiply int32 flags on Paddle 3.
        "is_crowd": tensors([(np.arange(len(one)) == 2).reshape(-1, 1).astype("float32") for one in boxes]),
        "gt_poly": [[[[float(x) for x in (a, b, c, b, c, d)]] for a, b, c, d in one] for one in boxes],
    }

batches = [batch(counts) for counts in ((3, 5), (6, 1), (4, 2))]

def train(model):
    model.train()
    optimizer = paddle.optimizer.Momentum(0.005, parameters=model.parameters(),
                                          grad_clip=paddle.nn.ClipGradByGlobalNorm(5.0))
    def step(inputs):
        losses = model(dict(inputs))
        losses["loss"].sum().backward()
        return losses
    losses = []
    for inputs in batches:
        losses.append({name: float(value.sum()) for name, value in step(inputs).items()})
        unreached = [name for name, p in model.named_parameters() if not p.stop_gradient and p.grad is None]
        optimizer.step()
        optimizer.clear_grad()
    counts = count(lambda: step(batches[0]), backward=True)
    return {"losses": losses, "unreached": unreached, "ops": counts.ops, "reads": counts.host_reads,
            "classes": [type(part).__name__ for part in (model.rpn_head, model.bbox_head)]}

paddle.seed(1)
stock_model = create(cfg.architecture)
start = {name: value.numpy() for name, value in stock_model.state_dict().items()}
results = {}
if not empty:
    results["stock"] = train(stock_model)
activate(replace=True)
model = create(cfg.architecture)
assert list(model.state_dict()) == list(start)
model.set_state_dict(start)
results["plugin"] = train(model)
if not empty:
    ours, theirs = model.state_dict(), stock_model.state_dict()
    results["drift"] = max(float((ours[n] - theirs[n]).abs().max()) / max(1e-3, float(theirs[n].abs().max()))
                           for n in start)
print("RESULT", json.dumps(results))
"""


def steps(tmp_path, changes: str, empty: bool = False) -> dict:
    path = tmp_path / "config.yml"
    path.write_text(f"_BASE_: ['{TINY}']\n{changes}", encoding="utf-8")
    out = python(SCRIPT, str(path), "empty" if empty else "full")
    return json.loads(out.split("RESULT ")[1].splitlines()[0])


def assert_equal_training(result: dict) -> None:
    """Losses of each step and the weights after them: float32 sums in another order, then updated by."""
    for step, (ours, stock) in enumerate(zip(result["plugin"]["losses"], result["stock"]["losses"])):
        assert ours.keys() == stock.keys()
        for name in stock:
            assert ours[name] == pytest.approx(stock[name], rel=1e-4, abs=1e-5), f"{name}, step {step}"
    assert result["drift"] < 1e-4


def test_mask_rcnn_fpn(tmp_path):
    result = steps(tmp_path, "")
    assert result["plugin"]["classes"] == ["PerfRPNHead", "PerfBBoxHead"]
    assert_equal_training(result)
    assert result["plugin"]["reads"] <= 4 < result["stock"]["reads"]
    assert result["plugin"]["ops"] <= 0.6 * result["stock"]["ops"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "classes"),
    [
        (MASK_C4, ["PerfRPNHead", "PerfBBoxHead"]),
        (FASTER_FPN, ["PerfRPNHead", "PerfBBoxHead"]),
        (FASTER_C4, ["PerfRPNHead", "PerfBBoxHead"]),
        (CASCADE, ["PerfRPNHead", "PerfCascadeHead"]),
    ],
    ids=["mask c4", "faster fpn", "faster c4", "cascade mask fpn"],
)
def test_other_architectures(tmp_path, changes, classes):
    result = steps(tmp_path, changes)
    assert result["plugin"]["classes"] == classes
    assert_equal_training(result)
    assert result["plugin"]["reads"] <= 4 < result["stock"]["reads"]


@pytest.mark.parametrize(
    "changes", ["", pytest.param(CASCADE, marks=pytest.mark.slow)], ids=["mask", "cascade"]
)
def test_a_batch_without_boxes_trains_every_parameter(tmp_path, changes):
    """Cases a31 and b11: images without annotations, and a step without foreground on one card of several."""
    result = steps(tmp_path, changes, empty=True)["plugin"]
    assert result["unreached"] == []
    for losses in result["losses"]:
        assert all(value == value for value in losses.values())
        assert losses["loss_mask"] == 0
        assert losses["loss_rpn_cls"] > 0


NAMED = """
MaskRCNN: {rpn_head: PerfRPNHead, bbox_head: PerfBBoxHead, mask_head: PerfMaskHead}
BBoxHead: {bbox_assigner: PerfBBoxAssigner}
PerfRPNHead: {test_proposal: {pre_nms_top_n: 77, post_nms_top_n: 33}}
"""
NAMED_SCRIPT = """
import json, sys
from detperf_plugins.paddledet import activate
activate()
from ppdet.core.workspace import create, load_config
model = create(load_config(sys.argv[1]).architecture)
from ppdet.data.transform import AssignRPNTargets
rpn, bbox, mask = model.rpn_head, model.bbox_head, model.mask_head
print("RESULT", json.dumps({
    "classes": [type(part).__name__ for part in (rpn, bbox, mask, bbox.bbox_assigner, rpn.rpn_target_assign)],
    "anchor_sizes": rpn.settings.anchor_sizes, "test_proposals": rpn.test_proposal.post_nms_top_n,
    "rpn": rpn.rpn_target_assign.batch_size_per_im, "rois": bbox.bbox_assigner.batch_size_per_im,
    "mask": mask.mask_assigner.mask_resolution, "fc": bbox.head.fc6.weight.shape[1],
    "loader": AssignRPNTargets().settings == rpn.settings}))
"""


def test_parts_named_in_a_config_inherit_the_stock_sections(tmp_path):
    path = tmp_path / "config.yml"
    path.write_text(f"_BASE_: ['{TINY}']\n{NAMED}", encoding="utf-8")
    out = python(NAMED_SCRIPT, str(path))
    assert json.loads(out.split("RESULT ")[1].splitlines()[0]) == {
        "classes": ["PerfRPNHead", "PerfBBoxHead", "PerfMaskHead", "PerfBBoxAssigner", "PerfRPNTargetAssign"],
        "anchor_sizes": [[16], [32], [64], [96], [128]],
        "test_proposals": 33,
        "rpn": 64,
        "rois": 48,
        "mask": 28,
        "fc": 96,
        "loader": True,
    }
