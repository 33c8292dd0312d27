# SPDX-License-Identifier: MIT
"""pcie-bar: how fast a CPU stores to and loads from the memory of a PCI function, and whether the data is right.

It is a program of ours (target/pcie/bar.c), so this module and it change together. It ends with 0, or with 1 when what
was read is not what was written; then it measured too. Every other code is an error whose reason it says in one line.

Rates are those of all threads of a run together: what all moved, from the first start to the last end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import pcie_limits
from rtgate.board.pcie import Function
from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, rate
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import ThreadScope
from rtgate.units import Quantity, Unit

DEVICE = "endpoint"
"""The function whose largest memory BAR may be overwritten."""

STORES = ("store32", "store64", "store128", "memset_io")
LOADS = ("load32", "load64", "load128", "memcpy_fromio")
PLAIN = "plain128"
"""A plain C loop that does what store128 does: what the program's own loops are held against."""

OPERATIONS = (*STORES, PLAIN, *LOADS)
PCI = Need(test="[ -d /sys/bus/pci/devices ]", reason="the kernel has no PCI (CONFIG_PCI)")

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
            *("pcie-bar", f"--seconds={self._seconds(setting):g}", f"--operations={','.join(OPERATIONS)}"),
            f"--threads={','.join(map(str, _threads(setting)))}",
            *((f"--cpus={setting.cpu_list}",) if setting.cpu_list else ()),
            *("--force", setting.pcie[DEVICE].locator if DEVICE in setting.pcie else "none"),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: its threads have no real-time policy."""
        seconds = self._seconds(setting) * len(OPERATIONS) * len(_threads(setting))
        return Expected(threads=(), duration_s=seconds, seen=ThreadScope.SESSION)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `NAME.rate` of each operation, `NAME.rate.threads` of all threads together, and `bytes.wrong`.

        Where the board's file says how the function's link is trained, also `NAME.share` of what that link can carry.

        Raises:
            ParseError: it failed, was stopped, its JSON is missing or damaged, contradicts itself or what was asked, or
                a rate is higher than the link permits.
        """
        check_end(self.name, output, codes=(0, _WRONG))
        report = document(self.name, output.text("tool.out"))
        runs = tuple(report.numbered_objects("run").values())
        plan = [(name, many) for many in _threads(output.setting) for name in OPERATIONS]
        work = [(run.text("operation"), run.integer("threads")) for run in runs]
        if work != plan:
            raise ParseError(f"pcie-bar did {_format_runs(work)}, not {_format_runs(plan)}")
        if report.data.get("verified") is not True:
            raise ParseError("pcie-bar did not compare the data")
        wrong = sum(run.natural("wrong") for run in runs)
        if bool(wrong) != (output.exit_code == _WRONG):
            raise ParseError(f"pcie-bar reports {wrong} wrong bytes and ends with exit code {output.exit_code}")
        least_ns = self._seconds(output.setting) * 1e9 * 0.999  # the clock is read after what it measures
        return (
            count("bytes.wrong", wrong, Better.LOWER),
            *(measurement for run in runs for measurement in _read_run(run, least_ns, output.setting)),
        )

    def _seconds(self, setting: Setting) -> float:
        """Return the length of one operation."""
        if setting.virtual_time:
            return self.virtual_s
        return max(self.shortest_s, round(setting.duration_s / len(OPERATIONS) / len(_threads(setting)), 3))


def _threads(setting: Setting) -> tuple[int, ...]:
    """Return with how many threads each operation is measured, in turn."""
    return (1, setting.cpus) if setting.cpus > 1 else (1,)


def _format_runs(runs: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name[:20]} x{threads}" for name, threads in runs[:40])


def _read_run(run: Document, least_ns: float, setting: Setting) -> tuple[Measurement, ...]:
    byte_count, duration_ns = run.natural("bytes"), run.natural("ns")
    operation, threads = run.text("operation"), run.integer("threads")
    if not byte_count or duration_ns < least_ns:
        raise ParseError(
            f"pcie-bar's {operation} moved {byte_count} bytes in {duration_ns} ns: it was asked for {least_ns:.0f} ns"
        )
    many = "" if threads == 1 else ".threads"
    unit = Unit.VIRTUAL_MB_S if setting.virtual_time else Unit.MB_S
    measurement = rate(
        f"{operation}.rate{many}",
        byte_count * 1e9 / duration_ns,
        unit,
        {} if threads == 1 else {"threads": str(threads)},
    )
    assert measurement.quantity is not None
    link = None if setting.virtual_time else expected_link(setting.pcie.get(DEVICE))
    if link is None:
        return (measurement,)
    share = Quantity(pcie_limits.share(measurement.quantity, link), Unit.RATIO)
    name = f"{operation}.share{many}"
    return (measurement, Measurement(name=name, better=Better.HIGHER, quantity=share, labels=measurement.labels))


def expected_link(function: Function | None) -> pcie_limits.Link | None:
    """Return the link of a function as the board's file expects it; None where it does not say all of it.

    That the link is trained so is for the link's own checks, which every case on the board has.
    """
    if function is None or not (function.generation and function.width and function.mps):
        return None
    try:
        return pcie_limits.Link(generation=function.generation, lanes=function.width, payload=function.mps)
    except ValueError:
        return None  # a kind of link for which there is no formula
