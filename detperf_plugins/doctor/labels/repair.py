"""The repaired copy of a label file; a line is rewritten only where something on it is put right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.findings import Change
from detperf_plugins.doctor.labels.lines import Line, is_icdar, parse_line
from detperf_plugins.doctor.labels.pictures import find_folder, suggest
from detperf_plugins.doctor.labels.points import read_points
from detperf_plugins.doctor.labels.shapes import area, crosses, extent, reordered
from detperf_plugins.errors import UnreadableInput

__all__ = ["repair_labels"]


def repair_labels(
    text: str, file: str, path: Path | None = None, images: Path | None = None
) -> tuple[str, list[Change]]:
    """The repaired text and its changes.

    Lines without a usable label are kept: whether they mean "no text" only the user knows.

    Raises:
        UnreadableInput: the text is ICDAR ground truth, which needs converting, not repairing.
    """
    if is_icdar(text):
        raise UnreadableInput(
            f"{file} is ICDAR ground truth; convert it with MindOCR's tools/dataset_converters/convert.py"
        )
    rows = text.split("\n")
    if rows and not rows[-1].strip():
        rows.pop()
    changes: list[Change] = []
    folder = images or _folder(rows, path)
    done: list[str] = []
    for number, row in enumerate(rows):
        done += _repair_row(row, number + 1, file, folder, changes)
    return "".join(line + "\n" for line in done), changes


def _folder(rows: list[str], path: Path | None) -> Path | None:
    names = [line.picture for line in (parse_line(row, 1) for row in rows[:20]) if line.picture]
    return find_folder(names, path) if path is not None and names else None


def _repair_row(row: str, number: int, file: str, folder: Path | None, changes: list[Change]) -> list[str]:
    line = parse_line(row, number)
    faults = {fault[0] for fault in line.faults}

    def note(what: str) -> None:
        changes.append(Change(file, what, number))

    if "blank-line" in faults:
        note("blank line deleted")
        return []
    if line.raw is None:
        return [row.rstrip("\r")]
    more: list[str] = []
    if "glued-records" in faults:
        note("two records separated")
        more = _repair_row(line.split, number, file, folder, changes)
    if faults & {"no-tab", "extra-tab"}:
        note("one tab between picture and label")
    picture = _picture(line, folder, note)
    label = _boxes(line, note)
    changed = (
        bool(faults & {"glued-records", "no-tab", "extra-tab"})
        or picture != line.picture
        or label is not line.raw
    )
    first = f"{picture}\t{json.dumps(label, ensure_ascii=False)}" if changed else row.rstrip("\r")
    return [first, *more]


def _picture(line: Line, folder: Path | None, note: Any) -> str:
    if folder is None or (folder / line.picture).is_file():
        return line.picture
    near = suggest(line.picture, folder)
    if near:
        note(f"picture {line.picture} -> {near}")
    return near or line.picture


def _boxes(line: Line, note: Any) -> Any:
    """The label with its boxes put right; the very same object where nothing changed."""
    if not isinstance(line.raw, list):
        return line.raw
    short = {index: words for rule, index, words in line.faults if rule == "few-points"}
    broken = {index for rule, index, _words in line.faults if rule == "bad-box"}
    usable = dict(line.boxes)
    made: list[Any] = []
    changed = False
    for index, item in enumerate(line.raw):
        if index in broken:
            changed = True
            item, what = _completed(item)
            note(f"box {index + 1}: {what}" if item is not None else f"box {index + 1} deleted")
            if item is not None:
                made.append(item)
            continue
        if index in short and len(item["points"]) != 2:
            note(f"box {index + 1} deleted")
            changed = True
            continue
        if index in short:
            left, top, right, bottom = extent([(float(x), float(y)) for x, y in item["points"]])
            item = {**item, "points": [[left, top], [right, top], [right, bottom], [left, bottom]]}
            note(f"box {index + 1}: two corners -> upright rectangle")
            changed = True
        elif index in usable:
            points = usable[index].points
            if crosses(points) and len(points) == 4 and not crosses(reordered(points)):
                item = {**item, "points": [list(point) for point in reordered(points)]}
                note(f"box {index + 1}: corners reordered")
                changed = True
            elif not usable[index].ignored and (
                crosses(points) or area([(int(x), int(y)) for x, y in points]) < 1.0
            ):
                item = {**item, "transcription": "###"}
                note(f"box {index + 1}: marked ignored (###)")
                changed = True
        made.append(item)
    return made if changed else line.raw


def _completed(item: Any) -> tuple[dict[str, Any] | None, str]:
    """A broken box as training reads it, or None where it has no place; and what was wrong and done.

    Deleted, its text would be trained as background: what cannot be read is marked ignored instead.
    """
    if not isinstance(item, dict) or not isinstance(item.get("points"), list):
        return None, ""
    points, lost, notes = read_points(item["points"])
    if len(points) < 3:
        return None, ""
    done = [f"{what}: {how}" for what, how in notes]
    text = item.get("transcription")
    if lost or not isinstance(text, (str, int, float)):
        text = "###"
        done.append("marked ignored (###)")
    elif not isinstance(text, str):
        text = str(text)
        done.append("its transcription made a text")
    made = [[int(value) if value.is_integer() else value for value in point] for point in points]
    return {**item, "transcription": text, "points": made}, "; ".join(done)
