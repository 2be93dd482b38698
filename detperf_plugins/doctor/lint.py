"""Check one file, whatever it is: recognise it, run its checks, order what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins.doctor.coco.check import check_coco
from detperf_plugins.doctor.configs.check import check_config, load_config
from detperf_plugins.doctor.configs.commands import check_commands
from detperf_plugins.doctor.configs.paths import picture_folders
from detperf_plugins.doctor.findings import Report, by_importance
from detperf_plugins.doctor.kinds import KINDS, kind_of
from detperf_plugins.doctor.labels.check import check_labels
from detperf_plugins.doctor.reading import decode, read_bytes, read_text
from detperf_plugins.errors import UnreadableInput

__all__ = ["Options", "lint_file", "lint_text", "picture_folders_of"]

_HEAD = 4 * 2**20
_HOSTS = {"mindocr": "MindOCR", "paddledet": "PaddleDetection", "paddleocr": "PaddleOCR"}


@dataclass(frozen=True)
class Options:
    """How to check.

    Attributes:
        images: the folder that picture paths count from; found beside the file if None.
        overrides: `-o` settings merged over a config, dotted key to text.
        cards: devices to train on, where known.
        progress: called with (done, in all) while a large file is checked.
    """

    images: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    cards: int | None = None
    progress: Callable[[int, int], None] | None = None


def lint_file(path: Path, options: Options | None = None) -> Report:
    """Check one file. It never raises: what cannot be read is in `Report.unreadable`."""
    try:
        return _lint(path, options or Options())
    except UnreadableInput as error:
        return Report(str(path), unreadable=str(error))


def picture_folders_of(files: Iterable[Path], overrides: Mapping[str, str]) -> dict[Path, Path]:
    """The folders of pictures for the annotation and label files that the configs among `files` name."""
    found: dict[Path, Path] = {}
    for path in files:
        try:
            if path.suffix.lower() in (".yml", ".yaml") and path.is_file():
                config = load_config(read_text(path).text, str(path), path, overrides)
                found = {**picture_folders(config), **found}
        except (UnreadableInput, OSError):
            continue
    return found


def lint_text(text: str, path: Path, options: Options | None = None, kind: str = "") -> Report:
    """Check text as if it were the content of `path`, which need not exist; not for COCO json."""
    options = options or Options()
    kind = kind or kind_of(path, text[:100].encode(errors="replace"), text)
    report = Report(str(path), KINDS[kind])
    if kind == "yaml":
        config, findings = check_config(text, report.file, path, options.overrides, options.cards)
        if not config.root.entries and not findings:
            report.unreadable = f"{path} holds no setting"
        if config.host:
            report.kind = f"a config of {_HOSTS[config.host]}"
        elif not report.unreadable:
            report.notes.append(
                "no key of MindOCR, PaddleDetection or PaddleOCR: only the YAML itself was checked"
            )
    elif kind == "labels":
        findings, report.notes = check_labels(text, report.file, path, options.images)
    elif kind == "command":
        findings, report.notes = check_commands(text, report.file, path.parent)
    elif kind == "log":
        report.unreadable = f"{path} is a training log; read it with `detperf log {path}`"
        return report
    else:
        report.unreadable = f"{path} is no config, annotation file, label file, training command or log"
        return report
    report.findings = by_importance(findings)
    return report


def _lint(path: Path, options: Options) -> Report:
    if path.is_dir():
        raise UnreadableInput(f"{path} is a folder; name the files in it")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        raise UnreadableInput(f"cannot read {path}: {error.strerror or error}") from error
    if not head.strip():
        raise UnreadableInput(f"{path} is empty")
    text = decode(head, str(path))
    kind = kind_of(path, head, text.text)
    if kind == "coco":
        findings, notes = check_coco(path, str(path), options.images, options.progress)
        marks = [f for f in text.findings if f.rule.id == "encoding-bom"]
        return Report(str(path), KINDS["coco"], by_importance([*marks, *findings]), notes)
    if head.count(b"\0") > len(head) // 20 and text.codec != "utf-16":
        raise UnreadableInput(f"{path} is a binary file")
    whole = text if len(head) < _HEAD else decode(read_bytes(path), str(path))
    report = lint_text(whole.text, path, options, kind)
    if not report.unreadable:
        report.findings = by_importance([*whole.findings, *report.findings])
    elif whole.findings and kind == "unknown":
        report.unreadable = f"{report.unreadable} ({whole.findings[0].message})"
    return report
