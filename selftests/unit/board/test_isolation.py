# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm, facts, measured_outcome

from rtgate.board import isolation
from rtgate.board.boot import TimeBase
from rtgate.board.tuning import Tuning, Write
from rtgate.measure import observations
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.records.record import Chunk, Record
from rtgate.tools.cyclictest import Cyclictest
from rtgate.validity import isolation as isolation_check
from rtgate.validity import registry
from rtgate.validity.check import Check, CheckResult, Invalidates, PlanInputs
from rtgate.validity.registry import checks

CASE = Case(suite="latency", tool=Cyclictest(), load="hackbench")
DATA = Path(__file__).parents[2] / "data" / "isolation"
IRQS = "/proc/irq/*/smp_affinity_list"
HEADING = "           CPU0       CPU1       CPU3\n"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", {0}),
        ("0,2-3", {0, 2, 3}),
        ("2-N", {2, 3}),
        ("N", {3}),
        ("all", {0, 1, 2, 3}),
        ("0-3:1/2", {0, 2}),
        ("0-3:2/4", {0, 1}),
        ("5", {5}),
        ("", None),
        ("3-1", None),
        ("0-3:2/0", None),
        ("one", None),
        ("1,", None),
    ],
)
def test_lists_of_cpus_as_kernel_arguments_have_them(text: str, cpus: set[int] | None) -> None:
    assert isolation.parse_cpus(text, 4) == cpus


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("quiet", {}),
        ("isolcpus=3 nohz_full=3", {"isolated": "3", "nohz_full": "3"}),
        ("isolcpus=2,3", {"isolated": "2,3"}),
        ("isolcpus=domain,managed_irq,2-3", {"isolated": "2-3"}),
        ("isolcpus=nohz,domain,1-N", {"isolated": "1-N", "nohz_full": "1-N"}),
        ("isolcpus=nohz,1", {"nohz_full": "1"}),
        ("isolcpus=managed_irq,1", {}),
        ("isolcpus=all", {"isolated": "all"}),
        ("rcu_nocbs=1-3 nohz_full=2", {"nohz_full": "2", "rcu_nocbs": "1-3"}),
        ("rcu_nocbs", {}),
        ("irqaffinity=0", {}),
    ],
)
def test_what_arguments_ask_for(words: str, asked: dict[str, str]) -> None:
    assert isolation.requested_lists(words) == asked


@pytest.mark.parametrize(
    ("words", "isolated", "nohz_full", "problem"),
    [
        ("isolcpus=3 nohz_full=3", "3", "3", ""),
        ("isolcpus=3", "2-3", "", ""),
        ("isolcpus=2-3", "3", "", "CPUs 2-3 should be isolated, and the kernel says 3"),
        ("isolcpus=3", "", "", "CPUs 3 should be isolated, and the kernel says none"),
        # Without CONFIG_NO_HZ_FULL there is no such file; without the argument some kernels say `(null)`.
        ("isolcpus=3 nohz_full=3", "3", "", "CPUs 3 should be nohz_full, and the kernel says none"),
        ("nohz_full=3", "", "(null)", "CPUs 3 should be nohz_full, and the kernel says (null)"),
        ("isolcpus=three", "3", "", "the CPUs 'three' (isolated) are not understood"),
    ],
)
def test_arguments_that_the_kernel_did_not_follow(words: str, isolated: str, nohz_full: str, problem: str) -> None:
    found = isolation.ignored_arguments(words, {"isolated": isolated, "nohz_full": nohz_full}, 4)
    assert len(found) == bool(problem)
    assert all(one.startswith(problem) for one in found)


def test_what_the_kernel_does_not_tell_is_not_judged_here() -> None:
    assert isolation.ignored_arguments("rcu_nocbs=1", {"isolated": "", "nohz_full": ""}, 2) == []
    found = isolation.ignored_arguments("rcu_nocbs=1", {"isolated": "", "nohz_full": "", "rcu_nocbs": ""}, 2)
    assert found == ["CPUs 1 should be rcu_nocbs, and the kernel says none"]
    assert isolation.ignored_arguments("rcu_nocbs=1", {"isolated": "", "nohz_full": "", "rcu_nocbs": "0-1"}, 2) == []


@pytest.mark.parametrize(
    ("log", "cpus"),
    [
        ("[    0.000000] rcu: \tOffload RCU callbacks from CPUs: 1.\n", "1"),
        ("x\n[    0.000000] rcu: \tOffload RCU callbacks from CPUs: 1-3,5.\ny\n", "1-3,5"),
        ("[    0.000000] rcu: \tOffload RCU callbacks from CPUs: (none).\n", ""),
        ("[    0.000000] rcu: Hierarchical RCU implementation.\n", ""),
        ("", ""),
    ],
)
def test_the_log_tells_which_cpus_are_rid_of_rcu_callbacks(log: str, cpus: str) -> None:
    assert isolation.offloaded_cpus(log) == cpus


WITHOUT = {"CPU_ISOLATION": "n", "NO_HZ_FULL": "n", "SMP": "y"}
ALL = {"CPU_ISOLATION": "y", "NO_HZ_FULL": "y", "RCU_NOCB_CPU": "y", "SMP": "y"}


@pytest.mark.parametrize(
    ("words", "configuration", "lacking"),
    [
        ("isolcpus=1 nohz_full=1 rcu_nocbs=1 irqaffinity=0", ALL, []),
        ("nokaslr", WITHOUT, []),
        (
            "isolcpus=1 nohz_full=1 rcu_nocbs=1 irqaffinity=0",
            WITHOUT,
            [
                "CONFIG_CPU_ISOLATION, which isolcpus needs",
                "CONFIG_NO_HZ_FULL, which nohz_full needs",
                "CONFIG_RCU_NOCB_CPU, which rcu_nocbs needs",
            ],
        ),
        ("isolcpus=domain,1", ALL | {"NO_HZ_FULL": "n"}, []),
        ("isolcpus=nohz,1", ALL | {"NO_HZ_FULL": "n"}, ["CONFIG_NO_HZ_FULL, which isolcpus=nohz needs"]),
        ("irqaffinity=0", {}, ["CONFIG_SMP, which irqaffinity needs"]),
    ],
)
def test_options_that_kernel_arguments_need(words: str, configuration: dict[str, str], lacking: list[str]) -> None:
    assert isolation.lacking(words, configuration) == lacking


@pytest.mark.parametrize(
    ("words", "moved", "cpus"),
    [
        ("isolcpus=1", "", ""),
        ("isolcpus=1", "0", "0"),
        ("irqaffinity=0", "", "0"),
        ("irqaffinity=0-1", "", "0-1"),
        ("irqaffinity=all", "", "all"),
        ("irqaffinity=2-3", "", "0,2-3"),  # the kernel adds the CPU that it boots on
        ("irqaffinity=10", "", "0,10"),
        ("irqaffinity=2-3", "1", "1"),  # moved later
    ],
)
def test_where_interrupts_may_come(words: str, moved: str, cpus: str) -> None:
    assert isolation.interrupts(words, moved) == cpus


@pytest.mark.parametrize(
    ("wanted", "mask", "problem"),
    [
        ("0", "1", ""),
        ("0,2-3", "d", ""),
        ("0", "00000000,00000001", ""),
        ("all", "f", ""),
        ("all", "ff", ""),  # of CPUs that are not there nothing is said
        ("0", "f", "interrupts should be on CPUs 0 by default, and the kernel's mask is f"),
        ("0-1", "1", "interrupts should be on CPUs 0-1 by default, and the kernel's mask is 1"),
        ("0", "", "interrupts should be on CPUs 0 by default, and the kernel's mask is not told"),
        ("0", "one", "interrupts should be on CPUs 0 by default, and the kernel's mask is one"),
        ("first", "1", "the CPUs 'first' (irqaffinity) are not understood, so nobody can tell whether they took"),
    ],
)
def test_the_default_affinity_of_interrupts(wanted: str, mask: str, problem: str) -> None:
    assert isolation.not_default(wanted, 4, mask) == problem


@given(st.text(), st.text(), st.text())
def test_whatever_stands_on_a_command_line_or_in_a_mask(words: str, moved: str, mask: str) -> None:
    wanted = isolation.interrupts(words, moved)
    assert isinstance(isolation.not_default(wanted, 4, mask), str)
    assert isolation.lacking(words, ALL) == []
    assert isolation.offloaded_cpus(words) == "" or "Offload RCU" in words


def _around(before: str, after: str, **effective: tuple[str, str]) -> dict[str, tuple[str, str]]:
    places = {
        f"/proc/irq/{name.removeprefix('irq')}/effective_affinity_list": values for name, values in effective.items()
    }
    return {isolation.INTERRUPTS: (HEADING + before, HEADING + after), **places}


BEFORE = " 42:    10    0    7   GICv3 133 Level     eth0\n 11:   5    5    5     GICv3  27 Level     arch_timer\n"
AFTER = " 42:    90    0    9   GICv3 133 Level     eth0\n 11:   9    9    9     GICv3  27 Level     arch_timer\n"


@pytest.mark.parametrize(
    ("effective", "sentence"),
    [
        # It came on the third CPU that is online, whose number is 3.
        (("3", "3"), "interrupt 42 (eth0) should be on CPUs 0-1 and came 2 times on CPU 3"),
        (("0", "3"), "interrupt 42 (eth0) should be on CPUs 0-1 and came 2 times on CPU 3"),
        (("3", "0"), "interrupt 42 (eth0) should be on CPUs 0-1 and came 2 times on CPU 3"),
        (("0", "0"), ""),
        (("", ""), ""),
    ],
)
def test_an_interrupt_that_came_where_it_should_not(effective: tuple[str, str], sentence: str) -> None:
    found = isolation.astray("0-1", 4, _around(BEFORE, AFTER, irq42=effective, irq11=("", "")))
    assert found == ([sentence] if sentence else [])


def test_an_interrupt_that_is_elsewhere_and_silent_does_no_harm() -> None:
    """x86 moves an interrupt when it comes the next time; a disk's queue of each CPU cannot be moved at all."""
    assert isolation.astray("0-1", 4, _around(BEFORE, BEFORE, irq42=("3", "3"))) == []


def test_an_interrupt_that_is_new_counts_from_nothing() -> None:
    assert isolation.astray("0-1", 4, _around("", AFTER, irq42=("", "3"))) == [
        "interrupt 42 (eth0) should be on CPUs 0-1 and came 9 times on CPU 3"
    ]


def test_of_many_interrupts_some_are_named() -> None:
    rows = "".join(f" {number}: 0 0 1 chip {number} Edge      dev{number}\n" for number in range(9))
    effective = {f"irq{number}": ("3", "3") for number in range(9)}
    found = isolation.astray("0-1", 4, _around("", rows, **effective))
    assert (len(found), found[-1]) == (5, "and 5 more")


@given(st.text(), st.text(), st.text())
def test_whatever_is_read_of_interrupts(before: str, after: str, effective: str) -> None:
    state = {isolation.INTERRUPTS: (before, after), "/proc/irq/1/effective_affinity_list": (effective, effective)}
    assert len(isolation.astray("0", 2, state)) <= 5


def _captured(name: str) -> dict[str, tuple[str, str]]:
    files = {f"facts.{when}": (DATA / f"{name}.facts.{when}").read_bytes() for when in ("start", "end")}
    return registry.readings(observations.around(files))


@pytest.mark.parametrize("name", ["virt-x86_64-smp2", "virt-arm64-smp2"])
def test_a_real_board_whose_interrupts_moved(name: str) -> None:
    """Their second CPU is the tool's; timers came there, and on x86 the effective affinity of a silent one is stale."""
    found = _captured(name)
    assert isolation.astray("0", 2, found) == []
    # The line of the console came on the first CPU.
    (problem,) = isolation.astray("1", 2, found | _more(found))
    assert problem.endswith("should be on CPUs 1 and came 3 times on CPU 0")


def _more(found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the counts of interrupts with three more of the console's."""
    before, after = found[isolation.INTERRUPTS]
    count = {"3354", "351"} & set(after.split())
    (word,) = count
    return {isolation.INTERRUPTS: (before, after.replace(word, str(int(word) + 3)))}


def test_a_real_kernel_that_followed_its_arguments() -> None:
    files = {name: (DATA / f"debian-x86_64-smp2.{name}").read_bytes() for name in ("facts", "dmesg")}
    told = observations.facts(files, "facts")
    has = {name: told[f"{observations.CPU}/{name}"] for name in ("isolated", "nohz_full")}
    assert has | {"rcu_nocbs": isolation_check.rcu_nocbs(files, "rcu_nocbs=1")} == dict.fromkeys(
        ("isolated", "nohz_full", "rcu_nocbs"), "1"
    )
    found = _captured("debian-x86_64-smp2")
    # The console's line still belongs to the second CPU: it has been silent since it was moved.
    assert found["/proc/irq/4/effective_affinity_list"] == ("1", "1")
    assert isolation.astray("0", 2, found) == []


TUNED = Tuning(
    name="isolated",
    description="",
    command_line="isolcpus=1",
    writes=(Write(path=IRQS, value="0", reads="."),),
)


def _arm(time: str, **changes: bytes | None) -> Arm:
    made = arm(FakeTarget({None: measured_outcome(**changes)}), time=time)
    return replace(made, tuning=TUNED, board=replace(made.board, cpus=2))


def _check(record: Record) -> Check:
    (found,) = (check for check in checks(record, {}) if check.name == "isolation")
    return found


def _isolated(time: str, isolated: bytes, *, interrupts: bool = True) -> Record:
    rows = {isolation.INTERRUPTS: b"  CPU0 CPU1\n 4: 9 0 IO-APIC 4-edge ttyS0\n"} if interrupts else {}
    changes: dict[str, bytes | None] = {
        "facts": facts("facts", {f"{observations.CPU}/isolated": isolated}),
        **{f"facts.{when}": facts(f"facts.{when}", rows) for when in ("start", "end")},
    }
    return measure(CASE, _arm(time, **changes), 1)[0]


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_a_tuning_that_took(time: str) -> None:
    found = _check(_isolated(time, b"1\n"))
    assert (found.result, found.sentence) == (CheckResult.OK, "isolated 1, no interrupt came elsewhere than on 0")


def test_a_tuning_that_did_not_take_is_invalid() -> None:
    found = _check(_isolated("virtual", b"\n", interrupts=False))
    assert (found.result, found.invalidates) == (CheckResult.FAILED, Invalidates.FIGURES)
    assert found.sentence == "CPUs 1 should be isolated, and the kernel says none"


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_interrupts_that_nobody_looked_at_prove_nothing(time: str) -> None:
    found = _check(_isolated(time, b"1\n", interrupts=False))
    assert (found.result, found.invalidates) == (CheckResult.FAILED, Invalidates.GOOD_NEWS)
    assert found.sentence == "where interrupts came was not read before and after"


BOOTED = replace(TUNED, command_line="isolcpus=1 rcu_nocbs=1 irqaffinity=0", writes=())
OFFLOADED = b"[0] Linux version 6.12\n[0] rcu: \tOffload RCU callbacks from CPUs: 1.\n"


def _booted(log: bytes = OFFLOADED, mask: bytes | None = b"1\n") -> Record:
    rows = {isolation.INTERRUPTS: b"  CPU0 CPU1\n 4: 9 0 IO-APIC 4-edge ttyS0\n"}
    rows |= {} if mask is None else {isolation.DEFAULT_AFFINITY: mask}
    changes: dict[str, bytes | None] = {
        "facts": facts("facts", {f"{observations.CPU}/isolated": b"1\n"}),
        **{f"facts.{when}": facts(f"facts.{when}", rows) for when in ("start", "end")},
        "dmesg": log,
    }
    return measure(CASE, replace(_arm("virtual", **changes), tuning=BOOTED), 1)[0]


def test_kernel_arguments_alone_are_read_back() -> None:
    found = _check(_booted())
    assert (found.result, found.sentence) == (
        CheckResult.OK,
        "isolated 1, rcu_nocbs 1, no interrupt came elsewhere than on 0",
    )


def test_kernel_arguments_that_did_not_take_are_invalid() -> None:
    found = _check(_booted(log=OFFLOADED.replace(b"CPUs: 1", b"CPUs: (none)"), mask=b"3\n"))
    assert (found.result, found.invalidates) == (CheckResult.FAILED, Invalidates.FIGURES)
    assert found.sentence == (
        "CPUs 1 should be rcu_nocbs, and the kernel says none; "
        "interrupts should be on CPUs 0 by default, and the kernel's mask is 3"
    )
    assert _check(_booted(mask=None)).result is CheckResult.FAILED


def test_a_log_without_its_beginning_does_not_tell_of_rcu_callbacks() -> None:
    found = _check(_booted(log=b"[9] late\n"))
    assert (found.result, found.invalidates) == (CheckResult.FAILED, Invalidates.GOOD_NEWS)
    assert found.sentence == "whether rcu_nocbs took was not read: the kernel's log has lost its beginning"
    record = _booted(log=b"[9] late\n")
    # Of a soak's chunks the first one has the log of the boot; on an attached board that had lost its beginning before.
    first = replace(record, chunk=Chunk(soak="one", number=1), evidence=replace(record.evidence, log="some"))
    assert _check(first).result is CheckResult.FAILED
    later = replace(record, chunk=Chunk(soak="one", number=2), evidence=replace(record.evidence, log="new"))
    assert _check(later).result is CheckResult.OK


def test_without_a_tuning_there_is_nothing_to_take() -> None:
    found = _check(measure(CASE, arm(FakeTarget(), time="real"), 1)[0])
    assert (found.result, found.sentence) == (CheckResult.OK, "the tuning isolates nothing")


def _files(time: TimeBase, tuning: Tuning) -> tuple[str, ...]:
    return registry.files(PlanInputs(time=time, tuning=tuning))


def test_interrupts_are_read_only_where_they_are_moved() -> None:
    assert set(isolation.WATCHED) <= set(_files(TimeBase.REAL, TUNED))
    assert not set(isolation.WATCHED) & set(_files(TimeBase.REAL, replace(TUNED, writes=())))
    # On virtual time every read moves what is measured: nothing is read but what the tuning asks for.
    assert _files(TimeBase.VIRTUAL, TUNED) == isolation.WATCHED
    assert _files(TimeBase.VIRTUAL, BOOTED) == (*isolation.WATCHED, isolation.DEFAULT_AFFINITY)
    assert _files(TimeBase.VIRTUAL, replace(TUNED, writes=())) == ()
