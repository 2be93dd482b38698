"""`detperf build-cuda`: compile the polygon raster for the GPUs here, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["build_cuda"]


@app.command(name="build-cuda")
def build_cuda(
    arch: list[str] = typer.Option(
        [], help="GPU architecture, such as sm_90; may be repeated. Without one, those of the GPUs here."
    ),
    nvcc: Optional[Path] = typer.Option(
        None, help="The nvcc to use; else CUDA_HOME, the PATH, NVIDIA's wheels, or NVRTC."
    ),
    force: bool = typer.Option(False, "--force", help="Compile also what the cache has already."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Compile PolygonMaskAssigner's CUDA kernel into the cache, and try it on the GPUs here."""
    from detperf_plugins.native.cuda.build import build, cache_folder, visible_archs
    from detperf_plugins.native.cuda.driver import CudaError

    if nvcc is not None and not nvcc.is_file():
        raise UnreadableInput(f"--nvcc {nvcc} does not exist")
    try:
        here = visible_archs()
        missing = "the driver sees none"
    except CudaError as error:
        here, missing = [], str(error)
    if not arch and not here:
        raise DetperfError(
            f"no GPU to build for: {missing}. Name an architecture to build all the same, as --arch sm_90"
        )
    rows: list[dict[str, Any]] = [
        {
            "arch": one.arch,
            "compiler": one.compiler,
            "file": str(one.file),
            "bytes": one.file.stat().st_size,
            "seconds": None if one.seconds is None else round(one.seconds, 2),
            "gpu": None,
            "mismatches": None,
        }
        for one in build(list(dict.fromkeys(arch)) or here, nvcc, force)
    ]
    _try(rows)
    columns = ("arch", "compiler", "seconds", "gpu", "differing cells", "file")
    print_table(
        "CUDA raster",
        columns,
        [
            (
                row["arch"],
                row["compiler"],
                "in the cache" if row["seconds"] is None else row["seconds"],
                row["gpu"] or "none here",
                "not tried" if row["mismatches"] is None else row["mismatches"],
                Path(row["file"]).name,
            )
            for row in rows
        ],
        note=f"in {cache_folder()}",
    )
    write_json(json_path, rows, {"gpus": here})
    wrong = [row for row in rows if row["mismatches"]]
    if wrong:
        raise DetperfError(
            f"on {wrong[0]['gpu']} {wrong[0]['mismatches']} cells differ from the host kernel's: "
            f"remove {wrong[0]['file']}, so that masks are made on the host, and report it"
        )
    if here:
        console.print("PolygonMaskAssigner takes it from the next start of a training on.", soft_wrap=True)


def _try(rows: list[dict[str, Any]]) -> None:
    """Run what each GPU here would load, and put its name and the differing cells into that row."""
    from detperf_plugins.native.cuda.driver import CudaError, driver
    from detperf_plugins.native.cuda.raster import cuda_raster, self_test

    try:
        found = driver()
    except CudaError:
        return
    by_file = {row["file"]: row for row in rows}
    for device in range(found.count()):
        raster = cuda_raster(device)
        row = by_file.get(str(raster.built.file))
        if row is not None:
            row["gpu"] = found.name(device)
            row["mismatches"] = (row["mismatches"] or 0) + self_test(raster)
