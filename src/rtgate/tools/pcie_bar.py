# SPDX-License-Identifier: MIT
"""How fast a CPU stores to and loads from the memory of a PCI function, and whether the data is right.

pcie-bar measures in user space, without write combining and with it. It is a program of ours (target/pcie/bar.c), so
this module and it change together. It ends with 0, or with 1 when what was read is not what was written; then it
measured too. Every other code is an error whose reason it says in one line.

Rates are those of all threads of a run together: what all moved, from the first start to the last end.

pcie-bar-kernel measures the kernel's own loops, by a driver of ours (target/modules/rtgate_pcie_bar.c) that writes the
same JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import pcie_limits
from rtgate.errors import ParseError
from rtgate.tools import Driver, Expected, Output, Reports, Setting, Tool, count, kept_on, rate
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.units import Quantity, Unit

DEVICE = "endpoint"
"""The function whose largest memory BAR may be overwritten."""

STORES = ("store32", "store64", "store128", "memset_io")
LOADS = ("load32", "load64", "load128", "memcpy_fromio")
PLAIN = "plain128"
"""A plain C loop that does what store128 does: what the program's own loops are held against."""

OPERATIONS = (*STORES, PLAIN, *LOADS)
KERNEL_OPERATIONS = ("store32", "memset_io", "memcpy_toio", "load32", "memcpy_fromio")
PCI = Need(test="[ -d /sys/bus/pci/devices ]", reason="the kernel has no PCI (CONFIG_PCI)")
WRITE_COMBINING = Need(
    test="ls /sys/bus/pci/devices/*/resource*_wc >/dev/null 2>&1",
    reason="no BAR can be mapped write-combining: none is prefetchable, or the kernel cannot (x86: CONFIG_X86_PAT)",
)

_FILE = "/dev/rtgate_pcie_bar"
_WRONG = 1  # exit code


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieBar(Tool):
    """Options of pcie-bar.

    Attributes:
        virtual_s: length of each operation on virtual time, where a longer one gives the same rate.
        shortest_s: the same elsewhere, however short the profile is.
    """

    virtual_s: float = 0.05
    shortest_s: float = 0.1

    operations: ClassVar[tuple[str, ...]] = OPERATIONS
    longest_s: ClassVar[float] = math.inf  # of an operation
    mapping: ClassVar[tuple[str, ...]] = ()
    name: ClassVar[str] = "pcie-bar"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (PCI,)
    devices: ClassVar[tuple[str, ...]] = (DEVICE,)
    confined: ClassVar[bool] = True
    reports: ClassVar[Mapping[str, Reports]] = {
        "bytes.wrong": Reports.FAILURES,
        **{f"{name}.rate{many}": Reports.RATE for name in OPERATIONS for many in ("", ".threads")},
        **{f"{name}.share{many}": Reports.RATIO for name in OPERATIONS for many in ("", ".threads")},
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: every operation with one thread, then with one on each CPU.

        `--force`, because a board that lists the function says that its memory may be overwritten, and the driver that
        it has on Rockchip boards (pcie-rkep) does not use that memory by itself.
        """
        return (
            "pcie-bar",
            f"--seconds={self._seconds(setting):g}",
            f"--operations={','.join(OPERATIONS)}",
            *self.mapping,
            f"--threads={','.join(map(str, self._threads(setting)))}",
            *((f"--cpus={setting.cpu_list}",) if setting.cpu_list else ()),
            "--force",
            _function(setting),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: its threads have no real-time policy."""
        seconds = self._seconds(setting) * len(self.operations) * len(self._threads(setting))
        return Expected(threads=(), duration_s=seconds)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `NAME.rate` of each operation, `NAME.rate.threads` of all threads together, and `bytes.wrong`.

        Where the board's file says how the function's link is trained, also `NAME.share` of what that link can carry.

        Raises:
            ParseError: it failed, was stopped, its JSON is missing or damaged, contradicts itself or what was asked, or
                a rate is higher than the link permits.
        """
        check_end(self.name, output, codes=(0, _WRONG))
        report = document(self.name, output.text("tool.out"))
        if report.data.get("write_combining") is not bool(self.mapping):
            raise ParseError(f"{self.name} does not say that its mapping is the one that was asked for")
        measurements = self._read_runs(report, output)
        wrong = _wrong_bytes(report)
        if bool(wrong) != (output.exit_code == _WRONG):
            raise ParseError(f"{self.name} reports {wrong} wrong bytes and ends with exit code {output.exit_code}")
        return measurements

    def _read_runs(self, report: Document, output: Output) -> tuple[Measurement, ...]:
        """Return the wrong bytes of all runs, and the rates of each. Raises ParseError."""
        plan = [(name, many) for many in self._threads(output.setting) for name in self.operations]
        runs = tuple(report.numbered_objects("run").values())
        work = [(run.text("operation"), run.integer("threads")) for run in runs]
        if work != plan:
            raise ParseError(f"{self.name} did {_format_runs(work)}, not {_format_runs(plan)}")
        if report.data.get("verified") is not True:
            raise ParseError(f"{self.name} did not compare the data")
        least_ns = self._seconds(output.setting) * 1e9 * 0.999  # the clock is read after what it measures
        return (
            count("bytes.wrong", _wrong_bytes(report), Better.LOWER),
            *(measurement for run in runs for measurement in _read_run(run, least_ns, output)),
        )

    def _threads(self, setting: Setting, /) -> tuple[int, ...]:
        """Return with how many threads each operation is measured, in turn."""
        return (1, setting.cpus) if setting.cpus > 1 else (1,)

    def _seconds(self, setting: Setting) -> float:
        """Return the length of one operation."""
        if setting.virtual_time:
            return self.virtual_s
        share = setting.duration_s / len(self.operations) / len(self._threads(setting))
        return min(self.longest_s, max(self.shortest_s, round(share, 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieBarWriteCombining(PcieBar):
    """The same with the BAR mapped write-combining, where the CPU gathers neighbouring stores."""

    mapping: ClassVar[tuple[str, ...]] = ("--write-combining",)
    name: ClassVar[str] = "pcie-bar-wc"
    needs: ClassVar[tuple[Need, ...]] = (PCI, WRITE_COMBINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieBarKernel(PcieBar):
    """The kernel's own loops, as drivers use them: one access after the other, `memset_io` and both copies.

    Attributes:
        virtual_s: length of each operation on virtual time, long beside what looks at the target meanwhile.
    """

    virtual_s: float = 0.2

    operations: ClassVar[tuple[str, ...]] = KERNEL_OPERATIONS
    longest_s: ClassVar[float] = 60.0  # more the driver refuses
    name: ClassVar[str] = "pcie-bar-kernel"
    image: ClassVar[str] = "core"
    driver: ClassVar[Driver | None] = Driver(
        symbol="RTGATE_PCIE_BAR", builds={"arm64": "virt-arm64-bar", "x86_64": "virt-x86_64-bar"}
    )
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test=f"[ -c {_FILE} ]",
            reason="the kernel has no driver rtgate_pcie_bar: build it in (`built_in:`), or load the module",
        ),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "bytes.wrong": Reports.FAILURES,
        **{f"{name}.rate": Reports.RATE for name in KERNEL_OPERATIONS},
        **{f"{name}.share": Reports.RATIO for name in KERNEL_OPERATIONS},
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: the shell waits in its write while the driver measures, on one CPU.

        `force` for the reason that pcie-bar has.
        """
        run = f"{_function(setting)} {round(self._seconds(setting) * 1e6)} force"
        return (*kept_on(setting.cpu_list or "0"), "sh", "-c", f"echo {run} >{_FILE} && cat {_FILE}")

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `bytes.wrong`, and `NAME.rate` of each operation; `NAME.share` as pcie-bar does.

        Raises:
            ParseError: the driver refused, its JSON is missing or damaged, contradicts itself or what was asked, or a
                rate is higher than the link permits.
        """
        check_end(self.name, output)
        return self._read_runs(document(self.name, output.text("tool.out")), output)

    def _threads(self, _: Setting, /) -> tuple[int, ...]:
        """Return how many: what writes to the driver is one thread."""
        return (1,)


def _function(setting: Setting) -> str:
    """Return how the function is found; `none` where the board has none, so that the case is skipped."""
    return setting.pcie[DEVICE].locator if DEVICE in setting.pcie else "none"


def _format_runs(runs: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name[:20]} x{threads}" for name, threads in runs[:40])


def _wrong_bytes(report: Document) -> int:
    return sum(run.natural("wrong") for run in report.numbered_objects("run").values())


def _read_run(run: Document, least_ns: float, output: Output) -> tuple[Measurement, ...]:
    byte_count, duration_ns = run.natural("bytes"), run.natural("ns")
    operation, threads = run.text("operation"), run.integer("threads")
    if not byte_count or duration_ns < least_ns:
        raise ParseError(
            f"{run.tool}'s {operation} moved {byte_count} bytes in {duration_ns} ns: it was asked for {least_ns:.0f} ns"
        )
    many = "" if threads == 1 else ".threads"
    measurement = rate(
        f"{operation}.rate{many}",
        byte_count * 1e9 / duration_ns,
        output.megabytes_per_second,
        {} if threads == 1 else {"threads": str(threads)},
    )
    assert measurement.quantity is not None
    link = None if output.setting.virtual_time else pcie_limits.link_of(output.setting.pcie.get(DEVICE))
    if link is None:
        return (measurement,)
    share = Quantity(pcie_limits.share(measurement.quantity, link), Unit.RATIO)
    name = f"{operation}.share{many}"
    return (measurement, Measurement(name=name, better=Better.HIGHER, quantity=share, labels=measurement.labels))
