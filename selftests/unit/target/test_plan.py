# SPDX-License-Identifier: MIT
"""The plan's script as a text; `selftests/commands/test_plans.py` carries it out."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.board.tuning import Write
from rtgate.target.plan import Plan, has_measured, has_started, script
from rtgate.target.storage import Use
from rtgate.tools.loads import Load
from rtgate.tools.needs import Need
from rtgate.tools.threads import ThreadScope

IDLE = Load(name="idle")


def plan_of(*argv: str, load: Load = IDLE, seed: int = 1, directory: Path = Path("/run/rtgate")) -> Plan:
    return Plan(
        case="latency/stub:idle", argv=argv, load=load, seed=seed, duration_s=0.3, work_directory=str(directory)
    )  # fmt: skip


def test_the_same_plan_is_the_same_text() -> None:
    assert script(plan_of("a", "b")) == script(plan_of("a", "b"))


OTHER: dict[str, object] = {
    "case": "latency/stub:hackbench",
    "argv": ("stub", "-y"),
    "load": Load(name="hackbench", argv=("hackbench",)),
    "seed": 2,
    "duration_s": 0.4,
    "thread_scope": ThreadScope.OWN,
    "needs": (Need(test="true", reason="nothing"),),
    "writes": (Write(path="/proc/sys/kernel/timer_migration", value="0"),),
    "image": "full",
    "command_line": "isolcpus=2",
    "priorities": (("irq/", 90),),
    "work_directory": "/tmp/rtgate",
    "kernel_log": "cat log",
    "storage": Use(
        storage=Storage(
            serial="no such disk", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.NONE
        ),
        size=1 << 24,
        fill=("fill",),
        directory="/run/rtgate",
    ),
    "devices": ("nvme",),
    "watched": ("/proc/interrupts",),
    "virtual_time": False,
    "work_s": 1000,
    "cleanup": "echo nop >tracer",
}


@pytest.mark.parametrize("name", [field.name for field in fields(Plan)])
def test_the_nonce_names_the_plan_whatever_differs(name: str) -> None:
    plan = plan_of("stub", "-x", load=Load(name="short", argv=("short",)))
    other = replace(plan, **{name: OTHER[name]})  # type: ignore[arg-type]
    assert getattr(other, name) != getattr(plan, name)
    assert other.nonce != plan.nonce


def test_the_nonce_names_the_plan_and_its_seed() -> None:
    plan = plan_of("stub", "-x")
    assert plan.nonce == plan_of("stub", "-x").nonce
    assert re.fullmatch(r"F[0-9a-f]{9}", plan.nonce)
    others = [
        *(replace(plan, **{name: OTHER[name]}) for name in ("case", "argv", "load", "seed", "duration_s")),  # type: ignore[arg-type]
        replace(plan, load=Load(name="hackbench", argv=("hackbench",), repeat=True)),
        replace(plan, load=Load(name="hackbench", argv=("hackbench", "-l"))),
        replace(plan, needs=(Need(test="true", reason="something"),)),
        replace(plan, needs=(Need(test="false", reason="nothing"),)),
        replace(plan, writes=(Write(path="/proc/sys/kernel/timer_migration", value="1"),)),
        replace(plan, writes=(Write(path="/proc/sys/kernel/printk_delay", value="0"),)),
    ]
    assert len({plan.nonce, *(other.nonce for other in others)}) == len(others) + 1


def test_the_nonce_stands_in_the_script() -> None:
    plan = plan_of("stub")
    text = script(plan)
    what = f"# rtgate plan {plan.nonce}: latency/stub:idle, seed 1, image core, kernel arguments: the board's"
    assert text.startswith(f"#!/bin/sh\n# SPDX-License-Identifier: MIT\n{what}\n")
    assert f"work=/run/rtgate/{plan.nonce}\n" in text


def test_seeds_spread_the_phases_below_50_ms() -> None:
    phases = [plan_of("stub", seed=seed).phases_us for seed in range(1, 200)]
    assert len(set(phases)) == len(phases)
    assert all(0 <= phase < 50_000 for pair in phases for phase in pair)
    assert phases[0] == plan_of("other", "tool", seed=1).phases_us


@pytest.mark.parametrize("seen", ThreadScope)
def test_no_placeholder_is_left(seen: ThreadScope) -> None:
    plan = plan_of("stub", load=Load(name="hackbench", argv=("hackbench",), repeat=True))
    assert not re.search("@[A-Z_]+@", script(replace(plan, thread_scope=seen)))


def test_a_console_tells_how_far_a_plan_came() -> None:
    assert not has_started("Run /init as init process")
    assert has_started("Run /init as init process\nrtgate: plan started\n")
    assert not has_measured("rtgate: plan started\n")
    assert has_measured("rtgate: plan started\nrtgate: measured\n")


def test_the_tools_deadline_is_longer_than_its_duration() -> None:
    assert replace(plan_of("stub"), duration_s=60).deadline_s == 140


def test_more_work_has_more_time_and_none_has_less_than_a_tool_that_measures_for_a_time() -> None:
    made = replace(plan_of("stub"), duration_s=0)
    assert [replace(made, work_s=work_s).tool_deadline_s for work_s in (0, 13, 260)] == [20, 20, 260]
    # On virtual time another byte moves what is measured.
    assert script(replace(made, work_s=13)) == script(made) != script(replace(made, work_s=13, virtual_time=False))


def test_frequencies_are_read_and_the_highest_off_virtual_time_only() -> None:
    made = plan_of("stub")
    for name, virtual in (("cur_freq", True), ("min_freq", True), ("max_freq", False)):
        assert (f"cpufreq/scaling_{name}" in script(made)) is virtual
        assert f"cpufreq/scaling_{name}" in script(replace(made, virtual_time=False))


def test_the_kernel_s_notes_are_read_but_not_on_virtual_time() -> None:
    made = plan_of("stub")
    live = script(replace(made, virtual_time=False))
    assert "/sys/kernel/notes" not in script(made)
    assert "uname -m >uname.m\ncat /sys/kernel/notes >notes 2>/dev/null\n" in live


@pytest.mark.parametrize("seen", ThreadScope)
def test_the_script_is_sound(seen: ThreadScope) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    plan = replace(
        plan_of("stub", load=Load(name="hackbench", argv=("hackbench",), repeat=True)),
        thread_scope=seen,
        needs=(Need(test="[ $(nproc) -gt 1 ]", reason="needs two CPUs"),),
        writes=(Write(path="/sys/devices/system/cpu/cpu*/power/control", value="on"),),
        priorities=(("irq/", 90),),
    )
    text = script(plan)
    done = subprocess.run(["shellcheck", "-s", "sh", "-S", "error", "-"], input=text, text=True, check=False)
    assert done.returncode == 0
