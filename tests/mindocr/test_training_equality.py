"""Twenty training steps of DBNet-R18 on stock samples and on ours: the same losses."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from detperf_plugins.samples.text_pictures import write_pictures
from tests.mindocr.support import COLUMNS, PIPELINE, seeded

STEPS = 20


def losses(source):
    """Losses of 20 steps, batch 2, from one worker that draws in order."""
    import mindspore as ms
    from mindocr.losses import build_loss
    from mindocr.models import build_model
    from mindocr.utils.model_wrapper import NetWithLossWrapper

    ms.set_context(mode=ms.GRAPH_MODE)
    network = build_model(
        {
            "type": "det", "transform": None,
            "backbone": {"name": "det_resnet18", "pretrained": False},
            "neck": {"name": "DBFPN", "out_channels": 32, "bias": False},
            "head": {"name": "DBHead", "k": 50, "bias": False, "adaptive": True},
        }
    )  # fmt: skip
    loss = build_loss("DBLoss", eps=1e-6, l1_scale=10, bce_scale=5, bce_replace="bceloss")
    whole = NetWithLossWrapper(network, loss, input_indices=[0], label_indices=[1, 2, 3, 4])
    step = ms.nn.TrainOneStepCell(
        whole, ms.nn.SGD(network.trainable_params(), learning_rate=0.003, momentum=0.9)
    )
    step.set_train()
    made = []
    for index in range(STEPS):
        samples = [source[(2 * index + place) % len(source.data_list)] for place in (0, 1)]
        batch = [ms.Tensor(np.stack(column)) for column in zip(*samples)]
        made.append(float(step(*batch).asnumpy()))
    return made


@pytest.mark.slow
def test_twenty_steps_have_stock_s_losses(tmp_path):
    """Untouched stock; the jitter with MindSpore's seed set."""
    import mindspore as ms
    from mindocr.data.det_dataset import DetDataset

    from detperf_plugins.mindocr.dataset import PerfDetDataset

    path = write_pictures(tmp_path, 6, (3, 8), 4, (180, 240))
    pipeline = copy.deepcopy(PIPELINE)
    pipeline[6]["RandomCropWithBBox"]["crop_size"] = [96, 96]
    common = {"data_dir": str(tmp_path), "label_file": str(path), "output_columns": COLUMNS}
    made = []
    for kind, more in ((DetDataset, {}), (PerfDetDataset, {"perf": {"seeding": "stock"}})):
        ms.set_seed(7)
        made.append(
            seeded(
                7,
                lambda kind=kind, more=more: losses(
                    kind(transform_pipeline=copy.deepcopy(pipeline), **common, **more)
                ),
            )
        )
    assert len(made[0]) == STEPS and np.isfinite(made[0]).all() and made[0][-1] < made[0][0]
    np.testing.assert_allclose(made[1], made[0], rtol=1e-6)
