"""A folder of results as one HTML page that needs nothing else: sorting tables, charts, conditions."""

from __future__ import annotations

import base64
import html
import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure.charts import bars

__all__ = ["page", "read_results"]

LOG_LINES = 40
# Longer texts are wrapped.
LONG_CELL = 60
STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem } h3 { font-size: 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem; text-align: left; white-space: pre }
td.long { white-space: normal; min-width: 18rem }
td.number { text-align: right }
th button { all: unset; cursor: pointer; font-weight: 600 }
th button:focus-visible { outline: 2px solid }
th[aria-sort=ascending] button::after { content: " ▲" }
th[aria-sort=descending] button::after { content: " ▼" }
pre { background: color-mix(in srgb, currentColor 7%, transparent); padding: .6rem; white-space: pre-wrap }
img { max-width: 100%; background: #fff; border: 1px solid var(--line) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem; font-size: .87rem }
dd { margin: 0; overflow-wrap: anywhere }
"""
SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), column = head.cellIndex, body = head.closest("table").tBodies[0];
  const down = head.ariaSort === "descending";
  for (const other of head.parentNode.cells) other.ariaSort = "none";
  head.ariaSort = down ? "ascending" : "descending";
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const rows = [...body.rows].sort((a, b) => {
    const one = key(a), other = key(b), x = parseFloat(one), y = parseFloat(other);
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
    const order = isNaN(x) ? one.localeCompare(other) : x - y;
    return down ? order : -order;
  });
  body.append(...rows);
});
"""


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """The results that the verbs wrote into a folder, by file name without its suffix.

    Raises:
        UnreadableInput: there is no such folder, or no result in it.
    """
    if not folder.is_dir():
        raise UnreadableInput(f"no such folder: {folder}")
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and {"command", "conditions", "rows"} <= content.keys():
            found[file.stem] = content
    if not found:
        raise UnreadableInput(f"no result in {folder}: expected a JSON file written by a detperf verb")
    return found


def page(folder: Path) -> str:
    """The HTML page of a bench or profile folder.

    Raises:
        UnreadableInput: see `read_results`.
    """
    parts = []
    for name, result in read_results(folder).items():
        parts += [f"<h2>{html.escape(name.replace('_', ' '))}</h2>", _command(result["command"])]
        parts += [_picture(path) for path in _charts(folder, name, result)]
        # The gain table of a training benchmark is what its reader looks for first.
        tables = {"gains": result.get("gains"), **result}
        for title, rows in tables.items():
            if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
                parts += [f"<h3>{html.escape(title)}</h3>", _table(rows)]
        parts += ["<h3>Conditions</h3>", _facts({**result.get("versions", {}), **result["conditions"]})]
        facts = {
            key: value
            for key, value in result.items()
            if key not in ("command", "versions", "conditions") and not isinstance(value, list)
        }
        parts += ["<h3>Also measured</h3>", _facts(facts)] if facts else []
    parts += _logs(folder)
    title = html.escape(f"detperf report: {folder.resolve().name}")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1>\n" + "\n".join(parts) + f"<script>{SCRIPT}</script></body></html>\n"
    )


def _command(words: Sequence[str]) -> str:
    return f"<pre>{html.escape(shlex.join(map(str, words)))}</pre>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    keys = [key for key in keys if any(row.get(key) is not None for row in rows)]
    head = "".join(
        f'<th aria-sort="none"><button>{html.escape(key.replace("_", " "))}</button></th>' for key in keys
    )
    body = "".join("<tr>" + "".join(_cell(row.get(key)) for key in keys) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = "-" if value is None else str(value)
        return f"<td{' class=long' if len(text) > LONG_CELL else ''}>{html.escape(text)}</td>"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f'<td class="number" data-value="{value!r}">{text}</td>'


def _facts(facts: Mapping[str, Any]) -> str:
    lines = []
    for key, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"<dt>{html.escape(key.replace('_', ' '))}</dt><dd>{html.escape(text)}</dd>")
    return f"<dl>{''.join(lines)}</dl>"


def _charts(folder: Path, name: str, result: Mapping[str, Any]) -> list[bytes]:
    """The chart that the verb drew; else one of the rows' ratios, where they have any."""
    drawn = folder / f"{name}.png"
    if drawn.is_file():
        return [drawn.read_bytes()]
    rows = [row for row in result["rows"] if isinstance(row.get("ratio"), (int, float))]
    if not rows:
        return []
    words = ("part", "transform", "name", "model", "batch_size", "workers", "mode")
    labels = [" ".join(str(row[word]) for word in words if row.get(word) is not None) for row in rows]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "ratio.png"
        bars(path, "Times faster than stock", "stock time / plugin time", labels,
             {"ratio": [float(row["ratio"]) for row in rows]})  # fmt: skip
        return [path.read_bytes()]


def _picture(content: bytes) -> str:
    data = base64.b64encode(content).decode("ascii")
    return f'<p><img alt="chart of the table below" src="data:image/png;base64,{data}"></p>'


def _logs(folder: Path) -> list[str]:
    """The ends of the logs, folded."""
    parts = []
    for log in sorted([*folder.glob("*.log"), *folder.glob("logs/*.log")]):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        parts.append(
            f"<details><summary>{html.escape(log.name)}</summary><pre>{html.escape(chr(10).join(lines))}</pre>"
            "</details>"
        )
    return ["<h2>Logs</h2>", *parts] if parts else []
