# SPDX-License-Identifier: MIT
"""`rtgate gate`: build what is missing, measure, judge, report."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from rtgate import files
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName
from rtgate.cli import command_options, requests
from rtgate.errors import ConfigError
from rtgate.history.url import history_url
from rtgate.workflow.arms import OURS, make_root_filesystem
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.conclusion import Ending, finish
from rtgate.workflow.gate import run_gate
from rtgate.workflow.kernels import Sources, build_arm
from rtgate.workflow.report_directory import lock, replacing, require_report_directory
from rtgate.workflow.sections import unfollowed
from rtgate.workflow.sequential import ComparisonOptions, ComparisonOutcome
from rtgate.workflow.suite_process import SuiteOptions, Suites, prepare_suites
from rtgate.workflow.verdicts import grounds, limits

DESCRIPTION = """\
Gate a kernel: build it, boot it on a board, measure it, judge the measurements against thresholds.yaml, and write a
report. Without --kernel, --tree or --candidate it is the board's default build of Debian's kernel source.

examples:
  rtgate gate --board virt-arm64                                  the default kernel
  rtgate gate --board virt-arm64 --tree ~/linux                   the working tree, clean of build products
  rtgate gate --board virt-arm64 --tree ~/linux --base v6.12 --candidate my-branch
  rtgate gate --board virt-arm64 --kernel build/mine              a kernel that is built already
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    kernel = parser.add_argument_group("which kernel")
    command_options.kernels(kernel)
    kernel.add_argument("--tree", type=Path, metavar="DIR", help="kernel source to build")
    kernel.add_argument("--base", metavar="REF", help="a commit of TREE to compare with")
    kernel.add_argument("--candidate", metavar="REF", help="the commit of TREE to gate (default: the working tree)")
    kernel.add_argument("--build", metavar="BUILD", help="an entry of kernel-configs/ (default: the board's)")
    kernel.add_argument(
        "--patches", type=Path, metavar="DIR", help="apply this patch series to the candidate, instead of BUILD's own"
    )
    how = parser.add_argument_group("how")
    command_options.measuring(how)
    how.add_argument("--no-extend", action="store_true", help="do not measure more boots where a comparison stays open")
    how.add_argument(
        "--budget", default=DEFAULT, metavar="TIME", help="of a board on a clock: 45 min, 2 h (default: %(default)s)"
    )
    how.add_argument(
        "--no-explain",
        action="store_true",
        help="do not trace which changes ran, what they took, and which loads reach the others",
    )
    how.add_argument(
        "--sections",
        action="store_true",
        help="on a virtual board (arm64, x86-64), also judge how late a wake-up can be, and with two kernels how long "
        "interrupts or preemption are off",
    )
    command_options.select(how)
    command_options.judging(how)
    command_options.report(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    output = arguments.output.absolute()
    require_report_directory(output)
    options = requests.suite_options(arguments, two=bool(arguments.base or arguments.baseline))
    _check_words(arguments, options)
    with lock(output):
        files.require_free_space(output)
        files.require_free_space(Path(tempfile.gettempdir()), needed_mib=16)
        board = boards.board(arguments.board)
        kernels = _kernels(arguments, board)
        suites = replace(
            prepare_suites(options, kernels, output, requests.criteria(arguments)), remedy=_remedy(arguments)
        )
        with replacing(output):
            outcome = run_gate(
                suites,
                _comparison_options(arguments),
                explain=not arguments.no_explain,
                sections=arguments.sections,
            )
            return _end(suites, outcome)


def _comparison_options(arguments: argparse.Namespace) -> ComparisonOptions:
    return ComparisonOptions(extend=not arguments.no_extend, budget=Budget(minutes(arguments.budget)))


def _remedy(arguments: argparse.Namespace) -> str:
    """Return how `rtgate placebos learn` is told the baseline's source."""
    return f"--tree {arguments.tree or 'DIR'}" + (f" --commit {arguments.base}" if arguments.base else "")


def _end(suites: Suites, outcome: ComparisonOutcome) -> int:
    """Report, and return the exit code."""
    files.require_free_space(suites.output, needed_mib=1)
    criteria = suites.criteria
    ending = Ending(
        whole=outcome.whole,
        allow_unjudged=criteria.allow_unjudged,
        history=criteria.history,
        waivers=outcome.judging.waivers,
    )
    return finish(suites.output, outcome.judging.verdicts, ending)


def _check_sections(arguments: argparse.Namespace, board: Board) -> None:
    """Check that critical sections can be followed. Raises ConfigError."""
    if (arguments.console or "virtual") != "virtual":
        raise ConfigError("--sections follows boots on virtual time: leave --console away")
    if reason := unfollowed(board, arguments.tuning):
        raise ConfigError(f"--sections: {reason}")
    if board.cpus > 1 and not (arguments.base or arguments.baseline):
        problem = f"--sections judges one kernel by the bound of its wake-ups, and {board.name} has {board.cpus} CPUs"
        raise ConfigError(f"{problem}: give a second kernel (--base or --baseline), or a board with one CPU")


def _check_words(arguments: argparse.Namespace, options: SuiteOptions) -> None:
    """Find mistakes on the command line and in the limits now, not after an hour of building and measuring."""
    options.check(_arm_names(arguments))
    if arguments.sections:
        _check_sections(arguments, boards.board(options.board))
    minutes(arguments.budget)
    with grounds(history_url(arguments.history)):
        pass
    limits(arguments.thresholds)


def _arm_names(arguments: argparse.Namespace) -> list[str]:
    """Return the arms whose kernels are named, or are going to be built."""
    baseline = ["baseline"] if arguments.base or arguments.baseline else []
    return [*baseline, *(["candidate"] if arguments.kernel or arguments.tree or _boots_ours(arguments) else [])]


def _boots_ours(arguments: argparse.Namespace) -> bool:
    return not arguments.console or arguments.console in OURS


def _kernels(arguments: argparse.Namespace, board: Board) -> dict[str, Path]:
    """Return the build directory of each arm, built if it has to be."""
    if (arguments.base or arguments.candidate) and not arguments.tree:
        raise ConfigError("--base and --candidate are commits of a kernel tree: name it with --tree DIR")
    if arguments.base and arguments.baseline:
        raise ConfigError("--base is a commit to build, --baseline a kernel that is built: name one of them")
    of_builds = (arguments.tree, arguments.base, arguments.candidate, arguments.patches, arguments.build)
    if arguments.kernel and any(of_builds):
        raise ConfigError(
            "--kernel names a kernel that is built already: leave out --tree, --base, --candidate, --patches, --build"
        )
    kernels = {"baseline": arguments.baseline} if arguments.baseline else {}
    if arguments.kernel:
        return {**kernels, "candidate": arguments.kernel}
    if not _boots_ours(arguments) and not arguments.tree:
        if arguments.build or arguments.patches:
            raise ConfigError(
                f"the board at {arguments.console} runs a kernel of its own: --build and --patches need --tree"
            )
        return kernels
    sources = Sources(
        build=arguments.build or "",
        tree=arguments.tree,
        base=arguments.base or "",
        candidate=arguments.candidate or "",
        patches=arguments.patches,
    )
    sources.description(board)  # before minutes go into a build that the board cannot run
    if _boots_ours(arguments):
        make_root_filesystem(board)
    if sources.base:
        kernels["baseline"] = build_arm(sources, board, ArmName.BASELINE)
    kernels["candidate"] = build_arm(sources, board, ArmName.CANDIDATE)
    return kernels
