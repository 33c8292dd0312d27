# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job import environment
from rtgate.records.record import KernelIdentity
from rtgate.target import power

CONSOLE = {"LAVA_CONNECTION_COMMAND": "telnet 127.0.0.1 7001"}
KERNEL = KernelIdentity(
    name="mine", flavour="preempt_rt", release="6.12", image_sha256="a", source="a tree", provenance="rtgate"
)


@pytest.mark.parametrize(
    ("command", "console"),
    [
        ("telnet 127.0.0.1 7001", "tcp:127.0.0.1:7001"),
        ("/usr/bin/telnet lab-7.example 2000", "tcp:lab-7.example:2000"),
        ("telnet -E -8 h 7", "tcp:h:7"),
        ("telnet h", "command:telnet h"),
        ("telnet -l root h 7", "command:telnet -l root h 7"),
        ("ssh -t lab 'conserver-client rk3588'", "command:ssh -t lab 'conserver-client rk3588'"),
    ],
)
def test_a_connection_command_becomes_a_console(command: str, console: str) -> None:
    assert environment.console(command) == console


def test_the_connection_that_is_primary_wins() -> None:
    told = {"LAVA_CONNECT_COMMAND": "telnet old 1", **CONSOLE, "LAVA_CONNECTION_COMMAND_UART1": "telnet other 2"}
    assert environment.read(told).console == "tcp:127.0.0.1:7001"
    assert environment.read({"LAVA_CONNECT_COMMAND": "telnet new 1"}).console == "tcp:new:1"


def test_all_that_a_job_tells() -> None:
    told = {
        **CONSOLE,
        "LAVA_JOB_ID": "4711",
        "LAVA_HARD_RESET_COMMAND": "board-power reset",
        "RTGATE_ARM": "baseline",
        "RTGATE_BOOT": "4",
        "RTGATE_KERNEL": json.dumps(asdict(KERNEL)),
    }
    job = environment.read(told)
    assert (job.arm, job.boot, job.kernel, job.power_cycle) == ("baseline", 4, KERNEL, False)
    assert job.machine == {"console": "lava", "boot": "4", "job": "4711"}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "needs LAVA_CONNECTION_COMMAND"),
        ({**CONSOLE, "RTGATE_ARM": "both"}, "expected baseline or candidate"),
        ({**CONSOLE, "RTGATE_BOOT": "0"}, "not a boot"),
        ({**CONSOLE, "RTGATE_BOOT": "1; rm"}, "not a boot"),
        ({**CONSOLE, "RTGATE_BOOT": "9" * 5000}, "not a boot"),
        ({**CONSOLE, "RTGATE_BOOT": "000001000000"}, "not a boot"),
        ({**CONSOLE, "RTGATE_KERNEL": "{"}, "not JSON"),
        ({**CONSOLE, "RTGATE_KERNEL": "[" * 100_000}, "not JSON"),
        ({**CONSOLE, "RTGATE_KERNEL": "[]"}, "names no kernel"),
        ({**CONSOLE, "RTGATE_KERNEL": "{}"}, "is not by this version of rtgate"),
        ({**CONSOLE, "RTGATE_KERNEL": json.dumps({**asdict(KERNEL), "later": "x"})}, "make the lab's image again"),
        ({**CONSOLE, "RTGATE_KERNEL": json.dumps({**asdict(KERNEL), "name": 1})}, "names no kernel"),
        ({"LAVA_CONNECTION_COMMAND": "telnet 'h"}, "not a command line"),
    ],
)
def test_what_is_wrong_is_said(told: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        environment.read(told)


@given(st.text())
def test_whatever_a_kernel_is_named_it_is_text_that_may_be_printed(name: str) -> None:
    found = environment.kernel(json.dumps({**asdict(KERNEL), "name": name}))
    assert found is not None
    assert all(letter.isprintable() for letter in found.name)


def test_a_reset_that_fails_is_the_labs() -> None:
    job = environment.read({**CONSOLE, "LAVA_HARD_RESET_COMMAND": "printf 'no \\033[2Jpower' >&2; exit 3"})
    with pytest.raises(InfrastructureError, match=r"ended with 3: 'no \\x1b\[2Jpower'"):
        job.reset()
    with pytest.raises(InfrastructureError, match="no command to reset"):
        environment.read(CONSOLE).reset()
    environment.read({**CONSOLE, "LAVA_HARD_RESET_COMMAND": "true"}).reset()


def test_a_reset_that_does_not_end_is_the_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_POWER_S", 0.2)
    with pytest.raises(InfrastructureError, match="did not end"):
        environment.read({**CONSOLE, "LAVA_HARD_RESET_COMMAND": "sleep 20"}).reset()
