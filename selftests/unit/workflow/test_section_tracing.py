# SPDX-License-Identifier: MIT
"""Which cases of a comparison have their critical sections compared, and what is written of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selftests.unit.judge.conftest import BOUND, record

from rtgate.board.boards import board
from rtgate.board.boot import State
from rtgate.board.tuning import Tuning
from rtgate.errors import ChangedError, ConfigError, InfrastructureError, ParseError
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot
from rtgate.judge.verdict import Kind as VerdictKind
from rtgate.judge.verdict import Status, Verdict
from rtgate.records import longer_sections
from rtgate.records import record as records_file
from rtgate.records.bound import Delay
from rtgate.records.longer_sections import SectionComparison
from rtgate.records.record import Record
from rtgate.report import notices
from rtgate.workflow import section_tracing

BOUNDS = {
    arm: replace(BOUND, postponed=Delay(longest, "f")) for arm, longest in (("baseline", 2600), ("candidate", 4000))
}
IDLE, OTHER = "latency/cyclictest:idle", "scheduling/pip_stress:idle"


def section(
    name: str, longest: int, seed: int, calls: Mapping[str, int] | None = None, kind: Kind = Kind.PREEMPTIRQSOFF
) -> Section:
    site = Site(kind, Context.SOFTIRQ, Spot(name), Spot(name))
    altered = tuple(Call(function, length, seed) for function, length in (calls or {}).items())
    return Section(site, 4, 4 * longest, longest, seed, 7, 7 + longest, (), altered, (seed,))


class Boots:
    """Kernels whose sections are known, by arm and seed."""

    def __init__(self, found: Mapping[str, Mapping[int, tuple[Section, ...]]]) -> None:
        self.found = found
        self.seeds = tuple(found["candidate"])
        self.arms = {"candidate": SimpleNamespace(board=SimpleNamespace(qemu=SimpleNamespace(shift=3)))}
        self.altered = frozenset({"f", "called"})

    def follow(self) -> Any:
        return {
            arm: {seed: BootSections(own, BOUNDS[arm]) for seed, own in boots.items()}
            for arm, boots in self.found.items()
        }


def verdict(case: str, arm: str = "candidate") -> Verdict:
    return Verdict(
        status=Status.PASS,
        kind=VerdictKind.LIMIT,
        sentence="",
        board="virt-arm64",
        arm=arm,
        flavour="preempt_rt",
        case=case,
    )


def stored(arm: str, *seeds: int, image: str = "") -> list[Record]:
    one = record(arm=arm)
    kernel = replace(one.kernel, image_sha256=image or arm)
    return [replace(one, seed=seed, kernel=kernel) for seed in seeds]


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> Boots:
    before = {seed: (section("f", 100, seed), section("h", 50, seed)) for seed in (1, 2)}
    after = {1: (section("f", 100, 1), section("h", 60, 1)), 2: (section("f", 7100, 2), section("new", 900, 2))}
    made = Boots({"baseline": before, "candidate": after})
    monkeypatch.setattr(section_tracing, "_section_boots", lambda *_: made)

    def records_to_explain(directory: Path) -> list[Record]:
        arm = directory.parent.name
        return stored(arm, *made.found[arm], *((99,) if arm == "baseline" else ()))

    monkeypatch.setattr(section_tracing, "records_to_explain", records_to_explain)
    return made


def compared(path: Path, *verdicts: Verdict) -> SectionComparison | None:
    place = path / "virt-arm64" / "candidate" / IDLE.replace("/", ".")
    place.mkdir(parents=True, exist_ok=True)
    found = section_tracing.follow_sections(("virt-arm64",), {"candidate": path, "baseline": path}, path, verdicts)
    seen = longer_sections.read(place)
    assert found is (seen is not None)
    return seen


def told(path: Path) -> list[tuple[str, int, int, str]]:
    seen = compared(path, verdict(IDLE))
    assert seen is not None
    return [(one.place, one.growth, one.gained, one.function or one.begin) for one in seen.longer]


def test_what_grew_is_written_beside_the_candidates_boots(boots: Boots, tmp_path: Path) -> None:
    seen = compared(tmp_path, verdict(IDLE), verdict(IDLE), verdict(OTHER), verdict(IDLE, "baseline"))
    assert seen is not None
    assert (seen.baseline_image, seen.candidate_image, seen.seeds) == ("baseline", "candidate", (1, 2))
    assert (seen.sites, seen.reached, seen.instruction_ns) == (3, 1, 8)
    assert (seen.baseline_bound, seen.candidate_bound) == (BOUNDS["baseline"], BOUNDS["candidate"])
    assert told(tmp_path) == [("f", 7000, 7000, "f"), ("new", 900, 0, "")]
    assert [(one.count, one.boots) for one in seen.longer] == [(8, 2), (4, 1)]


def test_it_is_about_these_boots_of_these_kernels_alone(boots: Boots, tmp_path: Path) -> None:
    """Boots that were measured again with another profile are others: what was found says nothing of them."""
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    mine, theirs = stored("candidate", 1, 2), stored("baseline", 1, 2)
    assert seen.matches(mine, [*mine, *theirs])
    assert seen.matches([*mine, *stored("candidate", 3)], [*mine, *theirs])  # judged as one that nobody followed
    assert not seen.matches(mine, mine)
    assert not seen.matches(mine[:1], [*mine, *theirs])
    otherwise = [mine[0], replace(mine[1], argv=("cyclictest", "-D60"))]
    assert not seen.matches(otherwise, [*mine, *theirs])
    measured = [mine[0], replace(mine[1], measurements=mine[1].measurements[:-1])]
    assert not seen.matches(measured, [*mine, *theirs])


def test_who_waits_is_told_which_boot_is_followed(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(_stored: object, _kernels: object, tell: Callable[[str], None]) -> Boots:
        def follow() -> Any:
            for boot in ("candidate, seed 1", "baseline, seed 1", "candidate, seed 2"):
                tell(boot)
            time.sleep(0.5)
            return Boots.follow(boots)

        monkeypatch.setattr(boots, "follow", follow)
        return boots

    monkeypatch.setattr(section_tracing, "_section_boots", prepare)
    monkeypatch.setattr(notices, "SILENCE_S", 0.1)
    compared(tmp_path, verdict(IDLE))
    assert f"{IDLE}: following the sections of boot 3 of 4" in capsys.readouterr().err


def test_the_longest_sections_of_both_kernels_are_kept_by_function(boots: Boots, tmp_path: Path) -> None:
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    kept = [(one.off, one.function, one.instructions, one.seed) for one in seen.candidate_longest]
    assert kept == [("preemptirqsoff", "f", 7100, 2), ("preemptirqsoff", "new", 900, 2), ("preemptirqsoff", "h", 60, 1)]
    assert [(one.function, one.instructions) for one in seen.baseline_longest] == [("f", 100), ("h", 50)]


def test_one_kernel_has_a_bound_and_nothing_that_grew(boots: Boots, tmp_path: Path) -> None:
    boots.found = {"candidate": boots.found["candidate"]}
    place = tmp_path / "virt-arm64" / "candidate" / IDLE.replace("/", ".")
    place.mkdir(parents=True)
    assert section_tracing.follow_sections(("virt-arm64",), {"candidate": tmp_path}, tmp_path, (verdict(IDLE),))
    seen = longer_sections.read(place)
    assert seen is not None
    assert (seen.images, seen.compared, seen.sites) == ({"candidate"}, False, 3)
    assert (seen.longer, seen.baseline_bound, seen.candidate_bound) == ((), None, BOUNDS["candidate"])


def test_calls_of_altered_functions_are_compared_within_a_context(boots: Boots, tmp_path: Path) -> None:
    """The longest tick is as long as before: a usual one in which the changed function was slow hides below it."""
    before = (section("tick", 6000, 1, {"called": 900}), section("other", 500, 1, {"called": 1000}))
    boots.found = {"baseline": {1: before}, "candidate": {1: (section("tick", 6000, 1, {"called": 4000}),)}}
    assert told(tmp_path) == [("tick", 0, 3000, "called")]


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_boots_without_any_section_were_not_followed(boots: Boots, tmp_path: Path, arm: str) -> None:
    boots.found = {**boots.found, arm: {1: ()}}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert seen.why_not == f"no critical section was seen in any boot of the {arm}: the plugin followed no CPU"


@pytest.mark.parametrize(
    ("before", "after", "gained", "function"),
    [
        # A short one that became longer does not hide below a long one.
        ({"called": 3000, "f": 50}, {"called": 3000, "f": 1500}, 1450, "f"),
        # Of two that became longer, the one that the other calls.
        ({"called": 3000, "f": 50}, {"called": 4440, "f": 1500}, 1450, "f"),
        ({"called": 3000, "f": 200}, {"called": 6040, "f": 3210}, 3010, "f"),
        # What is judged is what grew most: where the inner one has too little of it, it is not named.
        ({"called": 3000, "f": 50}, {"called": 3480, "f": 435}, 480, "called"),
        # One that the baseline did not call there counts as long as any other.
        ({"called": 3000}, {"called": 3000, "f": 3500}, 500, "f"),
    ],
)
def test_calls_are_compared_by_function(
    boots: Boots, tmp_path: Path, before: dict[str, int], after: dict[str, int], gained: int, function: str
) -> None:
    boots.found = {
        "baseline": {1: (section("tick", 6000, 1, before),)},
        "candidate": {1: (section("tick", 6000, 1, after),)},
    }
    assert told(tmp_path) == [("tick", 0, gained, function)]


def test_what_boots_of_the_baseline_differ_by_is_kept(boots: Boots, tmp_path: Path) -> None:
    """What gained most beyond that is told, though another function gained more."""
    varies = {seed: (section("f", 100 * seed, seed, {"called": 900 + 500 * seed, "g": 50}),) for seed in (1, 2, 3, 4)}
    boots.found = {"baseline": varies, "candidate": {1: (section("f", 410, 1, {"called": 5500, "g": 550}),)}}
    boots.altered = frozenset({"f", "called", "g"})
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    (one,) = seen.longer
    assert (one.function, one.call, one.call_before, one.call_spread, one.spread) == ("g", 550, 50, 0, 200)
    assert one.growth == 10


def test_a_call_that_the_baseline_has_as_long_elsewhere_is_counted_and_hides_no_other(
    boots: Boots, tmp_path: Path
) -> None:
    seeds = (1, 2, 3, 4)
    boots.altered = frozenset({"f", "g"})
    after = {seed: (section("tick", 9000, seed, {"f": 50, "g": 50}),) for seed in seeds}
    elsewhere = section("elsewhere", 9000, 1, {"f": 2000}, Kind.IRQSOFF)
    boots.found = {
        "baseline": {**after, 1: (*after[1], elsewhere)},
        "candidate": after | {2: (section("tick", 9000, 2, {"f": 2000, "g": 50}),)},
    }
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    (one,) = seen.longer
    assert (one.function, one.call, one.call_elsewhere, one.call_boots) == ("f", 2000, 2000, 1)
    boots.found["candidate"] = after | {2: (section("tick", 9000, 2, {"f": 2000, "g": 600}),)}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    (one,) = seen.longer
    assert (one.function, one.call, one.call_elsewhere, one.call_boots) == ("g", 600, 50, None)


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_tracing, "find_board", lambda name: replace(board(name), cpus=2))


@pytest.mark.usefixtures("two_cpus")
def test_of_several_cpus_a_call_of_enough_boots_is_not_hidden_by_a_longer_one(boots: Boots, tmp_path: Path) -> None:
    seeds = (1, 2, 3, 4)
    after = {seed: {"f": 50, "called": 1500} for seed in seeds} | {4: {"f": 7000, "called": 1500}}
    boots.found = {
        "baseline": {seed: (section("tick", 9000, seed, {"f": 50, "called": 100}),) for seed in seeds},
        "candidate": {seed: (section("tick", 9000, seed, calls),) for seed, calls in after.items()},
    }
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert [(one.function, one.call, one.call_boots) for one in seen.longer] == [("called", 1500, 4)]


@pytest.mark.usefixtures("two_cpus")
def test_boots_with_so_long_a_call_are_counted(boots: Boots, tmp_path: Path) -> None:
    lengths = {1: 449, 2: 450, 3: 50, 4: 7000}
    boots.found = {
        "baseline": {seed: (section("tick", 6000, seed, {"f": 50}),) for seed in lengths},
        "candidate": {
            seed: (
                section("tick", 6000, seed, {"f": length}),
                section("elsewhere", 6000, seed, {"f": 449 + seed // 3}, Kind.IRQSOFF),
            )
            for seed, length in lengths.items()
        },
    }
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert {one.place: (one.call, one.call_boots) for one in seen.longer} == {"tick": (7000, 3), "elsewhere": (450, 3)}


def test_boots_with_so_long_a_section_are_counted(boots: Boots, tmp_path: Path) -> None:
    """The longest of the baseline's boots counts, and so do 2,500 instructions more."""
    lengths = {1: 3499, 2: 3500, 3: 900, 4: 9000}
    boots.found = {
        "baseline": {seed: (section("tick", 1000 - seed // 4, seed, {}),) for seed in lengths},
        "candidate": {seed: (section("tick", length, seed, {}),) for seed, length in lengths.items() if seed != 3},
    }
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert [(one.place, one.candidate, one.longer_boots) for one in seen.longer] == [("tick", 9000, 2)]


def test_boots_with_so_long_a_section_are_counted_whatever_ends_it(boots: Boots, tmp_path: Path) -> None:
    ends = dict(enumerate(("one", "two", "one", "two"), start=1))
    boots.found = {
        "baseline": {seed: (ending(section("tick", 1000, seed), "zero"),) for seed in ends},
        "candidate": {seed: (ending(section("tick", 4500, seed), end),) for seed, end in ends.items()},
    }
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert [one.longer_boots for one in seen.longer] == [4, 4]
    # One that begins alike was as long before, so another end says nothing; and the same site counts by itself.
    longer = (ending(section("tick", 1000, 2), "one"), ending(section("tick", 4400, 2), "zero"))
    boots.found = {**boots.found, "baseline": {**boots.found["baseline"], 2: longer}}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert {one.place: one.longer_boots for one in seen.longer} == {"tick to one": 2, "tick to two": None}


def ending(section: Section, function: str) -> Section:
    return replace(section, site=replace(section.site, end=Spot(function)))


def test_a_call_that_fails_is_not_hidden_by_one_that_does_not(boots: Boots, tmp_path: Path) -> None:
    """350 more are below what counts, and further beyond nothing than 1,500 are beyond three times 400."""
    lengths = (1000, 1000, 1200, 1400)
    varies = {seed: (section("tick", 9000, seed, {"f": 50, "called": length}),) for seed, length in enumerate(lengths)}
    boots.found = {"baseline": varies, "candidate": {1: (section("tick", 9000, 1, {"f": 400, "called": 2900}),)}}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    (one,) = seen.longer
    assert (one.function, one.call - one.call_before, one.call_spread) == ("called", 1500, 400)


@pytest.mark.parametrize("other", [50, 60, 440])
def test_a_call_that_may_be_chance_is_not_hidden_by_one_that_gained_nothing(
    boots: Boots, tmp_path: Path, other: int
) -> None:
    """2,000 more are within three times 1,000; nothing more is nearer to what fails."""
    lengths = (1000, 1000, 2000, 2000)
    varies = {seed: (section("tick", 9000, seed, {"f": 50, "called": length}),) for seed, length in enumerate(lengths)}
    boots.found = {"baseline": varies, "candidate": {1: (section("tick", 9000, 1, {"f": other, "called": 4000}),)}}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    (one,) = seen.longer
    assert (one.function, one.call - one.call_before, one.call_spread) == ("called", 2000, 1000)


def test_a_function_that_the_baseline_called_elsewhere_is_as_long_there(boots: Boots, tmp_path: Path) -> None:
    boots.found = {
        "baseline": {1: (section("tick", 6000, 1), section("other", 5000, 1, {"f": 3000}, Kind.IRQSOFF))},
        "candidate": {1: (section("tick", 6000, 1, {"f": 3050}),)},
    }
    assert told(tmp_path) == []


def test_without_boots_of_both_kernels_the_candidates_are_followed_for_its_limits(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = {"candidate": stored("candidate", 1, 2), "baseline": stored("baseline", 3, 4)}
    monkeypatch.setattr(section_tracing, "records_to_explain", lambda place: records[place.parent.name])
    boots.found = {"candidate": boots.found["candidate"]}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert (seen.seeds, seen.candidate_seeds, seen.candidate_bound) == ((), (1, 2), BOUNDS["candidate"])
    assert seen.why_not == "no seed was measured with both kernels"
    assert seen.matches(records["candidate"], [*records["candidate"], *records["baseline"]])


def test_a_baseline_of_which_no_boot_was_measured_takes_no_limit_away(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dead boots say which kernel it was, so that the comparison is known to be of these two."""
    dead = replace(stored("baseline", 1)[0], state=State.HANG, measurements=())
    records_file.write(dead, {}, b"", tmp_path)

    def records_to_explain(directory: Path) -> list[Record]:
        if directory.parent.name == "baseline":
            raise ConfigError("no record that was measured")
        return stored("candidate", 1, 2)

    monkeypatch.setattr(section_tracing, "records_to_explain", records_to_explain)
    boots.found = {"candidate": boots.found["candidate"]}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert (seen.images, seen.candidate_seeds) == ({"candidate", "baseline"}, (1, 2))


def test_boots_that_only_the_candidate_has_count_for_its_limits_alone(boots: Boots, tmp_path: Path) -> None:
    boots.found = {**boots.found, "baseline": {1: boots.found["baseline"][1]}}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert (seen.seeds, seen.further_seeds) == ((1,), (2,))
    assert {longest.function: longest.instructions for longest in seen.candidate_longest}["f"] == 7100
    assert told(tmp_path) == []  # the section that grew is of seed 2


@pytest.mark.usefixtures("boots")
def test_boots_that_masked_interrupts_by_priority_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    by_priority = Tuning(name="nmi", description="", command_line="irqchip.gicv3_pseudo_nmi=1")
    monkeypatch.setattr(section_tracing, "find_board", lambda name: replace(board(name), tunings={"nmi": by_priority}))
    kernels = {"candidate": tmp_path, "baseline": tmp_path}
    assert not section_tracing.follow_sections(("virt-arm64",), kernels, tmp_path, (verdict(f"{IDLE}+nmi"),))
    assert "idle+nmi are not followed: tuning nmi of virt-arm64 masks interrupts" in capsys.readouterr().err


def test_two_kernels_of_one_image_are_followed_once(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of documentation: the bound is judged all the same."""
    records = {"candidate": stored("candidate", 1, 2), "baseline": stored("baseline", 1, 2, image="candidate")}
    monkeypatch.setattr(section_tracing, "records_to_explain", lambda place: records[place.parent.name])
    boots.found = {"candidate": boots.found["candidate"]}
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert (seen.images, seen.candidate_bound) == ({"candidate"}, BOUNDS["candidate"])


@pytest.mark.parametrize("error", [ParseError, ConfigError, InfrastructureError, ChangedError])
def test_a_case_that_cannot_be_followed_keeps_why(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Its limits are MISS then, now and whenever it is judged again."""

    def fail() -> Any:
        raise error("no QEMU")

    monkeypatch.setattr(boots, "follow", fail)
    seen = compared(tmp_path, verdict(IDLE))
    assert seen is not None
    assert (seen.why_not, seen.seeds, seen.longer) == ("no QEMU", (1, 2), ())


@pytest.mark.parametrize(("case", "followed"), [(IDLE, True), ("signal/signaltest:idle", False)])
def test_of_one_kernel_only_cases_with_a_bound_are_followed(
    boots: Boots, tmp_path: Path, case: str, *, followed: bool
) -> None:
    boots.found = {"candidate": boots.found["candidate"]}
    (tmp_path / "virt-arm64" / "candidate" / case.replace("/", ".")).mkdir(parents=True)
    kernels = {"candidate": tmp_path}
    assert section_tracing.follow_sections(("virt-arm64",), kernels, tmp_path, (verdict(case),)) is followed


def test_nothing_is_booted_where_no_case_can_be_followed(tmp_path: Path) -> None:
    assert compared(tmp_path, verdict(OTHER)) is None
