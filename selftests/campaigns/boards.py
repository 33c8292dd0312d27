# SPDX-License-Identifier: MIT
"""Synthetic noise of boards in a lab: boots are drawn as their summaries, or as records with whole histograms.

The law of a boot: wake-ups at 4 kHz; above 15 us a generalised Pareto excess, reached with P = 1e-3, in bursts;
scale, probability and body have a log-normal factor for each boot, the scale another one for each session; in the
bimodal world some boots of either kernel have a larger scale; spikes of 150 us come at a fixed rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.judge.compare.summaries import EXCEEDANCE_RATE, RETURN_LEVEL, WINSORISED_MEAN, levels
from rtgate.records.environment import Environment
from rtgate.records.evidence import Evidence
from rtgate.records.expectation import Expectation
from rtgate.records.record import KernelIdentity, Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Unit

Array = NDArray[np.float64]

RATE_HZ = 4000.0
MINUTES = 3.0
SAMPLES = int(RATE_HZ * MINUTES * 60)
SESSIONS = 10
ONSET_US, ONSET_SHARE, SCALE_US = 15.0, 1e-3, 6.0
SPIKE_US, SPIKE_SD_US = 150.0, 8.0
BODY_US, BODY_SD = 8.0, 0.25
RANGE_US = 400


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


def draw_record(rng: np.random.Generator, world: World, drift: float, change: Change, names: tuple[str, str]) -> Record:
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


_EVIDENCE = Evidence(
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
    found = levels([draw_record(rng, world, float(one), NONE, ("latency/bench:idle", "baseline")) for one in drift])
    assert found is not None
    (level,) = found.histograms
    assert level.tail is not None
    assert level.spike is not None
    return FixedLevels(level.tail, level.spike)
