# SPDX-License-Identifier: MIT
"""Judging: the records of one case on one arm become verdicts.

Order matters and is the contract: what the kernel did wrong stands whatever else is wrong; what the measurement lacks
takes good news away; only then is a limit kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rtgate.board.boot import State, TimeBase
from rtgate.judge import bounds, faults
from rtgate.judge.applicable import applicable
from rtgate.judge.boot_identity import identity_conflicts
from rtgate.judge.compare.comparable import differences
from rtgate.judge.lateness import excuse, excuse_on_host_time, on_host_time
from rtgate.judge.limits import apply
from rtgate.judge.lost_wakeups import lost_share, lost_wakeups
from rtgate.judge.section_limits import FollowedBoots, section_limit_findings, shown, unfollowed_limits
from rtgate.judge.short_runs import explanations, is_explained
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds, guarantees, of_failures
from rtgate.judge.verdict import Finding, Kind, Status, Verdict
from rtgate.records.explained import CaseExplanation
from rtgate.records.longer_sections import SECTION_MEASUREMENTS, SectionComparison
from rtgate.records.record import OTHER_BUILD, Record
from rtgate.records.schedule import Schedule
from rtgate.tools import Reports
from rtgate.units import plural
from rtgate.validity.check import Check, CheckResult, Invalidates
from rtgate.validity.counts import slowed_by_host
from rtgate.validity.cpus import lost_cpus
from rtgate.validity.registry import checks
from rtgate.validity.threads import missed_by_host

_DEATHS = frozenset({State.NO_BOOT, State.FAULT, State.HANG})
_STATES = {
    State.NO_BOOT: (Status.FAIL, Kind.BOOT),
    State.FAULT: (Status.FAIL, Kind.FAULT),
    State.HANG: (Status.FAIL, Kind.HANG),
    State.UNREADABLE: (Status.ERROR, Kind.OUTPUT),
    State.UNREPEATED: (Status.ERROR, Kind.VALIDITY),
    State.LAB: (Status.MISS, Kind.LAB),
}

_OF_A_BUSY_HOST = {"counts": slowed_by_host, "threads": missed_by_host}
"""Checks whose failure may be the doing of a virtual board's host, and when."""

_LOST = 0.75
"""The share of lost wake-ups above which a measurement on host time shows the host, not the kernel.

A good kernel on virt-arm64 lost 0.08 (idle), 0.43 (hackbench) and 0.45 (stress-ng): one boot each, on two cores that
others used too. No more is known of where a busy host begins.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is judged: the boots of one case on one arm.

    Attributes:
        baseline: the other arm's boots of the same case, empty without one; its faults are pre-existing.
        beside: records of other cases that are judged as well, of the boots that this case shares with them.
        not_applicable: reasons, by validity check, why the board declares a check not applicable.
        missing: boots that were planned and left no record, as people name them.
        paired: whether a baseline was to be measured on this board, too.
        unpaired: the baseline's boots that were planned and left no record.
        explained: what traced boots showed; None if nobody traced them.
        sections: critical sections and the bound, and how they differ; None if nobody followed the boots.
        schedule: when somebody was going to look at the boots, or may have looked.
    """

    case: str
    board: str
    arm: str
    flavour: str
    records: Sequence[Record]
    baseline: Sequence[Record] = ()
    beside: Sequence[Record] = ()
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    paired: bool = False
    unpaired: Sequence[str] = ()
    explained: CaseExplanation | None = None
    sections: SectionComparison | None = None
    schedule: Schedule = field(default_factory=Schedule)


_Checked = tuple[Record, Sequence[Check]]


@dataclass(frozen=True, slots=True)
class _BelievableBoots:
    """The boots of a kernel whose failures can be believed (`witnesses`), and those whose figures can be, too."""

    witnesses: Sequence[Record]
    sound: Sequence[Record]

    @classmethod
    def of(cls, boots: Sequence[_Checked]) -> _BelievableBoots:
        flaws = [
            (record, {check.invalidates for check in record_checks if check.result is CheckResult.FAILED})
            for record, record_checks in boots
        ]
        witnesses = [(record, spoiled) for record, spoiled in flaws if Invalidates.EVERYTHING not in spoiled]
        return cls(
            witnesses=[record for record, _ in witnesses],
            sound=[record for record, spoiled in witnesses if Invalidates.FIGURES not in spoiled],
        )


def judge(subject: Subject, thresholds: Thresholds) -> tuple[Verdict, ...]:
    """Return the verdicts of one case; never none, because silence is not green."""
    every = thresholds.of(subject.board, subject.flavour, subject.case)
    of_sections = [limit for limit in every if limit.measurement in SECTION_MEASUREMENTS]
    case_limits = applicable([limit for limit in every if limit not in of_sections], subject.records)
    limits = case_limits.limits
    findings = [*_find_mixed_kernels(subject), *_boots(subject), *_faults(subject, limits), *_incomparable(subject)]
    for record in subject.records:
        if record.state == State.SKIPPED:
            findings += _skip_findings(subject, record, [*limits, *of_sections])
    findings += _host_too_busy(subject.records)
    checks_by_boot = _check_records(subject, subject.records)
    boots, baseline_checks = _BelievableBoots.of(checks_by_boot), _check_records(subject, subject.baseline)
    before = _BelievableBoots.of(baseline_checks)
    failures = list(_failures(subject.case, limits, boots.witnesses, before.witnesses)) if boots.witnesses else []
    findings += [finding for boot in checks_by_boot for finding in _invalid(*boot, failures)]
    if subject.missing and subject.records:
        sentence = f"{', '.join(subject.missing)} left no record: planned, and never carried out or lost"
        findings.append(_finding(Status.MISS, Kind.MISSING, sentence))
    findings += [*_unseen(checks_by_boot), *_unseen(baseline_checks)]
    believable = all(finding.status.rank >= Status.PASS.rank for finding in findings)
    reasons = explanations(boots.witnesses, failures)
    believable = believable and not reasons
    if boots.sound:
        figure_limits = [limit for limit in limits if not of_failures(limit)]
        findings += _limits(figure_limits, boots.sound, before.sound, believable=believable)
    if boots.sound or any(map(_should_run, subject.records)):
        findings += [_finding(Status.DONE, Kind.NOT_APPLIED, sentence) for sentence in case_limits.left_out]
    findings += _credible(failures, believable=believable, reasons=reasons)
    if not subject.records:
        findings.append(_finding(Status.MISS, Kind.MISSING, "the case has no record: nothing was measured"))
    section_findings = _of_sections(subject, of_sections, boots.sound)
    if not findings and not any(finding.value for finding in section_findings):
        findings.append(_unjudged_finding(subject, of_sections))
    findings += [finding for finding in section_findings if believable or finding.status in {Status.FAIL, Status.ERROR}]
    return tuple(verdict(subject, finding) for finding in findings)


def _finding(status: Status, kind: Kind, sentence: str, boot: str = "") -> Finding:
    return Finding(status=status, kind=kind, sentence=sentence, boot=boot)


def verdict(subject: Subject, finding: Finding) -> Verdict:
    """Return a finding with the names of its case."""
    return Verdict.of(finding, board=subject.board, arm=subject.arm, flavour=subject.flavour, case=subject.case)


def _find_mixed_kernels(subject: Subject) -> Iterator[Finding]:
    """Yield a finding when the records are not of the kernels that they name."""
    conflicts = identity_conflicts(subject.baseline, subject.records)
    if conflicts:
        why = f"nobody knows which kernel this is about: {'; '.join(conflicts)}"
        yield _finding(Status.ERROR, Kind.VALIDITY, f"{why}: measure again, into an empty directory")


def _boots(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each boot that did not come to its end."""
    for record in subject.records:
        if record.state in _DEATHS and faults.died_before(record, subject.records, subject.baseline):
            sentence = f"{record.boot}: pre-existing, the baseline dies in the same way: {record.message}"
            yield _finding(Status.MISS, _STATES[record.state][1], sentence, record.boot)
        elif record.state in _STATES:
            status, kind = _STATES[record.state]
            yield _finding(status, kind, f"{record.boot}: {record.message}", record.boot)
            if record.state == State.UNREADABLE and lost_cpus(record):
                sentence = f"CPUs lost: {record.boot}: only {record.environment.online} of {record.environment.cpus}"
                yield _finding(Status.FAIL, Kind.BOOT, sentence, record.boot)
        elif record.state == State.LOST:
            yield _missing_device(subject, record)


def _missing_device(subject: Subject, record: Record) -> Finding:
    """Return what a device means that the board should have: nobody's fault is proven unless the baseline has it."""
    if any(boot.has_results for boot in subject.baseline):
        sentence = f"{record.boot}: {record.message}, and the baseline has it"
        return _finding(Status.FAIL, Kind.MISSING, sentence, record.boot)
    sentence = f"{record.boot}: {record.message}: look at the disk, its link, and the kernel's configuration"
    return _finding(Status.MISS, Kind.LAB, sentence, record.boot)


def _should_run(record: Record) -> bool:
    """Return whether a boot was skipped that should have been able to run the tool where there are limits for it."""
    return record.state == State.SKIPPED and OTHER_BUILD not in record.machine


def _skip_findings(subject: Subject, record: Record, limits: Sequence[Threshold]) -> Iterator[Finding]:
    """Yield what a boot that could not run the tool means: nothing, unless it should have been able to.

    A kernel without drivers of devices, on a board that has another build for them, need not be able to.
    """
    sentence = f"{record.boot}: {record.message}"
    flavour, boot_flavour = record.kernel.flavour, record.environment.flavour
    if flavour and boot_flavour and flavour != boot_flavour:
        loss = f"flavour lost: the kernel should be {flavour} and is {boot_flavour}"
        yield _finding(Status.FAIL, Kind.FLAVOUR, f"{loss}; {sentence}", record.boot)
    elif any(boot.has_results for boot in subject.baseline):
        yield _finding(Status.FAIL, Kind.MISSING, f"{sentence}, and the baseline has it", record.boot)
    elif _should_run(record) and any(limit.kind is not LimitKind.FAULT for limit in limits):
        yield _finding(Status.MISS, Kind.MISSING, f"{sentence}, and thresholds.yaml has limits for it", record.boot)
    else:
        yield _finding(Status.SKIP, Kind.UNJUDGED, sentence, record.boot)


def _faults(subject: Subject, limits: Sequence[Threshold]) -> Iterator[Finding]:
    """Yield a finding for each kind of kernel fault in boots that measured all the same."""
    policy = {limit.fault: limit.fails for limit in limits if limit.kind is LimitKind.FAULT}
    yield from faults.findings(subject.records, subject.baseline, subject.beside, policy)


def _incomparable(subject: Subject) -> Iterator[Finding]:
    """Yield a finding when the baseline was measured with something else than the candidate."""
    conflicts = differences(subject.baseline, subject.records)
    if conflicts:
        text = "; ".join(conflicts)
        yield _finding(Status.ERROR, Kind.VALIDITY, f"baseline and candidate cannot be compared: {text}")


def _check_records(subject: Subject, records: Sequence[Record]) -> list[_Checked]:
    """Return the records that measured, each with its checks."""
    return [(record, checks(record, subject.not_applicable)) for record in records if record.has_results]


def _invalid(record: Record, record_checks: Sequence[Check], failures: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what is wrong with a measurement, but what a failure explains that ended it."""
    for check in record_checks:
        if check.result is not CheckResult.FAILED or is_explained(check, record, failures):
            continue
        is_flavour_lost = check.name == "flavour" and record.environment.flavour not in {"", record.kernel.flavour}
        if check.name == "cpus" and lost_cpus(record):
            yield _finding(Status.FAIL, Kind.BOOT, f"CPUs lost: {record.boot}: {check.sentence}", record.boot)
        elif is_flavour_lost and record.kernel.flavour:
            sentence = f"flavour lost: {record.boot}: {check.sentence}"
            yield _finding(Status.FAIL, Kind.FLAVOUR, sentence, record.boot)
        elif check.name in _OF_A_BUSY_HOST and _OF_A_BUSY_HOST[check.name](record):
            sentence = f"{record.boot}: {check.sentence}; on host time nobody can tell the kernel from a busy host"
            yield _finding(Status.MISS, Kind.LAB, sentence, record.boot)
        else:
            yield _finding(Status.ERROR, Kind.VALIDITY, check.failure_in(record.boot), record.boot)


def _unseen(checks_by_boot: Sequence[_Checked]) -> Iterator[Finding]:
    """Yield a finding for each check that looked too late in more than half of a kernel's boots: no other answers."""
    boots = [record for record, _ in checks_by_boot]
    late = [check for _, record_checks in checks_by_boot for check in record_checks if check.unseen]
    for name in dict.fromkeys(check.name for check in late):
        mine = [check for check in late if check.name == name]
        if 2 * len(mine) > len(boots):
            where = f"in {len(mine)} of {len(boots)} boots of the {boots[0].arm.value} ({name})"
            sentence = f"invalid measurement {where}: {mine[0].sentence}; measure for longer"
            yield _finding(Status.ERROR, Kind.VALIDITY, sentence)


def _failures(
    case: str, limits: Sequence[Threshold], records: Sequence[Record], baseline: Sequence[Record]
) -> Iterator[Finding]:
    """Yield what a tool found broken, on host time too: no host makes a kernel do what it must never do, but late."""
    yield from _apply_limits([limit for limit in limits if of_failures(limit, {Reports.FAILURES})], records, baseline)
    yield from _guarantees(guarantees(case, limits, {Reports.FAILURES}), records, baseline)
    # Whoever wrote a limit of lateness knew the board's clock; but no limit keeps a host from being busy.
    of_lateness = [limit for limit in limits if of_failures(limit, {Reports.LATENESS})]
    for finding in _apply_limits(of_lateness, records, baseline):
        yield excuse_on_host_time(finding, records)
    for finding in _guarantees(guarantees(case, limits, {Reports.LATENESS}), records, baseline):
        yield excuse(finding, records)
    yield from _note_baseline(list(bounds.apply(records)), list(bounds.apply(baseline)))


def _guarantees(limits: Sequence[Threshold], records: Sequence[Record], baseline: Sequence[Record]) -> list[Finding]:
    return [replace(finding, kind=Kind.GUARANTEE) for finding in _apply_limits(limits, records, baseline)]


def _credible(findings: Iterable[Finding], *, believable: bool, reasons: Sequence[Finding] = ()) -> list[Finding]:
    """Return the findings that count: what is broken or a reason, and what is kept if every boot is believable."""
    return [finding for finding in findings if believable or finding.status is Status.FAIL or finding in reasons]


def _host_too_busy(records: Sequence[Record]) -> Iterator[Finding]:
    """Yield a finding for each boot on host time that lost so many wake-ups that the host was too busy for it."""
    for record in records:
        losses, due = lost_wakeups([record])
        if record.has_results and record.environment.time == TimeBase.HOST and losses > _LOST * due:
            sentence = (
                f"{record.boot}: host too busy: {lost_share(losses, due)}; measure again on a host with less to do"
            )
            yield _finding(Status.MISS, Kind.LAB, sentence, record.boot)


def _boots_measured(records: Sequence[Record]) -> str:
    """Return `measured in N boots`, with what they lost on host time, where that is no kernel's doing."""
    boots = f"measured in {plural(len(records), 'boot')}"
    losses, due = lost_wakeups(records)
    return f"{boots} ({lost_share(losses, due)})" if losses and on_host_time(records) else boots


def _of_virtual_time(limits: Sequence[Threshold]) -> bool:
    """Return whether limits are those of a virtual board: one of them is in virtual time."""
    levels = [level for limit in limits for level in (limit.limit, limit.over) if level is not None]
    return any(level.unit.virtual for level in levels)


def _limits(
    limits: Sequence[Threshold], records: Sequence[Record], baseline: Sequence[Record], *, believable: bool
) -> list[Finding]:
    """Return what the limits say; a limit that is kept counts only when every boot is believable."""
    numbers = [limit for limit in limits if limit.kind is not LimitKind.FAULT]
    if numbers and on_host_time(records):
        # The host below can stop this machine at any time: lateness and lost wake-ups are the host's.
        sentence = f"{_boots_measured(records)} on host time: shown, not judged ({len(numbers)} limits left out)"
        return [_finding(Status.DONE, Kind.NOT_APPLIED, sentence)]
    if _of_virtual_time(numbers) and not all(record.virtual_time for record in records):
        # What was counted in virtual time, as lost wake-ups, means nothing for a virtual board on another clock.
        sentence = f"{_boots_measured(records)}, not on virtual time for which its {len(numbers)} limits are"
        return [_finding(Status.DONE, Kind.NOT_APPLIED, f"{sentence}: shown, not judged")]
    return _credible(_apply_limits(numbers, records, baseline), believable=believable)


def _apply_limits(limits: Sequence[Threshold], records: Sequence[Record], baseline: Sequence[Record]) -> list[Finding]:
    return [
        finding for limit in limits for finding in _note_baseline([apply(limit, records)], [apply(limit, baseline)])
    ]


def _of_sections(subject: Subject, limits: Sequence[Threshold], sound: Sequence[Record]) -> list[Finding]:
    """Return what limits say of what following boots found, or that none was followed."""
    sections = subject.sections
    if not sound:
        return []
    if sections is None:
        return list(unfollowed_limits(limits, subject.records))
    section_limits = applicable(limits, subject.records)
    boots = FollowedBoots.of_candidate(sections, {record.seed for record in sound})
    of_baseline = (
        list(section_limit_findings(section_limits.limits, FollowedBoots.of_baseline(sections)))
        if sections.compared
        else []
    )
    values = {(finding.measurement, finding.source): finding.value for finding in of_baseline}
    findings = [
        replace(finding, baseline=values.get((finding.measurement, finding.source)))
        for finding in _note_baseline(list(section_limit_findings(section_limits.limits, boots)), of_baseline)
    ]
    findings += [finding for finding in of_baseline if finding.status is Status.ERROR]
    findings += [_finding(Status.DONE, Kind.NOT_APPLIED, sentence) for sentence in section_limits.left_out]
    return findings or ([] if subject.baseline else [shown(boots)])


def _note_baseline(findings: Sequence[Finding], baseline: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those that the baseline breaks too with a word of it: they fail, and no change made them."""
    breaches = {
        (finding.measurement, finding.limit, finding.source): finding
        for finding in baseline
        if finding.status is Status.FAIL
    }
    noted_findings = []
    for finding in findings:
        before = breaches.get((finding.measurement, finding.limit, finding.source))
        if finding.status is Status.FAIL and before is not None:
            what = f" with {before.value}" if before.value else ""
            finding = replace(finding, sentence=f"{finding.sentence}; the baseline breaks this limit too{what}")  # noqa: PLW2901
        noted_findings.append(finding)
    return noted_findings


def _unjudged_finding(subject: Subject, of_sections: Sequence[Threshold]) -> Finding:
    text = f"{_boots_measured(subject.records)}, all valid"
    where = f"{subject.board}, {subject.flavour or 'unknown flavour'}, {subject.case}"
    exception = " but of what only following the boots tells (--sections)" if of_sections else ""
    return _finding(Status.DONE, Kind.UNJUDGED, f"{text}; thresholds.yaml has no limit for {where}{exception}")
