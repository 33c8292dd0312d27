# SPDX-License-Identifier: MIT
"""What dmatest of Rockchip's kernels prints into the kernel's log, and how much one run of it may move.

Facts of pcie-dw-dmatest.c in Rockchip's trees (4.19 to 6.1) that this module depends on:

* The result is one line of the log, level error. (wr + rd) x size x loops is computed in 32 bits, so the printed speed
  is of a rest above 4 GiB. KB is 1024 bytes, and 1000000/1024 is cut to 976. Division by 0 us is not guarded.
* A transfer that failed is logged and the loop goes on: the line with a speed comes all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.errors import ParseError
from rtgate.tools.kernel_log import KernelLine

READ, WRITE = 1, 2  # rw_test; an example in the vendor's guide has it the wrong way round
DIRECTIONS = {WRITE: "write", READ: "read"}
SIZES = (64, 256, 4 << 10, 64 << 10, 1 << 20, 4 << 20)
"""Bytes of a transfer: those of the guide's tables."""
LINES = {1: 1, 2: 1, 3: 2}  # result lines by chn_en
_BYTES = 1 << 32  # the driver computes with fewer
_ROUND_BYTES = 1 << 28  # one run moves at most this: 0.6 s at Gen2 x1
_MOST_CYCLES = 20_000
_SLACK = 0.02  # of the printed speed: 976 instead of 976.5625, whole KB and whole microseconds

_RESULT = re.compile(
    r"(?:pcie_dw_dmatest: )?pcie dma (?P<wr>wr)?/(?P<rd>rd)? test \((?P<wr_en>[01])\+(?P<rd_en>[01])\)"
    r"\*(?P<size>[0-9]{1,10})\*(?P<loops>[0-9]{1,10}) cost (?P<us>[0-9]{1,15})us speed:(?P<speed>-?[0-9]{1,20})KB/S"
)
# What a transfer that did not work leaves in the log: of dmatest, pcie-rkep and the endpoint's driver. It is read here
# and by grep -E on the target, so it has only what both understand. Other drivers abort things as well.
FAILURE = (
    "rk_pcie_[A-Za-z0-9_]{1,40}_block (timed out|interrupted)|rk_pcie_dma_wait_for_finished timeout"
    "|, ((write|read) )?abort([^A-Za-z0-9_]|$)|failed to transfer dma"
)
FAILED = re.compile(FAILURE)
# What shows that the test was not set up; the second is the driver's own spelling.
MISUSED = re.compile(
    r"^(?:pcie_dw_dmatest: )?input error|dmatest dev not exits|test_dev out of index|failed to get current test_dev"
    r"|is exceed max dmatest dev number|failed to prepare dmatest"
)


def cycles(size: int) -> int:
    """Return how many transfers of a size one run makes."""
    return max(1, min(_MOST_CYCLES, _ROUND_BYTES // size))


def size_name(size: int) -> str:
    """Return a size as names have it: `64b`, `4k` of 1024 bytes, `1m` of 2^20."""
    for unit, scale in (("m", 1 << 20), ("k", 1 << 10)):
        if size >= scale and size % scale == 0:
            return f"{size // scale}{unit}"
    return f"{size}b"


@dataclass(frozen=True, slots=True)
class Run:
    """One line of results.

    Attributes:
        us: what all transfers took.
    """

    write: bool
    read: bool
    size: int
    loops: int
    us: int

    @property
    def total_bytes(self) -> int:
        """All bytes, not cut to 32 bits."""
        return (self.write + self.read) * self.size * self.loops


def results(log: Sequence[KernelLine]) -> tuple[Run, ...]:
    """Return the results in a kernel's log, with printed speeds checked against what was moved.

    Raises:
        ParseError: a line contradicts itself, or took no time.
    """
    return tuple(_result(match) for line in log for match in [_RESULT.search(line.text)] if match is not None)


def _result(match: re.Match[str]) -> Run:
    run = Run(
        write=match["wr_en"] == "1",
        read=match["rd_en"] == "1",
        size=int(match["size"]),
        loops=int(match["loops"]),
        us=int(match["us"]),
    )
    line = match[0]
    if (run.write, run.read) != (match["wr"] is not None, match["rd"] is not None) or not (run.write or run.read):
        raise ParseError(f"dmatest's line names one direction and counts another: {line}")
    if not run.us or not run.total_bytes:
        raise ParseError(f"dmatest's line has no time or no bytes, so no rate: {line}")
    speed, real = int(match["speed"]), run.total_bytes * 976 / run.us
    # A speed that wrapped is no reason to refuse a run that moved what it should: it is computed again.
    if run.total_bytes < _BYTES and abs(speed - real) > 1 + _SLACK * real:
        raise ParseError(f"dmatest's line contradicts itself, {real:.0f} KB/S by its own figures: {line}")
    return run


def by_start(runs: Sequence[Run], starts: Sequence[tuple[int, ...]]) -> list[Sequence[Run]]:
    """Return the results of each start, one for each channel. Raises ParseError: they are not what was started."""
    if not starts:
        raise ParseError("dmatest ran nothing")
    plan = [entry for entry in starts for _ in range(LINES[entry[3]])]
    entries = [(run.size, run.loops, WRITE * run.write + READ * run.read) for run in runs]
    if len(entries) < len(plan):
        raise ParseError(f"dmatest printed {len(entries)} of the {len(plan)} results of {len(starts)} runs")
    if entries != [entry[:3] for entry in plan]:
        raise ParseError("dmatest's results are not those of the runs that were started: somebody else used it")
    rest = iter(runs)
    return [[next(rest) for _ in range(LINES[entry[3]])] for entry in starts]
