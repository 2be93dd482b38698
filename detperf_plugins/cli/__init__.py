"""The `detperf` command: one module per verb, each adding its function to one typer application."""

from __future__ import annotations

import sys

import typer

from detperf_plugins import __version__

# Exit statuses shared by every verb.
OK, FAILED, UNREADABLE = 0, 1, 2

app = typer.Typer(
    name="detperf",
    help="Train Mask R-CNN (PaddleDetection) and DBNet (MindOCR) faster, to the same result.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"detperf-plugins {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Options that stand before the verb."""


def _load_verbs() -> None:
    """Import every verb module, so that each registers itself with `app`."""
    from importlib import import_module

    for verb in (*VERBS, *BENCH_VERBS):
        import_module(f"detperf_plugins.cli.{verb}")


# In the order in which `detperf --help` lists them.
VERBS = (
    "demo", "train", "configs", "env", "lint", "log", "explain", "bench", "profile", "report", "samples",
    "build_cuda", "patch",
)  # fmt: skip
# Verbs of `detperf bench`.
BENCH_VERBS = ("bench_train", "bench_transforms", "bench_dbnet", "bench_layouts")


def main() -> None:
    """Entry point of the `detperf` console script."""
    from detperf_plugins.errors import DetperfError
    from detperf_plugins.paddledet.compat import drop_numba_note

    drop_numba_note()
    _load_verbs()
    try:
        app()
    except DetperfError as error:
        typer.secho(f"detperf: {error}", err=True, fg="red")
        sys.exit(error.status)
