# SPDX-License-Identifier: MIT
"""The content of a case's report: steps with their attachments, independent of any report format."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import files as regular_file
from rtgate.board.boot import State
from rtgate.console.faults import Fault
from rtgate.judge.limits import format_quantity
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report import latency
from rtgate.report.cases import CaseReport, figures
from rtgate.report.categories import message
from rtgate.report.text import plain_text, visible
from rtgate.units import plural
from rtgate.validity.check import Check, CheckResult
from rtgate.validity.registry import checks

_MOST_BOOTS = 8  # so many boots keep all their files in a report; of more, only those that matter
_LONGEST = 256 * 1024  # longer texts are attached compressed: the report is one file
_LEFT_OUT = "plots, checks and boots are left out: a report of many cases has those of the worst, the records all"
_KERNEL_LOG = "dmesg"
_STATES = {
    State.MEASURED: Status.PASS,
    State.SKIPPED: Status.SKIP,
    State.NO_BOOT: Status.FAIL,
    State.FAULT: Status.FAIL,
    State.HANG: Status.FAIL,
    State.LAB: Status.MISS,
    State.LOST: Status.MISS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file of a report; its type follows from `suffix`."""

    name: str
    suffix: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Attributes:
        start: seconds since the epoch; None when nobody knows.
    """

    name: str
    status: Status
    message: str = ""
    start: float | None = None
    stop: float | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def steps(case: CaseReport, not_applicable: Mapping[str, str], *, detailed: bool = True) -> tuple[Step, ...]:
    """Return what happened, in a reader's order: the verdicts, the latencies, whether they are valid, each boot.

    Args:
        case: the case.
        not_applicable: reasons, by validity check, why the board declares a check not applicable.
        detailed: with all but the verdicts.
    """
    if not detailed:
        return (_verdicts(case), Step(name=_LEFT_OUT, status=Status.SKIP))
    ids = {id(record) for record in _select_boots(case)}
    boots = [_boot(record, case.verdicts, files=id(record) in ids) for record in case.records]
    looked = [_verdicts(case), *_latency(case), *_validity(case, not_applicable)]
    # Looking at stored records takes no time of the board; without a time Allure writes "unknown" beside them.
    parts = [_at(step, max((span[1] for span in map(times, case.records) if span), default=None)) for step in looked]
    parts += boots
    if case.baseline:
        worst = figures(case.baseline).worst
        before = tuple(_boot(record, (), files=record is worst) for record in case.baseline)
        name = f"{case.other_arm}: {plural(len(before), 'boot')} to compare with"
        parts.append(Step(name=name, status=Status.PASS, steps=before))
    return tuple(parts)


def _at(step: Step, moment: float | None) -> Step:
    return replace(step, start=moment, stop=moment, steps=tuple(_at(inner, moment) for inner in step.steps))


def _verdicts(case: CaseReport) -> Step:
    verdicts = case.verdicts or (case.headline,)
    inner = tuple(
        Step(
            name=message(verdict),
            status=verdict.status,
            parameters={
                name: plain_text(str(value))
                for name, value in (
                    ("value", verdict.value),
                    ("limit", verdict.limit),
                    ("limit's source", verdict.source),
                )
                if value
            },
        )
        for verdict in sorted(verdicts, key=lambda verdict: verdict.status.rank)
    )
    return Step(name=f"{len(verdicts)} verdicts" if len(verdicts) > 1 else "verdict", status=case.status, steps=inner)


def _latency(case: CaseReport) -> list[Step]:
    plots = [Attachment(name=name, suffix=suffix, data=data) for name, suffix, data in latency.plots(case)]
    if not plots:
        return []
    return [Step(name=f"latency: {_summary(case.records)}", status=Status.PASS, attachments=tuple(plots))]


def _summary(records: Sequence[Record]) -> str:
    latencies = figures(records)
    ns = records[0].environment.instruction_ns if records else ""
    parts = [
        f"{name} {format_quantity(value, ns if name == 'max' else '')}"
        for name, value in (("min", latencies.low), ("mean", latencies.mean), ("max", latencies.high))
        if value is not None
    ]
    if latencies.worst is not None and len(records) > 1:
        parts[-1] += f" in {latencies.worst.boot}"
    if latencies.lost is not None:
        parts.append(f"{latencies.lost} lost wake-ups")
    return ", ".join(parts) or "none was measured"


def _validity(case: CaseReport, not_applicable: Mapping[str, str]) -> list[Step]:
    """Return one step with a step for each check, which tells the boots apart only where they differ."""
    by_name: dict[str, list[tuple[Record, Check]]] = {}
    for record in case.records:
        if record.has_results:
            for check in checks(record, not_applicable):
                by_name.setdefault(check.name, []).append((record, check))
    if not by_name:
        return []
    inner = tuple(_check(name, results) for name, results in by_name.items())
    failed_checks = [
        name for name, results in by_name.items() if any(check.result is CheckResult.FAILED for _, check in results)
    ]
    count = len(next(iter(by_name.values())))
    summary = f"{', '.join(failed_checks)} failed" if failed_checks else f"every check held in {plural(count, 'boot')}"
    return [Step(name=f"validity: {summary}", status=_worst(inner), steps=inner)]


_HELD = {CheckResult.OK: Status.PASS, CheckResult.FAILED: Status.ERROR, CheckResult.NOT_APPLICABLE: Status.SKIP}


def _check(name: str, results: Sequence[tuple[Record, Check]]) -> Step:
    by_sentence: dict[tuple[CheckResult, str], list[str]] = {}
    for record, check in results:
        by_sentence.setdefault((check.result, plain_text(check.sentence)), []).append(record.boot)
    if len(by_sentence) == 1:
        (result, sentence), boots = next(iter(by_sentence.items()))
        return Step(name=f"{name}: {result.value} in {plural(len(boots), 'boot')}: {sentence}", status=_HELD[result])
    inner = tuple(
        Step(name=f"{result.value} in {', '.join(boots)}: {sentence}", status=_HELD[result])
        for (result, sentence), boots in by_sentence.items()
    )
    failed_boots = [record.boot for record, check in results if check.result is CheckResult.FAILED]
    name = (
        f"{name}: failed in {', '.join(failed_boots)}"
        if failed_boots
        else f"{name}: ok in {plural(len(results), 'boot')}"
    )
    return Step(name=name, status=_worst(inner), steps=inner)


def _worst(inner: Sequence[Step]) -> Status:
    """Return the worst status; a check that does not apply takes nothing from the others."""
    statuses = [step.status for step in inner if step.status is not Status.SKIP]
    return min(statuses, key=lambda status: status.rank, default=Status.SKIP)


def times(record: Record) -> tuple[float, float] | None:
    """Return when a boot began and ended: the record was written at its end. None for a record without a file."""
    if record.directory is None:
        return None
    end = (record.directory / "record.json").stat().st_mtime
    return end - _length(record), end


def _length(record: Record) -> float:
    if "booted" in record.machine:
        return 0.0  # it was made before this run
    seconds = record.seconds
    return seconds.get("total", seconds.get("boot", 0.0) + seconds.get("measure", 0.0))


def _boot(record: Record, verdicts: Sequence[Verdict], *, files: bool) -> Step:
    """Return a boot's step; `verdicts` are those of its case, none for a baseline."""
    statuses = [verdict.status for verdict in verdicts if verdict.boot == record.boot]
    state = _STATES.get(record.state, Status.ERROR)
    status = min([*statuses, state], key=lambda status: status.rank)
    span = times(record)
    start, stop = span or (None, None)
    middle = None if start is None else min(start + record.seconds.get("boot", 0.0), stop or start)
    came_up = "boot" in record.seconds or record.has_results
    inner = [Step(name=_boot_line(record), status=Status.PASS if came_up else state, start=start, stop=middle)]
    if record.state != State.NO_BOOT:
        inner.append(
            Step(name=_measure_line(record), status=state, start=middle, stop=stop, parameters=_numbers(record))
        )
    inner += [_fault(record, fault, verdicts, stop) for fault in record.faults]
    return Step(
        name=_title(record),
        status=status,
        message=plain_text(record.message),
        start=start,
        stop=stop,
        parameters={"arm": record.arm, "boot id": plain_text(record.boot_id)},
        steps=tuple(inner),
        attachments=tuple(_files(record)) if files else (),
    )


def _fault(record: Record, fault: Fault, verdicts: Sequence[Verdict], moment: float | None) -> Step:
    """Return a fault's step with the status that the verdicts gave it: one that the baseline has too fails nobody."""
    statuses = [
        verdict.status for verdict in verdicts if verdict.kind is Kind.FAULT and f": {fault.kind}: " in verdict.sentence
    ]
    state = _STATES.get(record.state, Status.ERROR)
    status = min(statuses, key=lambda status: status.rank, default=Status.DONE if state is Status.PASS else state)
    name = f"{fault.kind}: {plain_text(fault.line)}"
    return Step(name=name, status=status, message=plain_text(fault.text), start=moment, stop=moment)


def _title(record: Record) -> str:
    if not record.has_results:
        return f"{record.boot}: {record.state}: {plain_text(record.message).partition(chr(10))[0]}"
    latencies = figures([record])
    high = f", max {format_quantity(latencies.high, record.environment.instruction_ns)}" if latencies.high else ""
    return f"{record.boot}: boot {record.seconds.get('boot', 0.0):.1f} s, measured {_target_time(record)}{high}"


def _target_time(record: Record) -> str:
    seconds = record.evidence.elapsed_s
    if seconds is None:
        return "for an unknown time"
    return f"{seconds:.1f} {'virtual s' if record.virtual_time else 's'}"


def _boot_line(record: Record) -> str:
    if "boot" not in record.seconds:
        nothing = record.state == State.SKIPPED and record.machine.get("ran") == "nothing"
        return "boot: none, the board's file says enough" if nothing else "boot: it did not come to the plan"
    before, again = record.machine.get("booted"), record.machine.get("repeated")
    when = (
        f", at {before}: not made again" if before else f", made again: the same bytes as at {again}" if again else ""
    )
    return f"boot: {record.seconds['boot']:.1f} s on the host's clock{plain_text(when)}"


def _measure_line(record: Record) -> str:
    if not record.has_results:
        return f"measure: {record.state}"
    host = f" in {record.seconds['measure']:.1f} s on the host's clock" if "measure" in record.seconds else ""
    return f"measure: {' '.join(record.argv[:1])} beside {record.evidence.load}, {_target_time(record)}{host}"


def _numbers(record: Record) -> dict[str, str]:
    """Return every number that the tool reported, and the command that made it."""
    numbers = {
        f"{measurement.name} {measurement.label}".strip(): format_quantity(measurement.quantity, "")
        for measurement in record.measurements
        if measurement.quantity is not None
    }
    return {"command": " ".join(record.argv), **numbers}


def _select_boots(case: CaseReport) -> tuple[Record, ...]:
    """Return the boots whose files go into the report: all, or of many boots those that somebody will ask for."""
    if len(case.records) <= _MOST_BOOTS:
        return case.records
    bad_boots = {verdict.boot for verdict in case.verdicts if verdict.status.rank < Status.PASS.rank}
    worst = figures(case.records).worst
    bad_records = [record for record in case.records if not record.has_results or record.boot in bad_boots]
    records = ([worst] if worst is not None else []) + [record for record in bad_records if record is not worst]
    return tuple(records[:_MOST_BOOTS])


def _files(record: Record) -> list[Attachment]:
    """Return a boot's files: console, the tool's output, the record, and the kernel log when something is wrong."""
    if record.directory is None:
        return []
    raw = sorted((record.directory / "raw").glob("*"))
    tool = [path for path in raw if path.suffix == ".json" or path.name in {"tool.out", "tool.err"}]
    paths = [record.directory / "console.log", *tool, record.directory / "record.json"]
    if record.faults or not record.has_results:
        paths.insert(1, record.directory / "raw" / _KERNEL_LOG)
    return [_file(record, path) for path in paths if path.is_file() and path.stat().st_size]


def _file(record: Record, path: Path) -> Attachment:
    label = {"console.log": "console", _KERNEL_LOG: "kernel log"}.get(path.name, path.name)
    data = visible(regular_file.read_bytes(path, regular_file.RAW_LIMIT))
    if len(data) <= _LONGEST:
        return Attachment(name=f"{record.boot}: {label}", suffix="json" if path.suffix == ".json" else "txt", data=data)
    return Attachment(name=f"{record.boot}: {label} (compressed)", suffix="gz", data=gzip.compress(data, mtime=0))
