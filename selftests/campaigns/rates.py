# SPDX-License-Identifier: MIT
"""How often a comparison on virtual time is wrong, on real kernels as they were measured (`kernels`).

Each placebo is judged with what the *other* placebos showed in all campaigns (`teaching`), so that no kernel judges
itself; each harmful kernel with what all placebos showed. Two naive gates stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selftests.campaigns.comparisons import BUILD, UNPATCHED, Place, builds, campaign_name, changes
from selftests.campaigns.kernels import Kernels, emulator_of, measured_boots, placebos_of
from selftests.campaigns.teaching import Teachers

from rtgate.board.boot import ArmName
from rtgate.judge.compare.boot_figures import Part, boot_figures
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.inputs import ComparisonInputs
from rtgate.judge.compare.placebos import Placebos
from rtgate.judge.judging import Subject, judge
from rtgate.judge.learn.harmless import Boots
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.tools.registry import is_compared

GATE = (
    *(("virt-arm64", f"latency/cyclictest:{load}") for load in ("idle", "hackbench", "stress-ng")),
    ("virt-arm64-smp2", "signal/signaltest:idle"),
)
"""Cases that a gate compares in one run."""
ELSEWHERE = tuple(place for place, build in builds().items() if build != BUILD)
"""Cases of other builds: a gate compares those of one build in one run."""


_REGRESSIONS = {Part.BODY: "body", Part.NUMBER: "body", Part.TAIL: "tail", Part.EXTREME: "tail"}
"""What harm a regression shows (`Change.shows`), by the part of the distribution that its figure tells of."""


@dataclass(frozen=True, slots=True)
class KernelVerdicts:
    """What judging and comparing say of one kernel in a case.

    Attributes:
        boots: so many of it were judged.
        shown: as what harm its failures show (`Change.shows`).
    """

    verdicts: tuple[Verdict, ...]
    boots: int
    shown: frozenset[str]

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts that fail the kernel."""
        return tuple(one for one in self.verdicts if one.status is Status.FAIL)

    @property
    def is_open(self) -> bool:
        """Whether a gate would measure twice as many boots: nothing failed, and something is undecided."""
        return not self.failures and any(one.kind is Kind.INCONCLUSIVE for one in self.verdicts)


def judge_kernel(
    place: Place, kernels: Kernels, name: str, placebos: Placebos, quiet: Sequence[Subject] = ()
) -> KernelVerdicts:
    """Judge and compare one kernel, in a run of this case and of others beside it."""
    candidate, baseline = kernels[name], kernels[UNPATCHED]
    seeds = {record.seed for record in candidate.records}
    subject = Subject(
        case=place[1],
        board=place[0],
        arm="candidate",
        flavour=candidate.records[0].kernel.flavour,
        records=[_as_candidate(record, baseline.records[0]) for record in candidate.records],
        baseline=[record for record in baseline.records if record.seed in seeds],
    )
    said = [*judge(subject, Thresholds()), *compare([subject, *quiet], ComparisonInputs(placebos=placebos))]
    verdicts = tuple(one for one in said if one.case == place[1])
    parts = {label: figure.part for record in candidate.records for label, figure in boot_figures(record).items()}
    failures = [one for one in verdicts if one.status is Status.FAIL]
    shown = {_REGRESSIONS[parts[one.measurement]] for one in failures if one.kind is Kind.REGRESSION}
    shown |= {"failure" for one in failures if one.kind is Kind.GUARANTEE}
    return KernelVerdicts(verdicts, len(candidate.records), frozenset(shown))


def _quiet_case(place: Place, kernels: Kernels) -> Subject:
    """Return a case in which nothing happened: a candidate that prints what its baseline does."""
    records = kernels[UNPATCHED].records
    return Subject(
        case=place[1],
        board=place[0],
        arm="candidate",
        flavour=records[0].kernel.flavour,
        records=[
            replace(
                one,
                arm=ArmName.CANDIDATE,
                kernel=replace(one.kernel, image_sha256="quiet"),
                machine={**one.machine, "image_sha256": "quiet"},
            )
            for one in records
        ],
        baseline=list(records),
    )


def kernels_to_judge(place: Place, kernels: Kernels) -> list[str]:
    """Return the kernels that a case must judge rightly: its placebos, and the harm that must show there."""
    known, harmless = changes(), placebos_of(kernels)
    if not is_compared(place[1]):  # few boots are enough, and nothing is learnt of them
        harmless = {name: boots for name, boots in kernels.items() if name in known and known[name].group == "placebos"}
    return [name for name in kernels if name in harmless or (name in known and known[name].must_show(place))]


@dataclass(frozen=True, slots=True)
class CompanionCase:
    """A case that a gate has in the same run: its figures take their share of the 1 %.

    Attributes:
        quiet: two kernels of which the candidate does what the baseline does.
    """

    teachers: Teachers
    quiet: Subject


@dataclass(frozen=True, slots=True)
class CaseBoots:
    """The boots of a case's kernels as a gate has them: at the first look, and twice as many at the second.

    Attributes:
        campaign: its name (`comparisons.campaign_name`).
        teachers: of this case, from which placebos.yaml is made.
        beside: what a gate compares in the same run.
        placebos: what placebos say instead.
    """

    campaign: str
    place: Place
    first: Kernels
    second: Kernels
    teachers: Teachers
    beside: tuple[CompanionCase, ...] = ()
    placebos: Placebos | None = None

    @property
    def quiet_cases(self) -> tuple[Subject, ...]:
        """The cases beside this one."""
        return tuple(one.quiet for one in self.beside)

    def case_history(self, name: str) -> Placebos:
        """Return what is known when a kernel is judged."""
        if self.placebos is not None:
            return self.placebos
        teachers = (self.teachers, *(one.teachers for one in self.beside))
        return Placebos({key: one for case in teachers for key, one in case.without(name).cases.items()})

    def judge_first(self, name: str) -> KernelVerdicts:
        """Judge a kernel as a gate does at its first look."""
        return judge_kernel(self.place, self.first, name, self.case_history(name), self.quiet_cases)

    def has_second(self, name: str) -> bool:
        """Return whether a kernel and its baseline have twice as many boots."""
        wanted = 2 * len(self.first[name].records)
        return all(len(self.second[one].records) == wanted for one in (UNPATCHED, name))

    def judge(self, name: str) -> KernelVerdicts:
        """Judge a kernel as a gate does in the end."""
        judged = self.judge_first(name)
        if not judged.is_open or not self.has_second(name):
            return judged
        both = {one: self.second[one] for one in (UNPATCHED, name)}
        return judge_kernel(self.place, both, name, self.case_history(name), self.quiet_cases)


def case_boots(
    directories: Iterable[Path], seeds: Sequence[int] = (), placebos: Placebos | None = None
) -> Iterator[CaseBoots]:
    """Yield every case of each campaign.

    Args:
        directories: of the campaigns.
        seeds: that are judged at the first look, without a gap, instead of those of a gate; of kernels that have them.
        placebos: what they showed, instead of what those of the campaigns do.
    """
    known = {directory: measured_boots(directory) for directory in directories}
    measured: dict[tuple[str, Place], list[Kernels]] = {}
    for places in known.values():
        for place, kernels in places.items():
            measured.setdefault((emulator_of(kernels), place), []).append(kernels)
    teachers = {(emulator, place): Teachers(place, tuple(found)) for (emulator, place), found in measured.items()}
    for directory, places in known.items():
        first = _complete(measured_boots(directory, seeds), len(seeds)) if seeds else places
        second = measured_boots(directory, seeds, looks=2)
        for place, kernels in first.items():
            emulator = emulator_of(kernels)
            gate = next((one for one in (GATE, ELSEWHERE) if place in one), ())
            beside = [other for other in places if other in gate and other != place]
            yield CaseBoots(
                campaign=campaign_name(directory),
                place=place,
                first=kernels,
                second=second[place],
                teachers=teachers[emulator, place],
                beside=tuple(
                    CompanionCase(teachers[emulator, other], _quiet_case(other, places[other])) for other in beside
                ),
                placebos=placebos,
            )


def _complete(places: Mapping[Place, Kernels], boots: int) -> dict[Place, Kernels]:
    """Return the kernels that have so many boots, of places where the unpatched one does."""
    found = {
        place: {name: one for name, one in kernels.items() if len(one.records) == boots}
        for place, kernels in places.items()
    }
    return {place: kernels for place, kernels in found.items() if UNPATCHED in kernels}


def _as_candidate(record: Record, baseline: Record) -> Record:
    """Return a record whose command line is the baseline's: inert words are a placebo here, and no other board."""
    if record.environment.command_line == baseline.environment.command_line:
        return replace(record, arm=ArmName.CANDIDATE)
    environment = replace(record.environment, command_line=baseline.environment.command_line)
    return replace(
        record,
        environment=environment,
        arm=ArmName.CANDIDATE,
        kernel=replace(record.kernel, image_sha256="words"),
        machine={**record.machine, "image_sha256": "words"},
    )


def _maximum(boots: Boots) -> float:
    return max(
        figure.value for record in boots.records for name, figure in boot_figures(record).items() if name == MAXIMUM
    )


MAXIMUM = "latency maximum"
NAIVE: Mapping[str, Callable[[Boots, Boots], bool]] = {
    "maximum over the baseline's": lambda new, old: _maximum(new) > _maximum(old),
    "maximum over 1.1 times the baseline's": lambda new, old: _maximum(new) > 1.1 * _maximum(old),
}
