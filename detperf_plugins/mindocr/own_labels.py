"""A user's own label file for comparisons with stock: the records that both can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr.labels import can_decode, read_labels

__all__ = ["OwnLabels", "both_can_read"]


@dataclass(frozen=True)
class OwnLabels:
    """Where the records and their pictures lie, how many records there are, and how many were left out."""

    file: Path
    folder: Path
    count: int
    left_out: int

    @property
    def note(self) -> str:
        """One sentence on what was left out; empty where nothing was."""
        if not self.left_out:
            return ""
        return (
            f"{self.left_out} of {self.count + self.left_out} records are left out, since stock cannot read "
            "them: `detperf lint` names their faults"
        )


def both_can_read(labels: Path, images: Path | None, out: Path) -> OwnLabels:
    """The records of a label file in which nothing is wrong, since stock fails on others.

    Args:
        labels: MindOCR label lines, the `--labels` of a command.
        images: where the pictures lie, its `--images`; beside `labels` where None.
        out: an existing folder, where the label file of those records is written.

    Raises:
        UnreadableInput: file or folder cannot be read, or no record is left.
    """
    if not labels.is_file():
        raise UnreadableInput(f"--labels: there is no file {labels}")
    if images is not None and not images.is_dir():
        raise UnreadableInput(f"--images: there is no folder {images}")
    folder = (images or labels.parent).resolve()
    hint = "" if images else ". --images names the folder of the pictures"
    try:
        found, faults = read_labels(str(labels), str(folder))
    except UnreadableInput as error:
        raise UnreadableInput(f"{error}{hint}") from error
    faulty = {fault.line for fault in faults if fault.line}
    kept = []
    for record in found:
        if record.line not in faulty and can_decode(folder / record.picture):
            kept.append(f"{record.picture}\t{record.label}\n")
        else:
            faulty.add(record.line)
    if not kept:
        raise UnreadableInput(
            f"{labels} has no record without a fault; `detperf lint {labels}` names every fault{hint}"
        )
    file = out / "labels.txt"
    file.write_text("".join(kept), encoding="utf-8")
    return OwnLabels(file, folder, len(kept), len(faulty))
