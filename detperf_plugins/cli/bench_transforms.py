"""`detperf bench transforms`: DBNet's data path against stock, by transform or through the loader."""

from __future__ import annotations

import datetime
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli.bench import bench
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput, UnsupportedHost
from detperf_plugins.hosts import mindocr_host

__all__ = ["transforms"]

KINDS = ("threads", "processes")
GROWING_POLYGONS, GROWING_CORNERS = (125, 250, 500, 1000), (4, 8, 16, 32, 64)


@bench.command()
def transforms(
    level: list[str] = typer.Option(["exact", "fast"], help="exact or fast; may be given more than once."),
    labels: Optional[Path] = typer.Option(
        None, help="A label file; synthetic pictures where it is not given."
    ),
    images: Optional[Path] = typer.Option(
        None, help="Where the pictures of --labels lie; beside it where not given."
    ),
    pictures: int = typer.Option(16, min=2, help="Synthetic pictures."),
    polygons: str = typer.Option("5-19", help="Least and most texts a synthetic picture, or one number."),
    vertices: int = typer.Option(4, min=4, help="Corners of each synthetic text."),
    size: str = typer.Option(
        "1280x720", help="Width and height of the synthetic pictures, or one number for square ones."
    ),
    passes: int = typer.Option(7, min=3, help="Passes over the pictures, stock and ours in turns."),
    cache: Optional[str] = typer.Option(None, help="Keep decoded pictures: memory, or a folder."),
    reduced: bool = typer.Option(
        False, "--reduced", help="With fast: JPEGs decoded reduced where they may be."
    ),
    loader: bool = typer.Option(
        False, "--loader", help="Measure GeneratorDataset instead, stock against ours."
    ),
    probe: bool = typer.Option(False, "--probe", help="Time the loader at several --workers and choose."),
    targets: bool = typer.Option(
        False, "--targets", help="Measure the target maps alone, by number of texts and of corners."
    ),
    workers: Optional[list[int]] = typer.Option(
        None, help="Workers of --loader (2) or --probe (1, 2, 4...), at most the cores."
    ),
    kind: list[str] = typer.Option(list(KINDS), help="threads or processes, for --loader and --probe."),
    batch_size: int = typer.Option(8, min=1, help="Samples a batch, for --loader and --probe."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """DBNet's transforms against stock MindOCR's: by transform, through the loader, or the best workers."""
    host = mindocr_host()
    if not host.supported:
        raise UnsupportedHost(host.reason)
    for name, given, known in (("level", level, ("exact", "fast")), ("kind", kind, KINDS)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise UnreadableInput(f"--{name} {unknown[0]} is unknown; there are: {', '.join(known)}")
    cores = multiprocessing.cpu_count()
    for count in workers or []:
        if not 1 <= count <= cores:
            raise UnreadableInput(
                f"--workers {count}: MindSpore takes 1 to {cores} on this machine, its cores"
            )
    if images is not None and labels is None:
        raise UnreadableInput("--images names the pictures of --labels, which is not given")
    least, most = _pair(polygons, "-", "--polygons")
    width, height = _pair(size, "x", "--size")
    from detperf_plugins.mindocr import activate

    activate()
    from detperf_plugins.mindocr import loader_bench, transform_bench
    from detperf_plugins.mindocr.own_labels import both_can_read
    from detperf_plugins.samples.text_pictures import write_pictures

    conditions: dict[str, Any] = {"passes": passes, "cache": cache or "none", "reduced_decoding": reduced}
    with tempfile.TemporaryDirectory() as folder, console.status("measuring"):
        if labels is None:
            file = write_pictures(Path(folder), pictures, (least, most), vertices, (height, width))
            conditions.update(pictures=pictures, polygons=polygons, vertices=vertices, size=size)
        else:
            own = both_can_read(labels, images, Path(folder))
            if own.note:
                console.print(own.note, soft_wrap=True)
            conditions.update(labels=str(labels), left_out=own.left_out)
            file, folder = own.file, str(own.folder)
        settings = {"cache": cache, "reduced_decoding": reduced}
        rows: list[dict[str, Any]] = []
        if targets:
            from detperf_plugins.mindocr.target_map_bench import grow

            level = []
            rows += [{"level": "exact", **row} for row in grow(GROWING_POLYGONS, GROWING_CORNERS)]
        for one in level:
            perf = {**settings, "level": one, "reduced_decoding": reduced and one == "fast"}
            if probe:
                made = loader_bench.probe_loader(file, Path(folder), perf, workers, kind, batch_size)
            elif loader:
                counts = workers or [min(2, cores)]
                made = [
                    row
                    for count in counts
                    for row in loader_bench.time_loaders(
                        file, Path(folder), perf, count, batch_size, kinds=kind
                    )
                ]
            else:
                made = transform_bench.time_transforms(file, Path(folder), perf, passes=passes)
            rows += [{"level": one, **row} for row in made]
    _show(rows)
    write_json(json_path, rows, {**conditions, "date": datetime.date.today().isoformat()})
    differing = [row for row in rows if row.get("mismatches", 0) > 0]
    if differing:
        raise DetperfError(f"{differing[0]['mismatches']} values differ from stock's at level exact")


def _pair(text: str, between: str, option: str) -> tuple[int, int]:
    first, _, second = text.partition(between)
    try:
        return int(first), int(second or first)
    except ValueError:
        raise UnreadableInput(f"{option} is {text!r}; write it as 1{between}2") from None


def _show(rows: list[dict[str, Any]]) -> None:
    hidden = {"ratio_low", "ratio_high"} | {key for key in rows[0] if all(row[key] is None for row in rows)}
    columns = [key for key in rows[0] if key not in hidden]
    print_table(
        "DBNet's data path",
        columns,
        [["-" if row[key] is None else row[key] for key in columns] for row in rows],
    )
