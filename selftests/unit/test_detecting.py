# SPDX-License-Identifier: MIT
"""What a PASS says that its run would have found is found: real placebos, each made worse by what another names."""

from __future__ import annotations

from functools import cache

import pytest
from selftests.campaigns.comparisons import MEASURED, campaigns
from selftests.campaigns.detecting import NamedSize, sizes_named
from selftests.campaigns.rates import CaseBoots, case_boots

HACKBENCH = ("virt-arm64", "latency/cyclictest:hackbench")
SIGNALS = ("virt-arm64-smp2", "signal/signaltest:idle")


_LONG = pytest.mark.long("another campaign of the same kernels")
_FIRST, *_OTHERS = (directory.name for directory in campaigns() if directory.parent == MEASURED)
_CAMPAIGNS = [_FIRST, *(pytest.param(name, marks=_LONG) for name in _OTHERS)]


@cache
def cases() -> dict[tuple[str, str], CaseBoots]:
    return {(case.campaign, case.place[1]): case for case in case_boots(campaigns())}


@pytest.mark.parametrize("place", [HACKBENCH, SIGNALS], ids=lambda place: place[1])
@pytest.mark.parametrize("campaign", _CAMPAIGNS)
def test_the_size_that_a_run_names_is_found_in_most_others(campaign: str, place: tuple[str, str]) -> None:
    found: list[NamedSize] = list(sizes_named(cases()[campaign, place[1]]))
    assert {one.change for one in found} == (
        {"every figure"} if place == SIGNALS else {"every wake-up", "the tail alone"}
    )
    # Named by nine of ten placebos at least; a size that one or two name by chance may be found less often.
    usual = [one for one in found if one.size is not None and one.runs >= 3]
    assert usual
    assert all(one.found >= 0.7 * one.tried for one in usual)
    assert sum(one.found for one in found) >= 0.85 * sum(one.tried for one in found)
