# SPDX-License-Identifier: MIT
"""The limits that come from the reference documents, and what was measured of them last."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot, BootFilter
from rtgate.judge.applicable import applicable
from rtgate.judge.limits import apply
from rtgate.judge.thresholds import Threshold, Thresholds

DOCUMENTS: Mapping[str, str] = {
    "s000": "Rockchip RealTime Linux Performance Test Report V1.0.1, 2023-10-07",
    "v102": "Rockchip RealTime Linux Performance Test Report V1.0.2, 2024-06-20",
    "s001": "21ic forum post on the Core-RK3576J module, 2025-08-08",
    "s002": "openEuler Embedded real-time performance, RK3568, undated",
    "s003": "Rockchip Developer Guide PCIe Performance V2.2.0, 2024-04-26",
    "v240": "Rockchip Developer Guide PCIe Performance V2.4.0, 2024-08-22",
    "s004": "Real-time test notes, Intel NUC with Celeron J3455, undated",
}
_SOURCE = re.compile(rf"(?P<figure>(?P<document>{'|'.join(DOCUMENTS)})-[^\s:]+): (?P<printed>[^,]+).*")
_NEWEST = 20  # boots of a case and a profile among which the last one with a limit's options is looked for


@dataclass(frozen=True, slots=True)
class SeedLimit:
    """A limit with the figure that it was made from.

    Attributes:
        figure: its name, as `s000-rk3568-preempt_rt-idle/t3/max`.
        printed: what the document prints, with its unit.
        document: its title.
    """

    limit: Threshold
    figure: str
    printed: str
    document: str


def seed_limits(thresholds: Thresholds) -> tuple[SeedLimit, ...]:
    """Return the limits whose source is a figure of a reference document, in the order of the file."""
    matches = ((limit, _SOURCE.fullmatch(limit.source)) for limit in thresholds.entries)
    return tuple(
        SeedLimit(limit, match["figure"], match["printed"], DOCUMENTS[match["document"]])
        for limit, match in matches
        if match
    )


def last_worst(history: History, limit: Threshold) -> str:
    """Return the worst of a limit's figure in the last valid boot that it holds for, and when; empty for none.

    Raises:
        InfrastructureError: the database does not answer.
    """
    for boot, value in _values(history, limit):
        return f"{value} ({boot.stored_at[:10]})"
    return ""


def _values(history: History, limit: Threshold) -> Iterator[tuple[Boot, str]]:
    boot_filter = BootFilter(board=limit.board, flavour=limit.flavour, case=limit.case, usable=True)
    counts: Counter[str] = Counter()
    for boot in reversed(queries.find(history, boot_filter)):
        counts[boot.profile] += 1
        if counts[boot.profile] > _NEWEST:
            continue
        (record,) = queries.records(history, [boot])
        value = apply(limit, [record]).value if applicable([limit], [record]).limits else None
        if value is not None:
            yield boot, value.text
