# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import record

from rtgate.judge.comparable import differences
from rtgate.record import Record


def arm(name: str, seeds: int = 4, **changes: object) -> list[Record]:
    made = [replace(record(arm=name, seed=seed), machine={"plan": f"script {seed}"}) for seed in range(1, seeds + 1)]
    return [replace(one, **changes) for one in made]  # type: ignore[arg-type]


def environment(**changes: str) -> list[Record]:
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
