# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selftests.unit.judge.conftest import BOARD, BOUND, CASE, FLAVOUR, record

from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import PlaceboModel, Placebos
from rtgate.judge.compare.section_findings import boots_needed, grown_sections, section_findings
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.bound import Bound, Delay
from rtgate.records.explained import CaseExplanation
from rtgate.records.longer_sections import CALL, GAINED, GROWN, MEASUREMENT, LongerSection, SectionComparison
from rtgate.records.record import Record

PLACEBOS = Placebos(
    {
        (BOARD, FLAVOUR, CASE): (
            PlaceboModel(
                command=" ".join(record().argv),
                source="30 kernels",
                figures={"latency p50": Placebo(move=0.01, spike=1.5, kernels=30, boots=12)},
            ),
        )
    }
)
SITE = LongerSection(
    off="interrupts off",
    place="run_timer_softirq",
    context="softirq",
    baseline=849,
    candidate=8349,
    count=14,
    boots=12,
    seed=5,
    begin="run_timer_softirq",
    spread=0,
)
SEEN = SectionComparison(baseline_image="a", candidate_image="b", seeds=(), boots_digest="", instruction_ns=8, cpus=1)
CHANCE = replace(SITE, place="rt_spin_lock", candidate=2115, begin="")
CALLED = replace(
    SITE, candidate=900, begin="", function="sched_tick", call=3787, call_before=1235, call_seed=3, call_spread=0
)


@pytest.mark.parametrize("longer", [(), (SITE,)], ids=["nothing", "a section"])
@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_sections_of_a_boot_that_is_invalid_say_nothing(arm: str, longer: tuple[LongerSection, ...]) -> None:
    seen = replace(SEEN, seeds=(1, 2), reached=5, longer=longer)
    kernels = {name: [record(seed=seed, arm=name) for seed in (1, 2, 3)] for name in ("baseline", "candidate")}

    def judged() -> Finding:
        subject = Subject(
            case=CASE,
            board=BOARD,
            arm="candidate",
            flavour=FLAVOUR,
            records=kernels["candidate"],
            baseline=kernels["baseline"],
            sections=seen,
        )
        ((_, finding),) = section_findings([subject], PLACEBOS)
        return finding

    good = judged()
    assert good.status is (Status.FAIL if longer else Status.PASS)
    threads = kernels[arm][1].evidence
    kernels[arm][2] = replace(kernels[arm][2], evidence=replace(threads, load="another"))
    kernels[arm][1] = replace(kernels[arm][1], evidence=replace(threads, threads=()))
    finding = judged()
    assert (finding.status, finding.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert f"not judged: seed 2 of the {arm} is invalid" in finding.sentence


def grown(one: LongerSection, cpus: int = 1, boots: int = 7) -> bool:
    seen = replace(SEEN, seeds=tuple(range(boots)), cpus=cpus, longer=(one,))
    return [growth.section for growth in grown_sections(seen)] == [one]


def found(
    *longer: LongerSection,
    placebos: Placebos = PLACEBOS,
    followed: bool = True,
    reached: int = 5,
    bounds: tuple[Bound | None, Bound | None] = (None, None),
    seeds: int = 12,
    cpus: int = 1,
    baseline: Sequence[Record] = (),
    explained: CaseExplanation | None = None,
) -> list[Finding]:
    seen = SectionComparison(
        baseline_image="a",
        candidate_image="b",
        seeds=tuple(range(1, seeds + 1)),
        boots_digest="",
        instruction_ns=8,
        cpus=cpus,
        sites=407,
        reached=reached,
        longer=longer,
        baseline_bound=bounds[0],
        candidate_bound=bounds[1],
    )
    subject = Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=[record()],
        baseline=baseline,
        sections=seen if followed else None,
        explained=explained,
    )
    return [finding for _, finding in section_findings([subject], placebos)]


def test_a_section_that_the_change_made_longer_fails_with_site_amount_and_function() -> None:
    (one,) = found(SITE, CHANCE)
    assert (one.status, one.kind) == (Status.FAIL, Kind.REGRESSION)
    assert one.sentence == (
        "interrupts off for 7,500 instructions (60.0 virtual us) more by run_timer_softirq (changed) in "
        "run_timer_softirq: 8,349 at the longest of 14 (softirq), 849 before"
    )
    assert one.value is not None
    assert one.value.text == "66.8 virtual us (8349 instructions)"
    assert (one.boot, one.measurement) == ("seed 5", "critical section")


def test_a_new_site_says_that_the_baseline_has_none() -> None:
    (one,) = found(replace(SITE, baseline=0))
    assert one.sentence.endswith(", where the baseline has none")
    assert one.change is None


def test_what_is_longer_within_sections_of_usual_length_fails_too() -> None:
    """A rare delay in each tenth of ticks hides below the longest tick; what the changed function ran for does not."""
    (one,) = found(CALLED)
    assert one.status is Status.FAIL
    assert one.sentence == (
        "sched_tick (changed) took 2,552 instructions (20.4 virtual us) more in run_timer_softirq (interrupts off): "
        "3,787 in one call there (softirq), 1,235 at the longest before; the longest of 14 sections has 900, "
        "849 before"
    )
    assert one.value is not None
    assert one.value.text == "30.3 virtual us (3787 instructions)"
    assert str(one.change) == "+207%"
    assert one.measurement == "call in a critical section"  # which short forms name, beside these figures


def test_a_function_is_blamed_only_for_what_it_gained() -> None:
    """The site grew by much, and by nothing that the change altered."""
    (one,) = found(replace(CHANCE, candidate=849 + GROWN, function="sched_tick", longer_boots=12))
    assert one.status is Status.FAIL
    assert "(changed)" not in one.sentence


def test_what_no_function_that_differs_begins_may_be_chance_in_few_boots() -> None:
    """An idle VFAT under stress-ng: a softirq 2,793 longer in one of seven boots."""
    section = replace(CHANCE, baseline=1476, candidate=4269, place="handle_softirqs to __local_bh_enable_ip")
    (said,) = found(replace(section, longer_boots=4), seeds=7)
    assert (said.status, said.kind, said.measurement) == (Status.DONE, Kind.INCONCLUSIVE, MEASUREMENT)
    assert said.sentence == (
        "interrupts off for 2,793 instructions (22.3 virtual us) more in handle_softirqs to __local_bh_enable_ip, "
        "which may be chance: 4 of 7 boots have one so long, and 5 must, as no function that differs begins it"
    )
    (said,) = found(replace(section, longer_boots=5), seeds=7)
    assert said.status is Status.FAIL
    (said,) = found(replace(section, longer_boots=3), seeds=3)
    assert said.status is Status.DONE
    assert said.sentence.endswith("may be chance: no function that differs begins it, measure four boots at least")
    (said,) = found(section, seeds=7)
    assert said.status is Status.DONE
    assert said.sentence.endswith("nobody has counted how many boots have one so long, gate again")
    (said,) = found(replace(section, begin="handle_softirqs", longer_boots=1), seeds=7)
    assert said.status is Status.FAIL
    (said,) = found(replace(section, candidate=1476 + GROWN - 1, longer_boots=0), seeds=7)
    assert said.status is Status.PASS


def test_further_sites_are_counted() -> None:
    (one,) = found(SITE, replace(SITE, place="other"), CHANCE)
    assert one.sentence.endswith("; 1 more site grew as clearly")


def test_growth_by_chance_is_no_worse_and_is_told() -> None:
    (one,) = found(CHANCE)
    assert (one.status, one.kind) == (Status.PASS, Kind.NO_WORSE)
    assert one.sentence == (
        "no critical section is longer than harmless changes make one: 407 sites in 12 boots of each kernel, the one "
        "that grew most by 1,266 instructions (10.1 virtual us) in rt_spin_lock"
    )


def test_without_anything_longer_it_passes() -> None:
    (one,) = found()
    assert one.status is Status.PASS
    assert one.sentence.endswith("407 sites in 12 boots of each kernel")


@pytest.mark.parametrize("longer", [(), (CHANCE,)])
def test_where_harmless_changes_were_never_measured_nothing_passes(longer: tuple[LongerSection, ...]) -> None:
    (one,) = found(*longer, placebos=Placebos())
    assert (one.status, one.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "placebos.yaml does not say" in one.sentence


@pytest.mark.parametrize("longer", [(), (SITE,)])
def test_a_candidate_of_another_flavour_is_no_harmless_change(longer: tuple[LongerSection, ...]) -> None:
    before = record(arm="baseline")
    generic = replace(before, kernel=replace(before.kernel, flavour="generic"))
    of_generic = {(board, "generic", case): models for (board, _, case), models in PLACEBOS.cases.items()}
    (finding,) = found(*longer, placebos=Placebos({**PLACEBOS.cases, **of_generic}), baseline=[generic])
    assert (finding.status, finding.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert finding.sentence.endswith("measured with a candidate of another flavour (preempt_rt, not generic)")


def test_nor_does_anything_fail_there() -> None:
    (one,) = found(SITE, placebos=Placebos())
    assert (one.status, one.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "7,500 instructions (60.0 virtual us) more by run_timer_softirq" in one.sentence


def test_a_change_that_ran_in_no_section_is_not_exercised() -> None:
    (one,) = found(CHANCE, reached=0)
    assert (one.status, one.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert one.sentence.startswith("not exercised here: no function that differs ran in a critical section; no ")


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ({"resting": ()}, Status.PASS),  # functions were moved, or have other names
        ({"resting": (), "others": ("CONFIG_LOCALVERSION",)}, Status.PASS),
        ({"resting": ("f",)}, Status.SKIP),
        ({"resting": (), "others": ("limit",)}, Status.SKIP),
        ({"resting": ("f",), "executed": {"g": 5}}, Status.PASS),
    ],
)
def test_where_nothing_differs_that_could_have_run_no_longer_section_is_no_worse(
    seen: Mapping[str, Any], status: Status
) -> None:
    explained = CaseExplanation(**{"baseline_image": "a", "candidate_image": "b", "seed": 1, "executed": {}, **seen})
    (finding,) = found(CHANCE, reached=0, explained=explained)
    assert finding.status is status
    (finding,) = found(SITE, reached=0, explained=explained)
    assert finding.status is Status.FAIL


def test_sections_that_could_not_be_followed_pass_nothing() -> None:
    seen = SectionComparison(
        baseline_image="a",
        candidate_image="b",
        seeds=(1,),
        boots_digest="",
        instruction_ns=8,
        cpus=1,
        why_not="the boot did not repeat itself",
    )
    subject = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=[record()], sections=seen)
    ((_, one),) = section_findings([subject], PLACEBOS)
    assert (one.status, one.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert one.sentence == "critical sections were not compared: the boot did not repeat itself"


def test_what_the_change_made_longer_is_named_before_what_grew_more() -> None:
    other = replace(SITE, place="elsewhere", candidate=20_849, begin="", longer_boots=12)
    (one,) = found(other, CALLED)
    assert "sched_tick (changed) took" in one.sentence
    (one,) = found(replace(CALLED, call=1385, candidate=4849, longer_boots=12), other)
    assert "more in elsewhere: 20,849" in one.sentence


def test_nothing_is_said_of_a_case_that_was_not_followed() -> None:
    assert found(SITE, followed=False) == []


@given(
    growth=st.integers(-50, 50_000),
    share=st.integers(0, 50_000),
    begins=st.booleans(),
    spread=st.none() | st.integers(0, 2000),
    boots=st.integers(0, 7),
)
def test_a_section_is_longer_only_if_it_grew_much_or_by_the_change(
    growth: int, share: int, spread: int | None, boots: int, *, begins: bool
) -> None:
    one = replace(SITE, baseline=100, candidate=100 + growth, call=share, call_before=200, begin="f" if begins else "")
    one = replace(one, spread=spread, call_spread=spread, call_boots=boots, longer_boots=boots)
    least = GROWN if spread is None else max(GAINED, 3 * spread)
    by_change = share - 200 >= least or (begins and growth >= least)
    assert grown(one) is ((growth >= GROWN and (begins or boots >= boots_needed(7))) or by_change)
    # With several CPUs, waiting for the turn of another one is as long as a turn, whatever began the section; and the
    # other CPUs decide which way a call takes.
    enough = boots >= boots_needed(7)
    assert grown(one, cpus=2) is (enough and (share - 200 >= least or growth >= GROWN))


def answer_of_the_tables(one: LongerSection, cpus: int, boots: int) -> Status:
    """Return what the tables of docs/explanation/critical-sections.md say, row by row."""
    enough = boots_needed(boots)

    def beyond(gain: int, spread: int | None) -> bool:
        return gain >= (GROWN if spread is None else max(GAINED, 3 * spread))

    def fails_if(said: object) -> Status:
        return Status.FAIL if said else Status.DONE

    call, gain = Status.PASS, one.call_gain
    if gain >= GAINED:
        alone = cpus == 1 and one.call > one.call_elsewhere
        call = fails_if(beyond(gain, one.call_spread) and (alone or (one.call_boots or 0) >= enough))
    section = Status.PASS
    if one.growth >= GROWN:
        section = fails_if((one.begin and cpus == 1) or (one.longer_boots or 0) >= enough)
        if cpus > 1 and not one.begin and one.longer_boots == 1 and boots >= 4:
            section = Status.PASS
    elif one.begin and one.growth >= GAINED:
        section = fails_if(cpus == 1 and (beyond(one.growth, one.spread) if one.baseline else one.boots >= enough))
    return max(call, section, key=(Status.PASS, Status.DONE, Status.FAIL).index)


LENGTHS = st.sampled_from((0, 399, 400, 2499, 2500, 100_000)) | st.integers(0, 4000)
SPREADS = st.none() | st.sampled_from((0, 200, 1000))


@settings(max_examples=1000)
@given(
    data=st.data(),
    boots=st.sampled_from((1, 2, 3, 4, 7, 12)),
    cpus=st.sampled_from((1, 2, 4)),
    begin=st.sampled_from(("", "f")),
    baseline=st.sampled_from((0, 849)),
)
def test_answers_are_those_of_the_tables(data: st.DataObject, boots: int, cpus: int, begin: str, baseline: int) -> None:
    counts = st.integers(1, boots)
    growth, gain = data.draw(LENGTHS), data.draw(LENGTHS)
    one = replace(
        SITE,
        baseline=baseline,
        candidate=baseline + growth,
        begin=begin,
        boots=data.draw(counts),
        longer_boots=data.draw(counts) if growth >= GROWN else None,
        spread=data.draw(SPREADS) if begin else None,
        function="called",
        call=200 + gain,
        call_before=200,
        call_elsewhere=200 + data.draw(LENGTHS),
        call_spread=data.draw(SPREADS),
        call_boots=data.draw(counts),
    )
    (said,) = found(one, cpus=cpus, seeds=boots)
    assert said.status is answer_of_the_tables(one, cpus, boots), said.sentence


def test_a_call_as_long_as_one_of_the_baseline_elsewhere_needs_enough_boots() -> None:
    """A harmless kernel's: the server of ordinary threads is filled again while a softirq wakes a thread."""
    one = replace(CALLED, function="update_curr_dl_se", call=531, call_before=24, call_spread=8, call_elsewhere=531)
    (said,) = found(replace(one, call_boots=2), seeds=7)
    assert said.status is Status.DONE
    assert said.sentence == (
        "update_curr_dl_se (changed) took 507 instructions (4.1 virtual us) more in run_timer_softirq (interrupts "
        "off), which may be chance: 2 of 7 boots have a longer call of it, and 5 must, as calls of the baseline "
        "elsewhere are as long"
    )
    (said,) = found(replace(one, call_boots=5), seeds=7)
    assert said.status is Status.FAIL
    (said,) = found(replace(one, call_boots=None, call_elsewhere=530), seeds=7)
    assert said.status is Status.FAIL


def test_on_several_cpus_a_longer_call_of_few_boots_may_be_chance() -> None:
    """A wake-up on four CPUs pushes another thread away once in seven boots, without any change of it."""
    one = replace(CALLED, function="try_to_wake_up", call=2517, call_before=1374, call_spread=205)
    (said,) = found(replace(one, call_boots=1), cpus=4)
    assert (said.status, said.kind, said.measurement) == (Status.DONE, Kind.INCONCLUSIVE, CALL)
    assert said.sentence == (
        "try_to_wake_up (changed) took 1,143 instructions (9.1 virtual us) more in run_timer_softirq (interrupts off), "
        "which may be chance: 1 of 12 boots have a longer call of it, and 6 must, as what other CPUs do decides its way"
    )
    (said,) = found(replace(one, call_boots=5), cpus=4)
    assert said.status is Status.DONE
    (said,) = found(replace(one, call_boots=3), cpus=4, seeds=3)
    assert said.sentence.endswith("may be chance: what other CPUs do decides its way, measure four boots at least")
    (said,) = found(replace(one, call_boots=None), cpus=4)
    assert said.sentence.endswith("nobody has counted how many boots have a longer call of it, gate again")
    (said,) = found(replace(one, call_boots=6), cpus=4)
    assert said.status is Status.FAIL
    (said,) = found(replace(one, call_boots=1))
    assert said.status is Status.FAIL


THOUSAND = "1,000 instructions (8.0 virtual us)"


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (
            replace(SITE, candidate=1849, spread=334),
            f"interrupts off for {THOUSAND} more by run_timer_softirq (changed) in run_timer_softirq",
        ),
        (
            replace(CALLED, call=2235, call_spread=334),
            f"sched_tick (changed) took {THOUSAND} more in run_timer_softirq (interrupts off)",
        ),
    ],
)
def test_what_boots_of_the_baseline_differ_by_may_be_chance(one: LongerSection, what: str) -> None:
    """Linux 6.12.113 to 6.12.115: do_exit() 1,000 longer, where the baseline's own boots differ by 458."""
    (said,) = found(one)
    assert (said.status, said.kind) == (Status.DONE, Kind.INCONCLUSIVE)
    assert said.measurement == (CALL if one.call_spread else MEASUREMENT)
    assert said.sentence == (f"{what}, which may be chance: what it takes differs by 334 between the baseline's boots")
    (said,) = found(replace(one, spread=333, call_spread=333))
    assert said.status is Status.FAIL
    (said,) = found(one, CHANCE, replace(SITE, place="elsewhere"))
    assert said.status is Status.FAIL
    assert "more by run_timer_softirq (changed) in elsewhere" in said.sentence


@pytest.mark.parametrize("spread", [GROWN, None])
def test_no_spread_excuses_what_no_harmless_change_does(spread: int | None) -> None:
    (said,) = found(replace(SITE, candidate=849 + GROWN, spread=spread))
    assert said.status is Status.FAIL
    assert ("(changed)" in said.sentence) is (spread is None)


@pytest.mark.parametrize(
    "one", [replace(SITE, candidate=1849, spread=None), replace(CALLED, call=2235, call_spread=None)]
)
def test_where_too_few_boots_show_how_much_it_varies_nothing_is_decided(one: LongerSection) -> None:
    (said,) = found(one)
    assert said.status is Status.DONE
    assert said.sentence.endswith(
        "may be chance: too few boots of the baseline show what it takes, and four at least are needed"
    )


def test_what_is_told_and_its_spread_are_of_one_gain() -> None:
    """f begins a section that grew by 600, in which a function gained 450 that it called."""
    both = replace(SITE, candidate=1449, spread=300, function="g", call=950, call_before=500, call_spread=200)
    (said,) = found(both)
    assert "for 600 instructions (4.8 virtual us) more by run_timer_softirq (changed)" in said.sentence
    assert said.sentence.endswith("differs by 300 between the baseline's boots")
    # A section that grew by much is not blamed on what was called in it and gained little.
    (said,) = found(replace(both, candidate=849 + GROWN, spread=GROWN, call_spread=0))
    assert said.status is Status.FAIL
    assert "(changed)" not in said.sentence


@pytest.mark.parametrize("begin", ["", "run_timer_softirq"])
@pytest.mark.parametrize("cpus", [1, 4])
def test_a_call_that_fails_a_section_is_what_is_told(begin: str, cpus: int) -> None:
    """The section grew by more than the call, and its own growth may be chance."""
    one = replace(CALLED, candidate=5000, begin=begin, spread=2000, call_boots=12)
    (said,) = found(one, cpus=cpus)
    assert said.status is Status.FAIL
    assert said.sentence.startswith(
        "sched_tick (changed) took 2,552 instructions (20.4 virtual us) more in run_timer_softirq (interrupts off): "
        "3,787 in one call there"
    )
    assert said.boot == "seed 3"
    assert str(said.change) == "+207%"


@pytest.mark.parametrize(
    ("begin", "sentence"),
    [
        (
            "",
            "sched_tick (changed) took 2,552 instructions (20.4 virtual us) more in run_timer_softirq (interrupts off)",
        ),
        (
            "run_timer_softirq",
            "interrupts off for 4,151 instructions (33.2 virtual us) more by run_timer_softirq (changed)",
        ),
    ],
)
def test_what_may_be_chance_keeps_its_function(begin: str, sentence: str) -> None:
    """On four CPUs, in a section that grew by more."""
    (said,) = found(replace(CALLED, candidate=5000, begin=begin, spread=0, call_boots=1, longer_boots=1), cpus=4)
    assert said.status is Status.DONE
    assert said.sentence.startswith(sentence)
    assert ", which may be chance: 1 of 12 boots have" in said.sentence


@pytest.mark.parametrize("before", [0, 900])
@pytest.mark.parametrize("cpus", [2, 4])
def test_on_several_cpus_a_long_section_of_a_function_that_differs_is_no_pass(before: int, cpus: int) -> None:
    """The call that disables preemption begins before the section, so no call in it tells of the change."""
    one = replace(SITE, begin="copy_process", baseline=before, candidate=100_000, boots=12)
    (said,) = found(replace(one, longer_boots=6), cpus=cpus)
    assert said.status is Status.FAIL
    assert "more by copy_process (changed)" in said.sentence
    (said,) = found(replace(one, longer_boots=5), cpus=cpus)
    assert said.status is Status.DONE
    assert "5 of 12 boots have one so long, and 6 must" in said.sentence


def test_on_several_cpus_a_shorter_growth_may_be_a_wait() -> None:
    new = replace(SITE, begin="copy_process", baseline=0, candidate=GROWN - 1, boots=1)
    longer = replace(new, baseline=900, candidate=900 + GROWN - 1, spread=0)
    for one, reason in (
        (new, "with several CPUs a section counts from 2,500 instructions more on"),
        (longer, "with several CPUs a section counts from 2,500 instructions more on"),
        (replace(longer, spread=1000), "what it takes differs by 1,000 between the baseline's boots"),
    ):
        (said,) = found(one, cpus=2)
        assert said.status is Status.DONE
        assert said.sentence.endswith(reason)
    for one in (replace(longer, candidate=900 + GAINED - 1), replace(longer, begin="")):
        (said,) = found(one, cpus=2)
        assert said.status is Status.PASS


@pytest.mark.parametrize(("boots", "status"), [(1, Status.PASS), (2, Status.DONE), (5, Status.DONE), (6, Status.FAIL)])
def test_on_several_cpus_a_long_section_fails_whatever_began_it(boots: int, status: Status) -> None:
    """7,500 instructions in each boot are no wait for the other CPU's turn; in one boot of twelve they may be."""
    (said,) = found(replace(CHANCE, candidate=849 + 7500, longer_boots=boots), cpus=2)
    assert said.status is status
    assert (
        "grew most by 7,500 instructions (60.0 virtual us) in rt_spin_lock, in one boot alone" in said.sentence
    ) is (status is Status.PASS)
    if status is Status.DONE:
        why = "what other CPUs do decides how long it is"
        assert said.sentence.endswith(f"may be chance: {boots} of 12 boots have one so long, and 6 must, as {why}")


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_on_several_cpus_one_boot_of_too_few_is_no_pass(seeds: int) -> None:
    (said,) = found(replace(CHANCE, candidate=849 + 7500, longer_boots=1), cpus=2, seeds=seeds)
    assert said.status is Status.DONE
    assert said.sentence.endswith("what other CPUs do decides how long it is, measure four boots at least")


def test_on_several_cpus_sections_that_nobody_counted_are_no_pass() -> None:
    (said,) = found(replace(CHANCE, candidate=849 + 7500, longer_boots=None), cpus=2)
    assert said.status is Status.DONE
    assert said.sentence.endswith("nobody has counted how many boots have one so long, gate again")


@pytest.mark.parametrize(("gain", "told"), [(2000, False), (2001, True)])
def test_a_call_that_gained_most_of_a_growth_is_told_with_its_function(gain: int, *, told: bool) -> None:
    (said,) = found(replace(CALLED, candidate=849 + 4000, call=1235 + gain, longer_boots=12))
    assert said.status is Status.FAIL
    assert ("sched_tick (changed)" in said.sentence) is told
    assert said.boot == ("seed 3" if told else "seed 5")


def test_a_new_section_is_not_excused_by_what_the_function_does_elsewhere() -> None:
    assert grown(replace(SITE, baseline=0, candidate=2300, spread=800, boots=7))


@pytest.mark.parametrize("longer", [(), (SITE,)])
def test_a_sentence_ends_with_both_bounds(longer: tuple[LongerSection, ...]) -> None:
    (one,) = found(*longer, bounds=(BOUND, replace(BOUND, postponed=Delay(8349, "run_timer_softirq"))))
    assert one.sentence.endswith("; bound of a wake-up 99.4 -> 135.4 virtual us")
    # That of a boot which only the candidate has.
    (one,) = found(*longer, bounds=(BOUND, replace(BOUND, seed=99)))
    assert "bound of a wake-up" not in one.sentence
    (one,) = found(*longer, bounds=(None, BOUND))
    assert "bound" not in one.sentence


@pytest.mark.parametrize(
    ("baseline", "boots", "longest", "longer"),
    [
        (0, 1, 1361, False),
        (0, 4, 1361, False),
        (0, 5, 1361, True),
        (0, 1, GROWN, True),  # too long for chance
        (900, 1, 1361, True),
    ],
)
def test_a_new_section_that_is_rare_may_be_chance(baseline: int, boots: int, longest: int, *, longer: bool) -> None:
    """rt_mutex_unlock() with a counter more, under hackbench: 1361 once in seven boots, never in seven without it."""
    assert grown(replace(SITE, baseline=baseline, candidate=longest, count=99, boots=boots)) is longer


@pytest.mark.parametrize(("boots", "needed"), [(1, 2), (3, 4), (4, 4), (7, 5), (12, 6), (40, 6)])
def test_how_many_boots_are_no_chance(boots: int, needed: int) -> None:
    assert boots_needed(boots) == needed


@given(share=st.floats(0.01, 0.99), boots=st.integers(4, 12))
def test_what_is_equally_likely_in_all_boots_rarely_seems_new(share: float, boots: int) -> None:
    needed = boots_needed(boots)
    have = sum(comb(boots, k) * share**k * (1 - share) ** (boots - k) for k in range(needed, boots + 1))
    assert have * (1 - share) ** boots < 1 / 199


@pytest.mark.parametrize(
    ("seeds", "boots", "reason"),
    [
        (2, 1, "the baseline has none, measure four boots at least"),
        (3, 3, "the baseline has none, measure four boots at least"),
        (7, 1, "1 of 7 boots have a section there, and 5 must, as the baseline has none"),
        (12, 5, "5 of 12 boots have a section there, and 6 must, as the baseline has none"),
    ],
)
def test_a_new_section_of_too_few_boots_is_no_pass(seeds: int, boots: int, reason: str) -> None:
    """That it is there is a fact; that the change made it may be chance."""
    (said,) = found(replace(SITE, baseline=0, candidate=2000, boots=boots), seeds=seeds)
    assert (said.status, said.kind, said.measurement) == (Status.DONE, Kind.INCONCLUSIVE, MEASUREMENT)
    assert said.sentence == (
        "interrupts off for 2,000 instructions (16.0 virtual us) more by run_timer_softirq (changed) in "
        f"run_timer_softirq, which may be chance: {reason}"
    )
    (said,) = found(replace(SITE, baseline=0, candidate=GAINED - 1, boots=boots), seeds=seeds)
    assert said.status is Status.PASS


def test_a_kernel_that_was_followed_alone_is_compared_with_nothing() -> None:
    seen = SectionComparison(
        baseline_image="",
        candidate_image="b",
        seeds=(1,),
        boots_digest="",
        instruction_ns=8,
        cpus=1,
        candidate_bound=BOUND,
    )
    subject = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=[record()], sections=seen)
    assert list(section_findings([subject], PLACEBOS)) == []
