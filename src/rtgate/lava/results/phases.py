# SPDX-License-Identifier: MIT
"""A job's log by boot: which lines belong to bringing files, to booting, and to testing. Pure.

LAVA numbers the actions of a job; those of the first level are what the job's definition lists, and each begins with a
line `start: 2 uboot-action (timeout 00:05:00) [common]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from rtgate.console.faults import BOOT_LOADERS
from rtgate.lava.results.log import LogLine

_START = re.compile(r"start: (\d{1,4}) ([a-z0-9-]{1,80}) \(timeout ([0-9:]{1,20})\)")
_ON_BOARD = re.compile(r"start: \d+ (?:lava-test-|multinode-test)")
# What boot loaders and kernels say when the kernel takes over: U-Boot, EFI stub (arm64, x86), init/version-timestamp.c,
# arch/arm64/kernel/setup.c, arch/x86/boot.
_KERNEL = re.compile(
    r"Starting kernel \.\.\.|EFI stub: |Linux version \d+\.\d+|Booting Linux on physical CPU|Decompressing Linux"
)

# What the first to speak after a reset says: firmware, boot loaders, a kernel's first lines. A kernel's version is none
# of it: shells print that, too.
_FIRST = re.compile(
    r"^DDR (?:V\d|Version )|^(?:INFO|NOTICE): {1,4}BL(?:1|2|31|32|33): |^I/TC: |"
    + "|".join(start for start, _ in BOOT_LOADERS)
    + r"|Hit (?:any )?key to stop autoboot|Starting kernel \.\.\.|EFI stub: |Booting Linux on physical CPU|"
    r"Decompressing Linux|^\[ *0\.000000\]"
)
_STAMP = re.compile(r"^\[ *(\d{1,9}\.\d{1,6})\]")
_BACK_S = 0.5  # lines of two CPUs may change places


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
        late: what the board said at the end and LAVA read only after the test, as feedback.
        on_board: the shell of the test is the board's own; else it is that of a container on the worker.
    """

    number: int
    deploy: tuple[LogLine, ...] = ()
    boot: tuple[LogLine, ...] = ()
    test: tuple[LogLine, ...] = ()
    late: tuple[LogLine, ...] = ()
    on_board: bool = False

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """All of them."""
        return (*self.deploy, *self.boot, *self.test, *self.late)

    @property
    def kernel_began(self) -> bool:
        """Whether a kernel took over from the boot loader."""
        return any(_KERNEL.search(line.text) for line in self.boot if line.level == "target")

    @property
    def has_booted(self) -> bool:
        """Whether LAVA found the prompt, so that the test began."""
        return bool(self.test)

    @property
    def booting(self) -> str:
        """What the board printed until LAVA found the prompt."""
        return "\n".join(line.text for line in self.boot if line.level == "target")

    @property
    def console(self) -> str:
        """What the board printed, as far as LAVA has it: little while a test uses the console."""
        boot_lines = [line for line in (*self.deploy, *self.boot) if line.printed]
        test_lines = [line for line in self.test if (line.printed if self.on_board else line.level == "feedback")]
        return "".join(f"{line.text}\n" for line in (*boot_lines, *test_lines, *self.late))

    @property
    def shell(self) -> tuple[LogLine, ...]:
        """What the shell of the test printed; what a board says beside a container is marked as feedback."""
        return tuple(line for line in self.test if line.level == "target")


@dataclass(slots=True)
class Beginning:
    """Finds in what a board prints where it started anew."""

    _last: float = 0.0

    def matches(self, text: str) -> bool:
        """Return whether a line is the first of a start, or one like it: firmware, boot loader and kernel each have."""
        match = _STAMP.match(text)
        stamp = float(match[1]) if match else self._last
        if _FIRST.search(text) or stamp < self._last - _BACK_S:
            self._last = stamp if match else 0.0
            return True
        self._last = max(self._last, stamp)
        return False


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
    job_boots: list[dict[Phase, list[LogLine]]] = []
    for action, part in _parts(lines):
        if action.phase is Phase.AFTER and job_boots:
            # What the board said last is read only now.
            job_boots[-1].setdefault(Phase.AFTER, []).extend(line for line in part if line.level == "feedback")
        if action.phase not in {Phase.DEPLOY, Phase.BOOT, Phase.TEST}:
            continue
        if not job_boots or _begins_next_boot(action.phase, job_boots[-1]):
            job_boots.append({})
        job_boots[-1].setdefault(action.phase, []).extend(part)
    return _reassign_lines(
        [
            Boot(
                number=number,
                deploy=tuple(phases.get(Phase.DEPLOY, ())),
                boot=tuple(phases.get(Phase.BOOT, ())),
                test=tuple(phases.get(Phase.TEST, ())),
                late=tuple(phases.get(Phase.AFTER, ())),
                on_board=any(_ON_BOARD.match(line.text) for line in phases.get(Phase.TEST, ())[:1]),
            )
            for number, phases in enumerate(job_boots, 1)
        ]
    )


def _reassign_lines(job_boots: list[Boot]) -> tuple[Boot, ...]:
    """Give what LAVA read in a boot's section before the board started anew to the boot before.

    LAVA keeps the console open from one boot to the next and reads what has come when it waits for the boot loader,
    after the reset. A section in which nothing tells of a start counts for both boots: a kernel that died without a
    word before must not be taken for the other.
    """
    for place, (before, after) in enumerate(pairwise(list(job_boots))):
        start = _start(before, after)
        leftover = [line for line in _printed(after.deploy, after.boot) if start is None or line.number < start]
        late = (*before.late, *(replace(line, level="feedback") for line in leftover))
        job_boots[place] = replace(job_boots[place], late=late)
        if start is not None:
            deploy, boot = (
                tuple(line for line in lines if line.number >= start or not line.printed)
                for lines in (after.deploy, after.boot)
            )
            job_boots[place + 1] = replace(after, deploy=deploy, boot=boot)
    return tuple(job_boots)


def _start(before: Boot, after: Boot) -> int | None:
    """Return the number of the line with which the board started anew in a boot's section; None if none tells it."""
    beginning = Beginning()
    for line in _printed(before.boot, before.test):
        beginning.matches(line.text)
    return next((line.number for line in _printed(after.deploy, after.boot) if beginning.matches(line.text)), None)


def _printed(*sections: tuple[LogLine, ...]) -> Iterator[LogLine]:
    return (line for lines in sections for line in lines if line.printed)


def _parts(lines: Iterable[LogLine]) -> Iterator[tuple[Section, list[LogLine]]]:
    current: tuple[Section, list[LogLine]] | None = None
    for line in lines:
        action = section(line)
        if action is not None:
            if current is not None:
                yield current
            current = (action, [line])
        elif current is not None:
            current[1].append(line)
    if current is not None:
        yield current


def _begins_next_boot(phase: Phase, boot: dict[Phase, list[LogLine]]) -> bool:
    """Return whether a phase begins the next boot: a job has deploy, boot, test for each."""
    later = {Phase.DEPLOY: (Phase.BOOT, Phase.TEST), Phase.BOOT: (Phase.BOOT, Phase.TEST), Phase.TEST: ()}[phase]
    return any(next_phase in boot for next_phase in later)


def _phase(action: str) -> Phase:
    if action in {"finalize", "power-off"}:
        return Phase.AFTER
    if action in {"validate", "protocols"}:
        return Phase.BEFORE
    if "deploy" in action:
        return Phase.DEPLOY
    return Phase.TEST if "test" in action else Phase.BOOT
