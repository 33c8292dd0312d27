# SPDX-License-Identifier: MIT
"""What the judging of critical sections says of kernels that were measured once (`bench/sections.py`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from selftests.campaigns import comparisons
from selftests.campaigns.sections import DATA, How, changes, comparison
from selftests.conftest import COUNTS

from rtgate.judge.compare.section_findings import Growth, doubtful_sections, grown_sections
from rtgate.measure.profiles import seeds
from rtgate.records.bound import Bound
from rtgate.records.codec import decode
from rtgate.records.longer_sections import LongerSection, SectionComparison
from rtgate.units import plural

CHANGES = changes()
ROOT = DATA.parents[2]
PAGE = (ROOT / "docs" / "results" / "critical-sections.md").read_text(encoding="utf-8")
MEASURED: dict[str, dict[str, Any]] = json.loads((DATA / "measured.json").read_text())
_INSTRUCTIONS_PER_US = 125
RENAMED = "placebos/renamed-hrtimer-wakeup virt-arm64 latency/cyclictest:idle"
"""Its kernel lacks the function by which wake-ups are found, so nobody can follow it."""
BEFORE_VERDICTS = {
    "planted": ("page-refill", "pipe-write", "work-queue"),
    "harmless": (
        *("mutex-unlock", "page-fault", "real-time-enqueue", "socket-send", "softirq-start", "task-switch", "wake-up"),
    ),
    "two-cpus": ("harmless/wake-up", "planted/ipi", "planted/softirq-start", "planted/wake-up"),
}
"""Gated before the verdict on sections was kept."""
NOT_RUN = ("planted/page-refill", "planted/work-queue")
"""Their delays come too rarely: no load tried ran them (docs/results/critical-sections.md)."""
GATED_AGAIN = tuple(name for name in MEASURED if name.startswith("planted/") and name not in NOT_RUN)
"""Since a call counts as usual that the baseline has as long elsewhere, on one CPU."""
INLINED = {
    "console_emit_next_record": "console_flush_all",
    "do_poll": "do_sys_poll",
    "rcu_do_batch": "rcu_core",
}


def compared(name: str) -> SectionComparison:
    return comparison(MEASURED[name])


def longer(name: str) -> list[Growth]:
    return grown_sections(compared(name))


def names(group: str) -> list[str]:
    return sorted(name for name in MEASURED if name.startswith(f"{group}/"))


FOLLOWED_BUILDS = (comparisons.BUILD, "virt-x86_64-preempt_rt")
ELSEWHERE = ("two-cpus/", "two-cpus-x86-64/", "four-cpus/", "x86-64/", "other-loads/", "devices/")
"""Before names of changes in groups of their own."""
HARMLESS = [name for group in ("", *ELSEWHERE) for name in names(f"{group}harmless")] + names("placebos")
PLANTED = [name for group in ("", *ELSEWHERE) for name in names(f"{group}planted") if name not in NOT_RUN]


def test_what_was_measured_is_what_changes_yaml_says() -> None:
    stored = {
        name: (How.GATED if "samples" in document else How.FOLLOWED, tuple(document["sections"]["seeds"]))
        for name, document in MEASURED.items()
    }
    assert stored == {name: (change.how, seeds(change.seeds)) for name, change in CHANGES.items()}


def test_the_verdict_on_sections_of_each_gate_is_kept_and_is_what_is_judged_now() -> None:
    gated = {name for name, document in MEASURED.items() if "samples" in document}
    kept = {name: document["section_verdict"] for name, document in MEASURED.items() if "section_verdict" in document}
    assert gated - {*kept} == {f"{group}/{name}" for group, changes in BEFORE_VERDICTS.items() for name in changes}
    for name, judged in kept.items():
        assert name in gated
        assert judged["status"] in ({"FAIL"} if longer(name) else {"PASS", "SKIP", "DONE"})
        assert judged["sentence"]


def test_nine_of_ten_planted_delays_fail(record_property: Callable[[str, object], None]) -> None:
    planted = names("planted")
    failed = [name for name in planted if longer(name)]
    followed = sum(not compared(name).why_not for name in HARMLESS)
    counts = f"{len(failed)} of {len(planted)} planted delays fail on virt-arm64"
    record_property(COUNTS, f"{counts}; {followed} comparisons with harmless kernels were followed")
    assert len(failed) >= 0.9 * len(planted)
    assert f"Of {len(planted)} planted delays {len(failed)} fail" in PAGE
    # placebos.yaml has these loads.
    shipped = [name for name in failed if CHANGES[name].case.load in {"idle", "hackbench", "stress-ng"}]
    assert f"judges {len(shipped)} of the {len(failed)}" in PAGE
    assert f"[{len(shipped)} of {len(planted)} rare delays]" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HARMLESS)
def test_no_harmless_change_alarms(name: str) -> None:
    assert longer(name) == []


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_delay_that_does_not_run_is_not_found(name: str) -> None:
    assert longer(name) == []


def test_all_harmless_kernels_of_the_sampling_comparison_were_followed() -> None:
    harmless = {name for name, change in comparisons.changes().items() if change.group == "placebos"}
    followed = {*names("placebos")}
    for place, kernels in comparisons.places().items():
        # Bounds and sections are those of wake-ups; pip_stress is a guarantee. On riscv64 nothing can follow them.
        if comparisons.builds()[place] in FOLLOWED_BUILDS and "pip_stress" not in place[1]:
            assert {f"placebos/{kernel} {' '.join(place)}" for kernel in harmless & {*kernels}} <= followed
    assert [name for name in followed if compared(name).why_not] == [RENAMED]


@pytest.mark.parametrize("name", PLANTED)
def test_no_planted_section_is_found_by_a_number_of_boots_that_nobody_counted(name: str) -> None:
    data = MEASURED[name]["sections"]
    unknown = [one for one in data["longer"] if "boots" not in one]
    decided = replace(compared(name), longer=tuple(decode({**one, "boots": 0}, LongerSection) for one in unknown))
    assert not unknown or grown_sections(decided)


@pytest.mark.parametrize("name", PLANTED)
def test_no_planted_section_is_found_by_what_no_function_that_differs_begins(name: str) -> None:
    seen = compared(name)
    assert grown_sections(replace(seen, longer=tuple(replace(one, longer_boots=0) for one in seen.longer)))


@pytest.mark.parametrize("name", PLANTED)
def test_no_planted_section_is_found_without_knowing_what_boots_differ_by(name: str) -> None:
    for one in MEASURED[name]["sections"]["longer"]:
        assert "spread" in one or not one.get("begin")
        assert "call_spread" in one or not one.get("call")
        assert "call_boots" in one or compared(name).cpus == 1
        assert "call_elsewhere" in one or not one.get("call") or name not in GATED_AGAIN


def bounds_of(name: str) -> list[Bound]:
    return [one for one in (compared(name).baseline_bound, compared(name).candidate_bound) if one]


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_both_kernels_of_one_cpu_have_a_bound_and_no_wake_up_is_longer(name: str) -> None:
    bounds = bounds_of(name)
    assert all(one.holds for one in bounds)
    without = name == RENAMED or compared(name).cpus > 1
    assert len(bounds) == (0 if without else 2)


def test_the_page_says_how_many_have_bounds() -> None:
    several = sum(compared(name).cpus > 1 for name in MEASURED)
    counts = f"{sum(bool(bounds_of(name)) for name in MEASURED)} of {len(MEASURED)} stored comparisons have bounds"
    others = f"{several} are of several CPUs, and one could not be followed"
    assert f"{counts}; {others}" in " ".join(PAGE.split())


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_section_fails_with_its_function_and_its_length(name: str) -> None:
    (patch,) = CHANGES[name].kernel.patches
    text = patch.read_text()
    function = re.findall(r"^@@ .* @@ .*?(\w+)\(", text, re.MULTILINE)[-1]
    (us,) = re.findall(r"udelay\((\d+)\)", text)
    first, planted = longer(name)[0], int(us) * _INSTRUCTIONS_PER_US
    # Where boots of the baseline differ as much, the section is named that the function begins.
    assert (first.function or first.section.begin) == INLINED.get(function, function)
    # It takes the place of a section, or of a call, that was the longest there.
    assert 0.9 * planted < first.after
    assert first.amount < 1.5 * planted


@pytest.mark.parametrize("name", PLANTED)
def test_the_page_says_what_is_judged(name: str) -> None:
    growth = longer(name)[0]
    rows = re.findall(rf"^\| `?{name.rsplit('/', 1)[-1]}`?[ ,].*$", PAGE, re.MULTILINE)
    assert any(f"`{growth.function or growth.section.begin}`, +{growth.amount:,} |" in row for row in rows)


def test_the_page_says_what_samples_say_of_the_planted_delays() -> None:
    said = [MEASURED[name]["samples"] for name in names("planted")]
    done = [" ".join(one["sentences"]) for one in said if one["status"] == "DONE"]
    phrases = ("no worse than the baseline", "that blocks", "not enough boots to decide")
    no_worse, slower, open_ones = (sum(phrase in sentences for sentences in done) for phrase in phrases)
    assert no_worse + slower + open_ones == len(done)
    text = " ".join(PAGE.split())
    assert f"The samples of seven boots find {len(said) - len(done)}**" in text
    of_done = f"Of the {len(done)} DONE {no_worse} say no worse, {slower} slower by less than what fails"
    assert f"{of_done}, and {open_ones} that more boots are needed." in text


def most_growth(*seen: SectionComparison) -> tuple[str, str, str]:
    """Return the most by which a call grew, a section that a changed function begins, and any section, in figures."""
    sections = [section for one in seen for section in one.longer]
    call = max((section.call_gain for section in sections if section.call), default=0)
    begun = max((section.growth for section in sections if section.begin), default=0)
    longest = max(section.growth for section in sections)
    return f"{max(0, call):,}", f"{max(0, begun):,}", f"{max(0, longest):,}"


@pytest.mark.parametrize("name", [name for name in HARMLESS if not name.startswith("placebos")])
def test_the_page_says_what_harmless_counters_do(name: str) -> None:
    seen = compared(name)
    call, begun, longest = most_growth(seen)
    answer = "DONE" if doubtful_sections(seen) else "PASS" if seen.reached else "SKIP, not reached"
    bounds = " -> ".join(f"{one.instructions * seen.instruction_ns / 1000:.1f}" for one in bounds_of(name))
    kernel = name.rsplit("/", 1)[-1]
    rows = re.findall(rf"^\| `?{kernel}`?[ ,].*$", PAGE, re.MULTILINE)
    if seen.cpus == 1:
        assert any(row.endswith(f" | {answer} | {call} | {begun} | {longest} | {bounds} |") for row in rows)
    else:
        has = [
            re.fullmatch(rf".* harmless \| {answer} \| {call} \|[^|]*\| {begun} \| {longest} \|", row) for row in rows
        ]
        assert any(has), (call, begun, longest)


@pytest.mark.parametrize(
    ("place", "row"),
    [
        *((f"virt-arm64 latency/cyclictest:{load}", f"| {load} |") for load in ("idle", "hackbench", "stress-ng")),
        *((f"{board} signal/signaltest:idle", f"| `{board}` |") for board in ("virt-arm64-smp2", "virt-arm64-smp4")),
        ("virt-x86_64-smp2 signal/signaltest:idle", "| `virt-x86_64-smp2` |"),
        *((f"virt-x86_64 latency/cyclictest:{load}", f"| {load} |") for load in ("idle", "hackbench", "stress-ng")),
    ],
)
def test_the_page_says_by_how_much_sections_of_harmless_kernels_grow(place: str, row: str) -> None:
    every = [compared(name) for name in names("placebos") if name.endswith(f" {place}")]
    followed = [one for one in every if not one.why_not]
    chance = sum(bool(doubtful_sections(one)) for one in followed)
    reached = f"{chance} | in {plural(sum(one.reached > 0 for one in followed), 'kernel')}"
    figures = " | ".join(most_growth(*followed))
    rows = [line for line in PAGE.splitlines() if line.startswith(f"{row} {len(every)} | 0 of {len(followed)}")]
    assert [line for line in rows if f"| {reached} | {figures} |" in line], (
        len(every),
        len(followed),
        reached,
        figures,
    )
