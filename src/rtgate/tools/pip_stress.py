# SPDX-License-Identifier: MIT
"""pip_stress: does priority inheritance work between processes? One inversion on CPU 0, resolved or not.

Facts of rt-tests 2.9 to 2.10 that this module depends on (src/pi_tests/pip_stress.c): a low process sleeps while it
holds a mutex, a high one waits for it, and a medium one runs for ever. If the low process inherits the high one's
priority, the high one gets the mutex and ends the medium one; if not, the tool never ends. It prints which of two
things happened, with exit code 0 in both cases. A sleep that is too short to start two processes in gives
`No inversion incurred`: the default of 500 us always does on an emulated CPU, and older versions have no option for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end

_HANDLED = "Successfully used priority inheritance to handle an inversion"
_NOT_TESTED = "No inversion incurred"
_OWN_USLEEP_US = 500
_USLEEP = Need(
    test="pip_stress --help 2>&1 | grep -q -e --usleep",
    reason="needs pip_stress with --usleep (rt-tests 2.9 or newer)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipStress(Tool):
    """Options of pip_stress.

    Attributes:
        usleep_us: how long the low process sleeps while it holds the mutex; below 1 s. 0 for the tool's own 500 us.
    """

    usleep_us: int = 20_000

    name: ClassVar[str] = "pip_stress"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    reports: ClassVar[Mapping[str, Reports]] = {"failures": Reports.FAILURES}

    def required(self) -> tuple[Need, ...]:
        """Return what the target must have: the option, if it is used."""
        return (_USLEEP,) if self.usleep_us else ()

    def argv(self, setting: Setting) -> tuple[str, ...]:  # noqa: ARG002 - one inversion on every board
        """Return the command line."""
        return ("pip_stress", *((f"--usleep={self.usleep_us}",) if self.usleep_us else ()))

    def expected(self, setting: Setting) -> Expected:  # noqa: ARG002 - see above
        """Return what must be seen: nothing, its processes (SCHED_FIFO 1, 2 and 3) live for milliseconds."""
        return Expected(threads=(), duration_s=(self.usleep_us or _OWN_USLEEP_US) / 1e6)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `failures`: 0, or 1 if the tool never ended because the kernel did not resolve the inversion.

        Raises:
            ParseError: it failed, complained, brought about no inversion, or said nothing that is known.
        """
        text, complaint = output.text("tool.out").strip(), output.text("tool.err").strip()
        if output.text("tool.deadline").strip() and not text and not complaint:
            return (count("failures", 1, Better.LOWER),)
        check_end("pip_stress", output)
        if complaint:
            raise ParseError(f"pip_stress could not do its test: {complaint[:300]}")
        if text == _NOT_TESTED:
            raise ParseError("pip_stress brought about no inversion, so priority inheritance was not tested")
        if text != _HANDLED:
            raise ParseError(f"pip_stress printed no result: {text[:300] or 'nothing'}")
        return (count("failures", 0, Better.LOWER),)
