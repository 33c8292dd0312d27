# SPDX-License-Identifier: MIT
"""`rtgate soak`: measure one case for hours on a live target, in chunks that survive a lost console."""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtgate import durations
from rtgate.board.tuning import DEFAULT
from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.files import exclusive_lock
from rtgate.judge.thresholds import Thresholds
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.profiles import Lengths, Profile
from rtgate.measure.run import records_by_case
from rtgate.report.notices import say
from rtgate.target.live import LiveTarget
from rtgate.target.power import PowerCycledTarget
from rtgate.tools.case_name import CaseName
from rtgate.tools.needs import unmet_needs
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.conclusion import conclude
from rtgate.workflow.judging import Criteria, JudgingRequest
from rtgate.workflow.slowest import find_case
from rtgate.workflow.soak import spec as orders
from rtgate.workflow.soak.chunks import COMPLETE, Chunks
from rtgate.workflow.soak.progress import SoakProgress
from rtgate.workflow.soak.spec import SoakSpec
from rtgate.workflow.verdicts import limits

DESCRIPTION = """\
Measure one case for hours on a live target, in chunks; each chunk is an ordinary measurement and becomes a record. A
console that is lost is opened again, and --continue goes on after Ctrl-C or a crash. More: docs/how-to/soak.md

examples:
  rtgate soak --board B --console serial:/dev/ttyUSB0 --case latency/cyclictest:stress-ng --for 12h
  rtgate soak --continue soak              go on after Ctrl-C, a crash, or a lost console
  rtgate soak --stop soak                  measure no more of it, and judge what there is
"""


_CHUNK = "10 min"
# What a soak was begun with; its target has it already. `arguments` has the names without dashes.
_BEGUN_WITH = {name: f"--{name}" for name in ("board", "case", "chunk", "records", "flavour", "tuning")}
_BEGUN_WITH["length"] = "--for"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--board", metavar="NAME", help="the board")
    parser.add_argument("--console", metavar="C", help="serial:DEVICE[:BAUD], tcp:HOST:PORT, command:CMD, host")
    parser.add_argument("--case", metavar="CASE", help="for example latency/cyclictest:stress-ng")
    parser.add_argument("--for", dest="length", metavar="TIME", help="how long to measure: 30 min, 12 h, 3 d")
    parser.add_argument("--chunk", metavar="TIME", help=f"length of a chunk (default: {_CHUNK})")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where records go (default: soak)")
    parser.add_argument("--kernel", type=Path, metavar="DIR", help="the build directory of the target's kernel")
    command_options.flavour(parser)
    command_options.tuning(parser)
    command_options.thresholds(parser)
    parser.add_argument(
        "--patience", default="15 min", metavar="TIME", help="for a lost console (default: %(default)s)"
    )
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--continue", dest="going_on", type=Path, metavar="DIR", help="go on with the soak in DIR")
    later.add_argument("--stop", type=Path, metavar="DIR", help="end the soak in DIR with what there is")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    _refuse_to_change(arguments)
    records = (arguments.going_on or arguments.stop or arguments.records or Path("soak")).absolute()
    patience_s = durations.option("--patience", arguments.patience)
    thresholds = limits(arguments.thresholds)
    if arguments.going_on or arguments.stop:
        orders.read(records)  # before the lock makes a directory of a mistyped name
    with exclusive_lock(records / ".soak.lock", f"the soak in {records}"):
        if arguments.stop:
            orders.give_up(orders.read(records), records)
            return _judge(records, arguments.thresholds)
        if arguments.going_on:
            order = orders.read(records)
            case, arm = _resume(order, arguments.console, arguments.kernel)
        else:
            case, arm = _case_and_arm(arguments)
            count = math.ceil(durations.option("--for", arguments.length) / arm.profile.lengths.duration_s)
            order = orders.begin(case, arm, arguments.console, count, records)
        progress = SoakProgress(order, _levels(thresholds, order))
        chunks = Chunks(
            order=order,
            case=case,
            arm=arm,
            target=_live(arm),
            records=records,
            on_chunk=progress.show_chunk,
            say=say,
            patience_s=patience_s,
        )
        progress.begin(records_by_case(records, order.board).get(order.case, ()))
        try:
            why = _measure(chunks)
        except KeyboardInterrupt:
            command = orders.continue_command(order, records)
            say(f"interrupted, and nothing measures any more: {command} (or --stop {records})")
            return 130
    if why != COMPLETE:
        say(f"the soak ended early: {why}")
    return _judge(records, arguments.thresholds)


def _measure(chunks: Chunks) -> str:
    """Measure in a thread, so that Ctrl-C lets the target put its settings back. Raises as `Chunks.measure`."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(chunks.measure)
        try:
            return future.result()
        except KeyboardInterrupt:
            chunks.target.stop.set()
            raise


def _refuse_to_change(arguments: argparse.Namespace) -> None:
    """Refuse options that a soak takes when it begins for one that goes on, or ends. Raises ConfigError."""
    later = "--stop" if arguments.stop else "--continue" if arguments.going_on else ""
    options = [option for name, option in _BEGUN_WITH.items() if getattr(arguments, name) not in (None, DEFAULT.name)]
    if later and options:
        raise ConfigError(f"{', '.join(options)}: only where a soak begins, not with {later}")
    unused = [f"--{name}" for name in ("console", "kernel") if arguments.stop and getattr(arguments, name)]
    if unused:
        raise ConfigError(f"{', '.join(unused)}: nothing is measured any more with --stop: leave that out")


def _case_and_arm(arguments: argparse.Namespace) -> tuple[Case, Arm]:
    missing_options = [f"--{name}" for name in ("board", "console", "case") if not getattr(arguments, name)]
    missing_options += [] if arguments.length else ["--for"]
    if missing_options:
        raise ConfigError(f"a soak needs {', '.join(missing_options)} (or --continue DIR)")
    chunk, tuning = arguments.chunk or _CHUNK, arguments.tuning
    if durations.option("--chunk", chunk) > durations.option("--for", arguments.length):
        raise ConfigError(f"a chunk of {chunk} is longer than the soak ({arguments.length})")
    case = find_case(str(_case_with_tuning(arguments.case, tuning)))
    kernels = {"candidate": arguments.kernel} if arguments.kernel else {}
    request = ArmRequest(
        board=arguments.board,
        kernels=kernels,
        profile="mr",
        console=arguments.console,
        tuning=tuning,
        flavour=arguments.flavour,
    )
    arm = _arm(request, durations.option("--chunk", chunk))
    reasons = unmet_needs(plan(case, arm, 1).needs, arm.board.cpus)
    if reasons:
        raise ConfigError(f"{arm.board.name} cannot run {case.name}: {'; '.join(reasons)}")
    return case, arm


def _resume(order: SoakSpec, console: str | None, kernel: Path | None) -> tuple[Case, Arm]:
    """Return the case and the arm of a soak that was begun; its console may have another name now.

    `kernel` is for a board that rtgate starts, and must be the one that it began with. Raises ConfigError.
    """
    case = find_case(order.case)
    console = console or order.console
    if kernel and console != orders.HOST:
        raise ConfigError("--kernel: only where a soak begins, not with --continue (but of --console host)")
    kernels = {"candidate": kernel} if kernel else {}
    request = ArmRequest(board=order.board, kernels=kernels, profile="mr", console=console, tuning=order.tuning)
    arm = _arm(request, order.chunk_s)
    if kernel and arm.kernel.image_sha256 != order.kernel.image_sha256:
        raise ConfigError(f"--kernel {kernel} is another kernel than {order.kernel.name}, which the soak measures")
    return case, replace(arm, kernel=order.kernel)


def _arm(request: ArmRequest, chunk_s: float) -> Arm:
    (arm,) = make_arms(request)
    _live(arm)
    lengths = Lengths(duration_s=chunk_s, seeds=(1,), boots=1)
    return replace(arm, profile=Profile(name="soak", description="chunks of a soak", lengths=lengths))


def _live(arm: Arm) -> LiveTarget:
    """Return the arm's console; a soak does not go on after a death. Raises ConfigError for virtual time."""
    target = arm.target.live if isinstance(arm.target, PowerCycledTarget) else arm.target
    if not isinstance(target, LiveTarget):
        raise ConfigError("a soak needs a live console; a virtual-time board repeats itself: give it more --seeds")
    return target


def _case_with_tuning(text: str, tuning: str) -> CaseName:
    """Return the case of `--case` under the tuning of `--tuning`. Raises ConfigError: it names a tuning itself."""
    name = CaseName.parse(text)
    if name != name.without_tuning:
        raise ConfigError(f"--case {text} names a tuning: use --tuning {name.tuning}")
    return replace(name, tuning=tuning)


def _levels(thresholds: Thresholds, order: SoakSpec) -> list[tuple[str, Any]]:
    """Return the levels whose shares are limited, with what they are limited for."""
    mine = thresholds.for_options(order.board, order.kernel.flavour, order.case, {})  # the profile of a soak has none
    real = [limit for limit in mine if limit.over is not None and not limit.over.unit.virtual]
    return [(limit.measurement, limit.over) for limit in real]


def _judge(records: Path, thresholds: Path | None) -> int:
    """Judge every case that has records there, also of another board's soak; return the exit code."""
    request = JudgingRequest(records=records, criteria=Criteria(thresholds=thresholds))
    return conclude(records, request, page=False)
