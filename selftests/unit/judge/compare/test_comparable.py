# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from selftests.unit.judge.conftest import asking, evidence, record

from rtgate.board.boot import TimeBase
from rtgate.judge.compare.comparable import configuration_effects, differences
from rtgate.records.record import Record


def arm(name: str, seeds: int = 4, **changes: object) -> list[Record]:
    made = [replace(record(arm=name, seed=seed), machine={"plan": f"script {seed}"}) for seed in range(1, seeds + 1)]
    return [replace(one, **changes) for one in made]  # type: ignore[arg-type]


def environment(**changes: Any) -> list[Record]:
    return [replace(one, environment=replace(one.environment, **changes)) for one in arm("candidate")]


def test_two_kernels_may_differ_in_everything_that_is_a_kernel_s() -> None:
    other = environment(
        kernel_release="6.13.0", kernel_version="#2", config_sha256="d" * 64, flavour="generic", mitigations="none"
    )
    assert differences(arm("baseline"), other) == ()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ("board", "board"),
        ("device", "device"),
        ("cpu_model", "cpu_model"),
        ("emulator", "emulator"),
        ("rootfs", "rootfs"),
        ("tuning", "tuning"),
        ("command_line", "command_line"),
    ],
)
def test_anything_else_forbids_it_by_name(changed: str, named: str) -> None:
    (sentence,) = differences(arm("baseline"), environment(**{changed: "another"}))
    assert sentence.startswith(f"{named}: ")
    assert "another" in sentence


def test_one_boot_among_many_is_enough() -> None:
    mixed = [*arm("candidate")[:3], environment(rootfs="another")[3]]
    assert len(differences(arm("baseline"), mixed)) == 1


def test_another_command_load_or_profile() -> None:
    assert differences(arm("baseline"), arm("candidate", argv=("cyclictest", "--duration=60")))[0].startswith("command")
    assert differences(arm("baseline"), arm("candidate", profile="nightly"))[0].startswith("profile")


def test_other_seeds() -> None:
    assert differences(arm("baseline", 4), arm("candidate", 6)) == ("seeds: '1-4' against '1-6'",)


def test_another_plan() -> None:
    other = [replace(one, machine={"plan": "another"}) if one.seed in {2, 3} else one for one in arm("candidate")]
    assert differences(arm("baseline"), other) == ("plan: seeds 2-3 did not run the same script",)


def test_a_boot_that_died_had_its_seed() -> None:
    dead = [*arm("candidate")[:3], replace(record(arm="candidate", seed=4, state="hang"), machine={"plan": "script 4"})]
    assert differences(arm("baseline"), dead) == ()


def test_nothing_is_different_from_nothing() -> None:
    assert differences([], arm("candidate")) == ()


def test_another_length_or_another_number_of_load_processes() -> None:
    longer = [asking(one, duration_s=60.0) for one in arm("candidate")]
    assert differences(arm("baseline"), longer) == ("seconds to measure: '2.0' against '60.0'",)
    crowded = [evidence(one, load_processes=51) for one in arm("candidate")]
    assert differences(arm("baseline"), crowded) == ("processes of the load: '1' against '51'",)


@pytest.mark.parametrize("whose", ["baseline", "candidate", "both"])
def test_on_virtual_time_a_plan_that_nobody_knows_is_not_equal(whose: str) -> None:
    arms = {name: arm(name, machine={}) if whose in {name, "both"} else arm(name) for name in ("baseline", "candidate")}
    assert differences(arms["baseline"], arms["candidate"]) == ("plan: nobody knows that of seeds 1-4",)


@pytest.mark.parametrize("whose", ["baseline", "candidate"])
def test_on_virtual_time_one_unknown_seed_is_not_equal(whose: str) -> None:
    arms = {name: arm(name) for name in ("baseline", "candidate")}
    arms[whose][0] = replace(arms[whose][0], seed=None)
    assert differences(arms["baseline"], arms["candidate"]) == ("seeds: nobody knows those of all boots",)


def test_a_boot_that_never_came_to_its_plan_had_its_seed() -> None:
    dead = [*arm("candidate")[:3], replace(record(arm="candidate", seed=4, state="lab"), machine={})]
    assert differences(arm("baseline"), dead) == ()


def on_a_clock(name: str, *plans: str) -> list[Record]:
    """Return boots of a board on a clock, which have no seeds, one for each plan; empty where nobody knows it."""
    return [
        replace(one, seed=None, machine={"plan": plan}, environment=replace(one.environment, time=TimeBase.REAL))
        for one, plan in zip(arm(name, len(plans)), plans, strict=True)
    ]


def test_on_a_clock_plans_are_looked_at_where_there_are_any() -> None:
    base = on_a_clock("baseline", "a", "a")
    assert differences(base, on_a_clock("candidate", "a", "a")) == ()
    assert differences(on_a_clock("baseline", "", ""), on_a_clock("candidate", "", "")) == ()
    assert differences(base, on_a_clock("candidate", "b", "b")) == ("plan: 'a' against 'b'",)
    assert differences(base, on_a_clock("candidate", "a", "")) == ("plan: 'a' against 'a, unknown'",)


CONFIGURED = ("clocksource", "rt_runtime_us", "isolated", "nohz_full", "governors", "idle_states")


@pytest.mark.parametrize("name", CONFIGURED)
def test_what_a_configuration_decides_is_compared_and_reported(name: str) -> None:
    base, other = arm("baseline"), environment(**{name: "another", "config_sha256": "d" * 64})
    assert differences(base, other) == ()
    (sentence,) = configuration_effects(base, other)
    assert sentence.startswith(f"{name}: ")
    assert sentence.endswith("against 'another'")
    # With one configuration it is the lab's, also where candidates differ among themselves.
    assert len(differences(base, environment(**{name: "another"}))) == 1
    assert configuration_effects(base, environment(**{name: "another"})) == ()
    mixed = [*environment(config_sha256="d" * 64)[:3], other[3]]
    assert len(differences(base, mixed)) == 1


def test_what_another_compiler_makes_is_compared_and_reported() -> None:
    gcc, clang, unknown = (compiled_by(compiler) for compiler in ("aarch64-linux-gnu-gcc 12", "clang 14", ""))
    assert differences(gcc, clang) == ()
    assert configuration_effects(gcc, clang) == ("compiler: 'aarch64-linux-gnu-gcc 12' against 'clang 14'",)
    assert configuration_effects(gcc, gcc) == configuration_effects(gcc, unknown) == ()
    # A boot of an older image does not say it.
    assert configuration_effects(gcc, [*unknown[:1], *clang[1:]]) == configuration_effects(gcc, clang)
    assert configuration_effects(gcc, [*gcc[:1], *clang[1:]]) == (
        "compiler: 'aarch64-linux-gnu-gcc 12' against 'aarch64-linux-gnu-gcc 12, clang 14'",
    )


def compiled_by(compiler: str) -> list[Record]:
    return [replace(one, kernel=replace(one.kernel, compiler=compiler)) for one in arm("candidate")]


def test_another_machine_by_name_is_another_board_but_a_kernel_may_not_tell() -> None:
    named = [replace(one, environment=replace(one.environment, model="a board")) for one in arm("baseline")]
    configured = {"config_sha256": "d" * 64}
    assert len(differences(named, environment(model="another", **configured))) == 1
    assert differences(named, environment(model="", **configured)) == ()
    assert len(differences(named, environment(model=""))) == 1


@pytest.mark.parametrize("name", ["board", "device", "tuning", "command_line", "online", "rootfs", "firmware"])
def test_no_configuration_excuses_what_a_lab_sets(name: str) -> None:
    assert len(differences(arm("baseline"), environment(**{name: "another", "config_sha256": "d" * 64}))) == 1
