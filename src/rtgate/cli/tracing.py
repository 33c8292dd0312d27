# SPDX-License-Identifier: MIT
"""After a gate of two kernels on virtual time: which changes ran, and where a regression's instructions went."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtgate import explained
from rtgate.cli.arms import ArmRequest, make_arms
from rtgate.cli.explain import case_of, slowest
from rtgate.errors import ConfigError, ParseError
from rtgate.explain.comparing import Compared, Side, compare
from rtgate.explained import Explained
from rtgate.judge.verdict import Kind, Verdict
from rtgate.record import Place, Record
from rtgate.report.text import plain
from rtgate.tools.cyclictest import Cyclictest

_TRACED = frozenset({Kind.REGRESSION, Kind.NO_WORSE, Kind.INCONCLUSIVE})


def trace(board: str, kernels: Mapping[str, Path], records: Path, verdicts: Sequence[Verdict]) -> bool:
    """Trace the cases of a comparison and write `explained.json` beside their boots; return whether there is any.

    A regression is explained once, in the case where it is clearest: a boot with tracing takes several times as long.
    Without one every case is traced, because what did not run there was not judged there. What cannot be traced is
    said, and stays as it is.

    Raises:
        InfrastructureError: this machine cannot trace.
        Interrupted: Ctrl-C.
    """
    found = [_traced(board, kernels, records, case) for case in _chosen(verdicts)]
    return any(found)


def _chosen(verdicts: Sequence[Verdict]) -> list[str]:
    compared = [one for one in verdicts if one.kind in _TRACED and one.case.partition("/")[2].startswith(_TOOL)]
    regressions = [one.case for one in compared if one.kind is Kind.REGRESSION]
    if regressions:
        return [max(dict.fromkeys(regressions), key=regressions.count)]
    return list(dict.fromkeys(one.case for one in compared))


_TOOL = f"{Cyclictest().name}:"  # its wake-ups can be found in a trace


def _traced(board: str, kernels: Mapping[str, Path], records: Path, case: str) -> bool:
    place = Place(records=records, board=board, arm="candidate", case=case)
    try:
        made, chosen = _compared(board, kernels, records, case)
    except (ConfigError, ParseError) as error:
        print(f"rtgate: {case} is not explained: {plain(str(error))}", file=sys.stderr)
        return False
    differences, exercise = made.differences, made.exercise
    if differences is None or exercise is None:
        return False
    seen = Explained(
        baseline_image=chosen["baseline"].kernel.image_sha256,
        candidate_image=chosen["candidate"].kernel.image_sha256,
        seed=chosen["candidate"].seed or 0,
        sentence=made.explanation.sentence,
        executed=exercise.executed,
        resting=exercise.resting,
        others=(*differences.data, *differences.options),
    )
    explained.write(place.directory, seen)
    return True


def _compared(board: str, kernels: Mapping[str, Path], records: Path, case: str) -> tuple[Compared, dict[str, Record]]:
    chosen = {
        arm: slowest(Place(records=records, board=board, arm=arm, case=case).directory)
        for arm in ("baseline", "candidate")
    }
    one = chosen["candidate"]
    measured = case_of(one)
    request = ArmRequest(
        board=board, kernels=dict(kernels), profile=one.profile, tuning=measured.tuning, console="virtual"
    )
    arms, stop = make_arms(request)
    sides = {
        arm.name: Side(arm=arm, directory=kernels[arm.name], seed=chosen[arm.name].seed or 0, record=chosen[arm.name])
        for arm in arms
    }
    return compare(measured, sides["candidate"], sides["baseline"], stop, lambda _: None), chosen
