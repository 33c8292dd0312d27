# SPDX-License-Identifier: MIT
"""After a gate on virtual time: how late a wake-up can be, and which critical sections became longer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rtgate.board.boards import board as find_board
from rtgate.errors import ChangedError, ConfigError, InfrastructureError, ParseError
from rtgate.explain.call_changes import LEAST, CallsBefore
from rtgate.explain.comparing import open_vmlinux
from rtgate.explain.finders import FINDERS
from rtgate.explain.lock_holds import RawLock
from rtgate.explain.section_cache import SectionCache
from rtgate.explain.section_changes import SiteChange, boots_with_longer, changes
from rtgate.explain.section_spread import Spreads
from rtgate.explain.sections import BootSections, Call, Section, Site, merge_boots
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.judge.compare.section_findings import boots_needed
from rtgate.judge.verdict import Verdict
from rtgate.records import longer_sections
from rtgate.records import record as records_file
from rtgate.records.longer_sections import GROWN, LongerSection, LongestHold, LongestSection, SectionComparison
from rtgate.records.record import Place, Record
from rtgate.report.notices import reminder, say
from rtgate.report.text import plain_text
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import TOOLS
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.sections import SectionBoots, kernel_differences, unfollowed
from rtgate.workflow.slowest import case_of, records_to_explain


def follow_sections(
    boards: Sequence[str], kernels: Mapping[str, Path], records: Path, verdicts: Sequence[Verdict]
) -> bool:
    """Follow the critical sections of every boot of one or two kernels; return whether any case's could be.

    What they come to, or why nobody can say, is written as `sections.json` beside the candidate's boots of each case.

    Raises:
        InfrastructureError: it cannot be written.
        Interrupted: Ctrl-C.
    """
    places = dict.fromkeys(
        (verdict.board, verdict.case) for verdict in verdicts if verdict.board in boards and verdict.arm == "candidate"
    )
    selection = [place for place in places if _can_tell(CaseName.parse(place[1]).tool, len(kernels))]
    outcomes = [_follow_case(_Case(*place, tuple(kernels), records), kernels) for place in selection]
    return any(outcomes)


def _can_tell(tool: str, kernels: int) -> bool:
    """Return whether following a tool's boots tells something: of a single kernel, the bound of its wake-ups."""
    return tool in FINDERS and (kernels > 1 or TOOLS[tool].bounded)


@dataclass(frozen=True, slots=True)
class _Boots:
    """Measured boots that are followed, by seed.

    Attributes:
        candidate: all of it, as its limits are of all.
        baseline: those with the same seeds.
        baseline_image: SHA-256; empty where the candidate is followed alone: nothing else is there, or the same image.
    """

    candidate: Mapping[int, Record]
    baseline: Mapping[int, Record]
    baseline_image: str

    @property
    def by_arm(self) -> dict[str, Mapping[int, Record]]:
        """Those of the kernels that have some."""
        return {arm: own for arm, own in (("baseline", self.baseline), ("candidate", self.candidate)) if own}


@dataclass(frozen=True, slots=True)
class _Case:
    board: str
    name: str
    arms: Sequence[str]
    records: Path

    def place(self, arm: str) -> Place:
        return Place(records=self.records, board=self.board, arm=arm, case=self.name)

    def boots(self) -> _Boots:
        """Return the boots to follow. Raises ConfigError: the candidate has none, or the board's cannot be followed."""
        if reason := unfollowed(find_board(self.board), CaseName.parse(self.name).tuning):
            raise ConfigError(reason)
        candidate = _by_seed(records_to_explain(self.place("candidate").directory))
        baseline = self._baseline() if "baseline" in self.arms else []
        images = {record.kernel.image_sha256 for record in baseline}
        if images <= {record.kernel.image_sha256 for record in candidate.values()}:
            return _Boots(candidate, {}, "")
        comparable = (record for record in baseline if record.has_results and record.seed in candidate)
        return _Boots(candidate, _by_seed(comparable), min(images))

    def _baseline(self) -> list[Record]:
        """Return the baseline's measured boots; if it has none, those that came to nothing, for their image."""
        directory = self.place("baseline").directory
        try:
            return records_to_explain(directory)
        except ConfigError:
            return [records_file.read(path.parent) for path in records_file.paths(directory)]


def _by_seed(records: Iterable[Record]) -> dict[int, Record]:
    return {record.seed: record for record in records if record.seed is not None}


def _follow_case(case: _Case, kernels: Mapping[str, Path]) -> bool:
    try:
        boots = case.boots()
    except (ConfigError, ParseError) as error:
        say(f"critical sections of {case.name} are not followed: {plain_text(str(error))}")
        return False
    identity = SectionComparison(
        baseline_image=boots.baseline_image,
        candidate_image=next(iter(boots.candidate.values())).kernel.image_sha256,
        seeds=tuple(boots.baseline if boots.baseline_image else boots.candidate),
        further_seeds=tuple(sorted(boots.candidate.keys() - boots.baseline.keys())) if boots.baseline_image else (),
        boots_digest=longer_sections.digest(boots.candidate.values()),
        instruction_ns=INSTRUCTION_NS,
        cpus=find_board(case.board).cpus,
    )
    comparison = _follow(case, identity, boots.by_arm, kernels)
    longer_sections.write(case.place("candidate").directory, comparison)
    return True


def _follow(
    case: _Case,
    identity: SectionComparison,
    records: Mapping[str, Mapping[int, Record]],
    kernels: Mapping[str, Path],
) -> SectionComparison:
    """Return what following boots comes to, or why nobody can say."""
    starts: list[str] = []
    progress = partial(_progress, case, starts, sum(map(len, records.values())))
    try:
        section_boots = _section_boots(records, kernels, starts.append)
        with reminder(progress):
            sections = section_boots.follow()
        return compare_boots(identity, sections, section_boots.altered)
    except (ConfigError, ParseError, InfrastructureError, ChangedError) as error:
        say(f"critical sections of {case.name} are not followed: {plain_text(str(error))}")
        return replace(identity, why_not=plain_text(str(error)))


def _progress(case: _Case, starts: Sequence[str], boots: int) -> str:
    return f"{case.name}: following the sections of boot {len(starts)} of {boots}"


def compare_boots(
    identity: SectionComparison, boots: Mapping[str, Mapping[int, BootSections]], names: frozenset[str]
) -> SectionComparison:
    """Return what is told of the boots of one or two kernels with what grew.

    Args:
        identity: which kernels and boots they are.
        boots: the sections of each boot, by arm and seed.
        names: of the functions that differ.

    Raises:
        ParseError: no section was seen.
    """
    by_arm = {arm: merge_boots(own.values()) for arm, own in boots.items()}
    for arm, arm_sections in by_arm.items():
        if not arm_sections.sections:
            raise ParseError(f"no critical section was seen in any boot of the {arm}: the plugin followed no CPU")
    every = by_arm["candidate"]
    of_candidate = replace(
        identity,
        sites=len(every.sections),
        candidate_bound=every.bound,
        candidate_longest=_longest(every.sections),
        candidate_holds=_holds(every.locks),
    )
    if not identity.compared:
        return of_candidate
    if not identity.seeds:
        return replace(of_candidate, why_not="no seed was measured with both kernels")
    common = {seed: boots["candidate"][seed] for seed in identity.seeds}
    new = merge_boots(common.values()) if identity.further_seeds else every
    return _with_baseline(of_candidate, by_arm["baseline"], new, {**boots, "candidate": common}, names)


def _with_baseline(
    of_candidate: SectionComparison,
    old: BootSections,
    new: BootSections,
    boots: Mapping[str, Mapping[int, BootSections]],
    names: frozenset[str],
) -> SectionComparison:
    """Return how a candidate's sections differ in boots that both kernels have; `old` and `new` are these together."""
    before = CallsBefore.of(old.sections, Spreads.of(tuple(boots["baseline"].values()), names))
    sites = changes(old.sections, new.sections)
    hits = [section for section in new.sections if section.calls or section.site.begin.function in names]
    return replace(
        of_candidate,
        sites=len(new.sections),
        reached=len(hits),
        longer=_grown(before, sites, names, boots, of_candidate.cpus),
        baseline_bound=old.bound,
        baseline_longest=_longest(old.sections),
        baseline_holds=_holds(old.locks),
    )


def _holds(locks: Sequence[RawLock]) -> tuple[LongestHold, ...]:
    """Return the longest hold of each lock, the longest of all first."""
    holds = (
        LongestHold(lock=str(lock), function=lock.function, instructions=lock.longest, seed=lock.seed) for lock in locks
    )
    return tuple(sorted(holds, key=lambda hold: (-hold.instructions, hold.lock)))


def _longest(sections: Sequence[Section]) -> tuple[LongestSection, ...]:
    """Return the longest section of each kind that each function begins."""
    longest: dict[tuple[str, str], Section] = {}
    for section in sections:
        key = str(section.site.kind), section.site.begin.function
        if key not in longest or section.longest > longest[key].longest:
            longest[key] = section
    return tuple(
        LongestSection(
            off=off,
            function=function,
            place=section.site.place,
            context=str(section.site.context),
            instructions=section.longest,
            seed=section.seed,
        )
        for (off, function), section in sorted(longest.items(), key=lambda entry: (-entry[1].longest, entry[0]))
    )


def _section_boots(
    records: Mapping[str, Mapping[int, Record]], kernels: Mapping[str, Path], tell: Callable[[str], None]
) -> SectionBoots:
    elfs = {arm: open_vmlinux(arm, directory) for arm, directory in kernels.items()}
    differences = kernel_differences(elfs)
    record = next(iter(records["candidate"].values()))
    case, stop = case_of(record), threading.Event()
    request = ArmRequest(
        board=record.board, kernels=dict(kernels), profile=record.profile, tuning=case.tuning, console="virtual"
    )
    return SectionBoots(
        case=case,
        seeds=tuple(records["candidate"]),
        arms={arm.name: arm for arm in make_arms(request, stop) if arm.name in records},  # of one image, one
        kernels=elfs,
        stop=stop,
        tell=tell,
        expected=records,
        altered=differences.functions,
        differences=differences,
        cache=SectionCache.open(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallRule:
    """Which longer calls of the candidate are no chance.

    Attributes:
        before: the baseline's calls.
        boots: the candidate's.
        several_cpus: whether other CPUs decide which way a call takes.
    """

    before: CallsBefore
    boots: Sequence[BootSections]
    several_cpus: bool

    def needs_boots(self, call: Call) -> bool:
        """Return whether enough boots must have a longer call: else it is longer than any of the baseline's."""
        return self.several_cpus or self.before.is_usual(call)

    def boots_with(self, function: str) -> int:
        """Return in how many boots a function has a longer call."""
        return self.before.boots_with_longer(function, self.boots)

    def is_enough(self, call: Call) -> bool:
        """Return whether a call that gained beyond what is usual tells a change."""
        return not self.needs_boots(call) or self.boots_with(call.function) >= boots_needed(len(self.boots))


def _grown(
    before: CallsBefore,
    sites: Sequence[SiteChange],
    names: frozenset[str],
    boots: Mapping[str, Mapping[int, BootSections]],
    cpus: int,
) -> tuple[LongerSection, ...]:
    """Return the sites that grew, what altered functions made longer first.

    Enough of the candidate's boots must have a longer call with several CPUs, or where the baseline has one as long
    elsewhere.
    """
    new = tuple(boots["candidate"].values())
    new_sections = [boot.sections for boot in new]
    old_sections = [section for boot in boots["baseline"].values() for section in boot.sections]
    rule = _CallRule(before=before, boots=new, several_cpus=cpus > 1)
    sections = []
    for change in sites:
        if change.candidate is None:
            continue
        section = _compared(change, change.candidate, names, before.spreads)
        if section.growth >= GROWN:
            section = replace(section, longer_boots=boots_with_longer(change, old_sections, new_sections, GROWN))
        section = _with_call(section, change.site, change.candidate.calls, rule)
        if max(section.growth, section.gained) >= LEAST:
            sections.append(section)
    return tuple(sorted(sections, key=lambda section: (-section.gained, -section.growth)))


def _compared(change: SiteChange, candidate: Section, names: frozenset[str], spreads: Spreads) -> LongerSection:
    begin = change.site.begin.function if change.site.begin.function in names else ""
    return LongerSection(
        off=change.off,
        place=change.site.place,
        context=str(change.site.context),
        baseline=change.before,
        candidate=candidate.longest,
        count=candidate.count,
        boots=len(candidate.boots),
        seed=candidate.seed,
        begin=begin,
        spread=spreads.of_section(begin) if begin else None,
    )


def _with_call(section: LongerSection, site: Site, calls: Sequence[Call], rule: _CallRule) -> LongerSection:
    """Return a section with the call that gained most; one that is no chance before any other."""
    before = rule.before
    beyond = [call for call in calls if before.beyond(site, call) >= 0]
    call = before.longest(site, [call for call in beyond if rule.is_enough(call)] or calls)
    if call is None:
        return section
    call_before = before.of_function(site, call.function)
    return replace(
        section,
        call=call.instructions,
        function=call.function if call.instructions - call_before >= LEAST else "",
        call_seed=call.seed,
        call_before=call_before,
        call_elsewhere=before.anywhere.get(call.function, 0),
        call_spread=before.spreads.of_call(call.function),
        call_boots=rule.boots_with(call.function) if call in beyond and rule.needs_boots(call) else None,
    )
