"""The command blocks of README and docs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>[^>]*) -->\n)?```bash\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of shell commands.

    Attributes:
        page: path below the repository, with its first line: `docs/bench.md:12`.
        text: the lines.
        needs: what the comment above says it needs, or "".
    """

    page: str
    text: str
    needs: str

    def commands(self) -> list[list[str]]:
        """Words of each command: continued lines joined, here-documents, comments and `...` left out."""
        text = re.sub(r"<<EOF\n.*?\nEOF\n", "\n", self.text.replace("\\\n", " "), flags=re.DOTALL)
        text = text.replace("$(which detperf)", "detperf")
        found = []
        for line in text.splitlines():
            words = shlex.split(re.sub(r"\$\([^)]*\)", "SUBSTITUTED", line), comments=True)
            if words:
                found.append([word for word in words if word != "..."])
        return found


def blocks() -> list[Block]:
    """All of them, in the order of the pages."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("text"))
            where = f"{page.relative_to(ROOT)}:{line}"
            found.append(Block(where, match["text"], (match["needs"] or "").strip()))
    return found
