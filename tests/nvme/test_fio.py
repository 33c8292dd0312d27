# SPDX-License-Identifier: MIT
"""What an NVMe disk carries: the vendor guide's four jobs, with a queue of 32, once the disk is steady."""

from rtgate.plugin import Measure, cases
from rtgate.tools.fio import FioRandread, FioRandwrite, FioRead, FioWrite


@cases(FioRead(), "idle")
def test_read(measure: Measure) -> None:
    """1 MiB, one after the other."""
    measure()


@cases(FioWrite(), "idle")
def test_write(measure: Measure) -> None:
    """1 MiB, one after the other."""
    measure()


@cases(FioRandread(), "idle")
def test_randread(measure: Measure) -> None:
    """4 KiB, anywhere in the file."""
    measure()


@cases(FioRandwrite(), "idle")
def test_randwrite(measure: Measure) -> None:
    """4 KiB, anywhere in the file."""
    measure()
