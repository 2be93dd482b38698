"""PolygonMaskAssigner's targets from the CUDA raster and in fixed slots, against stock and without a GPU.

The GPU is this processor (tests/native/fake_gpu), so the addresses that Paddle gives are device memory.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import paddle
import pytest
from ppdet.modeling.heads.mask_head import MaskHead
from ppdet.modeling.proposal_generator.target_layer import MaskAssigner

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.counters import count
from detperf_plugins.native.cuda.raster import cuda_raster
from detperf_plugins.paddledet import mask_raster, mask_targets
from detperf_plugins.paddledet.compat import mend_host
from detperf_plugins.paddledet.mask_targets import PolygonMaskAssigner
from tests.native.fake_gpu import put_built
from tests.paddledet.test_mask_targets import CLASSES, assert_same, call, make_batch


@pytest.fixture(autouse=True, scope="module")
def stock_runs():
    undo = mend_host()
    yield
    undo()


@pytest.fixture
def on_gpu(machine, fake_library, monkeypatch):
    """Every tensor counts as one on the GPU."""
    machine(fake_library)
    put_built()
    monkeypatch.setattr(mask_targets, "pick_raster", lambda place, size, wanted: cuda_raster(0))
    monkeypatch.setattr(mask_raster, "current_stream", lambda device: 0)


@pytest.mark.parametrize("packed", [False, True])
def test_all_outputs_equal_stock(on_gpu, packed):
    for seed, instances, foreground in (
        (0, [3, 1], None),
        (1, [2, 0, 4], 0.5),
        (2, [1], 0.0),
        (3, [0, 0], None),
    ):
        batch = make_batch(np.random.default_rng(seed), instances, foreground=foreground)
        stock = call(MaskAssigner(CLASSES, 28), batch)
        assert_same(call(PolygonMaskAssigner(CLASSES, 28), batch, packed), stock)


def prepared(slots, batch, packed=True):
    """The assigner's call with everything else done before."""
    assigner, calls = PolygonMaskAssigner(CLASSES, 14, slots=slots), []
    call(lambda *arguments: calls.append(arguments), batch, packed)
    return lambda: assigner(*calls[0])


def test_with_slots_nothing_is_read_and_without_them_the_labels_alone(on_gpu):
    batch = make_batch(np.random.default_rng(4), [2, 3])
    for slots, reads in ((16, 0), (0, 1)):
        run = prepared(slots, batch)
        run()
        assert count(run).host_reads == reads


def losses(outputs, table, lengths):
    """Stock's loss where each RoI's logits are its row of `table`, and the table's gradient."""
    _, counts, classes, masks, index, weights = outputs
    head = SimpleNamespace(num_classes=CLASSES)
    first = np.repeat(np.cumsum([0, *lengths[:-1]]), counts.numpy())
    logits = paddle.gather(table, index.reshape([-1]) + paddle.to_tensor(first))
    loss = MaskHead.get_loss(head, logits, classes, masks, weights)
    (gradient,) = paddle.grad(loss, table)
    return float(loss), gradient.numpy()


@pytest.mark.parametrize("device", ["host", "cuda"])
def test_slots_give_the_loss_and_gradient_of_stock(device, request):
    if device == "cuda":
        request.getfixturevalue("on_gpu")
    for seed, instances, slots in ((5, [3, 1], 24), (6, [2, 0, 4], 20), (7, [0], 8), (8, [2, 1], 500)):
        rng = np.random.default_rng(seed)
        batch = make_batch(rng, instances, foreground=0.7 if slots > 8 else None)
        # Images of unlike numbers of RoIs.
        for key in ("rois", "tgt_labels", "tgt_gt_inds"):
            batch[key][0] = batch[key][0][:17]
        lengths = [len(one) for one in batch["rois"]]
        table = paddle.to_tensor(rng.normal(size=(sum(lengths), CLASSES, 14, 14)).astype(np.float32))
        table.stop_gradient = False
        stock = losses(call(MaskAssigner(CLASSES, 14), batch), table, lengths)
        outputs = call(PolygonMaskAssigner(CLASSES, 14, slots=slots), batch, packed=True)
        assert outputs[1].numpy().tolist() == [min(slots, max(lengths))] * len(lengths)
        ours = losses(outputs, table, lengths)
        assert ours[0] == pytest.approx(stock[0], rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(ours[1], stock[1], rtol=2e-6, atol=1e-10)
        offset = call(PolygonMaskAssigner(CLASSES, 14, slots=slots, batch_offsets=True), batch, packed=True)
        shift = np.repeat(np.cumsum([0, *lengths[:-1]]), outputs[1].numpy())
        np.testing.assert_array_equal(offset[4].numpy()[:, 0], outputs[4].numpy()[:, 0] + shift)


def test_the_choice_is_logged_once_with_its_reason(machine, fake_library, monkeypatch):
    logger, records = logging.getLogger("ppdet.detperf"), []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    monkeypatch.setattr(mask_raster, "_said", set())
    cpu = SimpleNamespace(is_gpu_place=lambda: False)
    gpu = SimpleNamespace(is_gpu_place=lambda: True, gpu_device_id=lambda: 0)
    machine(fake_library)
    logger.addHandler(handler)
    try:
        for place in (cpu, cpu, gpu):
            assert mask_raster.pick_raster(place, 28, "auto") is None
        with pytest.raises(DetperfError, match="`raster: cuda` cannot be had: the CUDA raster is not built"):
            mask_raster.pick_raster(gpu, 28, "cuda")
        file = put_built()
        for _ in range(2):
            assert mask_raster.pick_raster(gpu, 28, "auto").built.file == file
        assert mask_raster.pick_raster(gpu, 28, "host") is None
        assert mask_raster.pick_raster(gpu, 600, "auto") is None
    finally:
        logger.removeHandler(handler)
    host = "PolygonMaskAssigner: masks are made by the host kernel, since "
    assert records == [
        f"{host}the RoIs are not on a GPU",
        f"{host}the CUDA raster is not built: run `detperf build-cuda`",
        f"PolygonMaskAssigner: masks are made on the GPU, by {file.name}",
        f"{host}`raster: host` asks for it",
        f"{host}masks of 600 x 600 cells are too large for the CUDA raster",
    ]


def test_settings_that_would_lose_foreground_are_refused(activated, monkeypatch):
    from ppdet.core.workspace import create, global_config

    with pytest.raises(DetperfError, match="raster is 'gpu'; there are: auto, host, cuda"):
        PolygonMaskAssigner(raster="gpu")
    monkeypatch.setitem(global_config, "BBoxAssigner", {"batch_size_per_im": 256, "fg_fraction": 0.25})
    monkeypatch.setitem(global_config["PolygonMaskAssigner"], "slots", 64)
    assert create("PolygonMaskAssigner").slots == 64
    monkeypatch.setitem(global_config, "architecture", "MaskRCNN")
    monkeypatch.setitem(global_config, "MaskRCNN", {"bbox_head": "CascadeHead"})
    with pytest.raises(DetperfError, match="slots is 64, but an image can have 256 foreground RoIs"):
        create("PolygonMaskAssigner")
