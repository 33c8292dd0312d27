# SPDX-License-Identifier: MIT
"""`sections.json`: which sections are longer, which are the longest, and the bound of a wake-up, of a case.

It lies beside the candidate's boots. Following them writes it (docs/explanation/critical-sections.md), and judging
reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from rtgate.records import case_file
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.bound import Bound
from rtgate.records.record import Record
from rtgate.units import Quantity, Unit

_NAME = "sections.json"
MEASUREMENT = "critical section"
"""What a verdict on a comparison is of."""
CALL = "call in a critical section"
"""The same where a call of a changed function gained most: the section need not be longer."""
LENGTHS = ("irqsoff", "preemptoff", "preemptirqsoff")
"""What limits call the longest sections, by what was off: ftrace's names."""
RAWLOCK = "rawlock"
"""What limits call the longest hold of a raw spinlock."""
SECTION_MEASUREMENTS = (BOUND, *LENGTHS, RAWLOCK)
"""What limits may be of where boots are followed."""
GAINED = 400
"""Instructions by which functions that differ must make sections longer."""
GROWN = 2500
"""Instructions by which a section must be longer, whatever ran in it: in enough boots, if no function that differs
begins it, or if there are several CPUs."""
SPREADS = 3
"""How many times as much as the baseline's own boots differ a function must have gained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerSection:
    """A site of critical sections that is longer in the candidate; lengths in instructions.

    Attributes:
        off: what was off, in words.
        place: where it begins and ends.
        context: what ran: a thread, a softirq, a hard interrupt.
        baseline: the baseline's longest; 0 if it has no section that begins or ends there.
        candidate: the candidate's longest.
        count: how many sections the candidate has there.
        boots: in how many boots it has one.
        longer_boots: in how many it has one, or one that begins alike, that is longer than the baseline's longest by
            `GROWN`; None if nobody has counted them.
        seed: the boot with the longest section.
        begin: the function that begins the section, if it differs; empty if not.
        spread: by how much the baseline's boots differ in what that function takes; None if too few show it.
        call: the call of a function that differs that gained most, made in such a section, with all that it called; 0
            if there is none. Of calls within each other that gained as much it is the shortest.
        function: the one that differs and that the gain of the call belongs to; empty if it gained next to nothing.
        call_seed: the boot with this call.
        call_before: the longest of this function in the baseline's sections of this kind and context; where there is
            none, what may stand for it (`explain.call_changes`).
        call_elsewhere: the longest of this function in all of the baseline's sections; 0 if there is none, or if nobody
            looked.
        call_spread: by how much the baseline's boots differ in its calls (`explain.section_spread`); None if too few
            show it.
        call_boots: in how many of the candidate's boots a call of it, in any section, gained more than harmless changes
            make one; None if they were not counted.
    """

    off: str
    place: str
    context: str
    baseline: int
    candidate: int
    count: int
    boots: int
    seed: int
    begin: str = ""
    spread: int | None = None
    call: int = 0
    function: str = ""
    call_seed: int = 0
    call_before: int = 0
    call_elsewhere: int = 0
    call_spread: int | None = None
    call_boots: int | None = None
    longer_boots: int | None = None

    @property
    def growth(self) -> int:
        """By how many instructions the candidate's longest is longer."""
        return self.candidate - self.baseline

    @property
    def call_gain(self) -> int:
        """By how many instructions the call is longer."""
        return self.call - self.call_before

    @property
    def gained(self) -> int:
        """By how many instructions sections are longer because of functions that differ; 0 if they are not."""
        return max(0, self.call_gain, self.growth if self.begin else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestSection:
    """The longest section of all that one function begins.

    Attributes:
        off: what was off, one of `LENGTHS`.
        function: the one that disabled.
        place: where it begins and ends.
        context: what ran: a thread, a softirq, a hard interrupt.
        seed: the boot that had it.
    """

    off: str
    function: str
    place: str
    context: str
    instructions: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestHold:
    """The longest hold of one raw spinlock.

    Attributes:
        lock: the variable that it is in; `allocated, locked by FUNCTION` for one that the kernel has allocated.
        function: the one that locked it.
        seed: the boot that had it.
    """

    lock: str
    function: str
    instructions: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionComparison:
    """The critical sections of a case in the boots of a kernel, and how they differ from those of a baseline.

    Attributes:
        baseline_image, candidate_image: SHA-256 of the kernels; the baseline's is empty where the candidate was
            followed alone.
        seeds: the boots of each kernel, which are compared.
        further_seeds: boots of the candidate that the baseline has not, followed for its limits alone.
        boots_digest: what the candidate's measured, as `digest` says it.
        instruction_ns: what an instruction takes.
        cpus: how many the board has.
        sites: how many the candidate has.
        reached: in how many of them functions that differ were called, or began the section.
        longer: those that grew: first what functions that differ made longer, the most first.
        baseline_bound, candidate_bound: the longest of each kernel's boots; None where there is none.
        baseline_longest, candidate_longest: the longest sections of each kernel's boots.
        baseline_holds, candidate_holds: the longest hold of each raw spinlock in them.
        why_not: why the boots could not be followed, in words; empty if they were.
    """

    baseline_image: str
    candidate_image: str
    seeds: tuple[int, ...]
    boots_digest: str
    instruction_ns: int
    cpus: int
    sites: int = 0
    reached: int = 0
    longer: tuple[LongerSection, ...] = ()
    baseline_bound: Bound | None = None
    candidate_bound: Bound | None = None
    baseline_longest: tuple[LongestSection, ...] = ()
    candidate_longest: tuple[LongestSection, ...] = ()
    baseline_holds: tuple[LongestHold, ...] = ()
    candidate_holds: tuple[LongestHold, ...] = ()
    why_not: str = ""
    further_seeds: tuple[int, ...] = ()

    @property
    def candidate_seeds(self) -> tuple[int, ...]:
        """All boots of the candidate that were followed."""
        return tuple(sorted((*self.seeds, *self.further_seeds)))

    @property
    def compared(self) -> bool:
        """Whether there are two kernels."""
        return bool(self.baseline_image)

    def time(self, instructions: int) -> Quantity:
        """Return how long instructions take."""
        return Quantity(float(instructions * self.instruction_ns), Unit.VIRTUAL_NS)

    @property
    def images(self) -> set[str]:
        """The SHA-256 of the kernels that were followed."""
        return {image for image in (self.baseline_image, self.candidate_image) if image}

    def matches(self, candidate: Collection[Record], every: Iterable[Record]) -> bool:
        """Return whether these are the boots that were followed, and these the kernels of all records."""
        boots = [record for record in candidate if record.seed in self.candidate_seeds]
        return self.images == {record.kernel.image_sha256 for record in every} and self.boots_digest == digest(boots)


def least_gain(spread: int | None) -> int:
    """Return from how many instructions on a gain of a function is not taken for chance, by its spread."""
    return GROWN if spread is None else max(GAINED, SPREADS * spread)


def digest(boots: Iterable[Record]) -> str:
    """Return the SHA-256 of what boots were asked for and what they measured; of those that measured something."""
    facts = {
        str(record.seed): [list(record.argv), [measurement.as_json() for measurement in record.measurements]]
        for record in boots
        if record.has_results
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def write(directory: Path, comparison: SectionComparison) -> None:
    """Write down what was found into the directory of the case. Raises InfrastructureError."""
    case_file.write(directory / _NAME, comparison)


def read(directory: Path) -> SectionComparison | None:
    """Return what was found of a case; None if nobody followed it. Raises ConfigError: the file is damaged."""
    return case_file.read(directory / _NAME, SectionComparison)
