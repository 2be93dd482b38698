"""The state of one MindOCR training in this process, and the wrappers that need it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.words import counted
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr import amp, checkpoints, compat, config, loader, settings
from detperf_plugins.mindocr.compile_cache import CompileCache, key_of
from detperf_plugins.mindocr.names import check_names
from detperf_plugins.mindocr.phases import Phases

__all__ = ["SESSION", "Session"]

logger = logging.getLogger("mindocr.detperf")

PHASES_FILE = "phases.json"


class Session:
    """What the wrappers in `hooks` share.

    Attributes:
        config: the merged config as it was read, or None before.
        phases: the run's clock.
        replace: the exact parts stand in for stock transforms, seeded sample by sample.
        stock: MindOCR's own data path, to compare.
        phases_json: where the phases go beside the checkpoint folder, or None.
        lint: called with (config path, overrides) once a config is known; set by the command, which may
            use the doctor.
        on_step: called with (number, loss) after each step, for progress bars.
        on_network: called with each network that is built, before it is trained or evaluated.
    """

    def __init__(self) -> None:
        self.config: dict[str, Any] | None = None
        self.phases = Phases()
        self.replace = False
        self.stock = False
        self.phases_json: Path | None = None
        self.lint: Callable[[Path, Sequence[str]], None] | None = None
        self.on_step: Callable[[int, float], None] | None = None
        self.on_network: Callable[[Any], None] | None = None
        self._cache: CompileCache | None = None
        self._interval: checkpoints.Interval | None = None
        self._ready = False

    def open_config(self, path: Any, overrides: Sequence[str]) -> dict[str, Any]:
        """Read the config of this run; the result is the caller's own to change."""
        self.config = config.load(Path(path), overrides)
        settings.check(self.config)
        model = self.config["model"]
        if isinstance(model, dict) and "resume" in model:
            model["resume"] = settings.resume_path(model["resume"])
        if self.lint is not None:
            self.lint(Path(path), overrides)
        return config.merge({}, self.config)

    def setting(self, path: str, default: Any = None) -> Any:
        """A value of the config by dotted path; `default` where it, or the config, is absent."""
        value: Any = self.config or {}
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value

    def _prepare(self, devices: int | None) -> None:
        """Before the first data set is built: what MindSpore's context takes from the config."""
        if self._ready:
            return
        self._ready = True
        import mindspore as ms

        graph = self.setting("system.mode", 0) == 0
        level = self.setting("system.jit_level")
        if graph and level is not None:
            if level not in {"O0", "O1", "O2"}:
                raise UnreadableInput(f"system.jit_level is {level!r}; MindSpore has O0, O1 and O2")
            ms.set_context(jit_config={"jit_level": level})
        self._interval = checkpoints.Interval(
            self.setting("system.ckpt_save_interval", 1), int(self.setting("scheduler.num_epochs", 0))
        )
        self.phases.facts.update(
            device=ms.get_context("device_target"),
            mode="graph" if graph else "pynative",
            jit_level=(level or "O2") if graph else None,
            amp_level=self.setting("system.amp_level", "O0"),
            batch_size=self.setting("train.loader.batch_size", 0),
            devices=devices or 1,
        )
        compat.warn_of_slow_convolution()

    def dataset_builder(self, original: Any) -> Callable[..., Any]:
        """`build_dataset`: context first, then our data set; without `perf`, in the way that gives stock's
        own samples in stock's own order, to train on and to evaluate.

        Raises:
            UnreadableInput: by the function that is returned: a path is missing, or a training set gives no
                batch.
        """

        def build_dataset(dataset_config: Any, loader_config: Any, *args: Any, **kwargs: Any) -> Any:
            devices = kwargs.get("num_shards") or (args[0] if args else None)
            self._prepare(devices)
            training = kwargs.get("is_train", args[2] if len(args) > 2 else True)
            settings.check_paths("train" if training else "eval", dataset_config)
            with self.phases.measure("data set"):
                if self.stock:
                    built = original(dataset_config, loader_config, *args, **kwargs)
                else:
                    chosen = self.replace or "perf" in dataset_config
                    if not chosen and loader_config.get("num_workers") != loader.AUTO:
                        dataset_config["perf"] = dict(loader.AS_STOCK)
                    built = loader.build_dataset(original, dataset_config, loader_config, *args, **kwargs)
            if training:
                steps = built.get_dataset_size()
                if steps < 1:
                    raise UnreadableInput(_too_few(built, loader_config))
                self._enable_cache(devices or 1, steps)
            return built

        return build_dataset

    def _enable_cache(self, devices: int, steps: int) -> None:
        """Before the network is compiled, and once it is known how many steps an epoch has.

        The learning rates of all steps are compiled into the graph, so their number belongs to its name.
        """
        folder = self.setting("system.compile_cache_path")
        if self._cache is not None or not folder or self.setting("system.mode", 0) != 0:
            return
        if not Path(sys.argv[0]).is_file():
            self.phases.note("compile cache: off, since MindSpore must be able to read the script it runs in")
            return
        self._cache = CompileCache(Path(folder), key_of(self.config or {}, devices, steps))
        self._cache.enable()

    def model_builder(self, original: Any) -> Callable[..., Any]:
        """`build_model`: with AMP's repairs.

        Raises:
            UnreadableInput: by the function that is returned: the config names a part that MindOCR does not
                have, or there are no weights where they should be.
        """

        def build_model(name_or_config: Any, **kwargs: Any) -> Any:
            level = kwargs.get("amp_level", "O0")
            amp.check_level(level)
            if self.config is not None:
                check_names(self.config)
            weights = kwargs.get("ckpt_load_path")
            if isinstance(weights, str) and not weights.startswith("http") and not os.path.isfile(weights):
                raise UnreadableInput(
                    f"there is no {weights} to load weights from (model.pretrained, or eval.ckpt_load_path)"
                )
            with self.phases.measure("model"):
                if level in amp.HALF_LEVELS and amp.mend_neck():
                    logger.info(f"DBFPN takes a tuple of features under {level}")
                network = original(name_or_config, **kwargs)
                for sentence in amp.mend_network(network, level):
                    logger.info(sentence)
                if self.on_network is not None:
                    self.on_network(network)
            return network

        return build_model

    def saver(self, original: Any) -> Callable[..., Any]:
        """`save_checkpoint`: whole or absent, at the wanted interval, timed."""
        write = checkpoints.atomic(original)

        def save_checkpoint(save_obj: Any, ckpt_file_name: Any, *args: Any, **kwargs: Any) -> Any:
            append = kwargs.get("append_dict")
            if self._interval is not None and not self._interval.wants(ckpt_file_name, append):
                return None
            with self.phases.measure("checkpoints"):
                return write(save_obj, ckpt_file_name, *args, **kwargs)

        return save_checkpoint

    def history_saver(self, original: Any) -> Callable[..., Any]:
        """`CheckpointManager.save`: an epoch that is not due takes no place among the best."""

        def save(manager: Any, network: Any, perf: Any = None, ckpt_name: Any = None) -> Any:
            if self._interval is not None and not self._interval.wants(ckpt_name or ""):
                return manager.get_ckpt_queue()
            return original(manager, network, perf=perf, ckpt_name=ckpt_name)

        return save

    def resumer(self, original: Any) -> Callable[..., Any]:
        """`resume_train_network`: refuses what is not whole with one sentence."""

        def resume_train_network(network: Any, optimizer: Any, resume_ckpt: str) -> Any:
            with self.phases.measure("checkpoint"):
                content = checkpoints.check_resume(resume_ckpt)
                checkpoints.check_fit(
                    resume_ckpt, content, network, optimizer, self.setting("scheduler.num_epochs")
                )
                return original(network, optimizer, resume_ckpt)

        return resume_train_network

    def trainer(self, original: Any) -> Callable[..., Any]:
        """`Model.train`: timed by two callbacks, and reported at its end."""

        def train(
            model: Any, epoch: int, train_dataset: Any, callbacks: Any = None, *args: Any, **kwargs: Any
        ) -> Any:
            from detperf_plugins.mindocr.step_timer import step_timers

            own = (
                list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
            )
            wanted = bool(args[0] if args else kwargs.get("dataset_sink_mode", False))
            self._explain_sink(wanted)
            _go_on_from(train_dataset, kwargs.get("initial_epoch", 0))
            head, tail = step_timers(self.phases, self._after_first_step, self.on_step)
            try:
                return original(model, epoch, train_dataset, [head, *own, tail], *args, **kwargs)
            finally:
                self.report()

        return train

    def _explain_sink(self, wanted: bool) -> None:
        device = self.phases.facts.get("device")
        self.phases.facts["dataset_sink_mode"] = wanted
        if wanted and device == "CPU":
            self.phases.note("a CPU does not sink: MindSpore ignores train.dataset_sink_mode here")
        elif wanted:
            self.phases.note(
                "sink mode calls back once an epoch: single steps and waiting for data cannot be seen; "
                "train an epoch with -o train.dataset_sink_mode=False to see them"
            )

    def _after_first_step(self) -> None:
        if self._cache is not None:
            self.phases.facts["compile_cache"] = found = self._cache.report()
            self.phases.note(f"compile cache: {found['result']}, {found['size_mb']} MB in {found['folder']}")

    def interrupted(self) -> str:
        """What to say where Ctrl-C has ended a training. `report` has printed the phases if there was a step;
        else those of the start are printed here."""
        steps = sum(step.count for step in self.phases.steps)
        if not steps:
            if self.phases.before_first_step is None:
                self.phases.first_step_begins(0.0)
            print(self.phases.text(), flush=True)
        file = Path(self.setting("train.ckpt_save_dir") or ".") / checkpoints.RESUME_NAME
        further = f"; -r {file} goes on from the last checkpoint" if steps and file.is_file() else ""
        return f"interrupted after {counted(steps, 'step')}{further}"

    def report(self) -> None:
        """Print the phases on the first card, and store them by card."""
        if not self.phases.steps:
            return
        rank = int(os.environ.get("RANK_ID", "0") or 0) if self.phases.facts.get("devices", 1) > 1 else 0
        if rank == 0:
            print(self.phases.text(), flush=True)
        folder = self.setting("train.ckpt_save_dir")
        for path in [Path(folder) / PHASES_FILE if folder else None, self.phases_json]:
            if path is not None:
                self.phases.write(
                    path if rank == 0 else path.with_name(f"{path.stem}_rank{rank}{path.suffix}")
                )


def _go_on_from(data: Any, epoch: int) -> None:
    """Let a data set give what it would have given after `epoch` epochs: the order of the samples, and where
    each sample draws from generators of its own (PerfDetDataset), these as well."""
    if epoch:
        data.set_init_step(epoch * data.get_dataset_size())
    while getattr(data, "children", None):
        data = data.children[0]
    seeds = getattr(getattr(data, "source", None), "_seeds", None)
    if seeds is not None:
        seeds.start_at(epoch)


def _too_few(data: Any, loader_config: Mapping[str, Any]) -> str:
    """What is wrong where a training set gives no batch."""
    count = data.children[0].get_dataset_size() if getattr(data, "children", None) else 0
    return (
        f"train.loader.batch_size is {loader_config.get('batch_size')}, and a card has {count} samples: no "
        "step is left of an epoch; lower batch_size"
    )


SESSION = Session()
