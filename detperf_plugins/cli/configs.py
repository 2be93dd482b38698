"""`detperf configs`: which overlays and configs are shipped, and where they lie."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins import configs_dir
from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, print_table, write_json
from detperf_plugins.errors import UnreadableInput

__all__ = ["configs", "describe", "find_config"]


def describe(path: Path) -> str:
    """The first sentence of the comment that opens a config: what it changes."""
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# ").strip())
    text = " ".join(word for word in words if word)
    return text.split(". ")[0].rstrip(".")


def list_configs() -> list[dict[str, str]]:
    """Every shipped config: `name` (its path below the config folder), `path`, `changes`."""
    root = configs_dir()
    return [
        {"name": path.relative_to(root).as_posix(), "path": str(path), "changes": describe(path)}
        for path in sorted(root.rglob("*.yml"))
    ]


def find_config(name: str, host: str = "") -> Path:
    """The one shipped config that `name` means: its full name, its file name, or that without .yml.

    Args:
        name: as the user typed it.
        host: "paddledet" or "mindocr": whose configs to propose where none is called so.

    Raises:
        UnreadableInput: no config, or more than one, is called so.
    """
    wanted = name if name.endswith(".yml") else f"{name}.yml"
    rows = list_configs()
    hits = [row for row in rows if row["name"] == wanted] or [
        row for row in rows if row["name"].rsplit("/", 1)[-1] == wanted
    ]
    if len(hits) > 1:
        names = ", ".join(row["name"] for row in hits)
        raise UnreadableInput(f"several configs are called {name!r}; there are: {names}")
    if not hits:
        raise UnreadableInput(f"{_unknown(name)}; {_proposal(wanted, [row['name'] for row in rows], host)}")
    return Path(hits[0]["path"])


def _unknown(name: str) -> str:
    if "/" in name or name.endswith((".yml", ".yaml")):
        return f"there is no file {name}, and no shipped config is called so"
    return f"no shipped config is called {name!r}"


def _proposal(wanted: str, names: list[str], host: str) -> str:
    """The names that are spelt almost so; else those of the host; else how to list them."""
    stems = {name.rsplit("/", 1)[-1].removesuffix(".yml"): name for name in names}
    typed = wanted.removesuffix(".yml").rsplit("/", 1)[-1]
    near = difflib.get_close_matches(typed, stems, 3, 0.75) or [stem for stem in stems if typed in stem][:3]
    if near:
        *others, last = near
        return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    host = host or wanted.partition("/")[0]
    own = [stem for stem, name in stems.items() if name.startswith(f"{host}/")]
    return f"there are: {', '.join(own)}" if own else "`detperf configs` lists them"


@app.command()
def configs(
    name: Optional[str] = typer.Argument(None, help="Print only the path of this config or overlay."),
    folder: bool = typer.Option(False, "--dir", help="Print only the folder that holds them."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """List the shipped overlays and configs; with NAME print the path to use in `_BASE_` or `-c`."""
    rows: list[dict[str, Any]] = list(list_configs())
    if folder:
        typer.echo(str(configs_dir()))
    elif name is not None:
        path = find_config(name)
        rows = [row for row in rows if row["path"] == str(path)]
        typer.echo(str(path))
    else:
        print_table(
            "Configs and overlays",
            ("name", "what it changes"),
            [(row["name"], row["changes"]) for row in rows],
            note=f"in {configs_dir()}",
        )
    write_json(json_path, rows, {"folder": str(configs_dir())})
