"""One training run of the demo, in a process of its own: `python -m detperf_plugins.mindocr.trial`.

Trains as `detperf train` does, reports every step, and writes losses, phases, the metric and the texts found
in a few pictures to `OUT/trial.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from detperf_plugins.measure.child import emit

__all__ = ["main", "round_weights", "run"]

# Pictures that the demo draws.
SHOWN = 4


def round_weights(network: Any) -> None:
    """Round a network's float32 parameters to float16 and back, once; it goes on in float32."""
    import mindspore as ms
    import numpy as np

    for parameter in network.get_parameters():
        values = parameter.asnumpy()
        if values.dtype == np.float32:
            parameter.set_data(ms.Tensor(values.astype(np.float16).astype(np.float32)))


def run(config: Path, out: Path, rounded: bool = False) -> dict[str, Any]:
    """Train `config`, and write `out/trial.json`: `summary` (see `Phases.summary`), `best`, `texts`.

    Args:
        config, out: the config, and the folder of what is written.
        rounded: the initial weights are rounded to float16 first, see `round_weights`.
    """
    from detperf_plugins.mindocr import runner
    from detperf_plugins.mindocr.session import SESSION

    SESSION.on_network = round_weights if rounded else None
    SESSION.on_step = lambda step, loss: emit(step=step, loss=loss)
    summary = runner.train(config)
    assert SESSION.config is not None
    weights = Path(SESSION.config["train"]["ckpt_save_dir"]) / "best.ckpt"
    result = {"summary": summary, "best": summary["best"], "texts": []}
    if weights.is_file():
        result["texts"] = find_texts(SESSION.config, weights)
    out.mkdir(parents=True, exist_ok=True)
    (out / "trial.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def find_texts(config: dict[str, Any], weights: Path) -> list[dict[str, Any]]:
    """The texts that trained weights find in the first pictures of the evaluation set.

    Returns:
        One a picture: `path` and `polygons`, each [[x, y], ...] in pixels of the picture.
    """
    import mindspore as ms
    import numpy as np
    from addict import Dict
    from mindocr.data.transforms import create_transforms, run_transforms
    from mindocr.models import build_model
    from mindocr.postprocess import build_postprocess

    from detperf_plugins.mindocr.config import merge

    cfg = Dict(merge({}, config))
    network = build_model(cfg.model, ckpt_load_path=str(weights), amp_level="O0")
    network.set_train(False)
    postprocess = build_postprocess(cfg.postprocess)
    data = cfg.eval.dataset
    steps = [step for step in data.transform_pipeline if "DetLabelEncode" not in step]
    transforms = create_transforms(steps, {"is_train": False})
    root = Path(data.dataset_root)
    lines = (root / data.label_file).read_text(encoding="utf-8").splitlines()[:SHOWN]
    found = []
    for line in lines:
        path = root / data.data_dir / line.split("\t")[0]
        sample = run_transforms({"img_path": str(path)}, transforms=transforms)
        maps = network(ms.Tensor(sample["image"][None]))
        shape = ms.Tensor(np.asarray(sample["shape_list"], np.float32)[None])
        polygons = postprocess(maps, shape_list=shape)["polys"][0]
        found.append({"path": str(path), "polygons": [np.asarray(one).tolist() for one in polygons]})
    return found


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run; an error ends with status 1 and its sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounded", action="store_true", help="start from weights rounded to float16")
    options = parser.parse_args(arguments)
    os.environ.setdefault("GLOG_v", "3")
    from detperf_plugins.errors import DetperfError

    try:
        run(options.config.resolve(), options.out.resolve(), options.rounded)
    except DetperfError as error:
        raise SystemExit(f"detperf: {error}") from error


if __name__ == "__main__":
    main()
