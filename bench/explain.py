# SPDX-License-Identifier: MIT
"""For how many harmful changes does `rtgate explain` name the function to blame?

    .venv/bin/python -m bench.explain --kernels DIR [--only NAME ...] [--seeds 1-4] [-o FILE]

The changes are those of selftests/data/comparisons; `changes.yaml` says in which case each shows and which function it
put something into. DIR has the kernels that were built with them, each in a directory of the change's name;
`--baseline` is the kernel without any. A change without a kernel is left out, and counted as such. Each is measured
with the seeds, and its slowest boot is explained against the slowest one of the baseline.

Named: the function is the first that the explanation names. Listed: it is among those that it names.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selftests.campaigns.comparisons import Change, changes

from rtgate.board.boot import ArmName
from rtgate.cli.explain import as_json
from rtgate.errors import RtgateError
from rtgate.explain.comparing import Side, compare
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.measure.profiles import seeds
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import TOOLS
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import slowest_of


@dataclass(frozen=True, slots=True)
class Answer:
    """What `rtgate explain` answers for a change: its sentence, the functions that it names, and all of it as JSON."""

    change: Change
    sentence: str
    functions: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Whether the function to blame is the first, or one of those that are named."""
        if self.functions[:1] == (self.change.function,):
            return "named"
        return "listed" if self.change.function in self.functions else "NOT NAMED"

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written to a file."""
        found = {"change": self.change.name, "wanted": self.change.function, "verdict": self.verdict}
        return {**found, "sentence": self.sentence, **self.document}


def main() -> int:
    """Run it; exit code 1 when fewer functions were named than `--least`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, required=True, action="append", metavar="DIR")
    parser.add_argument("--baseline", type=Path, default=Path("build/virt-arm64-preempt_rt"), metavar="DIR")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", default="1-4", metavar="A-B")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--least", type=int, default=0, metavar="N", help="how many must be named")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write everything as JSON lines")
    arguments = parser.parse_args()
    slowest: dict[str, Record] = {}
    verdicts: list[str] = []
    for name, change in changes().items():
        if (arguments.only and name not in arguments.only) or not change.function:
            continue
        kernel = next((place / name for place in arguments.kernels if (place / name / "build.json").is_file()), None)
        if kernel is None:
            print(f"{name:26} no kernel", flush=True)
            continue
        began = time.monotonic()
        answer = explain_slowest(change, kernel, arguments, slowest)
        seconds = time.monotonic() - began
        verdicts.append(answer.verdict)
        print(f"{name:26} {change.function:30} {answer.verdict:10} {answer.sentence} [{seconds:.0f} s]", flush=True)
        if arguments.output:
            with arguments.output.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(answer.as_json()) + "\n")
    named = verdicts.count("named")
    print(f"named: {named} of {len(verdicts)}")
    return 1 if named < arguments.least else 0


def explain_slowest(change: Change, kernel: Path, arguments: argparse.Namespace, slowest: dict[str, Record]) -> Answer:
    """Measure a change's case and explain its slowest boot; what cannot be explained is an answer, too."""
    name = CaseName.parse(change.case)
    case = Case(suite=name.suite, tool=TOOLS[name.tool](), load=name.load)
    kernels: dict[str, Path] = {ArmName.BASELINE: arguments.baseline, ArmName.CANDIDATE: kernel}
    try:
        request = ArmRequest(board=change.board, kernels=kernels, profile=arguments.profile, console="virtual")
        stop = threading.Event()
        by_name = {arm.name: arm for arm in make_arms(request, stop)}
        chosen = seeds(arguments.seeds)
        key = f"{change.board} {change.case}"
        if key not in slowest:
            slowest[key] = _measured_slowest(case, by_name[ArmName.BASELINE], chosen)
        candidate = _measured_slowest(case, by_name[ArmName.CANDIDATE], chosen)
        records = {ArmName.BASELINE: slowest[key], ArmName.CANDIDATE: candidate}
        sides = {
            name: Side(arm=by_name[name], directory=kernels[name], seed=int(record.seed or 0), record=record)
            for name, record in records.items()
        }
        made = compare(
            case,
            sides[ArmName.CANDIDATE],
            sides[ArmName.BASELINE],
            stop,
            lambda text: print(text, file=sys.stderr),
        )
    except RtgateError as error:
        return Answer(change, f"{type(error).__name__}: {error}")
    explanation = made.explanation
    functions = tuple(culprit.function for culprit in explanation.culprits)
    return Answer(change, explanation.sentence, functions, as_json(made))


def _measured_slowest(case: Case, arm: Arm, chosen: tuple[int, ...]) -> Record:
    """Return the record with the largest figure."""
    return slowest_of([measure(case, arm, seed)[0] for seed in chosen])


if __name__ == "__main__":
    sys.exit(main())
