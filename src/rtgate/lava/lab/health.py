# SPDX-License-Identifier: MIT
"""Health checks: jobs that prove a board of a lab before anybody blames a kernel for what the lab did.

A health check boots a kernel that is known to be good, twice. The boots prove network, boot loader and power switch;
then, over the console: no byte of it is damaged (`board.line`), the board's clock runs as fast as the worker's
(`board.clock`), and the board has been running only since this job switched it on (`board.power`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rtgate.board.boards import Board
from rtgate.console.shell import UNKNOWN, Shell
from rtgate.durations import Deadline
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job import template
from rtgate.lava.job.definition import (
    DISCONNECT,
    Files,
    JobArm,
    JobRequest,
    Transport,
    image_name,
    lava_of,
    render,
)
from rtgate.lava.job.request import NONCE, new_nonce
from rtgate.strict_yaml import dump

LINES = 2000
_LINE = "the quick brown fox jumps over the lazy dog 0123456789"
_CLOCK_S = 20.0
_CLOCK_TURNS = 3
_CLOCK_PPM = (
    2000.0  # a crystal has 50; a wrong clock tree is off by percents, and asking over a line costs milliseconds
)
_BOOT_S = 900.0  # from power on to here; a board that runs longer was not switched off
_COMMAND_S = 60.0
_ATTEMPTS = 5  # to have the lines printed: until the command for it arrives undamaged
_TEST_S = 300
_PRINTK = "/proc/sys/kernel/printk"
_UPTIME = re.compile(rb"up:([0-9]+\.[0-9]+):pu")
# The steps of LAVA's test shell on the board itself. Without a container nobody measures the line: what is left is that
# the board boots, twice, each time from power on.
_ON_BOARD = (
    "bad=0",
    "read -r up rest </proc/uptime",
    f'if [ "${{up%.*}}" -lt {_BOOT_S:.0f} ]; then result=pass; else result=fail; bad=1; fi',
    'lava-test-case board.power --result "$result" --measurement "$up" --units s',
    # LAVA takes a job for good whatever its results are; this it does not.
    '[ "$bad" = 0 ] || lava-test-raise "infra: this board is not fit for measuring"',
)


@dataclass(frozen=True, slots=True)
class HealthResult:
    """One thing that a health check looked at; `value` is in `unit`."""

    name: str
    good: bool
    value: float
    unit: str
    sentence: str


def definition(
    board: Board,
    files: Files,
    *,
    transport: Transport = Transport.DOCKER,
    image: str = "",
    server: tuple[int, int] = DISCONNECT,
) -> str:
    """Return a health check as a job definition.

    Raises ConfigError as `job.render`, and without the device tree that the board's file promises.

    Args:
        board: whose health check it is.
        files: the kernel that is known to be good.
        transport: as `JobRequest` has it.
        image: as `JobRequest` has it.
        server: as `JobRequest` has it. A health check stays on its server when that is updated, so by default it has
            the keys of newer ones, too.
    """
    device_tree = " or ".join(sorted(lava_of(board).dtbs.values()))
    if device_tree and not files.dtb and "dtb" in template.find(lava_of(board).boot).optional:
        raise ConfigError(
            f"{board.path}: {board.name} boots with {device_tree}: give the URL of the kernel's with --dtb"
        )
    steps = (f"rtgate board-health --board {board.name}",) if transport is Transport.DOCKER else _ON_BOARD
    request = JobRequest(
        name=f"rtgate health check of {lava_of(board).device_type}",
        board=board,
        arms=(JobArm(name="candidate", files=files, identity="{}"),),
        boots=("candidate", "candidate"),
        suites=("health",),
        profile="mr",
        transport=transport,
        image=image,
        server=server,
        test_s=_TEST_S,
        steps=(steps, steps),
    )
    return render(request)


def probe(device_type: str, image: str = "") -> tuple[str, str]:
    """Return a job that only starts the container on the worker, and its nonce. Raises ConfigError: no such image."""
    nonce = new_nonce()
    inline = {
        "metadata": {"format": "Lava-Test Test Definition 1.0", "name": "rtgate-probe"},
        "run": {"steps": ["rtgate --version"]},
    }
    test = {
        "timeout": {"minutes": 5},
        "docker": {"image": image_name(image), "local": True},
        "definitions": [
            {"from": "inline", "name": "rtgate-probe", "path": "inline/rtgate-probe.yaml", "repository": inline}
        ],
    }
    data = {
        "job_name": f"rtgate: does docker work for {device_type}?",
        "device_type": device_type,
        "priority": "low",
        "visibility": "public",
        "timeouts": {"job": {"minutes": 8}},
        "metadata": {NONCE: nonce},
        "actions": [{"test": test}],
    }
    return dump(data), nonce


def prove(shell: Shell) -> Iterator[HealthResult]:
    """Look at a board whose plain shell was found.

    Raises:
        HangError, KernelFaultError, InfrastructureError, Interrupted: as `Shell.sure`.
    """
    yield _power(shell)
    yield _line(shell)
    yield compare_clocks(shell)


def _power(shell: Shell) -> HealthResult:
    up = _uptime(shell)[1]
    text = f"the board has been running for {up:.0f} s"
    return HealthResult(
        "power", up < _BOOT_S, up, "s", text if up < _BOOT_S else f"{text}: this job did not switch it off"
    )


def _line(shell: Shell) -> HealthResult:
    """Have many known lines printed, and count those that arrive.

    The kernel prints nothing meanwhile: a message of it within a line is not the line's fault.
    """
    lines = f'i=0; while [ $i -lt {LINES} ]; do echo "$i:{_LINE}:$i"; i=$((i+1)); done'
    quiet = f"{{ read -r level <{_PRINTK} && echo 1 >{_PRINTK}; }} 2>/dev/null"
    loud = f'{{ [ -z "$level" ] || echo "$level" >{_PRINTK}; }} 2>/dev/null'
    command = f"{quiet}; {lines}; {loud}"
    for _ in range(_ATTEMPTS):
        start, began = len(shell.log), time.monotonic()
        # Not `sure`: it takes a command for lost that has not ended when answers are due, and these lines take longer.
        if shell.run(command, Deadline.after(_COMMAND_S), checked=True)[0] != UNKNOWN:
            break
        shell.again += 1
    seconds = time.monotonic() - began
    damage = LINES - intact(bytes(shell.log[start:]))
    rate = len(shell.log[start:]) / max(seconds, 0.001)
    text = f"{damage} of {LINES} lines arrived damaged, at {rate:.0f} bytes/s"
    return HealthResult("line", damage == 0, float(damage), "lines", text)


def intact(output: bytes) -> int:
    """Return how many of the known lines are in what a console said."""
    pairs = re.findall(rb"(?:^|\n)([0-9]+):" + _LINE.encode() + rb":([0-9]+)\r*(?=\n)", output)
    return len({first for first, last in pairs if first == last and int(first) < LINES})


def compare_clocks(shell: Shell) -> HealthResult:
    """Compare both clocks, and again over a longer time when they differ: a busy worker asks late."""
    before = _uptime(shell)
    for _ in range(_CLOCK_TURNS):
        time.sleep(_CLOCK_S)
        health = clock(before, _uptime(shell))
        if health.good:
            break
    return health


def clock(before: tuple[float, float], after: tuple[float, float]) -> HealthResult:
    """Compare two clocks by what both showed, ours first, at two moments; in seconds."""
    here, there = after[0] - before[0], after[1] - before[1]
    ppm = (there / here - 1) * 1e6
    text = f"the board's clock counted {there:.2f} s in {here:.2f} s"
    return HealthResult("clock", abs(ppm) <= _CLOCK_PPM, round(ppm), "ppm", text)


def _uptime(shell: Shell) -> tuple[float, float]:
    """Return the time here and the board's uptime, in seconds, as close together as the line allows.

    Raises InfrastructureError as `Shell.sure`, and when the line damages every answer.
    """
    best: tuple[float, float, float] | None = None
    for _ in range(5):
        began, start = time.monotonic(), len(shell.log)
        shell.sure('read -r a b </proc/uptime; echo "up:$a:""pu"', Deadline.after(_COMMAND_S))
        duration = time.monotonic() - began
        match = _UPTIME.search(bytes(shell.log), start)
        if match and (best is None or duration < best[0]):
            best = (duration, began + duration / 2, float(match[1]))
    if best is None:
        raise InfrastructureError("the board's uptime does not arrive undamaged")
    return best[1], best[2]
