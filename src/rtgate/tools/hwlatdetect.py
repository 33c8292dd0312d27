# SPDX-License-Identifier: MIT
"""hwlatdetect: how long the hardware or its firmware holds a CPU while the kernel lets nothing else run on it.

Facts of rt-tests 2.4 to 2.10 (src/hwlatdetect/hwlatdetect.py) that this module depends on:

* It drives the kernel's hwlat tracer (kernel/trace/trace_hwlat.c): a kernel thread spins on a CPU with interrupts off
  for `width` of every `window` and records gaps in the clock that are larger than the threshold. It goes from CPU to
  CPU after each window. Between 2.4 and 2.10 it reaches the tracer through debugfs only, which it mounts if need be.
* It ends with 1 when the largest gap is over its hard limit, and so does Python after an error. The hard limit is
  by default the threshold. Only a report has a line `Max Latency:`.
* A largest gap is reported only when one was over the threshold: below it nobody knows how large they were.
* Samples are listed after the report; with `--watch` only before it, as they were found.
* One sample is one window with gaps; `count` (2.10) is the number of gaps in it. `cpu` is there from 2.6.
* Ctrl-C ends it early, with the same report and a line `interrupted`. SIGTERM and SIGKILL leave the tracer running.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_OTHER, Threads, ThreadScope

_NUMBER = "[0-9]{1,15}"
_REPORT = re.compile(
    rf"^Max Latency: (?:Below threshold|(?P<max>{_NUMBER})us)\n"
    rf"Samples recorded: (?P<samples>{_NUMBER})\n"
    rf"Samples exceeding threshold: (?P<exceeding>{_NUMBER})$",
    re.MULTILINE,
)
_SAMPLE = re.compile(
    rf"^ts: [0-9.]+, inner:(?P<inner>{_NUMBER}), outer:(?P<outer>{_NUMBER})(?:, cpu:[0-9]+)?"
    rf"(?:, count:(?P<count>{_NUMBER}))?$",
    re.MULTILINE,
)
_PARAMETER = re.compile(rf"^ *(Latency threshold|Sample window|Sample width): +({_NUMBER})us$", re.MULTILINE)
# The kernel refuses this for as long as the killed tool still has the trace open.
_CLEANUP = """for try in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(cat /sys/kernel/tracing/current_tracer)" = hwlat ] || break
        echo nop >/sys/kernel/tracing/current_tracer && break
        sleep 0.1
    done"""
_DURATION = re.compile(rf"^hwlatdetect:  test duration ({_NUMBER}) seconds$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hwlatdetect(Tool):
    """Options of hwlatdetect.

    Attributes:
        threshold_us: shorter gaps do not count.
        window_us: a CPU is watched once in this time.
        width_us: how long it is watched, with interrupts off. The tool's own half second would stop everything else
            on a board with one CPU for that long.
        debug: let it tell what it does, which is not read.
        watch: let it print gaps as it finds them, and not after its report.
        least_s: the shortest run. Python needs 5 s to start on a virtual board, and what runs is looked at half way.
    """

    threshold_us: int = 10
    window_us: int = 100_000
    width_us: int = 50_000
    least_s: int = 16
    debug: bool = False
    watch: bool = False

    name: ClassVar[str] = "hwlatdetect"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="grep -qw hwlat /sys/kernel/tracing/available_tracers",
            reason="the kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)",
            file_system="tracefs",
        ),
        Need(test="[ -d /sys/kernel/debug ]", reason="the kernel has no debugfs (CONFIG_DEBUG_FS)"),
    )
    cleanup: ClassVar[str] = _CLEANUP
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency.max": Reports.TIME,
        "samples": Reports.COUNT,
        "samples.exceeding": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line. No gap reaches the hard limit: what is too long is for limits to say."""
        return (
            *("hwlatdetect", f"--duration={setting.at_least(self.least_s)}s", "--hardlimit=3600s"),
            *(f"--threshold={self.threshold_us}us", f"--window={self.window_us}us", f"--width={self.width_us}us"),
            *(("--debug",) if self.debug else ()),
            *(("--watch",) if self.watch else ()),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: the tracer's thread, and the tool, whose name begins like that."""
        return Expected(
            threads=(Threads(count=2, policy=SCHED_OTHER, priority=0),),
            duration_s=setting.at_least(self.least_s),
            seen=ThreadScope.SYSTEM,
            name="hwlatd",
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `samples`, `samples.exceeding` and, if a gap was over the threshold, `latency.max`.

        Raises:
            ParseError: it failed, was stopped, measured with other parameters, or contradicts itself.
        """
        text = output.text("tool.out")
        deadline = output.text("tool.deadline").strip()
        if "Max Latency:" not in text and not deadline:
            raise ParseError(f"hwlatdetect measured nothing: {output.last_message()}")
        check_end("hwlatdetect", output)
        if re.search("^interrupted$", text, re.MULTILINE):
            raise ParseError("hwlatdetect was interrupted: it did not measure to its end")
        self._check_parameters(text, output.setting)
        return self._report(text, output)

    def _check_parameters(self, text: str, setting: Setting) -> None:
        options = {
            "Latency threshold": self.threshold_us,
            "Sample window": self.window_us,
            "Sample width": self.width_us,
        }
        parameters = {name: int(value) for name, value in _PARAMETER.findall(text)}
        if parameters != options:
            raise ParseError(f"hwlatdetect measured with {parameters}, not with {options}")
        if _DURATION.findall(text) != [str(setting.at_least(self.least_s))]:
            raise ParseError(f"hwlatdetect does not say that it measured for {setting.at_least(self.least_s)} s")

    def _report(self, text: str, output: Output) -> tuple[Measurement, ...]:
        reports = list(_REPORT.finditer(text))
        if len(reports) != 1:
            raise ParseError(f"hwlatdetect's report is damaged: {len(reports)} of it could be read")
        [report] = reports
        lines = list(_SAMPLE.finditer(text, 0 if self.watch else report.end()))
        samples, excesses = int(report["samples"]), int(report["exceeding"])
        gaps = sum(int(line["count"] or 1) for line in lines)
        largest = max((int(line[part]) for line in lines for part in ("inner", "outer")), default=0)
        maximum = int(report["max"] or 0)
        if (len(lines), gaps, largest) != (samples, excesses, maximum) or bool(maximum) != bool(samples):
            raise ParseError(
                f"hwlatdetect contradicts itself: it reports {samples} samples, {excesses} over the threshold, at most "
                f"{maximum} us, and lists {len(lines)} with {gaps}, at most {largest} us"
            )
        return (
            count("samples", samples, Better.LOWER),
            count("samples.exceeding", excesses, Better.LOWER),
            *((time("latency.max", maximum, output.microsecond),) if report["max"] is not None else ()),
        )
