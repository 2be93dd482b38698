"""Check a COCO file: every fault by image and annotation id, one finding a kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.coco.faults import RULES
from detperf_plugins.doctor.coco.masks import MaskBatch
from detperf_plugins.doctor.coco.pictures import check_pictures
from detperf_plugins.doctor.coco.reader import CocoData, decode_record, open_coco
from detperf_plugins.doctor.coco.segmentation import classify, finite, rle_problem
from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.words import counted

__all__ = ["Tally", "check_coco"]

_BATCH = 20_000
_BITMAP_LIMIT = 512 * 2**20
_MANY_INSTANCES = 300
_MANY_VERTICES = 1000


@dataclass
class Tally:
    """Findings in the making: for each rule how often it was broken, and by which records."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, rule: str, detail: str, **ids: Any) -> None:
        """Count a record against `coco-<rule>`; `ids` are image_id, annotation_id, category_id, file_name."""
        self.counts[rule] += 1
        kept = self.records.setdefault(rule, [])
        if len(kept) < Finding.MAX_RECORDS:
            kept.append({**ids, "detail": detail})

    def findings(self) -> list[Finding]:
        """One finding a rule, with the count and the first records in words."""
        made = []
        for name, count in self.counts.items():
            rule = RULES[f"coco-{name}"]
            kept = self.records[name]
            shown = "; ".join(_words(record) for record in kept[:3])
            more = f"; and {count - 3} more" if count > 3 else ""
            message = f"{count} x {rule.message}: {shown}{more}"
            made.append(Finding(rule, self.file, message, records=kept, count=count))
        return made


def _words(record: dict[str, Any]) -> str:
    names = {
        "annotation_id": "annotation",
        "image_id": "image",
        "category_id": "category",
        "file_name": "file",
    }
    ids = ", ".join(f"{names[key]} {value!r}" for key, value in record.items() if key in names)
    return f"{ids} ({record['detail']})" if record["detail"] else ids


def _key(value: Any) -> Hashable:
    return value if type(value) is int or isinstance(value, Hashable) else repr(value)


class _Images:
    """The pictures by id, with their sizes."""

    def __init__(self, data: CocoData, tally: Tally) -> None:
        self.sizes: dict[Hashable, tuple[float, float]] = {}
        self.texts: set[str] = set()
        for row in data.images:
            if not isinstance(row, dict) or "id" not in row or not isinstance(row.get("file_name"), str):
                tally.add("bad-record", f"an image without id or file_name: {str(row)[:60]}")
                continue
            key = _key(row["id"])
            if key in self.sizes:
                tally.add("duplicate-id", "an image id used twice", image_id=row["id"])
            if isinstance(row["id"], str):
                tally.add("id-type", "an image id that is text", image_id=row["id"])
            width, height = row.get("width"), row.get("height")
            if not (finite(width) and finite(height) and width > 0 and height > 0):  # type: ignore[operator]
                tally.add("image-size", f"width {width!r}, height {height!r}", image_id=row["id"])
                width = height = 0
            self.sizes[key] = (float(width or 0), float(height or 0))
            self.texts.add(str(row["id"]))


class _Checker:
    def __init__(self, data: CocoData, file: str) -> None:
        self.data, self.tally = data, Tally(file)
        self.images = _Images(data, self.tally)
        self.categories: dict[Hashable, Any] = {}
        for row in data.categories:
            if not isinstance(row, dict) or "id" not in row:
                self.tally.add("bad-record", f"a category without id: {str(row)[:60]}")
                continue
            if _key(row["id"]) in self.categories:
                self.tally.add("duplicate-id", "a category id used twice", category_id=row["id"])
            self.categories[_key(row["id"])] = row.get("name")
        self.batch = MaskBatch()
        self.per_image: Counter[Hashable] = Counter()
        self.ids: set[Hashable] = set()
        self.without_mask: list[tuple[str, dict[str, Any]]] = []
        self.masks = self.crowds = self.polygons = 0

    def annotation(self, row: Any, index: int) -> None:
        """Check one decoded annotation."""
        if not isinstance(row, dict):
            self.tally.add("bad-record", f"annotation number {index + 1} is no object")
            return
        where = {"annotation_id": row.get("id"), "image_id": row.get("image_id")}
        size = self._references(row, where)
        crowd = row.get("iscrowd")
        if "iscrowd" not in row:
            self.tally.add("iscrowd-missing", "", **where)
        elif crowd not in (0, 1):
            self.tally.add("bad-record", f"iscrowd is {crowd!r}", **where)
        self.crowds += crowd == 1
        box = self._box(row.get("bbox"), where)
        self._mask(row, where, size, box, crowd == 1)
        area = row.get("area")
        if "area" not in row:
            self.tally.add("area-missing", "", **where)
        elif not finite(area):
            self.tally.add("bad-record", f"area is {area!r}", **where)

    def _references(self, row: dict[str, Any], where: dict[str, Any]) -> tuple[float, float]:
        own = _key(row.get("id"))
        if "id" not in row:
            self.tally.add("bad-record", "no id", **where)
        elif own in self.ids:
            self.tally.add("duplicate-id", "an annotation id used twice", **where)
        self.ids.add(own)
        image = _key(row.get("image_id"))
        self.per_image[image] += 1
        if image not in self.images.sizes:
            same = str(row.get("image_id")) in self.images.texts
            why = "the same id exists with another type: text against number" if same else "no such image"
            self.tally.add("unknown-image", why, **where)
        category = _key(row.get("category_id"))
        if category not in self.categories:
            self.tally.add("unknown-category", f"category {row.get('category_id')!r}", **where)
        return self.images.sizes.get(image, (0.0, 0.0))

    def _box(self, box: Any, where: dict[str, Any]) -> tuple[float, float, float, float] | None:
        if not isinstance(box, list) or len(box) != 4 or not all(map(finite, box)):
            self.tally.add("bad-box", f"bbox is {str(box)[:60]}", **where)
            return None
        if box[2] <= 1e-5 or box[3] <= 1e-5:
            self.tally.add("bad-box", f"width {box[2]:g}, height {box[3]:g}", **where)
            return None
        return box[0], box[1], box[2], box[3]

    def _mask(
        self,
        row: dict[str, Any],
        where: dict[str, Any],
        size: tuple[float, float],
        box: tuple[float, float, float, float] | None,
        crowd: bool,
    ) -> None:
        shape = classify(row.get("segmentation"))
        if shape.kind == "rle":
            self.masks += 1
            problem = rle_problem(row["segmentation"], size[1], size[0])
            if problem:
                self.tally.add(problem[0].removeprefix("coco-"), problem[1], **where)
            if not crowd:
                self.tally.add("rle-instance", "", **where)
            return
        names = {"short": "part-too-short", "odd": "odd-coordinates", "bad": "bad-coordinate"}
        for what, part in shape.faults:
            left = "" if shape.parts else "; no part is left, so the instance has no mask"
            self.tally.add(
                names[what], f"part {part + 1}{left}" if part >= 0 else f"the whole value{left}", **where
            )
        if shape.kind == "pairs":
            self.tally.add(
                "point-pairs", f"{len(shape.parts[0]) // 2} points" if shape.parts else "", **where
            )
            shape.parts = [part for part in shape.parts if len(part) >= 6 and len(part) % 2 == 0]
        if not shape.parts:
            if not shape.faults and not crowd:
                empty = "segmentation" in row and row["segmentation"] is not None
                self.without_mask.append(("segmentation is empty" if empty else "no segmentation", where))
            return
        self.masks += 1
        self.polygons += 1
        vertices = sum(map(len, shape.parts)) // 2
        if vertices > _MANY_VERTICES:
            self.tally.add("many-vertices", f"{vertices} vertices", **where)
        self.batch.add(shape.parts, where, size, box, row.get("area"))
        if len(self.batch) >= _BATCH:
            self.batch.flush(self.tally)

    def finish(self) -> list[Finding]:
        """What can be said only after the last annotation."""
        self.batch.flush(self.tally)
        total = len(self.data.annotations)
        findings = []
        if total and self.masks < 0.1 * total and len(self.without_mask) > 0:
            rule = RULES["coco-no-masks"]
            message = (
                f"{self.masks} of {total} annotations have masks: this is a detection set, not one "
                "for Mask R-CNN"
            )
            records = [
                {**where, "detail": detail} for detail, where in self.without_mask[: Finding.MAX_RECORDS]
            ]
            findings.append(
                Finding(rule, self.tally.file, message, records=records, count=len(self.without_mask))
            )
        else:
            for detail, where in self.without_mask:
                self.tally.add("empty-segmentation", detail, **where)
        if total and self.crowds > 0.5 * total:
            message = f"{self.crowds} of {total} annotations have iscrowd 1"
            findings.append(Finding(RULES["coco-crowd-mostly"], self.tally.file, message, count=self.crowds))
        if self.data.nonfinite:
            findings.append(
                Finding(
                    RULES["coco-nonfinite-literal"],
                    self.tally.file,
                    "the file holds the literal NaN or Infinity",
                )
            )
        for problem in self.data.problems:
            findings.append(Finding(RULES["coco-structure"], self.tally.file, problem))
        self._amounts()
        return findings

    def _amounts(self) -> None:
        empty = [image for image in self.images.sizes if image not in self.per_image]
        if len(empty) < len(self.images.sizes):
            for image in empty:
                self.tally.add("no-instances", "", image_id=image)
        for image, count in self.per_image.items():
            width, height = self.images.sizes.get(image, (0.0, 0.0))
            memory = width * height * count
            if memory > _BITMAP_LIMIT:
                detail = f"{count} instances x {width:g} x {height:g} = {memory / 2**30:.2f} GiB"
                self.tally.add("mask-memory", detail, image_id=image)
            if count > _MANY_INSTANCES:
                self.tally.add("many-instances", f"{count} instances", image_id=image)


def check_coco(
    path: Path,
    file: str,
    images: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Finding], list[str]]:
    """Check a COCO file.

    Args:
        path, file: where it lies, and its name in findings.
        images: the folder that file names count from; guessed beside the json if None.
        progress: called now and then with (annotations done, annotations in all).

    Returns:
        The findings and notes (how many images, annotations and categories; whether pictures were found).

    Raises:
        UnreadableInput: the file is missing or no JSON object.
    """
    with open_coco(path) as data:
        checker = _Checker(data, file)
        total = len(data.annotations)
        for index, raw in enumerate(data.annotations):
            checker.annotation(decode_record(raw), index)
            if progress is not None and index % 5000 == 0:
                progress(index, total)
        if progress is not None:
            progress(total, total)
        findings = checker.finish()
        amounts = (
            counted(len(data.images), "image"),
            counted(total, "annotation"),
            counted(len(data.categories), "category", "categories"),
        )
        notes = [", ".join(amounts)]
        if not data.annotations and not data.images and len(data.problems) == 3:
            findings = [f for f in findings if f.rule.id == "coco-structure"][:1]
            findings[0].message = "no images, annotations or categories: this JSON is no COCO file"
            return findings, notes
        if checker.crowds:
            crowds = counted(checker.crowds, "crowd region")
            notes.append(f"{crowds}: left out of training unless load_crowd is on")
        notes += check_pictures(data.images, path, images, checker.tally)
        return findings + checker.tally.findings(), notes
