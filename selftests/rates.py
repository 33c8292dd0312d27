# SPDX-License-Identifier: MIT
"""How often a comparison on virtual time is wrong, on real kernels as they were measured (`comparisons`).

Each placebo is judged with what the *other* placebos showed in all campaigns, so that no kernel judges itself; each
harmful kernel with what all placebos showed. Two naive gates stand beside it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from selftests.comparisons import UNPATCHED, Place, changes, records

from rtgate import record as records_file
from rtgate.judge.boot_figures import BootFigure, boot_figures
from rtgate.judge.comparing import compare
from rtgate.judge.grounds import Grounds
from rtgate.judge.judging import Subject, judge
from rtgate.judge.phases import Placebo, learnt
from rtgate.judge.placebos import Learnt, Placebos, version
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.profiles import profile
from rtgate.record import Record
from rtgate.tools.registry import TOOLS

NOTE = "Linux 6.12.117, QEMU 7.2 of Debian 12"
GATE = tuple(("virt-arm64", f"latency/cyclictest:{load}") for load in ("idle", "hackbench", "stress-ng"))
"""Cases that a gate compares in one run."""
_FEWEST = 8  # boots of a placebo that teach something


@dataclass(frozen=True, slots=True, eq=False)
class Boots:
    """The boots of one kernel in one case of a board."""

    kernel: str
    records: tuple[Record, ...]

    @property
    def data(self) -> tuple[str, ...]:
        """What two kernels must have in common to be one kernel as far as this case can tell."""
        return _data(self)

    @property
    def figures(self) -> Sequence[Mapping[str, BootFigure]]:
        """What is compared of each boot."""
        return _figures(self)


@cache
def _data(boots: Boots) -> tuple[str, ...]:
    return tuple(records_file.digest_source(record) for record in boots.records)


@cache
def _figures(boots: Boots) -> Sequence[Mapping[str, BootFigure]]:
    return [boot_figures(record) for record in boots.records]


Kernels = Mapping[str, Boots]
"""What a campaign measured in one case of a board, by kernel."""


def measured(directory: Path, seeds: Sequence[int] = (), *, looks: int = 1) -> dict[Place, Kernels]:
    """Return what was measured, by board and case, then by kernel.

    Args:
        directory: of the campaign.
        seeds: these, instead of those that a gate compares at first.
        looks: 2 for as many boots as a gate has after the second look, of kernels that have them.
    """
    found: dict[Place, dict[str, list[Record]]] = {}
    for name in (UNPATCHED, *changes()):
        if not (directory / f"{name}.json.xz").exists():
            continue
        for record in records(name, directory):
            first = seeds or _seeds(record.case)
            if record.seed in range(first[0], first[0] + looks * len(first)):
                found.setdefault((record.board, record.case), {}).setdefault(name, []).append(_planned(record))
    return {
        place: {name: Boots(name, tuple(boots)) for name, boots in kernels.items()}
        for place, kernels in found.items()
        if UNPATCHED in kernels
    }


def _planned(record: Record) -> Record:
    """Return a record with its plan, in place of which the first campaign has none: unknown plans are not compared."""
    return replace(record, machine={"plan": f"of seed {record.seed}", **record.machine})


@cache
def _seeds(case: str) -> tuple[int, ...]:
    """Return the boots of a case that a gate compares at first."""
    suite, _, rest = case.partition("/")
    tool, _, load = rest.partition(":")
    return profile("compare", TOOLS).of(tool, suite, load).seeds


def placebos_of(kernels: Kernels, without: str = "") -> dict[str, Boots]:
    """Return the placebos of a case that were measured often enough, but neither `without` nor one with its data."""
    left_out = kernels.get(without)
    return {
        name: boots
        for name, boots in kernels.items()
        if name in _harmless() and len(boots.records) >= _FEWEST and not (left_out and _twins(boots, left_out))
    }


@cache
def _harmless() -> frozenset[str]:
    return frozenset(name for name, change in changes().items() if change.group == "placebos")


def _twins(one: Boots, other: Boots) -> bool:
    return one.kernel == other.kernel or one.data == other.data


def distinct(kernels: Kernels, without: str = "") -> int:
    """Return how many sets of data the placebos of a case have beside the unpatched kernel's."""
    return len({boots.data for boots in placebos_of(kernels, without).values()} - {kernels[UNPATCHED].data})


def figures_of(campaigns: Iterable[Kernels], without: str = "") -> Mapping[str, Placebo]:
    """Return what the placebos of a case showed in all campaigns; nothing if there are none.

    Raises:
        ValueError: campaigns measured the case with different commands, QEMUs or series of kernels.
    """
    every, found = list(campaigns), dict[str, Placebo]()
    kinds = {_kind(kernels[UNPATCHED].records[0]) for kernels in every}
    if len(kinds) > 1:
        raise ValueError(f"these campaigns do not teach together: {' against '.join(map(str, sorted(kinds)))}")
    for kernels in every:
        teachers = placebos_of(kernels, without)
        shown = learnt(kernels[UNPATCHED].figures, [boots.figures for boots in teachers.values()]) if teachers else {}
        for name, placebo in shown.items():
            own = replace(placebo, kernels=distinct(kernels, without))
            found[name] = _together(found[name], own) if name in found else own
    return found


def _kind(record: Record) -> tuple[str, ...]:
    environment = record.environment
    return (" ".join(record.argv), version(environment.emulator), version(environment.kernel_release))


def _together(one: Placebo, other: Placebo) -> Placebo:
    """Return what two campaigns showed. Each kernel was compared with those that have its root file system.

    The images are the same in both, and each counts once: what an image does by itself it does in both.
    """
    return Placebo(
        move=max(one.move, other.move),
        spike=max(one.spike, other.spike),
        move_by=max(one.move_by, other.move_by),
        spike_at=max(one.spike_at, other.spike_at),
        kernels=max(one.kernels, other.kernels),
        boots=min(one.boots, other.boots),
    )


@dataclass(frozen=True, slots=True)
class Clustering:
    """How the largest boots of harmless kernels lie among their images.

    Attributes:
        images: kernels with data of their own.
        largest: how many boots are looked at.
        most: of one image among them.
        ratio: of the sum of squared counts by image to what chance gives; 1 for boots that do not know their image.
        p: that chance gives at least as much.
    """

    figure: str
    images: int
    largest: int
    most: int
    ratio: float
    p: float


def clustering(kernels: Kernels, trials: int = 2000) -> list[Clustering]:
    """Return for each figure of a case whether the largest boots come in images.

    The test of spikes takes the boots of all images for exchangeable. If an image had spikes of its own, the largest
    boots would come from few images.
    """
    own = {boots.data: boots for boots in (kernels[UNPATCHED], *placebos_of(kernels).values())}
    figures = [boots.figures for boots in own.values()]
    found = []
    for name in figures[0][0]:
        values = [[boot[name].value for boot in image] for image in figures]
        ordered = sorted((value for image in values for value in image), reverse=True)
        for top in (top for top in (5, 10, 20) if top <= len(ordered)):
            counts = [sum(value >= ordered[top - 1] for value in image) for image in values]
            if top <= sum(counts) <= 2 * top:  # otherwise ties leave nothing to be seen
                found.append(_clustering(name, counts, [len(image) for image in values], trials))
    return found


def _clustering(name: str, counts: Sequence[int], sizes: Sequence[int], trials: int) -> Clustering:
    chance, largest = random.Random(name), sum(counts)
    owners = [image for image, size in enumerate(sizes) for _ in range(size)]
    drawn = [sum(count**2 for count in Counter(chance.sample(owners, largest)).values()) for _ in range(trials)]
    squares = sum(count**2 for count in counts)
    return Clustering(
        figure=name,
        images=len(sizes),
        largest=largest,
        most=max(counts),
        ratio=squares * trials / sum(drawn),
        p=(1 + sum(one >= squares for one in drawn)) / (1 + trials),
    )


def verdicts(
    place: Place, kernels: Kernels, name: str, placebos: Placebos, quiet: Sequence[Subject] = ()
) -> list[Verdict]:
    """Return what judging and comparing say of one kernel, in a run of this case and of `quiet` ones beside it."""
    candidate, baseline = kernels[name], kernels[UNPATCHED]
    seeds = {record.seed for record in candidate.records}
    subject = Subject(
        case=place[1],
        board=place[0],
        arm="candidate",
        flavour=candidate.records[0].kernel.flavour,
        records=[_alike(record, baseline.records[0]) for record in candidate.records],
        baseline=[record for record in baseline.records if record.seed in seeds],
    )
    said = [*judge(subject, Thresholds()), *compare([subject, *quiet], Grounds(placebos=placebos))]
    return [one for one in said if one.case == place[1]]


def _quiet(place: Place, kernels: Kernels) -> Subject:
    """Return a case in which nothing happened: a candidate that prints what its baseline does."""
    records = kernels[UNPATCHED].records
    return Subject(
        case=place[1],
        board=place[0],
        arm="candidate",
        flavour=records[0].kernel.flavour,
        records=[replace(one, arm="candidate", kernel=replace(one.kernel, image_sha256="quiet")) for one in records],
        baseline=list(records),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Teachers:
    """The kernels of a case in all campaigns, of which the placebos teach what harmless kernels show."""

    place: Place
    campaigns: tuple[Kernels, ...]

    def without(self, name: str) -> Placebos:
        """Return what the placebos but one showed, as a gate reads it from placebos.yaml."""
        return _taught(self, name)


@cache
def _taught(teachers: Teachers, name: str) -> Placebos:
    board, case = teachers.place
    one = teachers.campaigns[0][UNPATCHED].records[0]
    figures = figures_of(teachers.campaigns, name)
    learnt = Learnt(command=" ".join(one.argv), source="the others", figures=figures)
    return Placebos({(board, one.kernel.flavour, case): learnt})


def is_open(said: Iterable[Verdict]) -> bool:
    """Return whether a gate would measure twice as many boots: nothing failed, and something is undecided."""
    found = list(said)
    return any(one.kind is Kind.INCONCLUSIVE for one in found) and all(one.status is not Status.FAIL for one in found)


def judged(place: Place, kernels: Kernels) -> list[str]:
    """Return the kernels that a case must judge rightly: its placebos, and the harm that must show there."""
    known, harmless = changes(), placebos_of(kernels)
    return [
        name
        for name in kernels
        if name in harmless or (name in known and (known[name].board, known[name].case) == place)
    ]


@dataclass(frozen=True, slots=True)
class Looks:
    """The boots of a case's kernels as a gate has them: at the first look, and twice as many at the second.

    Attributes:
        campaign: name of its directory.
        teachers: placebos as they were at the first look, in all campaigns, from which placebos.yaml is made; of this
            case, and of those that a gate has beside it.
        quiet: those others, in which nothing happened: their figures take their share of the 1 %.
        placebos: what placebos say instead.
    """

    campaign: str
    place: Place
    first: Kernels
    second: Kernels
    teachers: tuple[Teachers, ...]
    quiet: tuple[Subject, ...] = ()
    placebos: Placebos | None = None

    def known(self, name: str) -> Placebos:
        """Return what is known when a kernel is judged."""
        if self.placebos is not None:
            return self.placebos
        return Placebos({key: one for case in self.teachers for key, one in case.without(name).cases.items()})

    def is_open(self, name: str) -> bool:
        """Return whether a gate would look twice at a kernel."""
        return is_open(verdicts(self.place, self.first, name, self.known(name), self.quiet))

    def has_second(self, name: str) -> bool:
        """Return whether a kernel and its baseline have twice as many boots."""
        wanted = 2 * len(self.first[name].records)
        return all(len(self.second[one].records) == wanted for one in (UNPATCHED, name))

    def verdicts(self, name: str) -> tuple[list[Verdict], int]:
        """Return what a gate says in the end of a kernel, and after how many boots of it."""
        known, boots = self.known(name), len(self.first[name].records)
        said = verdicts(self.place, self.first, name, known, self.quiet)
        if not is_open(said) or not self.has_second(name):
            return said, boots
        both = {one: self.second[one] for one in (UNPATCHED, name)}
        return verdicts(self.place, both, name, known, self.quiet), 2 * boots


def looks(directories: Iterable[Path], seeds: Sequence[int] = (), placebos: Placebos | None = None) -> Iterator[Looks]:
    """Yield every case of each campaign.

    Args:
        directories: of the campaigns.
        seeds: that are judged at the first look, without a gap, instead of those of a gate; of kernels that have them.
        placebos: what they showed, instead of what those of the campaigns do.
    """
    known = {directory: measured(directory) for directory in directories}
    teachers = {
        place: Teachers(place, tuple(places[place] for places in known.values() if place in places))
        for place in dict.fromkeys(place for places in known.values() for place in places)
    }
    for directory, places in known.items():
        first = _complete(measured(directory, seeds), len(seeds)) if seeds else places
        second = measured(directory, seeds, looks=2)
        for place, kernels in first.items():
            beside = [other for other in places if place in GATE and other in GATE and other != place]
            yield Looks(
                campaign=directory.name,
                place=place,
                first=kernels,
                second=second[place],
                teachers=tuple(teachers[one] for one in (place, *beside)),
                quiet=tuple(_quiet(other, places[other]) for other in beside),
                placebos=placebos,
            )


def _complete(places: Mapping[Place, Kernels], boots: int) -> dict[Place, Kernels]:
    """Return the kernels that have so many boots, of places where the unpatched one does."""
    found = {
        place: {name: one for name, one in kernels.items() if len(one.records) == boots}
        for place, kernels in places.items()
    }
    return {place: kernels for place, kernels in found.items() if UNPATCHED in kernels}


def _alike(record: Record, baseline: Record) -> Record:
    """Return a record whose command line is the baseline's: inert words are a placebo here, and no other board."""
    if record.environment.command_line == baseline.environment.command_line:
        return replace(record, arm="candidate")
    environment = replace(record.environment, command_line=baseline.environment.command_line)
    return replace(
        record, environment=environment, arm="candidate", kernel=replace(record.kernel, image_sha256="words")
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


def placebos_yaml(directories: Iterable[Path]) -> str:
    """Return the file that campaigns teach."""
    lines = _HEAD.splitlines()
    by_board: dict[str, list[str]] = {}
    for (board, case), campaigns in sorted(by_place(directories).items()):
        taught = [kernels for kernels in campaigns if len(placebos_of(kernels)) >= _FEWEST]
        figures = figures_of(taught)
        if figures:
            by_board.setdefault(board, []).extend(_entry(case, taught, figures))
    for board, entries in by_board.items():
        lines += [f"{board}:", "  preempt_rt:", *entries]
    return "\n".join(lines) + "\n"


_HEAD = """\
# SPDX-License-Identifier: MIT
#
# How much harmless kernels (placebos) move what is compared on virtual-time boards: board, flavour, case. Written by
# `bench/rates.py learn` from what bench/comparisons.py measured (selftests/data/comparisons). `move` is the largest
# shift of a placebo over its baseline's median, `spike` the largest boot over its kernel's median; of all campaigns.
# docs/explanation/verdicts.md says what is made of it; `rtgate check` validates this file."""


def _up(value: float, digits: int) -> str:
    """Return a number that is not smaller, so that what taught the file is not beyond it."""
    return f"{math.ceil(round(value * 10**digits, 6)) / 10**digits:.{digits}f}"


def by_place(directories: Iterable[Path]) -> dict[Place, list[Kernels]]:
    """Return what campaigns measured in each case, at the first look."""
    found: dict[Place, list[Kernels]] = {}
    for directory in directories:
        for place, kernels in measured(directory).items():
            found.setdefault(place, []).append(kernels)
    return found


def _entry(case: str, campaigns: Sequence[Kernels], figures: Mapping[str, Placebo]) -> Iterable[str]:
    one = campaigns[0][UNPATCHED].records[0]
    names = {name for kernels in campaigns for name in placebos_of(kernels)}
    count = min(placebo.kernels for placebo in figures.values())
    boots = min(placebo.boots for placebo in figures.values())
    yield f"    {case}:"
    yield f"      command: {' '.join(one.argv)}"
    source = f"{len(names)} placebos in {len(campaigns)} campaigns, {count} sets of data of their own in each; {NOTE}"
    yield f'      source: "{source}"'
    yield f'      qemu: "{version(one.environment.emulator)}"'
    yield f'      linux: "{version(one.environment.kernel_release)}"'
    yield f"      kernels: {count}"
    yield f"      boots: {boots}"
    yield "      figures:"
    for name, placebo in figures.items():
        beside = {"move_by": placebo.move_by, "spike_at": placebo.spike_at}
        more = "".join(f", {key}: {_up(value, 4)}" for key, value in beside.items() if value)
        yield f"        {name}: {{move: {_up(placebo.move, 5)}, spike: {_up(placebo.spike, 4)}{more}}}"
