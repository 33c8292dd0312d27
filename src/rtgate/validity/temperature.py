# SPDX-License-Identifier: MIT
"""Validity check: no thermal zone was above the board's limit, as clocks of a chip that is too hot are lowered."""

from __future__ import annotations

from rtgate.board import thermal
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for, not_applicable, unless_virtual


def _judge(record: Record) -> Answer:
    limit, zones = record.evidence.expectation.temperature_limit, thermal.zones(record.evidence.readings)
    if limit is None:
        return not_applicable("the board's file gives no temperature_limit")
    if not zones:
        problem = "the board's file has a temperature_limit, and no sensor gave a temperature"
        return answer_for(problem, "", Invalidates.GOOD_NEWS)
    hot = [f"{zone.name} was at {zone.highest:g} C" for zone in zones if zone.highest > limit]
    if hot:
        return answer_for(f"{', '.join(hot)}; the board's limit is {limit} C", "")
    names = [zone.name for zone in zones if zone.before is None or zone.after is None]
    problem = f"the temperature of {', '.join(names)} was not read before and after" if names else ""
    fine = f"at most {max(zone.highest for zone in zones):g} C, {limit} C are allowed"
    return answer_for(problem, fine, Invalidates.GOOD_NEWS)


CHECK = ValidityCheck(
    name="temperature",
    holds="no thermal zone was above the board's `temperature_limit` before or after",
    invalidates=Invalidates.FIGURES,
    exceptions="clocks of a chip that is too hot are lowered; good news, if a zone was read only once or not at all",
    judge=_judge,
    reads=unless_virtual(*thermal.WATCHED),
    readings=thermal.WATCHED,
)
