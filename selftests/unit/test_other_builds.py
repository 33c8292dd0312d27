# SPDX-License-Identifier: MIT
"""Real kernels of other builds as they were measured, for devices or another architecture: what limits say of them."""

from __future__ import annotations

from functools import cache

import pytest
from selftests.campaigns.comparisons import BUILD, UNPATCHED, Change, Place, builds, campaigns, changes
from selftests.campaigns.kernels import Kernels, by_place, placebos_of

from rtgate import site
from rtgate.board import boards
from rtgate.judge.compare.placebos import load_placebos
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds, load_thresholds
from rtgate.judge.verdict import Status
from rtgate.workflow.limit_profiles import LimitProfiles

CHANGES = changes()
PLACES = [place for place, build in builds().items() if build != BUILD]
HARM = [change for change in CHANGES.values() if (change.board, change.case) in PLACES]


@cache
def kernels(place: Place) -> Kernels:
    """Return the kernels that were measured in a place."""
    (found,) = by_place(campaigns())[place]
    return found


@cache
def shipped() -> Thresholds:
    known = {name: boards.board(name).virtual for name in site.names("boards")}
    return load_thresholds([site.shipped_directory() / "thresholds.yaml"], known, LimitProfiles().case)


def broken_limits(place: Place, name: str) -> list[str]:
    """Return the sentences of the limits that a kernel breaks."""
    board, case = place
    records = kernels(place)[name].records
    subject = Subject(case=case, board=board, arm=records[0].arm, flavour="preempt_rt", records=list(records))
    said = judge(subject, shipped())
    assert {one.status for one in said} <= {Status.PASS, Status.FAIL, Status.DONE}, [one.sentence for one in said]
    return [one.sentence for one in said if one.status is Status.FAIL]


@pytest.mark.parametrize("place", [place for place in PLACES if boards.board(place[0]).cpus == 1], ids=" ".join)
def test_harmless_kernels_keep_every_limit(place: Place) -> None:
    assert shipped().of(place[0], "preempt_rt", place[1])
    names = {UNPATCHED, *placebos_of(kernels(place))}
    assert not [sentence for name in sorted(names) for sentence in broken_limits(place, name)]


def test_placebos_are_known_of_what_the_guest_s_clock_counts() -> None:
    known = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards"))
    taught = {place for place in PLACES if placebos_of(kernels(place))}
    loads = ("idle", "hackbench", "stress-ng")
    assert taught == {
        ("virt-arm64", "pcie/edu-msi:idle"),
        ("virt-riscv64", "latency/cyclictest:idle"),
        *(("virt-x86_64", f"latency/cyclictest:{load}") for load in loads),
        ("virt-x86_64-smp2", "signal/signaltest:idle"),
    }
    for board, case in taught:
        assert known.cases[board, "preempt_rt", case]
        assert all(known.model_for(one).figures for one in kernels((board, case))[UNPATCHED].records)


def test_harm_is_there_for_each_suite() -> None:
    assert {change.case.partition("/")[0] for change in HARM} == {"pcie", "nvme"}


@pytest.mark.parametrize("change", [one for one in HARM if one.shows == "limit"], ids=lambda change: change.name)
def test_harm_breaks_a_limit(change: Change) -> None:
    assert broken_limits((change.board, change.case), change.name)
