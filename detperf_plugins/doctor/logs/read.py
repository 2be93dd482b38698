"""Read a whole log: records, events, banner, printed configuration, time stamps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from detperf_plugins.doctor.logs.clean import Line, clean_lines
from detperf_plugins.doctor.logs.records import Record, parse_record
from detperf_plugins.doctor.logs.summary import Summary, read_summary
from detperf_plugins.doctor.logs.times import Clock
from detperf_plugins.doctor.logs.traceback import Ending, ending
from detperf_plugins.doctor.reading import read_text
from detperf_plugins.errors import UnreadableInput

__all__ = ["Event", "Log", "read_log", "read_log_text"]

_SCALE = re.compile(
    r"Found inf or nan, current scale is: ([-+.\deE]+), decrease to: ([-+.\deE]+)\s*(?:\*\s*([-+.\deE]+))?"
)
_OVERFLOW = re.compile(r"overflow.*?loss scale adjust to ([\d.eE+-]+)")
_MS = re.compile(r"\[(WARNING|ERROR|CRITICAL)\] (\w+)\(\d+[,:][^)]*\):?")
_BANNER = re.compile(r"^\s*([A-Z][A-Za-z ]{2,40}):\s*(.*?)\s*$")
_CONFIG = re.compile(r"(?:root|ppocr) INFO: ( *)([A-Za-z_]\w*) :\s?(.*)$")
_PERFORMANCE = re.compile(r"Performance: (\{.*\}), eval time: ([\d.]+)")
_ABORT = re.compile(r"ABORT!!!(?:.*?rank=\[?(\d+))?|rank=\[?(\d+)\]? was aborted")
_STAMPED = re.compile(r"\s*\[?(?:\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d|\d\d/\d\d \d\d:\d\d)")
_NO_LOGS = frozenset([".c", ".cc", ".cpp", ".cu", ".h", ".ipynb", ".json", ".md", ".py", ".yaml", ".yml"])
# Events that only a run that goes on can print.
_ALIVE = frozenset(["evaluation", "performance", "save", "scale"])
_SIGNS = (
    ("eval-empty", re.compile(r"[Ee]valuation results? (?:is )?empty")),
    ("start", re.compile(r"Start training\.\.\.|Training Config|Using \w* config|train dataloader has")),
    (
        "dataset",
        re.compile(r"Creating dataloader|Load \[\d+ samples valid|loaded dataset|train dataloader has"),
    ),
    (
        "checkpoint",
        re.compile(
            r"Finish loading model checkpoint|Finish (?:loading|resuming)|load pretrain successful|"
            r"Load pretrain",
            re.I,
        ),
    ),
    ("save", re.compile(r"Save checkpoint|save model in|checkpoint saved|save best model", re.I)),
    ("evaluation", re.compile(r"Eval iter: \d+|eval model|Performance: \{|cur metric|average FPS", re.I)),
    ("workers", re.compile(r"reduce num_parallel_workers to (\d+)")),
    ("iterations", re.compile(r"train dataloader has (\d+) iters")),
)


@dataclass
class Event:
    """Something that happened: kind, line, words, a number where it has one, seconds since the start."""

    kind: str
    line: int
    text: str
    value: float | None = None
    time: float | None = None


@dataclass
class Log:
    """A training log.

    Attributes:
        file: its name.
        records: step and epoch lines in order.
        events: everything else of interest, in order.
        banner: `Key: value` lines between rules of `=` (MindOCR).
        config: the configuration that PaddleOCR prints, as YAML text.
        elapsed: seconds between the first and the last time stamp; None without stamps.
        truncated: the text of a last line that breaks off, else "".
        text: the decoded log.
        ending: the exception that the log ends in, with nothing of the training after it; else None.
        stamped: whether a line begins with a time stamp.
        summary: what `detperf train` measured, where it wrote the log and came to its end.
    """

    file: str
    records: list[Record] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    banner: dict[str, str] = field(default_factory=dict)
    config: str = ""
    elapsed: float | None = None
    truncated: str = ""
    last_step: int | None = None
    text: str = ""
    ending: Ending | None = None
    stamped: bool = False
    summary: Summary | None = None

    @property
    def is_training(self) -> bool:
        """Whether any line is one that a trainer prints; source code and JSON quote such lines at most."""
        quoted = Path(self.file).suffix.lower() in _NO_LOGS
        signs = bool(self.events) or self.stamped
        return bool(self.records or self.banner or self.config or self.ending) or (signs and not quoted)

    def of(self, kind: str) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.kind == kind]


def read_log(path: Path) -> Log:
    """Read a log file.

    Raises:
        UnreadableInput: it does not exist, or it is a binary file.
    """
    text = read_text(path)
    if text.text.count("\0") > len(text.text) // 20:
        raise UnreadableInput(f"{path} is a binary file, not a log")
    if not text.text.strip():
        raise UnreadableInput(f"{path} is empty")
    return read_log_text(text.text, str(path))


def read_log_text(text: str, file: str) -> Log:
    """Read the text of a log; anything at all gives a `Log`, perhaps without records."""
    log = Log(file, text=text)
    clock = Clock()
    in_banner = False
    config: list[str] = []
    lines = list(clean_lines(text))
    for line in lines:
        log.stamped = log.stamped or bool(_STAMPED.match(line.text))
        time = clock.read(line.text)
        record = parse_record(line.text, line.number)
        if record is not None:
            record.time, record.rank = time, line.rank
            _keep(log, record, line)
        else:
            _event(log, line, time)
            if set(line.text.strip()) == {"="} and len(line.text.strip()) > 10:
                in_banner = not in_banner
            elif in_banner or log.banner:
                match = _BANNER.match(line.text)
                if match and in_banner:
                    log.banner[match[1].strip()] = match[2]
        printed = _CONFIG.search(line.text)
        if printed:
            config.append(f"{printed[1]}{printed[2]}: {_yaml(printed[3])}".rstrip())
    log.config = "\n".join(config)
    log.ending = _ending(log, lines)
    log.summary = read_summary(line.text for line in lines)
    if clock.first is not None and clock.last is not None:
        elapsed = (clock.last - clock.first).total_seconds()
        log.elapsed = elapsed if elapsed >= 0 else None
    return log


def _ending(log: Log, lines: list[Line]) -> Ending | None:
    """The exception in which the log ends; None where the training went on after it."""
    found = ending(lines)
    later = [r.line for r in log.records] + [e.line for e in log.events if e.kind in _ALIVE]
    return found if found is not None and all(line < found.line for line in later) else None


def _yaml(value: str) -> str:
    value = value.strip()
    return f"'{value}'" if re.search(r"[:{}\[\]#&*!|>%@`]", value) and not value.startswith("[") else value


def _keep(log: Log, record: Record, line: Line) -> None:
    """A record is whole when it says its speed (or its loss, in dialects without speed)."""
    broken = not line.ended and record.ips is None and record.batch_cost is None and record.epoch_time is None
    if broken and record.dialect not in ("MindSpore", "MindYOLO"):
        log.truncated = line.text[-80:]
        log.last_step = record.step
        return
    previous = log.records[-1] if log.records else None
    same = previous is not None and (previous.epoch, previous.step) == (record.epoch, record.step)
    if record.dialect == "MindYOLO" and record.loss is None and previous is not None and same:
        previous.batch_cost = record.batch_cost  # the second line of the same step
        return
    if record.dialect == "MindSpore" and record.kind == "epoch" and previous is not None:
        record.epoch = previous.epoch
    log.records.append(record)
    if record.step is not None:
        log.last_step = record.step


def _event(log: Log, line: Line, time: float | None) -> None:
    text = line.text
    match = _SCALE.search(text)
    if match:
        log.events.append(Event("scale", line.number, text, _number(match[1]), time))
        return
    match = _OVERFLOW.search(text)
    if match:
        log.events.append(Event("overflow", line.number, text, _number(match[1]), time))
    match = _MS.search(text)
    if match:
        log.events.append(
            Event(
                f"mindspore {match[1].lower()}",
                line.number,
                f"{match[2]} {text[match.end() :]}"[:300],
                None,
                time,
            )
        )
    match = _ABORT.search(text)
    if match:
        log.events.append(Event("abort", line.number, text, _number(match[1] or match[2] or "nan"), time))
    match = _PERFORMANCE.search(text)
    if match:
        log.events.append(Event("performance", line.number, match[1], _number(match[2]), time))
    if line.bar:
        log.events.append(Event("bar", line.number, line.bar, None, time))
    for kind, pattern in _SIGNS:
        match = pattern.search(text)
        if match:
            value = _number(match[1]) if match.groups() else None
            log.events.append(Event(kind, line.number, text.strip()[:200], value, time))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None
