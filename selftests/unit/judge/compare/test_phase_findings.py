# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from dataclasses import replace

from rtgate.judge.compare.boot_figures import Part
from rtgate.judge.compare.phase_findings import PhaseComparison, findings
from rtgate.judge.compare.phases import Shift
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.units import Unit

QUIET = Shift(
    figure="latency mean",
    part=Part.BODY,
    unit=Unit.VIRTUAL_NS,
    baseline=43_000.0,
    candidate=43_050.0,
    baseline_worst=44_000.0,
    candidate_worst=44_100.0,
    boots=12,
    shift=50.0,
    most=200.0,
    p=0.2,
    practical=900.0,
    must_see=3_440.0,
    ruled_out=200.0,
    learnt=True,
)


def judged(*found: Shift) -> list[Finding]:
    case = PhaseComparison(board="virt-arm64", shifts=found, lost=0, instruction_ns="8", boot_s=7.0)
    return list(findings(case, found))


def test_boots_that_stand_out_alone_are_what_is_open() -> None:
    spiked = replace(QUIET, spikes=1, spike_p=0.04)
    worse = replace(QUIET, figure="latency p90", spikes=2, spike_p=0.02)
    (found,) = judged(spiked, worse)
    assert (found.status, found.kind, found.measurement) == (Status.DONE, Kind.INCONCLUSIVE, "latency p90")
    assert found.sentence == (
        "not enough boots to decide about latency mean, latency p90: none moved by what counts, but 2 of 12 boots had "
        "a latency p90 more than 2% beyond every boot of every harmless kernel and of the baseline (p = 0.02): more "
        "boots show whether it was chance"
    )


def test_a_figure_that_may_have_moved_is_told_before_boots_that_stand_out() -> None:
    moved = replace(QUIET, most=4_000.0, ruled_out=4_000.0)
    (found,) = judged(replace(QUIET, spikes=1, spike_p=0.04), moved)
    assert "latency mean may have become worse by +9.3%, and +8.0% counts" in found.sentence


def test_a_figure_that_moved_and_is_not_sure_is_told_before_boots_that_stand_out() -> None:
    leaning = replace(QUIET, figure="latency p90", shift=1_500.0, most=3_000.0, ruled_out=3_000.0, p=0.003, fewest=8)
    (found,) = judged(replace(QUIET, spikes=1, spike_p=0.04), leaning)
    assert (found.kind, found.measurement) == (Kind.INCONCLUSIVE, "latency p90")
    assert (
        "about latency mean, latency p90: latency p90 lies +3.5% above the baseline's, and the tolerance is +2.1%, "
        "which is not certain yet (p = 0.003); about 23 boots" in found.sentence
    )


def test_a_figure_that_is_wide_is_told_before_one_that_moved() -> None:
    wide = replace(QUIET, most=4_000.0, ruled_out=4_000.0)
    leaning = replace(QUIET, figure="latency p90", shift=1_500.0, most=3_000.0, ruled_out=3_000.0, p=0.003)
    (found,) = judged(leaning, wide)
    assert "latency mean may have become worse by +9.3%, and +8.0% counts" in found.sentence


def test_too_few_boots_are_told_as_such() -> None:
    (found,) = judged(replace(QUIET, boots=3, ruled_out=math.inf, fewest=8))
    assert "latency mean: 3 boots of each kernel are too few, and +8.0% counts; about 8 boots" in found.sentence
