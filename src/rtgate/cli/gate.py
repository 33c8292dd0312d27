# SPDX-License-Identifier: MIT
"""`rtgate gate`: build what is missing, measure, judge, report."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtgate import files, site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName, TimeBase
from rtgate.cli import build, command_options, requests
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.thresholds import load_thresholds
from rtgate.judge.verdict import Verdict
from rtgate.kernel import artefacts, source
from rtgate.kernel.checkout import checkout
from rtgate.kernel.source import Tree
from rtgate.measure.profiles import profile
from rtgate.report.notices import say, step
from rtgate.tools.registry import TOOLS
from rtgate.workflow.archive import history_url
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.conclusion import Ending, finish
from rtgate.workflow.placebo_notice import Compared, notices
from rtgate.workflow.placebos import compiler_of
from rtgate.workflow.report_directory import check_ours, locked, replacing
from rtgate.workflow.sequential import PROCEDURES, ComparisonOptions, Measured, run_comparison
from rtgate.workflow.suite_process import SuiteOptions, Suites, prepared
from rtgate.workflow.tracing import trace
from rtgate.workflow.verdicts import grounds, harmless

_DESCRIPTION = """\
Gate a kernel: build it, boot it on a board, measure it, judge the measurements against thresholds.yaml, and write a
report. Without --kernel, --tree or --candidate it is the board's default build of Debian's kernel source.

examples:
  rtgate gate --board virt-arm64                                  the default kernel
  rtgate gate --board virt-arm64 --tree ~/linux                   the working tree, clean of build products
  rtgate gate --board virt-arm64 --tree ~/linux --base v6.12 --candidate my-branch
  rtgate gate --board virt-arm64 --kernel build/mine              a kernel that is built already
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gate",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_options.board(parser)
    kernel = parser.add_argument_group("which kernel")
    command_options.kernels(kernel)
    kernel.add_argument("--tree", type=Path, metavar="DIR", help="kernel source to build")
    kernel.add_argument("--base", metavar="REF", help="a commit of TREE to compare with")
    kernel.add_argument("--candidate", metavar="REF", help="the commit of TREE to gate (default: the working tree)")
    kernel.add_argument("--build", metavar="BUILD", help="an entry of kernel-configs/ (default: the board's)")
    kernel.add_argument("--patches", type=Path, metavar="DIR", help="apply this patch series to the candidate")
    how = parser.add_argument_group("how")
    command_options.measuring(how)
    how.add_argument("--no-extend", action="store_true", help="do not measure more boots where a comparison stays open")
    how.add_argument(
        "--budget", default=DEFAULT, metavar="TIME", help="of a board on a clock: 45 min, 2 h (default: %(default)s)"
    )
    how.add_argument(
        "--procedure",
        default=PROCEDURES[0],
        choices=PROCEDURES,
        help="on a clock: pairs of boots of both kernels, or first a screen of the candidate against the history "
        "(default: %(default)s)",
    )
    how.add_argument("--no-explain", action="store_true", help="do not trace which changes ran, and what they took")
    command_options.select(how)
    command_options.judging(how)
    command_options.report(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    output = arguments.output.absolute()
    check_ours(output)
    options = requests.suite_options(arguments, two=bool(arguments.base or arguments.baseline))
    _check_words(arguments, options)
    with locked(output):
        files.require_free_space(output)
        files.require_free_space(Path(tempfile.gettempdir()), needed_mib=16)
        board = boards.board(arguments.board)
        kernels = _kernels(arguments, board)
        suites = prepared(options, kernels, output, requests.criteria(arguments))
        _tell_placebos(arguments, suites)
        with replacing(output):
            measured = run_comparison(suites, _comparison_options(arguments))
            if _traceable(arguments, board, kernels):
                measured = _explained(suites, measured)
            return _end(suites, measured)


def _comparison_options(arguments: argparse.Namespace) -> ComparisonOptions:
    return ComparisonOptions(
        procedure=arguments.procedure, extend=not arguments.no_extend, budget=Budget(minutes(arguments.budget))
    )


def _tell_placebos(arguments: argparse.Namespace, suites: Suites) -> None:
    """Say which placebos the comparisons will use, and what they do without."""
    baselines = [arm for arm in suites.arms if (arm.name, arm.time) == (ArmName.BASELINE, TimeBase.VIRTUAL)]
    if not baselines:
        return
    tree, commit = arguments.tree or "DIR", f" --commit {arguments.base}" if arguments.base else ""
    compared = Compared(
        arms=baselines,
        compiler=compiler_of(artefacts.load(suites.kernels["baseline"]).toolchain or ""),
        profile=suites.options.profile,
        select=suites.options.select,
        remedy=f"--tree {tree}{commit}",
    )
    for sentence in notices(compared, harmless()):
        say(sentence)


def _beside(arguments: argparse.Namespace, board: Board, kernels: Mapping[str, Path]) -> tuple[str, ...]:
    """Return the boards that the profile measures with this one: two kernels on virtual time, tuned as any."""
    plain = arguments.console in {None, "virtual"} and board.virtual and arguments.tuning == "default"
    return profile(arguments.profile, TOOLS).beside(board.name) if plain and len(kernels) > 1 else ()


def _explained(suites: Suites, measured: Measured) -> Measured:
    """Trace what ran, and judge again with what that shows."""
    with step("tracing what ran"):
        traced = _traced(suites, measured.judging.verdicts)
    return replace(measured, judging=suites.judge()) if traced else measured


def _end(suites: Suites, measured: Measured) -> int:
    """Report, and return the exit code."""
    files.require_free_space(suites.output, needed_mib=1)
    criteria = suites.criteria
    ending = Ending(whole=measured.whole, allow_unjudged=criteria.allow_unjudged, history=criteria.history)
    return finish(suites.output, measured.judging.verdicts, ending)


def _check_words(arguments: argparse.Namespace, options: SuiteOptions) -> None:
    """Find mistakes on the command line and in the limits now, not after an hour of building and measuring."""
    options.check(boards.board(options.board))
    minutes(arguments.budget)
    if arguments.procedure == "screened" and not (_may_screen(arguments) and history_url(arguments.history)):
        raise ConfigError(
            "--procedure screened needs two kernels (--baseline or --base), a --console on a clock, --history URL, and "
            "no --boots"
        )
    with grounds(history_url(arguments.history)):
        pass
    known = {name: boards.board(name).virtual for name in site.names("boards")}
    load_thresholds([arguments.thresholds] if arguments.thresholds else site.files("thresholds.yaml"), known)


def _may_screen(arguments: argparse.Namespace) -> bool:
    """Return whether pairs of boots of two kernels are measured in looks, which a screen can come before."""
    asked = arguments
    if asked.boots or asked.console in {None, "virtual"} or not (asked.base or asked.baseline):
        return False
    return bool(asked.console in _OURS or asked.tree or asked.kernel)  # a live console runs a kernel of its own


_OURS = frozenset({"virtual", "host"})  # consoles of boards that boot what they are given


def _kernels(arguments: argparse.Namespace, board: Board) -> dict[str, Path]:
    """Return the build directory of each arm, built if it has to be."""
    if (arguments.base or arguments.candidate) and not arguments.tree:
        raise ConfigError("--base and --candidate are commits of a kernel tree: name it with --tree DIR")
    if arguments.base and arguments.baseline:
        raise ConfigError("--base is a commit to build, --baseline a kernel that is built: name one of them")
    if arguments.kernel and (arguments.tree or arguments.base or arguments.candidate or arguments.patches):
        raise ConfigError(
            "--kernel names a kernel that is built already: leave out --tree, --base, --candidate, --patches"
        )
    kernels = {"baseline": arguments.baseline} if arguments.baseline else {}
    if arguments.kernel:
        return {**kernels, "candidate": arguments.kernel}
    if arguments.console and arguments.console not in _OURS and not arguments.tree:
        return kernels  # a live console runs a kernel of its own
    name = arguments.build or board.build
    _check_build(name, board)
    if arguments.base:
        with _at(arguments, "base") as tree:
            kernels["baseline"] = _built(name, arguments, tree, "baseline")
    with _at(arguments, "candidate") as tree:
        kernels["candidate"] = _built(name, arguments, tree, "candidate")
    return kernels


def _check_build(name: str, board: Board) -> None:
    """Refuse a build for another architecture before minutes go into it."""
    if not name:
        raise ConfigError(f"{board.name} has no build of its own: name one (--build), or a built kernel (--kernel)")
    description = build.find_description(name)
    if description.arch != board.arch:
        raise ConfigError(
            f"{description.path} is for {description.arch}, {board.name} is {board.arch}: name another build with "
            f"--build (default: {board.build})"
        )


@contextmanager
def _at(arguments: argparse.Namespace, label: str) -> Iterator[Tree | None]:
    """Yield the source of an arm, which no other gate changes until the block is left; None for Debian's."""
    reference = getattr(arguments, label)
    if reference:
        with checkout(arguments.tree, reference, label, say) as tree:
            yield tree
    else:
        yield source.open_tree(arguments.tree) if arguments.tree else None


def _built(name: str, arguments: argparse.Namespace, tree: Tree | None, arm: str) -> Path:
    patches = arguments.patches if arm == ArmName.CANDIDATE else None
    marks = [patches.resolve().name] if patches else []
    directory = Path("build") / "-".join([name.removesuffix(".yaml").rpartition("/")[2], *marks])
    # Only the default build has one content in all gates of one release of rtgate.
    own = tree is not None or patches is not None
    with step(f"building {name}" + (f" ({arm})" if arguments.base else "")):
        return build.build_kernel(name, tree, directory, patches, by_content=own).directory


def _traceable(arguments: argparse.Namespace, board: Board, kernels: Mapping[str, Path]) -> bool:
    asked = not arguments.no_explain and arguments.console in {None, "virtual"}
    return asked and board.virtual and set(kernels) == {"baseline", "candidate"}


def _traced(suites: Suites, verdicts: Sequence[Verdict]) -> bool:
    """Trace, if it can be done: what is judged already must not get lost for it."""
    try:
        return trace(suites.boards, suites.kernels, suites.records, verdicts)
    except InfrastructureError as error:
        print(f"rtgate: not traced: {error}", file=sys.stderr)
        return False
