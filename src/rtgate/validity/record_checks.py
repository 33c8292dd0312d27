# SPDX-License-Identifier: MIT
"""Validity checks of the record itself: does it say what it was made from, and what its own histograms hold?"""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity
from rtgate.validity.check import Check, Invalidates, judged

_EXIT_CODE = "raw/tool.rc"  # every plan that measured leaves it


def record_check(record: Record) -> Check:
    """Check that the record names the files that it was made from, and says what they say."""
    problems = list(record.discrepancies)
    if _EXIT_CODE not in record.sources and not record.unproven and not problems:
        problems = [f"record.json does not name the raw output that it was made from (`sources` has no {_EXIT_CODE})"]
    return judged("record", Invalidates.EVERYTHING, "; ".join(problems), "the files say the same")


def figures_check(record: Record) -> Check:
    """Check that no maximum is below what its histogram holds."""
    highest = {
        (one.name.removesuffix(".max"), tuple(sorted(one.labels.items()))): one.quantity
        for one in record.measurements
        if one.name.endswith(".max") and one.quantity is not None
    }
    problems = []
    for one in record.measurements:
        maximum = highest.get((one.name, tuple(sorted(one.labels.items()))))
        if one.histogram is None or maximum is None:
            continue
        least = one.histogram.limit if one.histogram.overflow else _highest_bucket(one.histogram)
        if maximum.to(one.unit).value < least * (1 - 1e-9):
            problems.append(
                f"record.json says {one.name}.max {one.label} {maximum}, its histogram has samples of at least "
                f"{Quantity(least, one.unit)}"
            )
    # A maximum over its limit stands: the histogram only says that there was more.
    return judged("figures", Invalidates.GOOD_NEWS, "; ".join(problems), "no maximum is below its histogram")


def _highest_bucket(histogram: Histogram) -> int:
    return max((value for value, samples in histogram.counts.items() if samples), default=0)
