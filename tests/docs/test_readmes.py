"""README.md and README_zh.md say the same: commands, tables, links."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT

ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README_zh.md"))


def tables(text: str) -> list[list[list[str]]]:
    """Cells of each table, row by row."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [[row.strip("|").split("|") for row in table.splitlines()] for table in found]


def exact(cell: str) -> list[str]:
    """What no translation changes: code, numbers, and where links go."""
    return sorted(re.findall(r"`[^`]*`|\d+(?:\.\d+)*|\]\([^)]*\)", cell))


def test_commands_are_the_same():
    code = r"```.*?```"
    assert re.findall(code, ENGLISH, re.DOTALL) == re.findall(code, CHINESE, re.DOTALL) != []


def test_tables_are_the_same():
    english, chinese = tables(ENGLISH), tables(CHINESE)
    assert [len(table) for table in english] == [len(table) for table in chinese] and english
    for one, other in zip(english, chinese):
        for row, translated in zip(one, other):
            assert [exact(cell) for cell in row] == [exact(cell) for cell in translated]


def test_links_and_sections_are_the_same():
    def links(text: str) -> list[str]:
        return re.findall(r"\]\((?!README)([^)]*)\)", text)

    assert links(ENGLISH) == links(CHINESE)
    assert len(re.findall("^## ", ENGLISH, re.MULTILINE)) == len(re.findall("^## ", CHINESE, re.MULTILINE))


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
