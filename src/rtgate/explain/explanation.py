# SPDX-License-Identifier: MIT
"""Explanations: what two kernels did while a tool measured, and the function that made one slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rtgate.explain.path import USER, Profile
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.records.explained import Change

SHARE = 0.2
"""Of what an interval or a section gained, a function must have gained so much to be named."""

_KEPT = 50
_NOTHING = 25  # instructions on average that no explanation is needed for


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalCost:
    """One interval (a wake-up, a round trip), or the mean of many.

    Attributes:
        latency_ns: as the tool reported it (of one interval), or the mean.
        idle_ns: of that, time in which no instruction ran.
        unaccounted_ns: latency that neither instructions nor idle time make up.
    """

    latency_ns: float
    idle_ns: float
    unaccounted_ns: float
    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTrace:
    """What the trace of one kernel shows.

    Attributes:
        what: what the tool measures: `wake-up`, `round trip`.
        intervals: how many of them there were.
        agreeing: of how many `proof` is true: `have the latency of the histogram`.
        executed: instructions by function in the measuring window.
    """

    seed: int
    what: str
    proof: str
    intervals: int
    agreeing: int
    worst: IntervalCost
    typical: IntervalCost
    executed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A function that is named.

    Attributes:
        instructions: how many more ran in it and in what it calls.
        why: one clause.
        differs: whether its code differs between the kernels.
        warns: it is what it took to warn.
    """

    function: str
    instructions: float
    why: str
    differs: bool
    warns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why what the candidate's tool measured is slower, or what one kernel's slowest consists of.

    Attributes:
        differing: functions that differ; None if the kernels' ELF files were not compared.
        view: `worst` or `typical`: which of the two costs the culprits are about.
    """

    candidate: KernelTrace
    baseline: KernelTrace | None = None
    differing: frozenset[str] | None = None
    view: str = "worst"
    culprits: tuple[Culprit, ...] = ()
    sentence: str = ""

    @property
    def warning_function(self) -> str:
        """The function that is named first, if it is for its warning; empty otherwise."""
        return self.culprits[0].function if self.culprits and self.culprits[0].warns else ""

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written to a file."""
        data = asdict(self)
        for arm in (data["candidate"], data["baseline"] or {}):
            # Of the thousands that ran, those that ran most; which of the differing ones ran is told elsewhere.
            arm["executed"] = dict(list(arm.get("executed", {}).items())[:_KEPT])
        data["differing"] = sorted(self.differing) if self.differing is not None else None
        return {"format": 2, **data}


def explain(
    candidate: KernelTrace, baseline: KernelTrace | None, changed_names: frozenset[str] | None, view: str = ""
) -> Explanation:
    """Compare two arms and name what made the difference: of `typical` intervals, of the `worst`, or of what shows."""
    if baseline is None:
        top = max(candidate.worst.profile.own.items(), key=lambda item: item[1], default=("nothing", 0.0))
        sentence = (
            f"the slowest {candidate.what} took {_us(candidate.worst.latency_ns)}, "
            f"{candidate.worst.profile.total:,.0f} instructions; most of them in {top[0]} ({top[1]:,.0f})"
        )
        return Explanation(candidate=candidate, differing=changed_names, sentence=sentence)
    view = view or _view(candidate, baseline)
    old, new = (baseline.worst, candidate.worst) if view == "worst" else (baseline.typical, candidate.typical)
    culprits = _culprits(old, new, (baseline, candidate), changed_names or frozenset())
    return Explanation(
        candidate=candidate,
        baseline=baseline,
        differing=changed_names,
        view=view,
        culprits=culprits,
        sentence=_sentence(_interval_phrase(view, candidate.what), old, new, culprits),
    )


def _view(candidate: KernelTrace, baseline: KernelTrace) -> str:
    """Return whether every interval got longer, or only the slowest."""
    every = candidate.typical.latency_ns - baseline.typical.latency_ns
    slowest = candidate.worst.latency_ns - baseline.worst.latency_ns
    return "worst" if slowest > 3 * max(every, INSTRUCTION_NS * _NOTHING) else "typical"


def gains(old: Mapping[str, float], new: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return by how much each function gained, the largest gain first."""
    growth = {name: new.get(name, 0) - old.get(name, 0) for name in old.keys() | new.keys()}
    return sorted(growth.items(), key=lambda item: (-item[1], item[0]))


def _culprits(
    old: IntervalCost, new: IntervalCost, arms: tuple[KernelTrace, KernelTrace], changed_names: frozenset[str]
) -> tuple[Culprit, ...]:
    more = new.profile.total - old.profile.total
    slower = new.latency_ns - old.latency_ns
    enough = max(SHARE * more, 4.0)
    culprits = list(_printing(old.profile, new.profile, enough, changed_names))
    printers = {culprit.function for culprit in culprits}
    culprits += [
        Culprit(function=name, instructions=gain, why="changed and slower", differs=True)
        for name, gain in gains(old.profile.blamed, new.profile.blamed)
        if gain >= enough and name not in printers
    ]
    idle = new.idle_ns - old.idle_ns
    if culprits and not idle > slower / 2 > 0:
        return tuple(culprits[:3])
    active_names = _ran(new, arms, changed_names)
    if idle > slower / 2 > 0:
        why = f"changed; the timer's interrupt came {_us(idle)} later, with the CPU idle"
        return tuple(Culprit(function=name, instructions=0, why=why, differs=True) for name in active_names[:3])
    longest = [
        Culprit(function=name, instructions=gain, why="slower, its code is the same", differs=False)
        for name, gain in gains(old.profile.own, new.profile.own)
        if gain >= enough and name != USER
    ]
    why = "changed and ran, but not slower in what was measured"
    suspects = [
        Culprit(function=name, instructions=0, why=why, differs=True) for name in active_names[: 3 - len(longest[:1])]
    ]
    return (*longest[:1], *suspects)


def _printing(old: Profile, new: Profile, enough: float, changed_names: frozenset[str]) -> Iterator[Culprit]:
    """Yield what warned or wrote to the log: that takes long, and the code that does it is never to blame."""
    for what, before, after in (("warned", old.warning, new.warning), ("wrote to the log", old.printing, new.printing)):
        for name, gain in gains(before, after):
            if gain >= enough:
                differs = name in changed_names
                why = f"changed and {what}" if differs else f"it {what}, its code is the same"
                yield Culprit(function=name, instructions=gain, why=why, differs=differs, warns=what == "warned")


def _ran(new: IntervalCost, arms: tuple[KernelTrace, KernelTrace], changed_names: frozenset[str]) -> list[str]:
    """Return the differing functions that ran: those whose own instructions grew in the whole window first.

    What sets a timer is not on the way of the wake-up that it leads to, so the way cannot tell.
    """
    before, now = (arm.executed for arm in arms)

    def key(name: str) -> tuple[float, float, str]:
        return (before.get(name, 0) - now[name], -new.profile.within.get(name, 0), name)

    return sorted((name for name in now if name in changed_names), key=key)


def _interval_phrase(view: str, what: str) -> str:
    return f"the slowest {what}" if view == "worst" else f"each {what} on average"


def _sentence(whose: str, old: IntervalCost, new: IntervalCost, culprits: Sequence[Culprit]) -> str:
    more = new.profile.total - old.profile.total
    change = f"{whose} took {_us(new.latency_ns)}, {_us(old.latency_ns)} before ({more:+,.0f} instructions)"
    if not culprits:
        return f"{change}; no function gained much"
    first = culprits[0]
    if first.instructions:
        return f"{first.instructions:+,.0f} instructions in {first.function} ({first.why}): {change}"
    return f"{first.function}: {first.why}: {change}"


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.1f} virtual us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """Which differing functions were executed while measuring.

    Attributes:
        executed: instructions by differing function.
        resting: differing functions that are built in and were not executed.
        data: variables that differ; whether they were read is not known.
        changes: what ran of each function's changed instructions; empty if only functions were looked at.
    """

    executed: Mapping[str, int] = field(default_factory=dict)
    resting: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def sentence(self) -> str:
        """What this means for a verdict."""
        if self.executed:
            some = ", ".join(sorted(self.executed, key=lambda name: -self.executed[name])[:5])
            return f"{len(self.executed)} of {len(self.executed) + len(self.resting)} functions that differ ran: {some}"
        if self.data:
            return f"no function that differs ran; whether {', '.join(self.data[:3])} was read is not known"
        return "not exercised here, boards or other loads needed"


def find_exercise(changed_names: frozenset[str], counts: Mapping[str, int], data: Sequence[str] = ()) -> Exercise:
    """Return which of the functions that differ were executed; none of them means that nothing can be judged here."""
    return Exercise(
        data=tuple(data),
        executed={name: counts[name] for name in sorted(changed_names) if counts.get(name, 0) > 0},
        resting=tuple(sorted(name for name in changed_names if not counts.get(name, 0))),
    )
