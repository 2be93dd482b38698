"""`--fix OUT`: a repaired copy of a config, an annotation file or a label file, with a list of every change.

Only what has one plain repair is changed; everything else stays as it is and is still reported. The input is
never written to.
"""

from __future__ import annotations

import os
from pathlib import Path

from detperf_plugins.doctor.coco.repair import repair_coco
from detperf_plugins.doctor.findings import Change
from detperf_plugins.doctor.kinds import KINDS, kind_of
from detperf_plugins.doctor.labels.repair import repair_labels
from detperf_plugins.doctor.reading import decode, read_bytes
from detperf_plugins.doctor.yaml.mending import repair_yaml
from detperf_plugins.errors import DetperfError, UnreadableInput

__all__ = ["repair_file"]


def repair_file(path: Path, out: Path, images: Path | None = None) -> list[Change]:
    """Write the repaired copy of `path` to `out`.

    Args:
        path: a YAML config, a COCO json or a DBNet label file.
        out: the copy; it may be overwritten, but must not be the input.
        images: the folder that picture paths count from (for labels: lost slashes in paths).

    Returns:
        The changes, in the order of the file.

    Raises:
        DetperfError: `out` is the input, or cannot be written.
        UnreadableInput: the input cannot be read, or is of a kind that has no repair.
    """
    if out.exists() and os.path.samefile(path, out):
        raise DetperfError(f"--fix never writes in place: {out} is the input")
    head = read_bytes(path)[: 4 * 2**20]
    kind = kind_of(path, head, decode(head, str(path)).text)
    partial = out.with_name(out.name + ".part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if kind == "coco":
            with partial.open("wb") as stream:
                changes = repair_coco(path, stream)
        elif kind in ("yaml", "labels"):
            text = decode(read_bytes(path), str(path))
            changes = [Change(str(path), _encoding(text.codec))] if text.findings else []
            if kind == "yaml":
                repaired, more = repair_yaml(text.text, str(path))
            else:
                repaired, more = repair_labels(text.text, str(path), path, images)
            changes += more
            with partial.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(repaired)
        else:
            raise UnreadableInput(f"{path} is {KINDS[kind]}: there is no repair for it")
        partial.replace(out)
    except OSError as error:
        raise DetperfError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return changes


def _encoding(codec: str) -> str:
    return "the byte-order mark removed" if codec == "utf-8" else f"converted from {codec} to UTF-8"
