# SPDX-License-Identifier: MIT
"""hackbench: how long groups of processes take to send each other messages. Here it is what is measured, not a load.

In each group as many senders as receivers are connected by sockets, each sender with each receiver. The time runs from
the moment that all are ready to the end of the last one; it is made of wake-ups, context switches and socket calls.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/hackbench/hackbench.c): the exit code is 0 once the work
began, whatever became of it. A process that could not send or receive complains on standard error and the time is
printed all the same; so it is after a signal. The time is `gettimeofday`, printed in milliseconds, cut off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, time
from rtgate.tools.measurement import Measurement
from rtgate.tools.rt_tests import check_end

_LEAST_S = 0.05  # no run is shorter: 1000 loops take 0.1 s on the fastest PC
# Ten times what a message takes on a virtual board, which is slower than any other: 60 us (10 000 of them in 0.59 s).
_MESSAGE_S = 0.0006
_PRINTED = re.compile(
    r"Running in (?P<mode>[a-z]{1,20}) mode with (?P<groups>[0-9]{1,9}) groups "
    r"using (?P<descriptors>[0-9]{1,9}) file descriptors each \(== (?P<tasks>[0-9]{1,9}) tasks\)\n"
    r"Each sender will pass (?P<loops>[0-9]{1,9}) messages of (?P<size>[0-9]{1,9}) bytes\n"
    r"Time: (?P<seconds>[0-9]{1,9})\.(?P<thousandths>[0-9]{3})\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hackbench(Tool):
    """Options of hackbench. There is one group per CPU, so that the work grows with the board, unless told.

    Attributes:
        groups: how many groups; 0 for one per CPU.
        process: ask for processes with `--process`, which hackbench takes unasked as well.
        senders: senders of a group; it has as many receivers.
        loops: messages from each sender to each receiver.
        virtual_loops: the same on virtual time: half a virtual second on one CPU.
        size: bytes of a message.
    """

    groups: int = 0
    process: bool = False
    senders: int = 10
    loops: int = 1000
    virtual_loops: int = 100
    size: int = 100

    name: ClassVar[str] = "hackbench"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"senders": (1, None)}
    reports: ClassVar[Mapping[str, Reports]] = {"duration": Reports.TIME}

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a fixed amount of work, however long it takes."""
        return (
            *("hackbench", "--groups", str(self._groups(setting)), "--fds", str(self.senders)),
            *("--loops", str(self._loops(setting)), "--datasize", str(self.size)),
            *(("--process",) if self.process else ()),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen: a run that is no shorter than any can be. Its processes are SCHED_OTHER."""
        messages = self._groups(setting) * self.senders**2 * self._loops(setting)
        # On virtual time CPUs take turns, so that more of them do not do more in a second.
        at_once = 1 if setting.virtual_time else setting.cpus
        work_s = round(messages * _MESSAGE_S / at_once, 3)
        return Expected(threads=(), duration_s=_LEAST_S, work_s=work_s, clock=True)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `duration`: how long the work took.

        Raises:
            ParseError: it failed, was stopped, a process of it complained, or it did not print what it should.
        """
        check_end("hackbench", output)
        complaint, text = output.text("tool.err").strip(), output.text("tool.out")
        if complaint:
            raise ParseError(f"hackbench did not do all its work: {complaint[:300]}")
        match = _PRINTED.fullmatch(text)
        if match is None:
            raise ParseError(f"hackbench printed no time, or something else: {text.strip()[-300:] or 'nothing'}")
        self._check(match, output.setting)
        microseconds = int(match["seconds"]) * 1_000_000 + int(match["thousandths"]) * 1000
        if not microseconds:
            raise ParseError("hackbench took less than the millisecond that it can measure")
        return (time("duration", microseconds, output.microsecond),)

    def _loops(self, setting: Setting) -> int:
        return self.virtual_loops if setting.virtual_time else self.loops

    def _groups(self, setting: Setting) -> int:
        return self.groups or setting.cpus

    def _check(self, match: re.Match[str], setting: Setting) -> None:
        work = (match["mode"], *(int(match[name]) for name in ("groups", "descriptors", "tasks", "loops", "size")))
        group, groups = 2 * self.senders, self._groups(setting)
        order = ("process", groups, group, groups * group, self._loops(setting), self.size)
        if work != order:
            raise ParseError(f"hackbench did other work than it was asked for: {work}, not {order}")
