"""Whether the pictures that a COCO file names are there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detperf_plugins.doctor.coco.check import Tally

__all__ = ["check_pictures", "guess_folder", "missing_pictures"]

_BESIDE = ("", "images", "imgs", "JPEGImages", "train2017", "val2017", "train", "val", "data")


def guess_folder(names: list[str], json: Path) -> Path | None:
    """The folder beside the json, or beside its parent, that holds one of the first pictures."""
    for base in (json.parent, json.parent.parent):
        for name in _BESIDE:
            folder = base / name
            if any(
                (folder / n.replace("\\", "/")).is_file()
                for n in names[:3]
                if "\0" not in n and len(n) < 4000
            ):
                return folder
    return None


def missing_pictures(names: Sequence[str], folder: Path) -> list[int]:
    """The indices of the names that are not below `folder`; one listing a folder, not one stat a picture.

    Raises:
        OSError, ValueError: a folder cannot be listed.
    """
    present: dict[str, set[str]] = {}
    missing = []
    for index, name in enumerate(names):
        path = folder / name
        parent = str(path.parent)
        if parent not in present:
            present[parent] = set(os.listdir(parent)) if os.path.isdir(parent) else set()
        if path.name not in present[parent]:
            missing.append(index)
    return missing


def check_pictures(rows: list[Any], json: Path, folder: Path | None, tally: Tally) -> list[str]:
    """Report back-slashes in file names and missing pictures; returns notes.

    Where no folder is given and none beside the json holds the pictures, that is a note and no fault: the
    annotations may be checked where the pictures are not.
    """
    named = [
        (row["id"], row["file_name"])
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("file_name"), str) and "id" in row
    ]
    if not named:
        return []
    try:
        start = folder or guess_folder([name for _id, name in named], json)
    except OSError:
        start = None
    slashes = [(image, name) for image, name in named if "\\" in name]
    base = start or json.parent
    for image, name in slashes:
        detail = f"as written {base / name} does not exist"
        tally.add("file-name-separator", detail, image_id=image, file_name=name)
    if start is None:
        return [
            f"the pictures were not found beside {json.name}; name their folder with --images to check them"
        ]
    slashed = [name.replace("\\", "/") for _image, name in named]
    try:
        missing = missing_pictures(slashed, start)
    except (OSError, ValueError):
        return [f"the pictures in {start} could not be listed"]
    for index in missing:
        image, name = named[index]
        share = f"; {len(missing)} of {len(named)} are missing" if index == missing[0] else ""
        detail = f"{start / slashed[index]} does not exist{share}"
        tally.add("image-missing", detail, image_id=image, file_name=name)
    return [f"{len(named) - len(missing)} of {len(named)} pictures found in {start}"]
