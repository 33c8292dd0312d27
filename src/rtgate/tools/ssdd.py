# SPDX-License-Identifier: MIT
"""ssdd: do processes single-step other processes correctly, while many do it at once?

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/ssdd/ssdd.c):

* Each tracer process prints one line when it ends, with `no error` or with what went wrong; a tracer that was killed
  prints none. The program prints its result and ends with 0, or with 1 if a tracer did not end well.
* The JSON is a header only, with that exit code in it.
* Some errors are of the set-up. PTRACE_SINGLESTEP fails with EIO on an architecture that cannot do it
  (kernel/ptrace.c).
* Before 2.10 a tracer waits 310 ms for SIGCHLD, so a busy target may fail without being wrong; then 10 s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError, UnfinishedError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_tests import check_end, document

JSON = "ssdd.json"
# Ten times what a step takes on a virtual board, which is slower than any other: 130 us (10 x 1000 steps in 1.3 s).
_STEP_S = 0.0013
_PASSED, _FAILED = "All tests PASSED.", "One or more tests FAILED."
_ASKED = re.compile(r"^#(forks|steps): ([0-9]{1,9})$", re.MULTILINE)
_GOOD = re.compile(r"^forktest#[0-9]+/[0-9]+: EXITING, no error$", re.MULTILINE)
# 2.4 is written as 2.40 in the JSON, and 2.10 as 2.10.
_BEFORE_2_10 = re.compile(r'"rt_test_version:?": "(?:1\.|2\.[02-9])')
_SETUP = re.compile(
    r"EXITING, ERROR: (?:fork returned|sigaction returned|unable to mask|attach failed|"
    r"PTRACE_SINGLESTEP #0: returned status -1, errno 5\b).*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssdd(Tool):
    """Options of ssdd.

    Attributes:
        forks: pairs of a tracer and the process that it steps.
        steps: how many steps each pair does. The run has no other length; the plan waits longer for more of them.
    """

    forks: int = 10
    steps: int = 1000

    name: ClassVar[str] = "ssdd"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"forks": (1, None), "steps": (1, None)}
    reports: ClassVar[Mapping[str, Reports]] = {"failures": Reports.FAILURES, "tests": Reports.COUNT}

    def argv(self, setting: Setting) -> tuple[str, ...]:  # noqa: ARG002 - the same work on every board
        """Return the command line. Not `--quiet`, which leaves out how each tracer ended."""
        return ("ssdd", f"--forks={self.forks}", f"--iters={self.steps}", f"--json={JSON}")

    def expected(self, setting: Setting) -> Expected:  # noqa: ARG002 - see above
        """Return what must be seen while it runs: it does a fixed amount of work, in as little time as it takes."""
        return Expected(threads=(), duration_s=0, work_s=round(self.forks * self.steps * _STEP_S, 3))

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `tests`, the pairs that were tried, and `failures`, those of them that did not end well.

        Raises:
            ParseError: it could not be set up, was stopped, or its output is missing, damaged, or contradicts itself.
        """
        text = output.text("tool.out")
        self._refuse_unfinished(text, output.text("tool.deadline").strip())
        check_end("ssdd", output, codes=(0, 1))
        failures = self._failures(text)
        setup = _SETUP.findall(text)
        if setup and len(setup) >= failures:
            raise ParseError(f"ssdd could not be set up: {setup[0][:300]}")
        verdict = {_PASSED: False, _FAILED: True}.get(_last(text))
        code = document("ssdd", output.text(JSON)).integer("return_code")
        if verdict is None or not verdict == bool(failures) == bool(output.exit_code) == bool(code):
            raise ParseError(
                f"ssdd contradicts itself: {failures} of {self.forks} tests failed, it says {_last(text)!r}, "
                f"exit code {output.exit_code}, return_code {code}"
            )
        if failures and _BEFORE_2_10.search(output.text(JSON)):
            raise ParseError(
                f"{failures} of {self.forks} tests failed, which before rt-tests 2.10 a busy target is enough for"
            )
        return count("failures", failures, Better.LOWER), count("tests", self.forks, Better.NEITHER)

    def _refuse_unfinished(self, text: str, deadline: str) -> None:
        """Refuse a run that was stopped when some tests had ended well, and none badly."""
        good = len(_GOOD.findall(text))
        if deadline and 0 < good < self.forks and "EXITING, ERROR" not in text:
            raise UnfinishedError(f"ssdd was stopped {deadline}, when {good} of {self.forks} tests had ended, all well")

    def _failures(self, text: str) -> int:
        """Return how many tracers did not say that they ended well."""
        options = {name: int(value) for name, value in _ASKED.findall(text)}
        if options != {"forks": self.forks, "steps": self.steps}:
            raise ParseError(f"ssdd did not say that it does what was asked of it: {text.strip()[:300] or 'no output'}")
        good = len(_GOOD.findall(text))
        if good > self.forks:
            raise ParseError(f"ssdd contradicts itself: {good} of {self.forks} tests ended")
        return self.forks - good


def _last(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]
