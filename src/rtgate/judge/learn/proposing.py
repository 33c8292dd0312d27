# SPDX-License-Identifier: MIT
"""From the boots of good kernels to limits for `thresholds.yaml`, and the ratchet: no limit gets looser by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.judge.applicable import applicable, options_of
from rtgate.judge.learn.calibrated_share import CONFIDENCE, Samples, ShareProposal, propose_share
from rtgate.judge.learn.calibration import Proof, Session, propose
from rtgate.judge.limits import apply
from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.judge.verdict import Status
from rtgate.records.record import Record
from rtgate.tools import Reports
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.registry import reports
from rtgate.units import Quantity, Unit, plural

_FAR = 3.0  # times the spread of the middle half: a boot that far out is looked at before it makes a limit


@dataclass(frozen=True, slots=True)
class GoodBoot:
    """A good boot: the run it was of, the session that it shares drift with, and its record."""

    run: str
    session: str
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What limits shall do.

    Attributes:
        target: the share of false alarms of one limit in one run.
        boots: of a run.
        margin: a factor on top of every limit on a value.
    """

    target: float = 0.01
    boots: int = 1
    margin: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitProposal:
    """A limit for `thresholds.yaml`.

    Attributes:
        threshold: the limit, with where it comes from.
        proof: what replaying the past showed.
        problem: why it must not gate; empty if it may.
        notes: what a person should know before using it.
    """

    threshold: Threshold
    proof: Proof
    problem: str
    notes: tuple[str, ...] = ()


def propose_limits(past: Sequence[GoodBoot], ask: Ask) -> tuple[LimitProposal, ...]:
    """Return limits for every measurement of one case on one board that a limit makes sense for.

    They are for the options that a profile asked of all these boots alike.
    """
    if not past:
        return ()
    first = past[0].record
    proposals: list[LimitProposal] = []
    for name, kind in reports(first.case).items():
        if kind is Reports.TIMES:
            proposals += _shares(past, name, ask)
        elif kind is not Reports.FAILURES:
            proposals += _values(past, name, ask)
    return tuple(proposals)


def _values(past: Sequence[GoodBoot], name: str, ask: Ask) -> Iterator[LimitProposal]:
    """Yield the limit of a number, if it is one that a limit is for."""
    entries = [(boot, values) for boot in past if (values := boot.record.numbers(name))]
    if len(entries) < 3 or any(not _limitable(measurement) for _, values in entries for _, measurement in values):
        return
    better = entries[0][1][0][1].better
    unit = _unit(entries[0][1][0][0].unit)
    sign = -1.0 if better is Better.HIGHER else 1.0
    worst = {id(boot): max(sign * quantity.to(unit).value for quantity, _ in values) for boot, values in entries}
    sessions = [Session(key, tuple(worst[id(boot)] for boot in boots)) for key, boots in _sessions(entries).items()]
    proposal = propose(sessions, ask.target, ask.boots)
    number = _round_limit(sign * proposal.limit * ask.margin**sign, up=sign > 0)
    factor = f"x{ask.margin:g}" if ask.margin != 1 else ""
    yield LimitProposal(
        threshold=_threshold(
            past[0].record,
            name,
            LimitKind.MIN if sign < 0 else LimitKind.MAX,
            source=f"{'smallest' if sign < 0 else 'largest'} of {_evidence(proposal.proof)} "
            f"{Quantity(sign * proposal.largest, unit)}; {_false_alarms(proposal.proof)}{_image(past[0].record)}",
            margin=", ".join(filter(None, (proposal.method, factor))),
            limit=Quantity(number, unit),
        ),
        proof=proposal.proof,
        problem=proposal.problem,
        notes=tuple(_outliers([boot for boot, _ in entries], worst, sign, unit)),
    )


def _shares(past: Sequence[GoodBoot], name: str, ask: Ask) -> Iterator[LimitProposal]:
    entries = [(boot, whole) for boot in past if (whole := _merge_histograms(boot.record, name)) is not None]
    if len(entries) < 3 or entries[0][1].unit.dimension not in {"time", "virtual time"}:
        return
    samples = [
        Samples(key, tuple(histogram for boot, histogram in entries if boot.session == key))
        for key in dict.fromkeys(boot.session for boot, _ in entries)
    ]
    proposal = propose_share(samples, ask.target, ask.boots)
    if proposal is not None:
        yield _share(past[0].record, name, proposal)


def _share(record: Record, name: str, proposal: ShareProposal) -> LimitProposal:
    source = (
        f"{proposal.seen} of {proposal.samples} over {proposal.over} in {_evidence(proposal.proof)}; "
        f"{_false_alarms(proposal.proof)}{_image(record)}"
    )
    threshold = _threshold(record, name, LimitKind.SHARE, source=source)
    return LimitProposal(
        threshold=replace(threshold, over=proposal.over, share=proposal.share, confidence=CONFIDENCE),
        proof=proposal.proof,
        problem=proposal.problem,
    )


def _threshold(
    record: Record, name: str, kind: LimitKind, *, source: str, margin: str = "", limit: Quantity | None = None
) -> Threshold:
    options = options_of(record)
    return Threshold(
        board=record.board,
        flavour=record.kernel.flavour or record.environment.flavour,
        case=record.case,
        kind=kind,
        measurement=name,
        limit=limit,
        source=source,
        margin=margin,
        profile=record.profile if options else "",
        options=options,
    )


def _evidence(proof: Proof) -> str:
    return f"{plural(proof.boots, 'boot')} in {plural(proof.sessions, 'session')}"


def _image(record: Record) -> str:
    """Return the root filesystem, which all boots of a series share: with another one phases and times differ."""
    digest = record.environment.rootfs
    return f"; image {digest[:8]}" if digest else ""


def _false_alarms(proof: Proof) -> str:
    if not proof.trials:
        return "not replayed"
    return f"false alarms in {proof.alarms} of {proof.trials} held-out runs, at most {proof.upper:.2g} (95 %)"


def _limitable(measurement: Measurement) -> bool:
    """Return whether a limit is for this: worst cases, failures, rates; an average is judged by comparing."""
    last = measurement.name.rpartition(".")[2]
    if measurement.better is Better.HIGHER:
        return measurement.unit.dimension in {"rate", "virtual rate", "frequency", "virtual frequency"}
    if measurement.better is Better.NEITHER:
        return False
    return measurement.unit is Unit.COUNT or last in {"max", "duration"} or ".p99" in measurement.name


_SHOWN = {"time": Unit.US, "virtual time": Unit.VIRTUAL_US, "rate": Unit.MB_S, "virtual rate": Unit.VIRTUAL_MB_S}


def _unit(unit: Unit) -> Unit:
    return _SHOWN.get(unit.dimension, unit)


def _sessions(entries: Sequence[tuple[GoodBoot, object]]) -> dict[str, list[GoodBoot]]:
    sessions: dict[str, list[GoodBoot]] = {}
    for boot, _ in entries:
        sessions.setdefault(boot.session, []).append(boot)
    return sessions


def _round_limit(value: float, *, up: bool) -> float:
    """Return a limit with no more than three digits, on the side of the kernel.

    One on small values that is rounded up has a decimal at most. Rounded down like that it would be 0, which no kernel
    falls below.
    """
    if value == 0:
        return 0.0
    digits = math.floor(math.log10(abs(value))) - 2
    step = 10.0 ** (max(digits, 0 if abs(value) >= 20 else -1) if up else digits)
    near = value / step
    whole = math.ceil(near - 1e-9) if up else math.floor(near + 1e-9)
    return float(f"{whole * step:.3g}")


def _merge_histograms(record: Record, name: str) -> Histogram | None:
    parts = [
        measurement.histogram
        for measurement in record.measurements
        if measurement.name == name and measurement.histogram is not None
    ]
    try:
        return Histogram.merge(parts)
    except ValueError:
        return None


def _outliers(boots: Sequence[GoodBoot], worst: Mapping[int, float], sign: float, unit: Unit) -> Iterator[str]:
    """Yield a sentence about each boot far beyond the others: a limit should not be made by an accident."""
    order = sorted(worst.values())
    low, high = (order[int(share * (len(order) - 1))] for share in (0.25, 0.75))
    for boot in boots:
        value = worst[id(boot)]
        if high > low and value > high + _FAR * (high - low):
            yield f"{boot.record.boot} of run {boot.run} stands far out: {Quantity(sign * value, unit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a proposal, and of the limits that are there already.

    Attributes:
        threshold: the limit to write: the proposed one, or the one for all CPUs and kernels that is there already.
        kept: whether it is the one that is there already.
        sentence: why, in one sentence; empty for a limit that nobody had.
        breaking: runs of the past that break a limit that is there already.
        replaced: limits that are there already and go. All others stay as they are.
        tighter: whether a limit that is there already stays because the proposed one would be looser.
    """

    threshold: Threshold
    kept: bool = False
    sentence: str = ""
    breaking: tuple[str, ...] = ()
    replaced: tuple[Threshold, ...] = ()
    tighter: bool = False


def ratchet(
    proposal: LimitProposal, before: Sequence[Threshold], past: Sequence[GoodBoot], because: Collection[str]
) -> Decision:
    """Return what becomes of a proposal beside the limits that are there: a looser one needs the runs that need it.

    A limit for one class of CPUs, or for some kernels, says more than one for all. So it stays beside a proposal that
    is not looser.

    Args:
        proposal: the new limit, with its proof.
        before: limits of the same board, flavour, case and options.
        past: the boots that it was made from.
        because: runs that a person named as needing a looser limit.
    """
    new = proposal.threshold
    mine = [limit for limit in before if (limit.measurement, limit.kind) == (new.measurement, new.kind)]
    comparisons = [_compare(proposal, old, breaking_runs(old, past), because) for old in mine]
    decision = Decision(
        threshold=new,
        sentence="; ".join(comparison.sentence for comparison in comparisons),
        breaking=tuple(dict.fromkeys(run for comparison in comparisons for run in comparison.runs)),
        replaced=tuple(comparison.old for comparison in comparisons if not comparison.stays),
        tighter=any(comparison.tighter for comparison in comparisons),
    )
    general = [comparison.old for comparison in comparisons if comparison.stays and not _scope(comparison.old)]
    if general:
        return replace(decision, threshold=general[0], kept=True, replaced=())
    reasons = [comparison.sentence for comparison in comparisons if comparison.loosened]
    return replace(decision, threshold=replace(new, margin="; ".join(filter(None, (new.margin, *reasons)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """What a proposal means for one of the limits that are there.

    Attributes:
        stays: whether that limit stays.
        tighter: whether it stays because the proposed one is looser.
        loosened: whether it goes though the proposed one is looser.
    """

    old: Threshold
    sentence: str
    runs: tuple[str, ...]
    stays: bool = True
    tighter: bool = False
    loosened: bool = False


def _compare(proposal: LimitProposal, old: Threshold, runs: tuple[str, ...], because: Collection[str]) -> _Comparison:
    new = _text(proposal.threshold)
    if proposal.problem:
        return _Comparison(old=old, sentence=f"{new} is not shown, so {_text(old)} stays", runs=runs)
    if not looser(proposal.threshold, old):
        stays = bool(_scope(old))
        return _Comparison(old=old, sentence=f"not looser than {_text(old)}", runs=runs, stays=stays)
    if not runs:
        than = f" than {_text(old)}" if _scope(old) else ""
        sentence = f"{new} would be looser{than}, and no run needs it"
        return _Comparison(old=old, sentence=sentence, runs=runs, tighter=True)
    if any(run not in because for run in runs):
        sentence = f"{new} would be looser; {', '.join(runs)} broke {_text(old)}"
        return _Comparison(old=old, sentence=sentence, runs=runs, tighter=True)
    sentence = f"looser than {_text(old)} because of {', '.join(runs)}"
    return _Comparison(old=old, sentence=sentence, runs=runs, stays=False, loosened=True)


def breaking_runs(limit: Threshold, past: Sequence[GoodBoot]) -> tuple[str, ...]:
    """Return the runs that have a boot which breaks a limit, in their order."""
    records = ((boot.run, [boot.record]) for boot in past)
    runs = [
        run for run, boots in records if applicable([limit], boots).limits and apply(limit, boots).status is Status.FAIL
    ]
    return tuple(dict.fromkeys(runs))


_LOOSER: Mapping[LimitKind, Callable[[float, float], bool]] = {
    LimitKind.MAX: lambda new, old: new > old,
    LimitKind.MIN: lambda new, old: new < old,
    LimitKind.EXACT: lambda new, old: new != old,
}


def looser(new: Threshold, old: Threshold) -> bool:
    """Return whether a limit lets more pass than another of its kind; a share, if it does so in any respect.

    A share of the samples of all CPUs says nothing of the share of one class of them.
    """
    if new.kind is LimitKind.SHARE and new.cpu_class != old.cpu_class:
        return True
    if new.kind is LimitKind.SHARE:
        assert new.over is not None
        assert old.over is not None
        return new.over.to(old.over.unit).value > old.over.value or new.share > old.share
    assert new.limit is not None
    assert old.limit is not None
    return _LOOSER[new.kind](new.limit.to(old.limit.unit).value, old.limit.value)


def _scope(limit: Threshold) -> str:
    """Return what a limit is for, if it is not for all CPUs and kernels."""
    cpus = f"class {limit.cpu_class}" if limit.cpu_class else ""
    kernels = f"kernels {limit.kernels}" if limit.kernels.conditions else ""
    return ", ".join(filter(None, (cpus, kernels)))


def _text(limit: Threshold) -> str:
    text = f"{limit.share:g} over {limit.over}" if limit.kind is LimitKind.SHARE else str(limit.limit)
    scope = _scope(limit)
    return f"{text} ({scope})" if scope else text
