"""What the site has beside the pages of docs/: the front pages, the reference, the navigation.

Run by mkdocs-gen-files. The front pages are README.md and README_zh.md with their links turned; the
reference is one page for each module with `__all__`, and one for the command, from the functions themselves.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files
import typer
from typer.cli import get_docs_for_click

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PACKAGE = "detperf_plugins"
# Room -> heading; the order of the reference.
ROOMS = {
    "paddledet": "Inside PaddleDetection",
    "mindocr": "Inside MindOCR",
    "native": "Kernels",
    "measure": "Measuring",
    "doctor": "Doctor",
    "samples": "Samples",
    "": "Package",
}


def front_pages() -> None:
    """README.md as index.md, README_zh.md as zh.md, and the pages that stand beside them."""
    turned = {"README.md": "index.md", "README_zh.md": "zh.md"}
    turned |= {f"{name}.md": f"{name.lower()}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}
    for name, page in turned.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for source, target in turned.items():
            text = text.replace(f"]({source})", f"]({target})")
        text = re.sub(r"\]\(docs/([^)]*)\)", r"](\1)", text)
        with mkdocs_gen_files.open(page, "w") as out:
            out.write(text)


def beside_docs() -> None:
    """patches/README.md as a page, and upstream.md with its link turned to it."""
    text = (ROOT / "patches" / "README.md").read_text(encoding="utf-8")
    with mkdocs_gen_files.open("patches.md", "w") as out:
        out.write(text.replace("../docs/", ""))
    text = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
    with mkdocs_gen_files.open("upstream.md", "w") as out:
        out.write(text.replace("../patches/README.md", "patches.md"))


def public_modules() -> Iterator[tuple[str, str]]:
    """(module, first sentence of its docstring) of every module with a non-empty `__all__`."""
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        if not names or not ast.literal_eval(names[0]):
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if parts[1:2] == ("cli",):
            continue
        text = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
        yield ".".join(parts), text


def reference() -> list[str]:
    """Writes the pages of the reference; returns its lines of the navigation."""
    rooms: dict[str, list[tuple[str, str]]] = {room: [] for room in ROOMS}
    for module, text in public_modules():
        parts = module.split(".")
        room = parts[1] if len(parts) > 1 and parts[1] in ROOMS else ""
        rooms[room].append((module, text))
    lines = ["    * [The detperf command](reference/command.md)"]
    for room, heading in ROOMS.items():
        if not rooms[room]:
            continue
        lines.append(f"    * {heading}")
        for module, text in rooms[room]:
            page = f"reference/{module}.md"
            with mkdocs_gen_files.open(page, "w") as out:
                out.write(f"# {module}\n\n{text}\n\n::: {module}\n")
            lines.append(f"        * [{module.removeprefix(PACKAGE + '.')}]({page})")
    return lines


def command() -> None:
    """reference/command.md: every verb with its arguments, from the application itself."""
    from detperf_plugins import cli

    cli._load_verbs()
    click_command = typer.main.get_command(cli.app)
    context = click_command.context_class(click_command, info_name="detperf")
    with mkdocs_gen_files.open("reference/command.md", "w") as out:
        out.write(
            get_docs_for_click(obj=click_command, ctx=context, name="detperf", title="The detperf command")
        )


def navigation() -> None:
    """nav.md from docs/hooks/nav.md, with the reference in its place."""
    text = (Path(__file__).parent / "nav.md").read_text(encoding="utf-8")
    with mkdocs_gen_files.open("nav.md", "w") as out:
        out.write(text.replace("{reference}", "\n".join(reference()).strip()))


front_pages()
beside_docs()
command()
navigation()
