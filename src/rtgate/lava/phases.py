# SPDX-License-Identifier: MIT
"""A job's log by boot: which lines belong to bringing files, to booting, and to testing. Pure.

LAVA numbers the actions of a job; those of the first level are what the job's definition lists, and each begins with a
line `start: 2 uboot-action (timeout 00:05:00) [common]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from rtgate.lava.log import LogLine

_START = re.compile(r"start: (\d{1,4}) ([a-z0-9-]{1,80}) \(timeout ([0-9:]{1,20})\)")
_ON_BOARD = re.compile(r"start: \d+ lava-test-")
# What boot loaders and kernels say when the kernel takes over: U-Boot, EFI stub (arm64, x86), init/version-timestamp.c,
# arch/arm64/kernel/setup.c, arch/x86/boot.
_KERNEL = re.compile(
    r"Starting kernel \.\.\.|EFI stub: |Linux version \d+\.\d+|Booting Linux on physical CPU|Decompressing Linux"
)


class Phase(Enum):
    """What an action of the first level does."""

    BEFORE = "before"
    DEPLOY = "deploy"
    BOOT = "boot"
    TEST = "test"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Section:
    """The beginning of an action of the first level."""

    number: int
    action: str
    phase: Phase
    timeout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot of a job: its lines by phase.

    Attributes:
        number: counts from 1, in the order of the job's definition.
        on_board: the shell of the test is the board's own; else it is that of a container on the worker.
    """

    number: int
    deploy: tuple[LogLine, ...] = ()
    boot: tuple[LogLine, ...] = ()
    test: tuple[LogLine, ...] = ()
    on_board: bool = False

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """All of them."""
        return (*self.deploy, *self.boot, *self.test)

    @property
    def kernel_began(self) -> bool:
        """Whether a kernel took over from the boot loader."""
        return any(_KERNEL.search(line.text) for line in self.boot if line.level == "target")

    @property
    def booted(self) -> bool:
        """Whether LAVA found the prompt, so that the test began."""
        return bool(self.test)

    @property
    def booting(self) -> str:
        """What the board printed until LAVA found the prompt."""
        return "\n".join(line.text for line in self.boot if line.level == "target")

    @property
    def console(self) -> str:
        """What the board printed, as far as LAVA has it: little while a test uses the console."""
        booting = [line for line in (*self.deploy, *self.boot) if line.level in {"target", "feedback"}]
        said = {"feedback", "target"} if self.on_board else {"feedback"}
        return "".join(f"{line.text}\n" for line in (*booting, *(one for one in self.test if one.level in said)))

    @property
    def shell(self) -> tuple[LogLine, ...]:
        """What the shell of the test printed; what a board says beside a container is marked as feedback."""
        return tuple(line for line in self.test if line.level == "target")


def section(line: LogLine) -> Section | None:
    """Return the action of the first level that a line begins, or None."""
    if line.level not in {"info", "debug"}:
        return None
    match = _START.match(line.text)
    if match is None:
        return None
    return Section(int(match[1]), match[2], _phase(match[2]), match[3])


def boots(lines: Iterable[LogLine]) -> tuple[Boot, ...]:
    """Return a job's boots as far as they came."""
    found: list[dict[Phase, list[LogLine]]] = []
    for begun, part in _parts(lines):
        if begun.phase is Phase.AFTER and found:
            # What the board said last is read only now.
            last = found[-1].get(Phase.TEST) or found[-1].setdefault(Phase.BOOT, [])
            last += [line for line in part if line.level == "feedback"]
        if begun.phase not in {Phase.DEPLOY, Phase.BOOT, Phase.TEST}:
            continue
        if not found or _again(begun.phase, found[-1]):
            found.append({})
        found[-1].setdefault(begun.phase, []).extend(part)
    return tuple(
        Boot(
            number=number,
            deploy=tuple(one.get(Phase.DEPLOY, ())),
            boot=tuple(one.get(Phase.BOOT, ())),
            test=tuple(one.get(Phase.TEST, ())),
            on_board=any(_ON_BOARD.match(line.text) for line in one.get(Phase.TEST, ())[:1]),
        )
        for number, one in enumerate(found, 1)
    )


def _parts(lines: Iterable[LogLine]) -> Iterator[tuple[Section, list[LogLine]]]:
    current: tuple[Section, list[LogLine]] | None = None
    for line in lines:
        begun = section(line)
        if begun is not None:
            if current is not None:
                yield current
            current = (begun, [line])
        elif current is not None:
            current[1].append(line)
    if current is not None:
        yield current


def _again(phase: Phase, boot: dict[Phase, list[LogLine]]) -> bool:
    """Return whether a phase begins the next boot: a job has deploy, boot, test for each."""
    later = {Phase.DEPLOY: (Phase.BOOT, Phase.TEST), Phase.BOOT: (Phase.BOOT, Phase.TEST), Phase.TEST: ()}[phase]
    return any(one in boot for one in later)


def _phase(action: str) -> Phase:
    if action in {"finalize", "power-off"}:
        return Phase.AFTER
    if action in {"validate", "protocols"}:
        return Phase.BEFORE
    if "deploy" in action:
        return Phase.DEPLOY
    return Phase.TEST if "test" in action else Phase.BOOT
