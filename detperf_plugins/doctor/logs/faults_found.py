"""Faults that a log shows: NaN, collapsing loss scales, waiting for data, aborts, known errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from detperf_plugins.doctor.findings import Finding, by_importance
from detperf_plugins.doctor.logs.faults import RULES
from detperf_plugins.doctor.logs.read import Log
from detperf_plugins.doctor.logs.records import Record
from detperf_plugins.doctor.words import counted

if TYPE_CHECKING:
    from detperf_plugins.doctor.logs.analyse import Analysis

__all__ = ["find_faults"]

_Add = Callable[..., None]
_FOREIGN = ("MindYOLO", "DBNet.pytorch", "MMDetection")
_READER_BOUND = 0.3


def find_faults(log: Log, result: Analysis) -> list[Finding]:
    """Every fault of a log, most important first."""
    found: list[Finding] = []

    def add(
        rule: str, line: int | None, message: str, count: int = 1, fix: str = "", severity: str = ""
    ) -> None:
        found.append(Finding(RULES[rule], log.file, message, line, None, fix, count=count, severity=severity))

    _losses(log, result, add)
    _scales(log, add)
    _events(log, result, add)
    _ending(log, add)
    _measurement(log, result, add)
    _known(log, add)
    return by_importance(found)


def _where(record: Record) -> str:
    if record.dialect.endswith("(static graph)"):
        return f"iter {record.step}"
    parts = [
        f"epoch {record.epoch}" if record.epoch is not None else "",
        f"step {record.step}" if record.step is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _losses(log: Log, result: Analysis, add: _Add) -> None:
    if result.first_nan is not None:
        bad = [r for r in log.records if r.loss is not None and not math.isfinite(r.loss)]
        names = [n for n, v in result.first_nan.losses.items() if not math.isfinite(v)]
        parts = f"; of its parts {', '.join(names)}" if names else ""
        message = f"the loss is {result.first_nan.loss} first at {_where(result.first_nan)}{parts}"
        add("loss-nan", result.first_nan.line, message, len(bad))
    steps = [r for r in log.records if r.loss is not None and math.isfinite(r.loss)]
    jumps: list[tuple[Record, Record]] = []
    explosion: tuple[Record, Record] | None = None
    for before, after in zip(steps, steps[1:]):
        if (after.step or 0) < (before.step or 0) and after.epoch == before.epoch:
            continue  # a restart
        small, large = sorted((abs(before.loss or 0), abs(after.loss or 0)))
        if before.kind != after.kind or small <= 1e-9:
            continue
        if after.loss and before.loss and after.loss > 50 * before.loss:
            explosion = explosion or (before, after)
        elif large > 2.5 * small and not _early(before) and before.kind == "step":
            jumps.append((before, after))
    if explosion:
        before, after = explosion
        scale = next(
            (
                e
                for e in log.events
                if e.kind in ("overflow", "scale") and before.line <= e.line <= after.line
            ),
            None,
        )
        cause = f"; a loss-scale overflow in line {scale.line} precedes it" if scale else ""
        message = f"from {before.loss:g} to {after.loss:g} at {_where(after)}{cause}"
        add("loss-explodes", after.line, message)
    if jumps:
        before, after = jumps[0]
        message = f"from {before.loss:g} to {after.loss:g} between {_where(before)} and {_where(after)}"
        more = f", and {len(jumps) - 1} more times" if len(jumps) > 1 else ""
        add("loss-spike", after.line, message + more, len(jumps))
    zero: dict[str, list[Record]] = {}
    for record in log.records:
        for name, value in record.losses.items():
            if value == 0.0 and name != "loss_cbn":
                zero.setdefault(name, []).append(record)
    for name, records in zero.items():
        last = records[-1]
        add(
            "loss-zero",
            records[0].line,
            f"{name} is 0 in {counted(len(records), 'line')}, last at {_where(last)}",
            len(records),
        )


def _early(record: Record) -> bool:
    """The first epoch: there a steep fall is what one hopes for."""
    first = 0 if record.dialect.startswith(("PaddleDetection", "MMDetection")) else 1
    return record.epoch is None or record.epoch <= first


def _scales(log: Log, add: _Add) -> None:
    events = log.of("scale")
    if not events:
        return
    lines = [r.line for r in log.records]
    longest = run = 0
    previous = None
    for event in events:
        broken = previous is not None and any(previous < line < event.line for line in lines)
        run = 1 if broken else run + 1
        longest = max(longest, run)
        previous = event.line
    values = [e.value for e in events if e.value is not None]
    last = values[-1] if values else None
    tail = (
        f"{counted(len(events), 'overflow')}, up to {longest} in a row between two step lines; "
        f"the last scale is {last:g}"
        if last is not None
        else ""
    )
    lowest = min(values, default=1.0)
    if lowest == 0:
        line = next(e.line for e in events if e.value == 0)
        add("scale-zero", line, f"the scale is 0 from line {line} on ({tail})", len(events))
    elif lowest < 1:
        add(
            "scale-low",
            next(e.line for e in events if e.value is not None and e.value < 1),
            tail,
            len(events),
        )
    else:
        add("scale-halved", events[0].line, tail, len(events))


def _events(log: Log, result: Analysis, add: _Add) -> None:
    aborts = log.of("abort")
    if aborts:
        ranks = sorted({int(e.value) for e in aborts if e.value is not None})
        bars = [e for e in log.events if e.line <= aborts[0].line and e.kind in ("bar", "evaluation")]
        records = [r for r in log.records if r.line <= aborts[0].line]
        evaluating = bars and (not records or bars[-1].line > records[-1].line)
        phase = "during evaluation" if evaluating else "during training" if records else "before training"
        who = f"rank {', '.join(map(str, ranks))}" if ranks else "a rank"
        add("aborted", aborts[0].line, f"{who} was aborted {phase}", len(aborts))
    empty = log.of("eval-empty")
    if empty:
        zeros = [
            r
            for r in log.records
            if r.line < empty[0].line and r.loss is not None and (r.loss == 0 or not math.isfinite(r.loss))
        ]
        back = (
            f"; the loss was {zeros[0].loss} from line {zeros[0].line} on"
            if zeros
            else "; no line before it has a loss of 0 or NaN"
        )
        add(
            "eval-empty",
            empty[0].line,
            f"{counted(len(empty), 'evaluation', 'evaluations in a row')} found nothing{back}",
            len(empty),
        )
    workers = [e for e in log.of("workers") if e.value is not None]
    if workers:
        wanted = int(workers[-1].value or 1)
        add(
            "workers-many",
            workers[0].line,
            f"MindSpore recommends {wanted} workers",
            len(workers),
            f"Reduce num_workers to {wanted}.",
        )
    for kind, severity in (("mindspore error", "error"), ("mindspore critical", "critical error")):
        errors = log.of(kind)
        if errors:
            component = errors[0].text.split(" ", 1)[0]
            add(
                "framework-error",
                errors[0].line,
                f"{counted(len(errors), severity)} of MindSpore's component {component}: "
                f"{errors[0].text.split(' ', 1)[-1][-150:]}",
                len(errors),
            )
    if result.runs > 1:
        add("restart", None, f"training starts {result.runs} times in this file")
    if log.banner.get("AMP level", log.banner.get("Auto mixed precision")) == "O0":
        add(
            "amp-off",
            None,
            f"AMP level O0 ({', '.join(f'{k}: {v}' for k, v in list(log.banner.items())[:4])})",
        )
    if log.config:
        _printed_config(log, add)


def _ending(log: Log, add: _Add) -> None:
    if log.ending is not None:
        where = f" ({log.ending.raised})" if log.ending.raised else ""
        severity = "hint" if log.ending.text.startswith("KeyboardInterrupt") else ""  # stopped by hand
        message = f"the run ended with {log.ending.text}{where}"
        add("traceback", log.ending.line, message, severity=severity)


def _printed_config(log: Log, add: _Add) -> None:
    from detperf_plugins.doctor.configs.check import check_config

    config, findings = check_config(log.config, log.file)
    for path, node in config.root.walk():
        if path and path[-1] == "num_workers" and node.value == 0:
            add("config-no-workers", None, f"{'.'.join(path)} is 0")
    for finding in findings:
        if finding.rule.room == "paddleocr" and finding.rule.id != "ppocr-no-workers":
            add("known-error", None, f"in the printed configuration: {finding.message}", fix=finding.fix)


def _measurement(log: Log, result: Analysis, add: _Add) -> None:
    if result.reader_share is not None and result.reader_share > _READER_BOUND:
        message = f"{result.reader_share:.1%} of a step is waiting for data (input bound)"
        add("reader-bound", result.used[0].line if result.used else None, message)
    if result.artefacts:
        first = result.artefacts[0]
        speed = f"{first.ips:g} images/s" if first.ips else f"{first.batch_cost:g} s a step"
        add(
            "artefact",
            first.line,
            f"{speed} at {_where(first)} is a start-up artefact, not a speed",
            len(result.artefacts),
        )
    if result.epochs == 1 and result.ips is None:
        add(
            "one-epoch", None, "one epoch line, whose time includes compilation: train a second epoch to tell"
        )
    foreign = [d for d in result.dialects if d in _FOREIGN]
    if foreign:
        add(
            "foreign",
            log.records[0].line,
            f"this is a log of {', '.join(foreign)}, not of PaddleDetection, PaddleOCR or MindOCR",
        )
    if log.truncated:
        add(
            "truncated",
            None,
            f"the last line breaks off and was left out (step {log.last_step}): ...{log.truncated[-50:]}",
        )
    if not log.records:
        iterations = log.of("iterations")
        if iterations:
            n = int(iterations[0].value or 0)
            message = (
                f"an epoch has {n} iteration{'s' if n != 1 else ''}, so print_batch_step is never reached; "
                "training did run "
                f"({len(log.of('save'))} checkpoints were saved)"
            )
            add("no-steps", iterations[0].line, message)
        elif log.of("save") or log.of("start"):
            add(
                "no-steps",
                None,
                "training ran (there are start or checkpoint lines), but no step line was printed",
            )


def _known(log: Log, add: _Add) -> None:
    from detperf_plugins.doctor.explain import explain

    for answer in explain(log.text):
        if answer.entry.id in ("nan-scale", "eval-empty") or (
            answer.entry.id == "workers-memory" and log.of("workers")
        ):
            continue
        add(
            "known-error",
            answer.line,
            f"{answer.entry.title} ({answer.count} x)",
            answer.count,
            answer.entry.remedy,
        )
