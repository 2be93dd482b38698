"""`detperf samples`: small data sets generated, and annotations of other tools converted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, write_json
from detperf_plugins.doctor.words import counted
from detperf_plugins.errors import DetperfError

__all__ = ["samples"]

samples = typer.Typer(
    name="samples", help="Generate small data sets, convert annotations.", no_args_is_help=True
)
app.add_typer(samples)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into the one sentence that names the file."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.strerror else error
        raise DetperfError(f"cannot write {path}: {reason}") from error


@samples.command()
def convert(
    source: Path = typer.Argument(..., help="MMOCR json, or a folder of ICDAR txt or Total-Text mat files."),
    out: Path = typer.Option(..., "--out", help="The label file to write."),
    images: Optional[Path] = typer.Option(None, "--images", help="The folder that picture names count from."),
    kind: Optional[str] = typer.Option(None, "--from", help="mmocr, icdar or totaltext; else recognised."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Write scene-text annotations as MindOCR label lines, one a picture."""
    from detperf_plugins.samples.convert import convert as run

    with _writing(out):
        result = run(source, out, images, kind)
    for sentence in result.left_out:
        console.print(f"[yellow]left out: {sentence}[/yellow]", soft_wrap=True)
    console.print(
        f"{counted(result.pictures, 'picture')}, {counted(result.words, 'word')}, "
        f"{result.ignored} of them ignored: {out}",
        soft_wrap=True,
    )
    row = {"path": str(out), "pictures": result.pictures, "words": result.words, "ignored": result.ignored}
    write_json(json_path, [row], {"source": str(source)}, left_out=result.left_out)


@samples.command("scene-text")
def scene_text(
    folder: Path = typer.Argument(..., help="Gets train/ and val/, each with images/ and labels.txt."),
    images: int = typer.Option(
        32, "--images", min=1, help="Pictures to train; a quarter of them to evaluate."
    ),
    size: int = typer.Option(320, "--size", min=96, help="Side of the pictures, pixels."),
    seed: int = typer.Option(0, "--seed", help="What is drawn depends on it alone."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Generate words on noise with MindOCR label lines."""
    from detperf_plugins.samples.scene_text import is_scene_text, write_scene_text

    _generate(write_scene_text, ("labels.txt", is_scene_text), folder, images, size, seed, json_path)


@samples.command()
def shapes(
    folder: Path = typer.Argument(..., help="Gets train/ and val/, each with images/ and annotations.json."),
    images: int = typer.Option(
        64, "--images", min=1, help="Pictures to train; a quarter of them to evaluate."
    ),
    size: int = typer.Option(128, "--size", min=32, help="Side of the pictures, pixels."),
    seed: int = typer.Option(0, "--seed", help="What is drawn depends on it alone."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Generate coloured shapes of three classes with COCO annotations."""
    from detperf_plugins.samples.coco_shapes import is_shapes, write_coco_shapes

    _generate(write_coco_shapes, ("annotations.json", is_shapes), folder, images, size, seed, json_path)


def _generate(
    write: Callable[[Path, int, int, int], Path],
    own: tuple[str, Callable[[Path], bool]],
    folder: Path,
    images: int,
    size: int,
    seed: int,
    json_path: Optional[Path],
) -> None:
    from detperf_plugins.samples.keep import keep_foreign

    with _writing(folder):
        for name in ("train", "val"):
            keep_foreign(folder / name, *own)
    rows = []
    for name, count, offset in (("train", images, 0), ("val", max(1, images // 4), 1)):
        with _writing(folder):
            path = write(folder / name, count, size, seed + offset)
        console.print(f"{counted(count, 'picture')}: {path}", soft_wrap=True)
        rows.append({"path": str(path), "pictures": count})
    write_json(json_path, rows, {"size": size, "seed": seed})
