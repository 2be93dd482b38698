"""Check a DBNet label file: every fault by line and box, one finding a kind of fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.labels.faults import RULES
from detperf_plugins.doctor.labels.lines import Line, is_icdar, parse_icdar, parse_line
from detperf_plugins.doctor.labels.pictures import Header, find_folder, read_header, suggest
from detperf_plugins.doctor.labels.shapes import area, crosses, extent, hull_share, reordered
from detperf_plugins.doctor.words import counted

__all__ = ["check_labels"]

_MIN_TEXT = 8.0  # ShrinkBinaryMap's default min_text_size
_DENSE = 300


class _Tally:
    def __init__(self, file: str) -> None:
        self.file, self.counts = file, Counter[str]()
        self.records: dict[str, list[dict[str, Any]]] = {}

    def add(self, rule: str, line: Line, box: int = -1, detail: str = "") -> None:
        self.counts[rule] += 1
        kept = self.records.setdefault(rule, [])
        if len(kept) < Finding.MAX_RECORDS:
            record: dict[str, Any] = {"line": line.number, "picture": line.picture}
            if box >= 0:
                record["box"] = box + 1
            kept.append({**record, "detail": detail})

    def findings(self) -> list[Finding]:
        made = []
        for name, count in self.counts.items():
            kept = self.records[name]
            shown = "; ".join(_words(record) for record in kept[:3])
            more = f"; and {count - 3} more" if count > 3 else ""
            message = f"{count} x {RULES[name].message}: {shown}{more}"
            made.append(Finding(RULES[name], self.file, message, kept[0]["line"], records=kept, count=count))
        return made


def _words(record: dict[str, Any]) -> str:
    box = f" box {record['box']}" if "box" in record else ""
    detail = f" ({record['detail']})" if record["detail"] else ""
    return f"line {record['line']}{box}{detail}"


def check_labels(
    text: str, file: str, path: Path | None = None, images: Path | None = None
) -> tuple[list[Finding], list[str]]:
    """Check the text of a label file.

    Args:
        text, file: its content, and its name in findings.
        path: where it lies, to find its pictures beside it.
        images: the folder that picture paths count from (data_dir), where it is known.

    Returns:
        The findings and notes (how many pictures and boxes; whether pictures were found).
    """
    if is_icdar(text):
        return _check_icdar(text, file)
    rows = text.split("\n")
    if rows and not rows[-1].strip():
        rows.pop()
    tally = _Tally(file)
    lines = [parse_line(row, number + 1) for number, row in enumerate(rows)]
    seen: dict[str, Line] = {}
    for line in lines:
        for rule, box, words in line.faults:
            tally.add(rule, line, box, words)
        first = seen.setdefault(line.picture, line)
        if line.picture and first is not line:
            same = "repeated-line" if first.raw == line.raw else "duplicate-picture"
            tally.add(same, line, -1, f"{line.picture}, also in line {first.number}")
        _shapes(line, tally)
    whole = _whole_file(lines, file)
    notes = _notes(lines) + _pictures(lines, path, images, tally)
    return [*tally.findings(), *whole], notes


def _shapes(line: Line, tally: _Tally) -> None:
    for index, box in line.boxes:
        points = box.points
        whole = [(float(int(x)), float(int(y))) for x, y in points]
        if crosses(points):
            if len(points) == 4 and not crosses(reordered(points)):
                better = ", ".join(f"[{x:g}, {y:g}]" for x, y in reordered(points))
                tally.add("point-order", line, index, f"try [{better}]")
            else:
                tally.add("self-intersection", line, index)
        elif not box.ignored and area(whole) < 1.0:
            tally.add("degenerate", line, index, f"area {area(points):.2g} px")
        elif len(points) > 4 and area(points) > 400 and hull_share(points) < 0.6:
            tally.add("splits-on-crop", line, index, f"it fills {hull_share(points):.0%} of its convex hull")
    if len(line.boxes) > _DENSE:
        tally.add("very-dense", line, -1, f"{len(line.boxes)} boxes")


def _whole_file(lines: list[Line], file: str) -> list[Finding]:
    boxes = [box for line in lines for _index, box in line.boxes]
    read = [box for box in boxes if not box.ignored]
    found = []
    tiny = 0
    for box in read:
        left, top, right, bottom = extent(box.points)
        tiny += min(right - left, bottom - top) < _MIN_TEXT
    if len(read) >= 4 and tiny >= 0.5 * len(read):
        message = (
            f"{tiny} of {len(read)} boxes are under {_MIN_TEXT:g} px in the picture as stored; a "
            "resize that shrinks makes it more"
        )
        found.append(Finding(RULES["tiny-text"], file, message, count=tiny))
    if boxes and not read:
        message = f"all {len(boxes)} boxes are marked ### or *"
        found.append(Finding(RULES["all-ignored"], file, message, count=len(boxes)))
    return found


def _notes(lines: list[Line]) -> list[str]:
    boxes = sum(len(line.boxes) for line in lines)
    ignored = sum(box.ignored for line in lines for _index, box in line.boxes)
    empty = sum(line.raw == [] for line in lines)
    background = f", {counted(empty, 'picture')} without text" if empty else ""
    amount = f"{counted(len(lines), 'picture')}, {counted(boxes, 'box', 'boxes')}"
    return [f"{amount}, {ignored} of them ignored{background}"]


def _pictures(lines: list[Line], path: Path | None, images: Path | None, tally: _Tally) -> list[str]:
    named = [line for line in lines if line.picture]
    folder = images or (find_folder([line.picture for line in named], path) if path is not None else None)
    if folder is None:
        return _lost_slashes(named, path, tally)
    found = 0
    for line in named:
        try:
            exists = (folder / line.picture).is_file()
        except (OSError, ValueError):
            exists = False
        if not exists:
            near = suggest(line.picture, folder)
            detail = f"{folder / line.picture} does not exist" + (f"; {near} exists" if near else "")
            tally.add("image-missing", line, -1, detail)
            continue
        found += 1
        header = read_header(folder / line.picture)
        if header is None or not header.width or not header.height:
            tally.add("image-broken", line, -1, str(folder / line.picture))
        else:
            _against_picture(line, header, tally)
    return [f"{found} of {len(named)} pictures found in {folder}"]


def _lost_slashes(named: list[Line], path: Path | None, tally: _Tally) -> list[str]:
    """Without a known folder, a picture is reported only where the right spelling of it exists."""
    if path is None:
        return []
    hits = 0
    for line in named[:200]:
        near = suggest(line.picture, path.parent)
        if near:
            hits += 1
            tally.add(
                "image-missing", line, -1, f"{path.parent / line.picture} does not exist; {near} exists"
            )
    if hits:
        return []
    return [f"the pictures were not found beside {path.name}; name their folder with --images to check them"]


def _against_picture(line: Line, header: Header, tally: _Tally) -> None:
    stored = (header.width, header.height)
    turned = stored[::-1] if header.orientation >= 5 else stored  # as cv2 decodes it
    outside_turned = [index for index, box in line.boxes if _outside(box.points, turned)]
    outside_stored = [index for index, box in line.boxes if _outside(box.points, stored)]
    if header.orientation > 1 and line.boxes:
        sizes = (
            f"EXIF orientation {header.orientation}: stored {stored[0]}x{stored[1]}, decoded "
            f"{turned[0]}x{turned[1]}"
        )
        if outside_turned and not outside_stored:
            tally.add(
                "exif-rotated", line, outside_turned[0], f"{sizes}; the boxes fit the stored pixels only"
            )
            return
        if outside_stored and not outside_turned:
            tally.add(
                "exif-rotated", line, outside_stored[0], f"{sizes}; the boxes fit the decoded picture only"
            )
            return
        if turned == stored or not outside_turned:
            tally.add("exif-rotated", line, -1, f"{sizes}; which one the boxes are for cannot be told")
    for index in outside_turned:
        tally.add("box-outside", line, index, f"the picture is {turned[0]}x{turned[1]}")
    for index, box in line.boxes:
        if area(box.points) >= 0.95 * turned[0] * turned[1]:
            tally.add("covers-picture", line, index)


def _outside(points: list[tuple[float, float]], size: tuple[int, int]) -> bool:
    """Whether less than half of the polygon's extent lies in the picture."""
    left, top, right, bottom = extent(points)
    inside = max(0.0, min(right, size[0]) - max(left, 0.0)) * max(0.0, min(bottom, size[1]) - max(top, 0.0))
    return inside < 0.5 * (right - left) * (bottom - top) or left >= size[0] or top >= size[1]


def _check_icdar(text: str, file: str) -> tuple[list[Finding], list[str]]:
    rows = [row for row in text.split("\n") if row.strip()]
    tally = _Tally(file)
    tally.add("icdar-format", Line(1), -1, "x1,y1,...,x4,y4,text")
    for number, row in enumerate(text.split("\n")):
        if row.strip() and not parse_icdar(row.strip()):
            tally.add("icdar-line", Line(number + 1), -1, f"`{row.strip()[:40]}`")
    return tally.findings(), [counted(len(rows), "ICDAR ground truth line")]
