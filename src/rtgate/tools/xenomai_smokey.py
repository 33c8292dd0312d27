# SPDX-License-Identifier: MIT
"""smokey, Xenomai's functional tests, each run by itself: one that crashes ends no other, and is named.

Facts of Xenomai 3.0 to 3.3 (testsuite/smokey/main.c, lib/smokey/init.c):

* `--list` prints each test's number and name, and below that an indented description.
* A test ends with `NAME OK` and 0, or `NAME skipped (no kernel support)` and 0, or 1.
* Some find out by themselves that they cannot run, say so, and are OK all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.xenomai import COBALT, PROGRAMS

_EACH = (
    "list=$(smokey --list) || exit; echo \"$list\" | grep -c '^#'; "
    "echo \"$list\" | while read -r number name more; do case $number in '#'*) "
    'echo "== $name"; smokey --run=$name {options} 2>&1 </dev/null; echo "== exit code $?";; esac; done'
)
_LISTED = re.compile(r"\A([0-9]{1,4})\n")
_PART = re.compile(r"^== ([a-z][a-z0-9_]*)\n(.*?)^== exit code ([0-9]{1,3})$", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"^== (?!exit code )", re.MULTILINE)
_SKIPPED = re.compile(
    r"^([a-z][a-z0-9_]*)(?:: skipped(?:\.)? \(| skipped\. | skipped \(no kernel support\)$)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiSmokey(Tool):
    """smokey: Xenomai's functional tests.

    Attributes:
        vm: leave out checks of times, which no virtual machine keeps.
        rounds: how often the tests of memory repeat themselves; xeno-test, too, takes 64.
        virtual_rounds: the same on virtual time; of memory_pshared 4 take 17 s there.
        seconds: how long it may take: twice what it took. The plan stops it then, as hung.
    """

    vm: bool = False
    rounds: int = 64
    virtual_rounds: int = 4
    seconds: int = 280

    name: ClassVar[str] = "xenomai-smokey"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = COBALT
    reports: ClassVar[Mapping[str, Reports]] = {
        **dict.fromkeys(("test.failed", "tests.failed"), Reports.FAILURES),
        **dict.fromkeys(("tests.passed", "tests.skipped"), Reports.COUNT),
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: every test that smokey lists, each by itself."""
        rounds = self.virtual_rounds if setting.virtual_time else self.rounds
        options = f"{'--vm ' * self.vm}random_alloc_rounds={rounds} pattern_check_rounds={rounds}"
        # A board without a clock is in 1970, and that cannot be set again (posix_clock).
        clock = "date -s 202401010000 >/dev/null && " if setting.virtual_time else ""
        return (*PROGRAMS, "sh", "-c", clock + _EACH.format(options=options))

    def expected(self, _setting: Setting) -> Expected:
        """Return what must be seen: no thread lives all the time, but a test must have passed."""
        return Expected(
            threads=(),
            duration_s=0,
            work_s=self.seconds,
            counts=(Count(measurement="tests.passed", least=1),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `tests.passed`, `.skipped`, `.failed`, and for each test that did not skip `test.failed`, 0 or 1.

        Raises:
            ParseError: it was stopped, or its output is missing, damaged, or contradicts itself.
        """
        check_end("smokey", output)
        text = output.text("tool.out")
        parts, match = _PART.findall(text), _LISTED.match(text)
        total = int(match[1]) if match else 0
        if not {len(parts), len(_HEAD.findall(text)), len({name for name, _, _ in parts})} == {total} or not total:
            raise ParseError(f"smokey listed {total} tests, and {len(parts)} are whole: {output.message}")
        results = {name: _result(name, message, int(code)) for name, message, code in parts}
        sums = {word: list(results.values()).count(word) for word in ("ok", "skipped", "failed")}
        return (
            count("tests.passed", sums["ok"], Better.HIGHER),
            count("tests.skipped", sums["skipped"], Better.LOWER),
            count("tests.failed", sums["failed"], Better.LOWER),
            *(
                count("test.failed", int(word == "failed"), Better.LOWER, {"test": name})
                for name, word in results.items()
                if word != "skipped"
            ),
        )


def _result(name: str, text: str, code: int) -> str:
    """Return `ok`, `skipped` or `failed`; one that a signal ended (128 and more) has failed. Raises ParseError."""
    if code:
        return "failed"
    if {name, name.removesuffix("s")} & {*_SKIPPED.findall(text)}:  # vxworkstests says vxworkstest
        return "skipped"
    if f"{name} OK" not in text.splitlines():
        raise ParseError(f"smokey's test {name} ended with 0 and did not say OK: {text.strip()[:200] or 'no message'}")
    return "ok"
