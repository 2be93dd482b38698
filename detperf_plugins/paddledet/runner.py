"""Training a PaddleDetection config without its tools/: what tools/train.py does, from the wheel alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.overrides import parse_overrides
from detperf_plugins.paddledet.build_errors import building
from detperf_plugins.paddledet.datasets import require_data
from detperf_plugins.paddledet.registry import activate, active
from detperf_plugins.paddledet.variants import require_host
from detperf_plugins.unread import warn_of_unread_overrides

__all__ = [
    "build_trainer",
    "evaluate",
    "final_weights",
    "is_paddledet_config",
    "load",
    "load_pretrained",
    "parse_overrides",
    "train",
]

logger = logging.getLogger("detperf_plugins")

DEVICES = ("gpu", "npu", "xpu", "mlu")


def is_paddledet_config(config: Any) -> bool:
    """Whether a merged config is one of PaddleDetection (MindOCR's have `model:` and `train:` instead)."""
    return isinstance(config, dict) and "architecture" in config


def load(config: Path, overrides: Sequence[str] = (), plugins: bool = True, replace: bool = False) -> Any:
    """Load a config and its `_BASE_` chain into ppdet's global config, and choose the device.

    Args:
        config: the YAML file.
        overrides: `key.sub=value` words.
        plugins: register our parts first, so that the config may name them. A config that does so by itself
            keeps them in any case.
        replace: let the exact parts stand in for stock ones.

    Returns:
        ppdet's global config, a dict whose keys are attributes as well.

    Raises:
        UnreadableInput: the file is missing, or is no valid YAML.
        UnsupportedHost: PaddleDetection cannot run here.
    """
    from detperf_plugins.hosts import require_paddledet

    if not config.is_file():
        raise UnreadableInput(f"no config file {config}")
    require_paddledet()
    require_host(config)
    if plugins:
        activate(replace)
    import paddle
    import ppdet.engine  # noqa: F401  (registers everything that create() may be asked for)
    import yaml
    from ppdet.core.workspace import global_config, load_config, merge_config

    from detperf_plugins.paddledet.compat import mend_host

    mend_host()
    try:
        with building(config, global_config, but=(yaml.YAMLError, FileNotFoundError)):
            cfg = load_config(str(config))
            warn_of_unread_overrides(overrides, cfg.keys())
            merge_config(parse_overrides(overrides))
    except yaml.YAMLError as error:
        raise UnreadableInput(f"{config}: {error}") from error
    except FileNotFoundError as error:
        raise UnreadableInput(f"{config}: _BASE_ names {error.filename}, which does not exist") from error
    if active() and not plugins:
        logger.warning(
            "%s switches the plugins on by itself (an overlay's key `plugins`): that wins over --stock; "
            "take the overlay out of _BASE_ to train stock",
            config,
        )
    if not is_paddledet_config(cfg):
        raise UnreadableInput(f"{config} has no `architecture`: it is no PaddleDetection config")
    for device in DEVICES:
        cfg.setdefault(f"use_{device}", False)
    device = next((device for device in DEVICES if cfg[f"use_{device}"]), "cpu")
    try:
        paddle.set_device(device)
    except (ValueError, RuntimeError, OSError) as error:  # OSError: Paddle's own, where no GPU is visible
        why = [line.strip() for line in str(error).splitlines() if line.strip()][-1:]
        raise UnreadableInput(
            f"{config} sets use_{device}, which cannot be had here ({''.join(why)}); "
            f"-o use_{device}=false trains on the CPU"
        ) from error
    return cfg


def _check(cfg: Any) -> None:
    from ppdet.utils import check

    from detperf_plugins.paddledet.amp import check_amp

    check.check_config(cfg)
    for device in DEVICES:
        getattr(check, f"check_{device}")(cfg[f"use_{device}"])
    check_amp(cfg)


def build_trainer(cfg: Any, config: Path, mode: str = "train", seed: int | None = None) -> Any:
    """ppdet's Trainer for a loaded config; `seed` fixes initial weights, sampling and augmentation.

    Raises:
        UnreadableInput: data, model or optimizer cannot be built as the config (a file, named in the
            sentence) says.
    """
    from ppdet.engine import Trainer, init_parallel_env, set_random_seed

    from detperf_plugins.paddledet.amp import warn_of

    _check(cfg)
    if mode == "train":
        warn_of(cfg)
        init_parallel_env()
    if seed is not None:
        set_random_seed(seed)
    with building(config, cfg):
        return Trainer(cfg, mode=mode)


def load_pretrained(trainer: Any, config: Path) -> None:
    """Load the weights that the config starts from, if it names any.

    Raises:
        UnreadableInput: they are not there, and cannot be downloaded.
    """
    if trainer.cfg.get("pretrain_weights"):
        with building(config, trainer.cfg):
            trainer.load_weights(trainer.cfg.pretrain_weights)


def train(
    config: Path,
    overrides: Sequence[str] = (),
    *,
    eval_while_training: bool = False,
    resume: str | None = None,
    amp: bool = False,
    seed: int | None = None,
    plugins: bool = True,
    replace: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Train as `tools/train.py -c CONFIG -o ... [--eval] [--resume W] [--amp]` does.

    Args:
        config, overrides, plugins, replace: see `load`.
        eval_while_training: evaluate at every snapshot, and keep the best model.
        resume: weights of a checkpoint, without its suffix; its optimizer state and epoch are taken up.
        amp: automatic mixed precision.
        seed: fixes everything random.

    Returns:
        The trainer, trained, and the AP vectors of the last evaluation by kind (empty without one).

    Raises:
        UnreadableInput: the config cannot be read, or a data set is not there.
        DetperfError: a checkpoint to resume from does not exist.
    """
    if resume is not None and not Path(f"{_stem(resume)}.pdparams").is_file():
        raise DetperfError(f"nothing to resume from: {resume} has no .pdparams")
    cfg = load(config, overrides, plugins, replace)
    require_data(cfg, config, ("TrainDataset", "EvalDataset") if eval_while_training else ("TrainDataset",))
    # tools/train.py merges its flags into the config; Trainer reads these from there.
    for key, value in {"amp": amp, "fleet": False, "use_vdl": False, "to_static": False}.items():
        cfg[key] = value or cfg.get(key, False)
    trainer = build_trainer(cfg, config, seed=seed)
    if resume is None:
        load_pretrained(trainer, config)
    else:
        with building(config, cfg):
            trainer.resume_weights(resume)
    stats, _ = _keep_results(trainer)
    trainer.train(eval_while_training)
    return trainer, stats


def final_weights(trainer: Any) -> Path:
    """Where ppdet saves the weights of the last epoch: 2.6 below the config's name, develop in `save_dir`."""
    cfg = trainer.cfg
    folders = [one.save_dir for one in trainer._callbacks if hasattr(one, "save_dir")]
    return Path(folders[0] if folders else Path(cfg.save_dir) / cfg.filename) / "model_final.pdparams"


def _stem(weights: str) -> str:
    return weights[: -len(".pdparams")] if weights.endswith(".pdparams") else weights


def evaluate(cfg: Any, config: Path, weights: str) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Evaluate weights on the config's EvalDataset.

    Returns:
        AP vectors as pycocotools orders them, by kind ("bbox", "mask"), and the predictions behind them.
    """
    trainer = build_trainer(cfg, config, mode="eval")
    trainer.load_weights(weights)
    stats, predictions = _keep_results(trainer)
    trainer.evaluate()
    return stats, predictions


def _keep_results(trainer: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """AP vectors and predictions of the trainer's last evaluation, filled in before it clears its metrics."""
    stats: dict[str, Any] = {}
    predictions: dict[str, list[Any]] = {}
    reset = trainer._reset_metrics

    def keep_then_reset() -> None:
        for metric in trainer._metrics:
            if any(metric.results.values()):
                predictions.update({kind: list(found) for kind, found in metric.results.items()})
                stats.update(metric.get_results())
        reset()

    trainer._reset_metrics = keep_then_reset
    return stats, predictions
