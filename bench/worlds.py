# SPDX-License-Identifier: MIT
"""How often a comparison on boards is wrong, on synthetic noise of a lab: tables for docs/results/error-rates.md.

A merge request has 24 cases. Of each the history has 10 sessions of two boots; the candidate is screened with three
boots and suspicious metrics are confirmed on up to twelve pairs (B), or all cases are measured in up to twelve pairs
(A).
The verdicts are those of rtgate.judge; only the boots are drawn. Beside them stand gates on a maximum.

The law of a boot: wake-ups at 4 kHz; above 15 us a generalised Pareto excess, reached with P = 1e-3, in bursts;
scale, probability and body have a log-normal factor for each boot, the scale another one for each session; in the
bimodal world some boots of either kernel have a larger scale; spikes of 150 us come at a fixed rate.

    python -m bench.worlds                      all tables, about 10 minutes on one core
    python -m bench.worlds --requests 200       a look
    python -m bench.worlds --speed              only: 24 cases of 12 pairs with full histograms, judged from records
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.judge.compare.looks import CONFIRM, RELEASE, Comparison, Looks, Outcome, compare
from rtgate.judge.compare.paired import Evidence, Prior, Series, SpikeSeries
from rtgate.judge.compare.pairing import CaseHistory, evidence, finding
from rtgate.judge.compare.procedures import ComparisonState, Screening, comparisons, suspicions
from rtgate.judge.compare.summaries import EXCEEDANCE_RATE, RETURN_LEVEL, WINSORISED_MEAN, Spikes, levels
from rtgate.records import evidence as evidence_module
from rtgate.records import record as records_file
from rtgate.records.environment import Environment
from rtgate.records.expectation import Expectation
from rtgate.records.record import KernelIdentity, Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Unit

Array = NDArray[np.float64]

RATE_HZ = 4000.0
MINUTES = 3.0
SAMPLES = int(RATE_HZ * MINUTES * 60)
BOOT_MINUTES = 2.0
CASES = 24
SESSIONS = 10
SCREEN = 3
PAIRS = 12
BOOTS = 2 * SESSIONS + SCREEN + 2 * PAIRS  # of a case
ONSET_US, ONSET_SHARE, SCALE_US = 15.0, 1e-3, 6.0
SPIKE_US, SPIKE_SD_US = 150.0, 8.0
BODY_US, BODY_SD = 8.0, 0.25
RANGE_US = 400
METRICS = (WINSORISED_MEAN, RETURN_LEVEL, EXCEEDANCE_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The noise of a board: shape of the tail, standard deviations of logarithms, bursts, spikes, a second mode."""

    shape: float
    scale: float
    probability: float
    body: float
    drift: float
    burst: float
    spikes_per_minute: float
    bad_share: float = 0.0
    bad_scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a kernel does: factors, and further spikes in a minute."""

    scale: float = 1.0
    probability: float = 1.0
    body: float = 1.0
    spikes_per_minute: float = 0.0


WORLDS = {
    "quiet": World(shape=0, scale=0.04, probability=0.12, body=0.01, drift=0.02, burst=1.3, spikes_per_minute=1 / 600),
    "noisy": World(
        shape=0.05, scale=0.10, probability=0.30, body=0.03, drift=0.08, burst=2.0, spikes_per_minute=1 / 30
    ),
    "bimodal": World(
        shape=0.05,
        scale=0.05,
        probability=0.15,
        body=0.02,
        drift=0.04,
        burst=2.0,
        spikes_per_minute=1 / 60,
        bad_share=0.15,
        bad_scale=1.4,
    ),
}
NONE = Change()
CHANGES = {
    **{f"tail x{factor:g}": Change(scale=factor) for factor in (1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 2.0)},
    "probability x2": Change(probability=2.0),
    "probability x4": Change(probability=4.0),
    "mean +5 %": Change(body=1.05),
    "mean +10 %": Change(body=1.10),
    "spike per 5 min": Change(spikes_per_minute=0.2),
    "spike per min": Change(spikes_per_minute=1.0),
    "tail x0.8": Change(scale=0.8),
}
TAIL = "tail x1.3"


# --- drawing boots


class FixedLevels(NamedTuple):
    """Levels in us: where the tail begins, and where spikes do."""

    tail: int
    spike: int


class Boots(NamedTuple):
    """What the gates see of boots, all arrays of one shape: logarithms by metric, spikes, maximum in us."""

    logs: dict[str, Array]
    spikes: NDArray[np.int64]
    maximum: Array


class Law(NamedTuple):
    """One boot's factors, drawn."""

    scale: Array
    probability: Array
    body: Array


def factors(rng: np.random.Generator, world: World, drift: Array, change: Change) -> Law:
    """Draw the factors of one boot for each session drift."""
    scale = SCALE_US * change.scale * np.exp(rng.normal(0, world.scale, drift.shape) + drift)
    if world.bad_share:
        scale = scale * np.where(rng.random(drift.shape) < world.bad_share, world.bad_scale, 1.0)
    probability = ONSET_SHARE * change.probability * np.exp(rng.normal(0, world.probability, drift.shape))
    return Law(scale, probability, np.exp(math.log(change.body) + rng.normal(0, world.body, drift.shape) + 0.3 * drift))


def events(rng: np.random.Generator, world: World, law: Law, above: float) -> tuple[NDArray[np.int64], Array]:
    """Draw each boot's number of events above a level, and all of them in one array, boot after boot.

    What exceeds a level of a generalised Pareto law is generalised Pareto again, so nothing below is drawn.
    """
    depth = (above - ONSET_US) / law.scale
    reached = np.exp(-depth) if world.shape == 0 else (1 + world.shape * depth) ** (-1 / world.shape)
    bursts = rng.poisson(law.probability * reached * SAMPLES / world.burst)
    more = rng.negative_binomial(np.maximum(bursts, 1), 1 / world.burst)
    counts = (bursts + more * (bursts > 0)).ravel()
    local = np.repeat((law.scale + world.shape * (above - ONSET_US)).ravel(), counts)
    drawn = rng.random(len(local))
    if world.shape == 0:
        return counts, above - local * np.log(drawn)
    return counts, above + local / world.shape * (drawn**-world.shape - 1)


class BootSummaries(NamedTuple):
    """What boots come to, in one array for each figure."""

    rate: Array
    level: Array
    beyond: NDArray[np.int64]
    largest: Array


def summarise(counts: NDArray[np.int64], latencies: Array, fixed: FixedLevels) -> BootSummaries:
    """Return the summaries that `judge.compare.summaries` takes from histograms of these events over the tail level."""
    middles = np.floor(latencies) + 0.5
    owner = np.repeat(np.arange(len(counts)), counts)
    far = middles >= fixed.spike
    beyond = np.bincount(owner[far], minlength=len(counts))
    tail = counts - beyond
    excess = np.bincount(owner[~far], weights=middles[~far] - fixed.tail, minlength=len(counts))
    hourly = np.maximum(tail, 1) * 60 / MINUTES
    mean = np.where(tail > 0, excess / np.maximum(tail, 1), 0.5)
    largest = np.full(len(counts), float(fixed.tail))
    there = counts > 0
    if latencies.size:
        largest[there] = np.maximum.reduceat(latencies, (np.cumsum(counts) - counts)[there])
    return BootSummaries(np.log((tail + 0.5) / SAMPLES), np.log(fixed.tail + mean * np.log(hourly)), beyond, largest)


def draw(rng: np.random.Generator, world: World, drift: Array, change: Change, fixed: FixedLevels) -> Boots:
    """Draw boots as their summaries."""
    law = factors(rng, world, drift, change)
    counts, latencies = events(rng, world, law, fixed.tail)
    found = summarise(counts, latencies, fixed)
    spikes = rng.poisson((world.spikes_per_minute + change.spikes_per_minute) * MINUTES, len(counts))
    spiked = SPIKE_US + SPIKE_SD_US * np.abs(rng.normal(0, 1, len(counts)))
    shape = drift.shape
    return Boots(
        {
            WINSORISED_MEAN: np.log(BODY_US * law.body),
            RETURN_LEVEL: found.level.reshape(shape),
            EXCEEDANCE_RATE: found.rate.reshape(shape),
        },
        (found.beyond + spikes).reshape(shape),
        np.where(spikes > 0, np.maximum(found.largest, spiked), found.largest).reshape(shape),
    )


def record(rng: np.random.Generator, world: World, drift: float, change: Change, names: tuple[str, str]) -> Record:
    """Draw one boot as a record with its whole histogram, in buckets of 1 us.

    Args:
        rng: where chance comes from.
        world: the noise.
        drift: of the session.
        change: what the kernel does.
        names: the case and the arm.
    """
    law = factors(rng, world, np.array([drift]), change)
    _, latencies = events(rng, world, law, 22.0)
    spikes = rng.poisson((world.spikes_per_minute + change.spikes_per_minute) * MINUTES)
    latencies = np.concatenate([latencies, SPIKE_US + SPIKE_SD_US * np.abs(rng.normal(0, 1, spikes))])
    return with_histogram(latencies, rng.lognormal(math.log(BODY_US * law.body[0]), BODY_SD, 20_000), names)


def with_histogram(latencies: Array, body: Array, names: tuple[str, str]) -> Record:
    """Return the record of a boot with these events, and with a body that stands for all other samples."""
    counts = np.bincount(np.minimum(body, 21).astype(int), minlength=RANGE_US) * (
        (SAMPLES - len(latencies)) // len(body)
    )
    inside = latencies[latencies < RANGE_US].astype(int)
    counts = counts + np.bincount(inside, minlength=RANGE_US)
    found = {int(value): int(count) for value, count in enumerate(counts) if count}
    return _record(found, len(latencies) - len(inside), names)


_EVIDENCE = evidence_module.Evidence(
    expectation=Expectation(threads=(), duration_s=MINUTES * 60),
    load="idle",
    load_processes=1,
    threads=(),
    load_seen=(),
    elapsed_s=None,
    settings={},
    writes={},
    processes=(),
    kernel_threads=(),
    log="",
)


def _record(counts: dict[int, int], overflow: int, names: tuple[str, str]) -> Record:
    histogram = Histogram(unit=Unit.US, counts=counts, overflow=overflow, limit=RANGE_US)
    case, arm = names
    return Record(
        case=case,
        board="lab",
        arm=ArmName(arm),
        profile="bench",
        seed=None,
        boot_id="",
        state=State.MEASURED,
        message="",
        argv=(),
        kernel=KernelIdentity(name=arm, flavour="", release="", image_sha256="", source="", provenance=""),
        environment=Environment(board="lab", time=TimeBase.REAL),
        evidence=_EVIDENCE,
        measurements=(Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels={"cpu": "0"}),),
        faults=(),
        line={},
        seconds={},
        machine={},
    )


def levels_of(world: World, seed: int = 5) -> FixedLevels:
    """Return the levels that rtgate takes from the histograms of 20 boots of a world."""
    rng = np.random.default_rng(seed)
    drift = np.repeat(rng.normal(0, world.drift, SESSIONS), 2)
    found = levels([record(rng, world, float(one), NONE, ("latency/bench:idle", "baseline")) for one in drift])
    assert found is not None
    (level,) = found.histograms
    assert level.tail is not None
    assert level.spike is not None
    return FixedLevels(level.tail, level.spike)


# --- cases of merge requests


class DrawnCases(NamedTuple):
    """Many cases, one in each row: boots of the history, of the screen, and of the two arms of the pairs."""

    history: Boots
    screen: Boots
    baseline: Boots
    candidate: Boots


def cases(rng: np.random.Generator, world: World, count: int, change: Change, fixed: FixedLevels) -> DrawnCases:
    """Draw cases: their history, and what is measured today, whose drift wanders a little."""
    sd = world.drift
    past = np.repeat(rng.normal(0, sd, (count, SESSIONS)), 2, axis=1)
    today = rng.normal(0, sd, (count, 1))
    wander = today + np.cumsum(rng.normal(0, 0.15 * sd, (count, PAIRS)), axis=1)
    return DrawnCases(
        draw(rng, world, past, NONE, fixed),
        draw(rng, world, today + rng.normal(0, 0.15 * sd, (count, SCREEN)), change, fixed),
        draw(rng, world, wander, NONE, fixed),
        draw(rng, world, wander + rng.normal(0, 0.15 * sd, wander.shape), change, fixed),
    )


class Case(NamedTuple):
    """One case as the judge sees it."""

    suspicion: dict[str, float]
    evidence: tuple[Evidence, ...]
    maxima: tuple[float, float, float]  # of the history, of one boot of the baseline, of one of the candidate


def judge_rows(drawn: DrawnCases, names: Sequence[str]) -> list[Case]:
    """Return the rows as the judge sees them."""
    return [_case(drawn, row, name) for row, name in enumerate(names)]


def _case(drawn: DrawnCases, row: int, name: str) -> Case:
    sessions, series = {}, []
    for metric in METRICS:
        past = drawn.history.logs[metric][row]
        sessions[metric] = [(float(a), float(b)) for a, b in zip(past[0::2], past[1::2], strict=True)]
        difference = drawn.candidate.logs[metric][row] - drawn.baseline.logs[metric][row]
        prior = Prior(float(((past[0::2] - past[1::2]) ** 2).mean()), SESSIONS)
        series.append(Series(case=name, metric=metric, differences=tuple(difference.tolist()), prior=prior))
    history = _spikes(drawn.history, row)
    boots = [{metric: float(drawn.screen.logs[metric][row, boot]) for metric in METRICS} for boot in range(SCREEN)]
    suspicion = suspicions(boots, _spikes(drawn.screen, row), CaseHistory(sessions=sessions, spikes=history))
    spikes = SpikeSeries(
        case=name, baseline=_spikes(drawn.baseline, row), candidate=_spikes(drawn.candidate, row), history=history
    )
    maxima = (drawn.history.maximum[row].max(), drawn.baseline.maximum[row, 0], drawn.candidate.maximum[row, 0])
    return Case(dict(suspicion), (*series, spikes), tuple(map(float, maxima)))  # type: ignore[arg-type]


def _spikes(boots: Boots, row: int) -> tuple[Spikes, ...]:
    return tuple(Spikes(int(count), MINUTES) for count in boots.spikes[row])


# --- gates


class GateOutcome(NamedTuple):
    """What a gate said of a merge request: failed cases, undecided ones, and what it cost in board-minutes."""

    failed: frozenset[str]
    undecided: frozenset[str]
    minutes: float


def by_maximum(request: Sequence[Case], limit: str) -> GateOutcome:
    """Judge one boot of each case by its maximum."""
    failed = set()
    for number, case in enumerate(request):
        history, baseline, candidate = case.maxima
        level = {"100 us": 100.0, "largest of 20 boots": history, "1.1 x baseline": 1.1 * baseline}[limit]
        if candidate > level:
            failed.add(str(number))
    return GateOutcome(frozenset(failed), frozenset(), CASES * MINUTES + BOOT_MINUTES)


def judge_screened(request: Sequence[Case], looks: Looks = CONFIRM) -> GateOutcome:
    """Judge by procedure B."""
    screens = [Screening(case=str(n), boots=SCREEN, suspicion=case.suspicion) for n, case in enumerate(request)]
    confirm = [one for case in request for one in case.evidence]
    found = comparisons(ComparisonState(screens=screens, pairs=confirm, looks=looks))
    return _outcome(found, SCREEN * (CASES * MINUTES + BOOT_MINUTES))


def judge_interleaved(request: Sequence[Case], looks: Looks = RELEASE) -> GateOutcome:
    """Judge by procedure A."""
    return _outcome(compare([one for case in request for one in case.evidence], looks), 0.0)


def _outcome(comparisons: Sequence[Comparison], minutes: float) -> GateOutcome:
    """Return the outcome and its cost: the open cases of a merge request share a boot."""
    pairs = [one.pairs for one in comparisons]
    minutes += 2 * (sum(pairs) * MINUTES + max(pairs, default=0) * BOOT_MINUTES)
    by = {outcome: frozenset(one.case for one in comparisons if one.outcome is outcome) for outcome in Outcome}
    return GateOutcome(by[Outcome.REGRESSION], by[Outcome.INCONCLUSIVE], minutes)


GATES: dict[str, Callable[[Sequence[Case]], GateOutcome]] = {
    "max > 100 us": lambda request: by_maximum(request, "100 us"),
    "max > largest of 20 boots": lambda request: by_maximum(request, "largest of 20 boots"),
    "max > 1.1 x baseline": lambda request: by_maximum(request, "1.1 x baseline"),
    "rtgate, screened (B)": judge_screened,
    "rtgate, interleaved (A)": judge_interleaved,
}
SLOW = "rtgate, interleaved (A)"


# --- tables


class Cell(NamedTuple):
    """One gate in one world with one change."""

    requests: int
    false: int  # requests with a failed case that did not change
    caught: int  # requests whose changed case failed
    undecided: int  # requests whose changed case (or any, without a change) is undecided
    minutes: float


ZERO = Cell(0, 0, 0, 0, 0.0)


def add(one: Cell, other: Cell) -> Cell:
    """Return two shares of a cell together."""
    return Cell(
        one.requests + other.requests,
        one.false + other.false,
        one.caught + other.caught,
        one.undecided + other.undecided,
        one.minutes + other.minutes,
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A share of the work: some merge requests of one world."""

    world: str
    requests: int
    changed: int  # of them with each change
    slow: int  # of them judged by A
    seed: int


def run(job: Job) -> dict[tuple[str, str], Cell]:
    """Draw merge requests and judge them, without a change and with each change in one case."""
    world, rng = WORLDS[job.world], np.random.default_rng(job.seed)
    fixed = levels_of(world)
    names = [str(number) for number in range(CASES)]
    cells: dict[tuple[str, str], Cell] = {}
    bank = [judge_rows(cases(rng, world, CASES, NONE, fixed), names) for _ in range(job.requests)]
    for gate in GATES:
        cells["none", gate] = _cell(gate, bank, "")
    for name, change in CHANGES.items():
        changed = judge_rows(cases(rng, world, job.changed, change, fixed), ["0"] * job.changed)
        requests = [[one, *bank[number % len(bank)][1:]] for number, one in enumerate(changed)]
        for gate in GATES:
            cells[name, gate] = _cell(gate, requests[: job.slow] if gate == SLOW else requests, "0")
    return cells


def _cell(gate: str, requests: Iterable[Sequence[Case]], changed: str) -> Cell:
    total = ZERO
    for request in requests:
        found = GATES[gate](request)
        open_ = changed in found.undecided if changed else bool(found.undecided)
        cell = Cell(1, bool(found.failed - {changed}), changed in found.failed, open_, found.minutes)
        total = add(total, cell)
    return total


def fixed_pairs(world: World, name: str, count: int, seed: int = 11) -> dict[int, float]:
    """Return by number of pairs how often a change is found, of a case always measured so often, at one look.

    The level is that of one of the 96 tests of a merge request in the worst case: 1 % / 96.
    """
    rng, fixed, sd = np.random.default_rng(seed), levels_of(world), world.drift
    most, hits = 40, dict.fromkeys((3, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40), 0)
    for _ in range(count):
        past = draw(rng, world, np.repeat(rng.normal(0, sd, SESSIONS), 2), NONE, fixed)
        drift = np.full(most, rng.normal(0, sd)) + rng.normal(0, 0.15 * sd, most)
        base, mine = draw(rng, world, drift, NONE, fixed), draw(rng, world, drift, CHANGES[name], fixed)
        for pairs in hits:
            hits[pairs] += any(_sees(past, base, mine, metric, pairs) for metric in METRICS)
    return {pairs: hit / count for pairs, hit in hits.items()}


def _sees(past: Boots, base: Boots, mine: Boots, metric: str, pairs: int) -> bool:
    known = past.logs[metric]
    prior = Prior(float(((known[0::2] - known[1::2]) ** 2).mean()), SESSIONS)
    difference = tuple((mine.logs[metric] - base.logs[metric]).tolist())
    reading = Series(case="", metric=metric, differences=difference, prior=prior).at(pairs)
    return reading.large and reading.p <= RELEASE.alpha / (4 * CASES)


def false_alarms_alone(name: str, count: int, seed: int = 23) -> str:
    """Return how often a case alone fails at 1 %, with the looks of the simulation that the method comes from.

    Its figures for A and B are beside, so that two programs that share no code can be compared.
    """
    world, rng, fixed = WORLDS[name], np.random.default_rng(seed), levels_of(WORLDS[name])
    told = []
    for change, expected in zip((NONE, CHANGES[TAIL], CHANGES["probability x2"]), PUBLISHED[name], strict=True):
        made = judge_rows(cases(rng, world, count, change, fixed), ["0"] * count)
        a = sum(bool(judge_interleaved([one]).failed) for one in made) / count
        b = sum(bool(_confirm(one)) for one in made) / count
        told.append(f"A {a:.3f} (there {expected[0]}), B {b:.3f} (there {expected[1]})")
    return f"one case alone, at 1 %: unchanged {told[0]}; {TAIL} {told[1]}; probability x2 {told[2]}"


def _confirm(case: Case) -> frozenset[str]:
    screens = [Screening(case="0", boots=SCREEN, suspicion=case.suspicion)]
    looks = Looks(((5, 0.4), (10, 0.6)), alpha=0.03)
    found = comparisons(ComparisonState(screens=screens, pairs=case.evidence, looks=looks, level=0.12))
    return _outcome(found, 0).failed


PUBLISHED = {
    "quiet": ((".001", ".002"), (".930", ".987"), (".922", ".998")),
    "noisy": ((".004", ".005"), (".760", ".721"), (".727", ".712")),
    "bimodal": ((".003", ".005"), (".704", ".743"), (".834", ".876")),
}


def tables(arguments: argparse.Namespace) -> None:
    """Print the tables, and write the figures as JSON if asked."""
    shares = max(1, arguments.requests // 20)
    document: dict[str, object] = {}
    for world in arguments.worlds:
        seed = 1000 * list(WORLDS).index(world)
        jobs = [
            Job(world, 20, max(1, arguments.changed // shares), max(1, arguments.slow // shares), seed + share)
            for share in range(shares)
        ]
        cells: dict[tuple[str, str], Cell] = {}
        for part in _spread(jobs, arguments.jobs):
            for key, cell in part.items():
                cells[key] = add(cells.get(key, ZERO), cell)
        print(f"\n### World: {world}\n")
        _print(_rows(cells))
        needed = {name: fixed_pairs(WORLDS[world], name, arguments.changed) for name in (TAIL, "tail x1.2")}
        for name, found in needed.items():
            print(f"\n{name}, found by the number of pairs, one look at 1 % over 96 tests: {_curve(found)}")
        print(f"\n{false_alarms_alone(world, 2 * arguments.changed)}", flush=True)
        document[world] = {f"{change}: {gate}": cell._asdict() for (change, gate), cell in cells.items()}
        document[f"{world}, pairs"] = {
            name: {str(n): share for n, share in found.items()} for name, found in needed.items()
        }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _spread(jobs: Sequence[Job], processes: int) -> Iterator[dict[tuple[str, str], Cell]]:
    if processes <= 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run, jobs)


def _rows(cells: dict[tuple[str, str], Cell]) -> Iterator[list[str]]:
    yield ["gate", "false alarms", *CHANGES]
    for gate in GATES:
        none = cells["none", gate]
        yield [
            gate,
            f"{100 * none.false / none.requests:.2f} % of {none.requests}",
            *(f"{100 * cells[name, gate].caught / cells[name, gate].requests:.0f} %" for name in CHANGES),
        ]
    for gate in list(GATES)[-2:]:
        found = [cells[name, gate] for name in ("none", *CHANGES)]
        yield [f"{gate}: undecided", *(f"{100 * one.undecided / one.requests:.0f} %" for one in found)]
    for gate in GATES:
        found = [cells[name, gate] for name in ("none", *CHANGES)]
        yield [f"{gate}: board-minutes", *(f"{one.minutes / one.requests:.0f}" for one in found)]


def _print(rows: Iterable[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        print("| " + " | ".join(row) + " |")
        if number == 0:
            print("|" + "---|" * len(row))


def _curve(found: dict[int, float]) -> str:
    enough = next((str(pairs) for pairs, share in found.items() if share >= 0.7), "more than 40")
    return ", ".join(f"{pairs}: {100 * share:.0f} %" for pairs, share in found.items()) + f"; 70 % take {enough}"


# --- speed


def speed(cpus: int = 4, buckets: int = 300) -> None:
    """Time the judging of 24 cases of 12 pairs, each boot with a histogram of `buckets` buckets for each CPU."""
    rng = np.random.default_rng(1)
    pairs = {
        str(n): [(_wide(rng, str(n), a, cpus, buckets), _wide(rng, str(n), b, cpus, buckets)) for a, b in _arms()]
        for n in range(CASES)
    }
    began = time.perf_counter()
    _judge(pairs)
    print(f"{CASES} cases x {PAIRS} pairs, {cpus} CPUs with {buckets} buckets: judged in {_since(began):.2f} s")
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        for case in pairs.values():
            for pair in case:
                for one in pair:
                    records_file.write(one, {}, b"", Path(name))
        began = time.perf_counter()
        read: dict[str, dict[str, list[Record]]] = {}
        for one in records_file.read_all(Path(name)):
            read.setdefault(one.case, {}).setdefault(one.arm, []).append(one)
        reading = _since(began)
        _judge({case: list(zip(arms["baseline"], arms["candidate"], strict=True)) for case, arms in read.items()})
        print(f"read from {2 * CASES * PAIRS} records in {reading:.2f} s, and judged: {_since(began):.2f} s")


def _arms() -> list[tuple[str, str]]:
    return [("baseline", "candidate")] * PAIRS


def _wide(rng: np.random.Generator, case: str, arm: str, cpus: int, buckets: int) -> Record:
    made = record(rng, WORLDS["noisy"], 0.0, NONE, (f"latency/bench:{case}", arm))
    (one,) = made.measurements
    assert one.histogram is not None
    counts = dict.fromkeys(range(buckets), 1) | dict(one.histogram.counts)
    histogram = replace(one.histogram, counts=counts)
    return replace(
        made, measurements=tuple(replace(one, histogram=histogram, labels={"cpu": str(cpu)}) for cpu in range(cpus))
    )


def _judge(pairs: dict[str, list[tuple[Record, Record]]]) -> None:
    family: list[Evidence] = []
    for case, found in pairs.items():
        family += evidence(case, found, CaseHistory(), RELEASE.steps[0][0])
    for comparison in compare(family):
        finding(comparison, MINUTES, BOOT_MINUTES)


def _since(began: float) -> float:
    return time.perf_counter() - began


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="merge requests without a change, in each world")
    parser.add_argument("--changed", type=int, default=1000, help="merge requests with each change")
    parser.add_argument("--slow", type=int, default=400, help="of those with a change, judged by procedure A as well")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--jobs", type=int, default=1, help="processes; the tables do not depend on it")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--speed", action="store_true", help="only time the judging of records")
    arguments = parser.parse_args()
    if arguments.speed:
        speed()
    else:
        tables(arguments)


if __name__ == "__main__":
    main()
