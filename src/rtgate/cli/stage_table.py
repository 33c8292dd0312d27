# SPDX-License-Identifier: MIT
"""The table of `rtgate sections` that has the stages of a wake-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rtgate.explain.sections import BootSections
from rtgate.explain.stages import WakeUpStages
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.report.listing import show_listing

_SINGLE = ("mean", "virtual us", "longest", "virtual us")
_COMPARED = tuple(
    column for figure in ("mean", "longest") for column in (f"{figure}, baseline", "candidate", "change", "virtual us")
)


def show_stages(by_arm: Mapping[str, BootSections]) -> None:
    """Print mean and longest of each stage; of two kernels the change.

    If one of them has no stages, nothing but why, and that only if its wake-ups have a bound.
    """
    by_name = {arm: boot.stages for arm, boot in sorted(by_arm.items()) if boot.stages}
    if len(by_name) < len(by_arm):
        arms = " and in the ".join(arm for arm, boot in sorted(by_arm.items()) if boot.bound and not boot.stages)
        if arms:
            print(f"no stages of wake-ups: in the {arms} no wake-up went the usual way, or a function is inlined\n")
        return
    columns = _COMPARED if len(by_name) == 2 else _SINGLE
    show_listing(("stage of a wake-up", *columns), _rows(list(by_name.values())), right=columns)
    for arm, stages in by_name.items():
        print(f"{arm}: {stages.count:,} of {stages.count + stages.others:,} wake-ups went this way")
    print()


def _rows(kernels: Sequence[WakeUpStages]) -> Iterator[tuple[str, ...]]:
    for same in zip(*((*kernel.stages, kernel.whole) for kernel in kernels), strict=True):
        means = [stage.total / kernel.count for stage, kernel in zip(same, kernels, strict=True)]
        longest = [stage.longest for stage in same]
        yield same[0].name, *_cells(means, 1), *_cells(longest, 0)


def _cells(lengths: Sequence[float], digits: int) -> Iterator[str]:
    """Yield the cells of one figure: of two kernels, its change in instructions and in virtual us."""
    yield from (f"{length:,.{digits}f}" for length in lengths)
    change = lengths[-1] - lengths[0]
    if len(lengths) == 1:
        yield f"{lengths[0] * INSTRUCTION_NS / 1000:.1f}"
    else:
        yield from (f"{change:+z,.{digits}f}", f"{change * INSTRUCTION_NS / 1000:+z.1f}")
