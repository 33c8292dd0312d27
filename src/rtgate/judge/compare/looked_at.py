# SPDX-License-Identifier: MIT
"""Which properties of a kernel a run looks at: by the cases that it has, and the CPUs that they were measured on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName


@dataclass(frozen=True, slots=True)
class Property:
    """What a real-time kernel does, and what looks at it.

    Attributes:
        tools: measure it.
        suites: of which every tool does.
        cpus: so many it takes.
    """

    name: str
    tools: frozenset[str] = frozenset()
    suites: frozenset[str] = frozenset()
    cpus: int = 1


_ACROSS = frozenset({"signaltest", "sigwaittest", "pmqtest", "ptsematest", "svsematest", "rt-migrate-test"})
PROPERTIES = (
    Property("signals", suites=frozenset({"signal"})),
    Property("wake-ups across CPUs", tools=_ACROSS, cpus=2),
    Property("priority inheritance", tools=frozenset({"pi_stress", "pip_stress"})),
    Property("deadline tasks", tools=frozenset({"cyclicdeadline", "deadline_test"})),
    Property("devices", suites=frozenset({"nvme", "pcie"})),
)


def not_looked_at(boots: Iterable[tuple[str, Record]]) -> tuple[str, ...]:
    """Return the names of what no measured boot looked at.

    Args:
        boots: case, such as `latency/cyclictest:idle`, and a boot of it.
    """
    cases = {(case, record.environment.cpus) for case, record in boots if record.has_results}
    return tuple(trait.name for trait in PROPERTIES if not any(_looks(trait, case, cpus) for case, cpus in cases))


def _looks(trait: Property, case: str, cpus: str) -> bool:
    name = CaseName.parse(case)
    there = int(cpus) if cpus.isdecimal() else 1
    return there >= trait.cpus and (name.suite in trait.suites or name.tool in trait.tools)
