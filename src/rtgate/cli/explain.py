# SPDX-License-Identifier: MIT
"""`rtgate explain`: which functions made what a virtual-time board measures slower."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtgate import files
from rtgate.board.boot import ArmName
from rtgate.cli import shared_options
from rtgate.errors import ConfigError
from rtgate.explain.comparing import ExplainedComparison, Side, compare
from rtgate.explain.explanation import Explanation, IntervalCost, gains
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.kernel import artefacts
from rtgate.kernel.build_copy import pin_kernel
from rtgate.measure.case import Arm
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.records.warning_sites import warning_of
from rtgate.report.notices import note_output
from rtgate.report.text import plain_text
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import case_of, slowest

DESCRIPTION = """\
Run the slowest boot of a virtual-time case again, traced, and say which functions its slowest wake-up and the mean of
its wake-ups went through, from the timer's expiry to the moment at which the program read the clock (cyclictest,
preemptirq, xenomai-latency), or the round trips of its signals (signaltest). With a baseline both kernels are compared,
and the function that differs and took more instructions is named. Tracing does not disturb virtual time: the boot must
repeat the record bit by bit, or this fails.

RECORD is the directory of a record, or one with the records of a case; of several the slowest is taken. Without
--baseline it is the same case on the arm `baseline` beside it, if there is one.

examples:
  rtgate explain report/records/virt-arm64/candidate/latency.cyclictest:idle --arm candidate=build/mine \\
      --arm baseline=build/virt-arm64-preempt_rt
  rtgate explain report/records/virt-arm64/candidate/latency.cyclictest:idle/003 --arm candidate=build/mine --json

Two boots for each kernel: on two cores about 40 s for 10 s of an idle cyclictest, a minute for 5 s under hackbench.
"""
_ROWS = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("record", type=Path, metavar="RECORD", help="of the candidate")
    parser.add_argument("--baseline", type=Path, metavar="RECORD", help="of the kernel to compare with")
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="the build directory of `candidate` or `baseline` (default: build/NAME as the record names it)",
    )
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the JSON to a file as well")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    directories = shared_options.kernels_by_arm(arguments.arm)
    candidate = slowest(arguments.record)
    path = arguments.baseline or _baseline_directory(candidate)
    baseline = slowest(path) if path else None
    if baseline is not None:
        _comparable(candidate, baseline)
    elif "baseline" in directories:
        raise ConfigError(
            "--arm baseline: no baseline was measured beside RECORD: add --baseline RECORD, or leave it out"
        )
    records = {"candidate": candidate, **({"baseline": baseline} if baseline else {})}
    kernels = {
        name: pin_kernel(_kernel(name, record, directories.get(name))).directory for name, record in records.items()
    }
    case = case_of(candidate)
    request = ArmRequest(
        board=candidate.board, kernels=kernels, profile=candidate.profile, tuning=case.tuning, console="virtual"
    )
    stop = threading.Event()
    by_name: dict[str, Arm] = {arm.name: arm for arm in make_arms(request, stop)}
    sides = {
        name: Side(arm=by_name[name], directory=kernels[name], seed=_seed(record), record=record)
        for name, record in records.items()
    }
    start = time.monotonic()
    comparison = compare(
        case, sides["candidate"], sides.get("baseline"), stop, lambda text: _tell(text, time.monotonic() - start)
    )
    comparison = replace(comparison, explanation=_with_warning(comparison.explanation, candidate))
    text = json.dumps(as_json(comparison), indent=1)
    if arguments.json:
        print(text)
    else:
        console = Console(highlight=False)
        # A pipe has no width; names of functions must stay whole.
        console = console if console.is_terminal else Console(highlight=False, width=160)
        show(comparison, console)
    if arguments.output:
        files.write_user_file(arguments.output, text + "\n")
    return 0


def _with_warning(explanation: Explanation, candidate: Record) -> Explanation:
    """Return an explanation that says which warning it is that costs the time."""
    warning = warning_of(explanation.warning_function, [candidate])
    return (
        replace(explanation, sentence=f"{warning} costs the time: {explanation.sentence}") if warning else explanation
    )


def _tell(text: str, seconds: float) -> None:
    print(f"explain: {seconds:4.0f} s: {plain_text(text)}", file=sys.stderr, flush=True)
    note_output()


def _seed(record: Record) -> int:
    assert record.seed is not None
    return record.seed


def _baseline_directory(record: Record) -> Path | None:
    """Return where the same case of the arm `baseline` is, if it was measured.

    Raises ConfigError: a record is damaged.
    """
    if record.directory is None or record.arm != ArmName.CANDIDATE:
        return None
    case = record.directory.absolute().parent
    path = case.parent.parent / "baseline" / case.name
    boots = (records_file.read(boot.parent) for boot in records_file.paths(path))
    return path if any(boot.has_results for boot in boots) else None


def _comparable(candidate: Record, baseline: Record) -> None:
    """Raise ConfigError if the two records are of different boards, cases, profiles or commands."""
    for name in ("board", "case", "profile", "argv"):
        a, b = getattr(candidate, name), getattr(baseline, name)
        if a != b:
            raise ConfigError(f"the records are not comparable: {name} {a} and {b}")


def _kernel(name: str, record: Record, directory: Path | None) -> Path:
    """Return the build directory of a record's kernel, which --arm calls `name`.

    It need not be the record's own arm: RECORD is the candidate, also if it was measured as a baseline. Raises
    ConfigError: it is another kernel.
    """
    build = directory or Path("build") / record.kernel.name
    try:
        kernel = artefacts.load(build)
    except ConfigError as error:
        raise ConfigError(f"the kernel of {record.arm} is needed: --arm {name}=DIR ({error})") from error
    if kernel.image_sha256 != record.kernel.image_sha256:
        raise ConfigError(f"{build} is not the kernel that was measured as {record.arm}: its image is another one")
    return build


def as_json(comparison: ExplainedComparison) -> dict[str, Any]:
    """Return everything as JSON."""
    differences, exercise = comparison.differences, comparison.exercise
    return {
        **comparison.explanation.as_json(),
        "changes": None
        if differences is None
        else {
            **{name: list(getattr(differences, name)) for name in ("changed", "added", "removed", "data")},
            "renames": dict(differences.renames),
            "options": {name: list(values) for name, values in differences.options.items()},
        },
        "exercised": None
        if exercise is None
        else {"executed": dict(exercise.executed), "resting": list(exercise.resting), "sentence": exercise.sentence},
    }


def show(comparison: ExplainedComparison, console: Console) -> None:
    """Print the explanation for people."""
    explanation = comparison.explanation
    for view in ("worst", "typical"):
        what = explanation.candidate.what
        title = f"the slowest {what}" if view == "worst" else f"a {what} on average"
        mine: IntervalCost = getattr(explanation.candidate, view)
        theirs: IntervalCost | None = getattr(explanation.baseline, view) if explanation.baseline else None
        console.print(Text(title, style="bold"))
        for name, cost in (("baseline", theirs), ("candidate", mine)):
            if cost is not None:
                console.print(Text(f"  {name}: {_account(cost)}"), soft_wrap=True)
        console.print(_table(theirs.profile.own if theirs else {}, mine.profile.own, mine.profile.within))
        console.print()
    _show_check(explanation, console)
    if comparison.differences is not None:
        console.print(Text(_changes(comparison)), soft_wrap=True)
    console.print(Text(plain_text(explanation.sentence), style="bold"), soft_wrap=True)


def _account(cost: IntervalCost) -> str:
    return (
        f"{cost.latency_ns:,.0f} ns = {cost.profile.total:,.0f} instructions of {INSTRUCTION_NS} ns + "
        f"{cost.idle_ns:,.0f} ns idle + {round(cost.unaccounted_ns) + 0:,} ns unaccounted for"
    )


def _table(old: Mapping[str, float], new: Mapping[str, float], within: Mapping[str, float]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    table.add_column("function")
    for name in ("baseline", "candidate", "gain", "with what it calls"):
        table.add_column(name, justify="right")
    top_gains = sorted(gains(old, new), key=lambda item: -abs(item[1]))[:_ROWS]
    for name, gain in sorted(top_gains, key=lambda item: -item[1]):
        before = f"{old.get(name, 0):,.0f}" if old else "-"
        numbers = (before, f"{new.get(name, 0):,.0f}", f"{gain:+,.0f}", f"{within.get(name, 0):,.0f}")
        table.add_row(Text(plain_text(name)), *numbers)
    return table


def _show_check(explanation: Explanation, console: Console) -> None:
    for name, arm in (("baseline", explanation.baseline), ("candidate", explanation.candidate)):
        if arm is not None:
            text = f"{name}, seed {arm.seed}: {arm.agreeing} of {arm.intervals} {arm.what}s {arm.proof}"
            console.print(Text(text), soft_wrap=True)


def _changes(comparison: ExplainedComparison) -> str:
    assert comparison.differences is not None
    assert comparison.exercise is not None
    differences = comparison.differences
    parts = [
        f"{len(names)} functions {what}"
        for what in ("changed", "added", "removed")
        if (names := getattr(differences, what))
    ]
    parts += [f"{len(differences.renames)} functions renamed"] if differences.renames else []
    parts += [f"{len(differences.data)} variables differ"] if differences.data else []
    parts += [f"{len(differences.options)} options differ"] if differences.options else []
    return f"{', '.join(parts) or 'the kernels do not differ'}; {comparison.exercise.sentence}"
