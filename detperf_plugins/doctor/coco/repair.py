"""The repaired copy of a COCO file, written record by record."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from detperf_plugins.doctor.coco.masks import MaskVerdict, judge_mask
from detperf_plugins.doctor.coco.reader import CocoData, decode_record, open_coco
from detperf_plugins.doctor.coco.segmentation import classify, finite
from detperf_plugins.doctor.findings import Change

__all__ = ["repair_coco"]

_encode = msgspec.json.Encoder().encode


def repair_coco(path: Path, stream: BinaryIO) -> list[Change]:
    """Write the repaired file to `stream` and return the changes; UnreadableInput as from `open_coco`."""
    with open_coco(path) as data:
        repair = _Repair(data, str(path))
        stream.write(b'{"images":')
        stream.write(_encode([repair.image(row) for row in data.images]))
        stream.write(b',"categories":')
        stream.write(_encode([repair.category(row) for row in data.categories]))
        for name, raw in data.others.items():
            stream.write(b"," + _encode(name) + b":" + bytes(raw))
        stream.write(b',"annotations":[')
        first = True
        for raw in data.annotations:
            row = repair.annotation(decode_record(raw))
            if row is not None:
                stream.write((b"" if first else b",\n") + _encode(row))
                first = False
        stream.write(b"]}\n")
        return repair.changes


class _Repair:
    def __init__(self, data: CocoData, file: str) -> None:
        self.file = file
        self.changes: list[Change] = []
        rows = [row for row in data.images if isinstance(row, dict)]
        self.sizes: dict[Hashable, tuple[float, float]] = {}
        for row in rows:
            width, height = row.get("width"), row.get("height")
            size = (float(width), float(height)) if finite(width) and finite(height) else (0.0, 0.0)  # type: ignore[arg-type]
            self.sizes[_key(row.get("id"))] = size
        self.used: set[Hashable] = set()
        self.largest_id = 0
        masks = 0
        for raw in data.annotations:
            row = decode_record(raw)
            masks += _has_mask(row)
            own = _number_id(row.get("id")) if isinstance(row, dict) else None
            if isinstance(own, int):
                self.largest_id = max(self.largest_id, own)
        # Where hardly any annotation has a mask, boxes alone are the content, and none is deleted.
        self.detection = masks < 0.1 * len(data.annotations)

    def _note(self, what: str, row: dict[str, Any] | None = None) -> None:
        where = f"annotation {row.get('id')!r}, image {row.get('image_id')!r}: " if row is not None else ""
        self.changes.append(Change(self.file, where + what))

    def image(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        made = dict(row)
        made["id"] = _number_id(row.get("id"))
        if made["id"] is not row.get("id"):
            self._note(f"image id {row.get('id')!r} -> {made['id']}")
        name = row.get("file_name")
        if isinstance(name, str) and "\\" in name:
            made["file_name"] = "/".join(part for part in name.split("\\") if part)
            self._note(f"image {made['id']!r}: file_name {name!r} -> {made['file_name']!r}")
        return made

    def category(self, row: Any) -> Any:
        if not isinstance(row, dict) or _number_id(row.get("id")) is row.get("id"):
            return row
        self._note(f"category id {row.get('id')!r} -> {_number_id(row.get('id'))}")
        return {**row, "id": _number_id(row.get("id"))}

    def annotation(self, row: Any) -> dict[str, Any] | None:
        """The repaired annotation, or None where it is deleted."""
        if not isinstance(row, dict):
            self._note("a record that is no object deleted")
            return None
        made = dict(row)
        for key in ("id", "image_id", "category_id"):
            made[key] = _number_id(row.get(key))
            if made[key] is not row.get(key):
                self._note(f"{key} {row.get(key)!r} -> {made[key]}", row)
        if made.get("iscrowd") not in (0, 1):
            made["iscrowd"] = 0
            self._note("iscrowd set to 0", row)
        if not isinstance(made.get("segmentation"), dict) and not self._polygons(made, row):
            return None
        if not self._box(made, row):
            return None
        self._renumber(made, row)
        return made

    def _polygons(self, made: dict[str, Any], row: dict[str, Any]) -> bool:
        shape = classify(row.get("segmentation"))
        if shape.kind == "none" or not shape.parts:
            half = _without_half_point(row.get("segmentation"))
            if half:
                shape.parts = half
            elif self.detection or made["iscrowd"] == 1:
                return True
            else:
                self._note("deleted: no usable mask", row)
                return False
        parts = [part for part in shape.parts if len(part) >= 6 and len(part) % 2 == 0]
        verdict = judge_mask(parts, self.sizes.get(_key(made["image_id"]), (0.0, 0.0))) if parts else None
        if verdict is None or verdict.fault:
            self._note(f"deleted: {verdict.fault if verdict else 'no usable mask'}", row)
            return False
        if parts != row.get("segmentation"):
            what = "point pairs flattened" if shape.kind == "pairs" else "unusable parts removed"
            self._note(f"{what} ({len(parts)} parts left)", row)
            made["segmentation"] = parts
        self._from_mask(made, row, verdict)
        return True

    def _from_mask(self, made: dict[str, Any], row: dict[str, Any], verdict: MaskVerdict) -> None:
        if not finite(made.get("area")) or made["area"] <= 0:
            made["area"] = round(verdict.area, 2)
            self._note(f"area {row.get('area')!r} -> {made['area']}", row)
        if verdict.box_differs(made.get("bbox")):
            made["bbox"] = [round(value, 2) for value in verdict.box]
            self._note(f"bbox {row.get('bbox')!r} -> {made['bbox']}", row)

    def _box(self, made: dict[str, Any], row: dict[str, Any]) -> bool:
        box = made.get("bbox")
        if (
            isinstance(box, list)
            and len(box) == 4
            and all(map(finite, box))
            and box[2] > 1e-5
            and box[3] > 1e-5
        ):
            if not finite(made.get("area")):
                made["area"] = round(box[2] * box[3], 2)
                self._note(f"area {row.get('area')!r} -> {made['area']} (the box's)", row)
            return True
        self._note(f"deleted: bbox is {str(box)[:60]}", row)
        return False

    def _renumber(self, made: dict[str, Any], row: dict[str, Any]) -> None:
        own = made["id"] if isinstance(made["id"], Hashable) else None
        if own is None or own in self.used:
            self.largest_id += 1
            made["id"] = self.largest_id
            self._note(f"id {row.get('id')!r} is missing or used before, now {made['id']}", row)
        self.used.add(made["id"])


def _number_id(value: Any) -> Any:
    """A text of digits as a number; anything else unchanged."""
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 18
        else value
    )


def _key(value: Any) -> Hashable:
    """An id by which sizes are looked up; a list or an object, which is no id, as its text."""
    value = _number_id(value)
    return value if isinstance(value, Hashable) else repr(value)


def _has_mask(row: Any) -> bool:
    segmentation = row.get("segmentation") if isinstance(row, dict) else None
    return isinstance(segmentation, dict) or bool(classify(segmentation).parts)


def _without_half_point(value: Any) -> list[list[float]]:
    """Parts whose odd last number is left out, where three points remain that enclose an area."""
    parts = []
    for part in value if isinstance(value, list) else []:
        if isinstance(part, list) and len(part) % 2 and len(part) >= 7 and all(map(finite, part)):
            verdict = judge_mask([part[:-1]], (0.0, 0.0))
            if verdict is not None and not verdict.fault:
                parts.append(part[:-1])
    return parts
