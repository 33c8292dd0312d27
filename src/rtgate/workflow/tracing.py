# SPDX-License-Identifier: MIT
"""After a gate of two kernels on virtual time: which changes ran, and where a regression's instructions went."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError, ParseError
from rtgate.explain.comparing import Pair, Side, compare, exercise
from rtgate.explain.explanation import Exercise, Explanation
from rtgate.explain.finders import FINDERS
from rtgate.judge.verdict import Kind, Verdict
from rtgate.kernel.differing import Differences
from rtgate.measure.case import Arm, Case
from rtgate.records import explained
from rtgate.records.explained import CaseExplanation
from rtgate.records.record import Place, Record
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.target.shared_boots import SHARED
from rtgate.tools.case_name import CaseName
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.other_loads import TracedRun, with_other_loads
from rtgate.workflow.slowest import case_of, middle, slowest

_OF_FEW = ("maximum", "max", "p99", "p99.9", "p99.99")  # figures that few intervals of a boot decide
# What ran in a waived regression's case ran in the run: the other cases are judged by that.
_TRACED = frozenset({Kind.REGRESSION, Kind.NO_WORSE, Kind.SLOWER, Kind.INCONCLUSIVE, Kind.NOT_COMPARED, Kind.WAIVED})
_WITH_REMEDY = frozenset({Kind.NO_WORSE, Kind.NOT_COMPARED})  # become `not exercised`, which says what reaches it


def trace(boards: Sequence[str], kernels: Mapping[str, Path], records: Path, verdicts: Sequence[Verdict]) -> bool:
    """Trace the cases of a comparison and write `explained.json` beside their boots; return whether there is any.

    A regression is explained once: idle, if it shows there, where all that runs in a wake-up is the kernel's and the
    tool's, else in the case where it is clearest: with the boots of median mean, or with the slowest ones if the
    maximum regressed. Without one every case is traced, because what did not run there was not judged there; for
    what ran in none, other loads are tried. What cannot be traced is said, and stays as it is.

    Raises:
        InfrastructureError: this machine cannot trace.
        Interrupted: Ctrl-C.
    """
    comparisons = [
        verdict
        for verdict in verdicts
        if verdict.board in boards and verdict.kind in _TRACED and CaseName.parse(verdict.case).tool in FINDERS
    ]
    regressions = [(verdict.board, verdict.case) for verdict in comparisons if verdict.kind is Kind.REGRESSION]
    every = list(dict.fromkeys((verdict.board, verdict.case) for verdict in comparisons))
    cases = [_clearest(regressions)] if regressions else every
    all_boots = [_boots(records, *place, _view(place, comparisons)) for place in cases]
    boots = [case_boots for case_boots in all_boots if case_boots is not None and not case_boots.once]
    loads = any(verdict.kind in _WITH_REMEDY for verdict in comparisons)
    outcomes = [_trace_group(kernels, group, regressed=bool(regressions), loads=loads) for group in _group(boots)]
    return any(outcomes)


def _trace_group(kernels: Mapping[str, Path], boots: Sequence[_Boots], *, regressed: bool, loads: bool) -> bool:
    """Trace cases of one profile and tuning; return whether anything could be said of them."""
    try:
        tracing = _Tracing.make(kernels, boots)
        return tracing.explain(boots[0]) if regressed else tracing.trace_exercise(boots, loads=loads)
    except (ConfigError, ParseError) as error:
        for case_boots in boots:
            _say_untraced(case_boots.name, error)
        return False


def _clearest(regressions: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the board and the case of most regressions; an idle one before any other."""
    return max(
        dict.fromkeys(regressions),
        key=lambda place: (CaseName.parse(place[1]).load == "idle", regressions.count(place)),
    )


def _view(place: tuple[str, str], verdicts: Sequence[Verdict]) -> str:
    """Return `typical` if all that regressed in a case is a figure of most intervals, else empty: the trace decides."""
    mine = [
        verdict for verdict in verdicts if (verdict.board, verdict.case) == place and verdict.kind is Kind.REGRESSION
    ]
    return "typical" if mine and not any(verdict.measurement.endswith(_OF_FEW) for verdict in mine) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Boots:
    """A case, and the boot of each kernel that shows most of it.

    Attributes:
        view: what is to be explained: `typical` intervals, `worst` ones, or empty: what the traces show more of.
    """

    name: str
    case: Case
    place: Place
    view: str
    candidate: Record
    baseline: Record

    @property
    def once(self) -> bool:
        """Whether both kernels are one image, which was booted once: nothing in it differs."""
        return SHARED in self.candidate.machine


def _boots(records: Path, board: str, case: str, view: str) -> _Boots | None:
    places = {arm: Place(records=records, board=board, arm=arm, case=case) for arm in ("candidate", "baseline")}
    which = middle if view == "typical" else slowest
    try:
        by_arm = {arm: which(place.directory) for arm, place in places.items()}
        measured_case = case_of(by_arm["candidate"])
    except (ConfigError, ParseError) as error:
        _say_untraced(case, error)
        return None
    return _Boots(name=case, case=measured_case, place=places["candidate"], view=view, **by_arm)


def _group(boots: Sequence[_Boots]) -> list[list[_Boots]]:
    """Return the cases that the same arms can boot, together."""
    groups: dict[tuple[str, str], list[_Boots]] = {}
    for case_boots in boots:
        groups.setdefault((case_boots.candidate.profile, case_boots.case.tuning), []).append(case_boots)
    return list(groups.values())


def _say_untraced(case: str, error: Exception) -> None:
    say(f"{case} is not traced: {plain_text(str(error))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracing:
    """The two kernels, ready to boot again; arms by board and name."""

    arms: Mapping[tuple[str, str], Arm]
    kernels: Mapping[str, Path]
    stop: threading.Event

    @classmethod
    def make(cls, kernels: Mapping[str, Path], boots: Sequence[_Boots]) -> _Tracing:
        profile, tuning = boots[0].candidate.profile, boots[0].case.tuning
        stop = threading.Event()
        arms: dict[tuple[str, str], Arm] = {}
        for board in dict.fromkeys(case_boots.place.board for case_boots in boots):
            request = ArmRequest(board=board, kernels=dict(kernels), profile=profile, tuning=tuning, console="virtual")
            arms |= {(board, arm.name): arm for arm in make_arms(request, stop)}
        return cls(arms=arms, kernels=kernels, stop=stop)

    def explain(self, boots: _Boots) -> bool:
        """Say what made a case slower; return whether that could be said."""
        pair = self._pair(boots)
        comparison = compare(pair.case, pair.candidate, pair.baseline, self.stop, lambda _: None, view=boots.view)
        assert comparison.differences is not None
        assert comparison.exercise is not None
        explanation = _explanation(boots, comparison.differences, comparison.exercise, comparison.explanation)
        explained.write(boots.place.directory, explanation)
        return True

    def trace_exercise(self, boots: Sequence[_Boots], *, loads: bool) -> bool:
        """Say of each case which differences ran; return whether that could be said of any.

        With `loads` it is also said which other loads reach those that ran in none.
        """
        pairs = [self._pair(case_boots) for case_boots in boots]
        kernels, outcomes = exercise(pairs, self.stop, lambda _: None)
        explanations = {}
        for case_boots, outcome in zip(boots, outcomes, strict=True):
            if isinstance(outcome, Exercise):
                explanations[case_boots.place.directory] = _explanation(case_boots, kernels.differences, outcome)
            else:
                _say_untraced(case_boots.name, outcome)
        _write(explanations)
        if loads and explanations:
            self._try_loads(TracedRun.of(pairs, boots[0].candidate.profile, kernels, explanations))
        return bool(explanations)

    def _try_loads(self, run: TracedRun) -> None:
        try:
            _write(with_other_loads(run, self.stop))
        except (ConfigError, InfrastructureError) as error:  # what ran in the run itself is known all the same
            say(f"other loads are not tried: {plain_text(str(error))}")

    def _pair(self, boots: _Boots) -> Pair:
        return Pair(
            case=boots.case,
            candidate=self._side(boots.place.board, "candidate", boots.candidate),
            baseline=self._side(boots.place.board, "baseline", boots.baseline),
        )

    def _side(self, board: str, arm: str, record: Record) -> Side:
        return Side(arm=self.arms[board, arm], directory=self.kernels[arm], seed=record.seed or 0, record=record)


def _write(explanations: Mapping[Path, CaseExplanation]) -> None:
    for directory, explanation in explanations.items():
        explained.write(directory, explanation)


def _explanation(
    boots: _Boots, differences: Differences, activity: Exercise, why: Explanation | None = None
) -> CaseExplanation:
    return CaseExplanation(
        baseline_image=boots.baseline.kernel.image_sha256,
        candidate_image=boots.candidate.kernel.image_sha256,
        seed=boots.candidate.seed or 0,
        sentence=why.sentence if why else "",
        warning_function=why.warning_function if why else "",
        executed=activity.executed,
        resting=activity.resting,
        others=(*differences.data, *differences.options),
        changes=activity.changes,
    )
