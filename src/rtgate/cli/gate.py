# SPDX-License-Identifier: MIT
"""`rtgate gate`: build what is missing, measure, judge, report."""

from __future__ import annotations

import argparse
import errno
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
from rtgate.board.boot import ArmName
from rtgate.cli import build, command_options
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.thresholds import load_thresholds
from rtgate.judge.verdict import Verdict
from rtgate.kernel import source
from rtgate.kernel.checkout import checkout
from rtgate.kernel.pinned import pinned
from rtgate.kernel.source import Tree
from rtgate.measure.profiles import profile, seeds
from rtgate.report.notices import say, step
from rtgate.tools.registry import TOOLS
from rtgate.workflow.archive import history_url
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.conclusion import Ending, finish
from rtgate.workflow.report_directory import check_ours, locked, replacing
from rtgate.workflow.sequential import PROCEDURES, run_comparison
from rtgate.workflow.suite_process import Suites
from rtgate.workflow.tracing import trace
from rtgate.workflow.verdict_file import read_verdicts
from rtgate.workflow.verdicts import grounds

_DESCRIPTION = """\
Gate a kernel: build it, boot it on a board, measure it, judge the measurements against thresholds.yaml, and write a
report. Without --kernel, --tree or --candidate it is the board's default build of Debian's kernel source.

examples:
  rtgate gate --board virt-arm64                                  the default kernel
  rtgate gate --board virt-arm64 --tree ~/linux                   the kernel tree as it lies there
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
    kernel.add_argument("--kernel", type=Path, metavar="DIR", help="a kernel's build directory")
    kernel.add_argument("--baseline", type=Path, metavar="DIR", help="the kernel to compare with, built already")
    kernel.add_argument("--tree", type=Path, metavar="DIR", help="kernel source to build")
    kernel.add_argument("--base", metavar="REF", help="a commit of TREE to compare with")
    kernel.add_argument("--candidate", metavar="REF", help="the commit of TREE to gate (default: the tree as it lies)")
    kernel.add_argument("--build", metavar="BUILD", help="an entry of kernel-configs/ (default: the board's)")
    kernel.add_argument("--patches", type=Path, metavar="DIR", help="apply this patch series to the candidate")
    command_options.flavour(kernel)
    how = parser.add_argument_group("how")
    how.add_argument("--profile", help="tools, lengths, repetitions (default: quick; compare for two kernels)")
    command_options.tuning(how)
    how.add_argument("--seeds", metavar="A-B", help="boots of a virtual-time board, instead of the profile's")
    how.add_argument("--boots", metavar="N", help="boots of any other board, instead of the profile's")
    how.add_argument(
        "--boot-again",
        action="store_true",
        help="make every virtual-time boot, also those made before: they must print the same bytes",
    )
    how.add_argument("--console", metavar="C", help="see pytest --help (default on virtual boards: virtual)")
    how.add_argument("--power-cycle", metavar="CMD", help="turns an attached board off and on after its kernel died")
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
    arguments.profile = arguments.profile or ("compare" if arguments.base or arguments.baseline else "quick")
    output = arguments.output.absolute()
    check_ours(output)
    _check_words(arguments)
    with locked(output):
        try:
            return _gate(arguments, output)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}:
                raise InfrastructureError(f"{output} cannot be written: {error.strerror}") from error
            raise


def _gate(arguments: argparse.Namespace, output: Path) -> int:
    board = boards.board(arguments.board)
    files.require_free_space(output)
    files.require_free_space(Path(tempfile.gettempdir()), needed_mib=16)
    kernels = _kernels(arguments, board)
    request = ArmRequest(
        board=board.name,
        kernels=kernels,
        profile=arguments.profile,
        console=arguments.console,
        tuning=arguments.tuning,
        flavour=arguments.flavour,
        power_cycle=arguments.power_cycle,
    )
    beside = _beside(arguments, board, kernels)
    for name in (board.name, *beside):
        make_arms(replace(request, board=name))  # a mistake shows here, before anything runs
    kernels = {arm: pinned(directory).directory for arm, directory in kernels.items()}
    with replacing(output):
        return _concluded(Suites(asked=arguments, kernels=kernels, output=output, beside=beside), board)


def _beside(arguments: argparse.Namespace, board: Board, kernels: Mapping[str, Path]) -> tuple[str, ...]:
    """Return the boards that the profile measures with this one: two kernels on virtual time, tuned as any."""
    plain = arguments.console in {None, "virtual"} and board.virtual and arguments.tuning == "default"
    return profile(arguments.profile, TOOLS).beside(board.name) if plain and len(kernels) > 1 else ()


def _concluded(suites: Suites, board: Board) -> int:
    """Measure, judge and report; return the exit code."""
    arguments, kernels, output = suites.asked, dict(suites.kernels), suites.output
    whole = run_comparison(suites, Budget(minutes(arguments.budget)))
    if _traceable(arguments, board, kernels):
        with step("tracing what ran"):
            traced = _traced(suites.boards, kernels, output)
        if traced:
            suites.judge()
    files.require_free_space(output, needed_mib=1)
    ending = Ending(whole=whole, allow_unjudged=arguments.allow_unjudged, history=history_url(arguments.history))
    return finish(output, _verdicts(output), ending)


def _check_words(arguments: argparse.Namespace) -> None:
    """Find mistakes on the command line and in the limits now, not after an hour of building and measuring."""
    board = boards.board(arguments.board)
    board.tuning(arguments.tuning)
    profile(arguments.profile, TOOLS)
    if arguments.seeds:
        seeds(arguments.seeds)
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


def _traceable(arguments: argparse.Namespace, board: Board, kernels: dict[str, Path]) -> bool:
    asked = not arguments.no_explain and arguments.console in {None, "virtual"}
    return asked and board.virtual and set(kernels) == {"baseline", "candidate"}


def _verdicts(output: Path) -> list[Verdict]:
    return read_verdicts(output / "verdict.json", output / "records")[0]


def _traced(boards: Sequence[str], kernels: dict[str, Path], output: Path) -> bool:
    """Trace, if it can be done: what is judged already must not get lost for it."""
    try:
        return trace(boards, kernels, output / "records", _verdicts(output))
    except InfrastructureError as error:
        print(f"rtgate: not traced: {error}", file=sys.stderr)
        return False
