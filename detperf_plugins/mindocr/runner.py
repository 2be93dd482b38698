"""Training and evaluating a MindOCR config from the wheel alone: what its tools/train.py and eval.py do."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnsupportedHost
from detperf_plugins.hosts import install
from detperf_plugins.mindocr import activate
from detperf_plugins.mindocr.session import SESSION
from detperf_plugins.mindocr.settings import check_weights, other_weights

__all__ = ["evaluate", "require_mindocr", "train"]

logger = logging.getLogger("mindocr.train")


def require_mindocr() -> None:
    """Raise `UnsupportedHost` with the reason where MindOCR cannot run."""
    for name in ("mindspore", "mindocr"):
        if importlib.util.find_spec(name) is None:
            raise UnsupportedHost(f"{name} is not installed; {install('mindspore')}")


def _start(config: Path, overrides: Sequence[str], log: str) -> tuple[Any, int | None, int | None]:
    """Load the config, import MindOCR with the plugins, and set the context up.

    Returns:
        The config with its keys as attributes, the number of cards and this card's rank (None, None for
        a single one).
    """
    require_mindocr()
    values = SESSION.open_config(config, overrides)
    if log == "eval":
        check_weights(values)
    activate()
    import mindspore as ms
    import mindocr  # noqa: F401  # isort: skip
    from addict import Dict
    from mindocr.utils.logger import set_logger
    from mindocr.utils.seed import set_seed

    cfg = Dict(values)
    ms.set_context(mode=cfg.system.mode or 0)
    if cfg.train.max_call_depth:
        ms.set_recursion_limit(cfg.train.max_call_depth)
    if not cfg.system.mode:
        ms.set_context(jit_config={"jit_level": "O2"})
    cards = rank = None
    if cfg.system.distribute:
        from mindspore.communication import get_group_size, get_rank, init

        init()
        cards, rank = get_group_size(), get_rank()
        ms.set_auto_parallel_context(device_num=cards, parallel_mode="data_parallel", gradients_mean=True)
    elif "DEVICE_ID" not in os.environ and ms.get_context("device_target") != "CPU":
        ms.set_context(device_id=cfg.system.get("device_id", 0))
    level = str(cfg.system.get("log_level", "logging.INFO")).rsplit(".", 1)[-1]
    folder = cfg.train.ckpt_save_dir or "."
    options = {} if log == "train" else {"log_fn": f"log_eval_{rank or 0}.txt"}
    severity = getattr(logging, level, logging.INFO)
    set_logger(name="mindocr", output_dir=folder, rank=rank or 0, log_level=severity, **options)
    set_seed(cfg.system.get("seed", 42))
    return cfg, cards, rank


def train(config: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Train as `tools/train.py -c CONFIG -o ...` does.

    Args:
        config: the YAML file; `_BASE_` is followed.
        overrides: `key.sub=value` words; `model.resume=True` takes up the last training in the folder.

    Returns:
        The summary of `Phases` and the best `main_indicator` as `best`, its name as `indicator`.

    Raises:
        UnsupportedHost: MindSpore or MindOCR is missing.
        UnreadableInput: the config or a checkpoint cannot be read.
    """
    cfg, cards, rank = _start(config, overrides, "train")
    import mindspore as ms
    from mindocr.data import build_dataset
    from mindocr.losses import build_loss
    from mindocr.models import build_model
    from mindocr.utils.model_wrapper import NetWithLossWrapper

    Path(cfg.train.ckpt_save_dir).mkdir(parents=True, exist_ok=True)
    data = build_dataset(cfg.train.dataset, cfg.train.loader, num_shards=cards, shard_id=rank, is_train=True)
    eval_data = None
    if cfg.system.val_while_train:
        eval_data = build_dataset(
            cfg.eval.dataset, cfg.eval.loader, num_shards=cards, shard_id=rank, is_train=False,
            refine_batch_size=cfg.system.get("refine_batch_size", True),
        )  # fmt: skip
    amp_level = cfg.system.get("amp_level", "O0")
    network = build_model(cfg.model, ckpt_load_path=cfg.model.pop("pretrained", None), amp_level=amp_level)
    with_loss = NetWithLossWrapper(
        network,
        build_loss(cfg.loss.pop("name"), **cfg.loss),
        input_indices=cfg.train.dataset.pop("net_input_column_index", None),
        label_indices=cfg.train.dataset.pop("label_column_index", None),
        pred_cast_fp32=cfg.train.pop("pred_cast_fp32", amp_level != "O0"),
    )
    step_net, start_epoch, ema = _step_network(cfg, network, with_loss, data.get_dataset_size())
    callback = _callback(cfg, network, eval_data, ema, amp_level, cards, rank, start_epoch)
    _archive(cfg, config, rank)
    logger.info(f"training {network.model_name}, {data.get_dataset_size()} steps an epoch, AMP {amp_level}")
    ms.Model(step_net).train(
        cfg.scheduler.num_epochs,
        data,
        callbacks=[callback],
        dataset_sink_mode=bool(cfg.train.dataset_sink_mode),
        initial_epoch=start_epoch,
    )
    best = callback.best_perf
    best = float(best.asnumpy()) if hasattr(best, "asnumpy") else float(best)
    return {**SESSION.phases.summary(), "best": best, "indicator": callback.main_indicator}


def _step_network(cfg: Any, network: Any, with_loss: Any, steps: int) -> tuple[Any, int, Any]:
    """The train-one-step cell, the epoch to go on from, and the EMA or None."""
    from mindocr.optim import create_group_params, create_optimizer
    from mindocr.scheduler import create_scheduler
    from mindocr.utils import checkpoint
    from mindocr.utils.ema import EMA
    from mindocr.utils.loss_scaler import get_loss_scales
    from mindocr.utils.train_step_wrapper import TrainOneStepWrapper

    scaler, optimizer_scale = get_loss_scales(cfg)
    cfg.optimizer.update({"lr": create_scheduler(steps, **cfg.scheduler), "loss_scale": optimizer_scale})
    parameters = create_group_params(network.trainable_params(), **cfg.optimizer)
    optimizer = create_optimizer(parameters, **cfg.optimizer)
    start_epoch = 0
    if cfg.model.resume:
        path = cfg.model.resume
        if isinstance(path, bool):
            path = os.path.join(cfg.train.ckpt_save_dir, "train_resume.ckpt")
        start_epoch, scale, iteration, last_overflow = checkpoint.resume_train_network(
            network, optimizer, path
        )
        scaler.loss_scale_value = scale
        if cfg.loss_scaler.type == "dynamic":
            scaler.cur_iter, scaler.last_overflow_iter = iteration, last_overflow
    ema = EMA(network, ema_decay=cfg.train.get("ema_decay", 0.9999), updates=0) if cfg.train.ema else None
    step = TrainOneStepWrapper(
        with_loss,
        optimizer=optimizer,
        scale_sense=scaler,
        drop_overflow_update=bool(cfg.system.drop_overflow_update),
        gradient_accumulation_steps=cfg.train.get("gradient_accumulation_steps", 1),
        clip_grad=cfg.train.get("clip_grad", False),
        clip_norm=float(cfg.train.get("clip_norm", 1.0)),
        ema=ema,
    )
    return step, start_epoch, ema


def _callback(
    cfg: Any, network: Any, eval_data: Any, ema: Any, amp_level: str, cards: Any, rank: Any, start_epoch: int
) -> Any:
    """MindOCR's own callback, which logs, evaluates and saves."""
    from mindocr.metrics import build_metric
    from mindocr.postprocess import build_postprocess
    from mindocr.utils.callbacks import EvalSaveCallback

    evaluates = bool(cfg.system.val_while_train)
    postprocess = build_postprocess(cfg.postprocess) if evaluates else None
    metric = (
        build_metric(cfg.metric, device_num=cards, save_dir=cfg.train.ckpt_save_dir) if evaluates else None
    )
    return EvalSaveCallback(
        network,
        eval_data,
        postprocessor=postprocess,
        metrics=[metric],
        pred_cast_fp32=cfg.eval.pop("pred_cast_fp32", amp_level != "O0"),
        rank_id=rank,
        device_num=cards,
        batch_size=cfg.train.loader.batch_size,
        ckpt_save_dir=cfg.train.ckpt_save_dir,
        main_indicator=cfg.metric.main_indicator,
        ema=ema,
        loader_output_columns=cfg.eval.dataset.output_columns,
        input_indices=cfg.eval.dataset.pop("net_input_column_index", None),
        label_indices=cfg.eval.dataset.pop("label_column_index", None),
        meta_data_indices=cfg.eval.dataset.pop("meta_data_column_index", None),
        val_interval=cfg.system.get("val_interval", 1),
        val_start_epoch=cfg.system.get("val_start_epoch", 1),
        log_interval=cfg.system.get("log_interval", 100),
        ckpt_save_policy=cfg.system.get("ckpt_save_policy", "top_k"),
        ckpt_max_keep=cfg.system.get("ckpt_max_keep", 10),
        start_epoch=start_epoch,
    )


def _archive(cfg: Any, config: Path, rank: int | None) -> None:
    """Leave the merged config beside the checkpoints."""
    import yaml

    if rank in (None, 0):
        text = yaml.safe_dump(SESSION.config, sort_keys=False)
        (Path(cfg.train.ckpt_save_dir) / "args.yaml").write_text(f"# {config}\n{text}", encoding="utf-8")


def evaluate(config: Path, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Evaluate `eval.ckpt_load_path` as `tools/eval.py -c CONFIG -o ...` does.

    Returns:
        The metrics by name (recall, precision, f-score for detection).
    """
    cfg, cards, rank = _start(config, overrides, "eval")
    logger.info(f"evaluating {cfg.eval.ckpt_load_path}")
    elsewhere = other_weights(cfg)
    if elsewhere:
        logger.warning(elsewhere)
    from mindocr.data import build_dataset
    from mindocr.metrics import build_metric
    from mindocr.models import build_model
    from mindocr.postprocess import build_postprocess
    from mindocr.utils.evaluator import Evaluator

    data = build_dataset(
        cfg.eval.dataset, cfg.eval.loader, num_shards=cards, shard_id=rank, is_train=False,
        refine_batch_size=True,
    )  # fmt: skip
    cfg.model.backbone.pretrained = False
    level = cfg.system.get("amp_level_infer", "O0")
    network = build_model(cfg.model, ckpt_load_path=cfg.eval.ckpt_load_path, amp_level=level)
    network.set_train(False)
    evaluator = Evaluator(
        network,
        data,
        loss_fn=None,
        postprocessor=build_postprocess(cfg.postprocess),
        metrics=[build_metric(cfg.metric)],
        pred_cast_fp32=level != "O0",
        loader_output_columns=cfg.eval.dataset.output_columns,
        input_indices=cfg.eval.dataset.pop("net_input_column_index", None),
        label_indices=cfg.eval.dataset.pop("label_column_index", None),
        meta_data_indices=cfg.eval.dataset.pop("meta_data_column_index", None),
        num_epochs=1,
    )
    return {name: float(value) for name, value in evaluator.eval().items()}
