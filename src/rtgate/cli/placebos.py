# SPDX-License-Identifier: MIT
"""`rtgate placebos learn`: measure what a comparison on virtual time may let through."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rtgate import site
from rtgate.board import boards
from rtgate.cli import command_options, shared_options
from rtgate.errors import ConfigError, Interrupted
from rtgate.kernel import source
from rtgate.kernel.checkout import checkout
from rtgate.kernel.harmless import KernelChange, harmless_changes
from rtgate.kernel.source import Tree
from rtgate.measure.profiles import seeds
from rtgate.report.notices import say, step_printer
from rtgate.workflow import placebos
from rtgate.workflow.kernels import find_description

_FILE = "placebos.yaml"
DESCRIPTION = """\
Measure how much harmless changes ("placebos") move what a comparison of two kernels on a virtual-time board looks at. A
comparison passes only where that is known, for the kernel line and the version of QEMU. `learn` builds kernels with
harmless changes, boots each with the seeds of a comparison, and writes placebos.yaml. A run that was stopped goes on
where it was: what is built and measured stays.

examples:
  rtgate --site my-lab placebos learn --board virt-arm64 --tree ~/linux
  rtgate placebos learn --board virt-arm64 --tree ~/linux --commit v6.18 -o placebos.yaml

exit codes: 0 every case taught something, 5 some did not.
"""
_NOTHING_TAUGHT = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("action", choices=("learn",), help="build, boot, and write placebos.yaml")
    command_options.board(parser)
    kernel = parser.add_argument_group("which kernel line")
    kernel.add_argument("--tree", type=Path, metavar="DIR", help="kernel source (default: the one that rtgate pins)")
    kernel.add_argument("--commit", metavar="REF", help="a commit of TREE (default: the tree as it is)")
    kernel.add_argument("--build", metavar="BUILD", help="an entry of kernel-configs/ (default: the board's)")
    what = parser.add_argument_group("what is measured")
    command_options.profile(what, "compare")  # placebos are for comparing two kernels
    shared_options.CASE.add(what.add_argument)
    what.add_argument("--seeds", metavar="A-B", help="boots of each kernel and case, instead of the profile's")
    what.add_argument(
        "--change", action="append", default=[], metavar="NAME", help="only this harmless change; repeatable"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: placebos.yaml of the site directory, or here"
    )
    how.add_argument("--work", type=Path, metavar="DIR", help="where kernels and boots are kept (default: the cache)")
    how.add_argument(
        "--jobs",
        type=command_options.positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="compilers, or boots, at the same time",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    name = arguments.build or board.build
    if not name:
        raise ConfigError(f"{board.name} has no build of its own: name one with --build")
    if arguments.commit and not arguments.tree:
        raise ConfigError("--commit is one of a kernel tree: name it with --tree DIR")
    output = (arguments.output or _usual_output()).absolute()
    with step_printer() as tell, _tree(arguments, tell) as tree, _report_kept_boots():
        request = placebos.Request(
            board=board,
            build=find_description(name),
            tree=tree,
            changes=_changes(arguments.change),
            output=output,
            work=(arguments.work or placebos.work_directory(find_description(name).name, tree)).absolute(),
            profile=arguments.profile,
            cases=tuple(arguments.case),
            seeds=seeds(arguments.seeds) if arguments.seeds else (),
            jobs=arguments.jobs,
            say=tell,
        )
        results = placebos.learn(request)
    for result in results:
        print(result.sentence)
    if any(result.has_model for result in results):
        print(f"{output}: {_use(output)}")
    return 0 if all(result.has_model for result in results) else _NOTHING_TAUGHT


def _usual_output() -> Path:
    directory = os.environ.get("RTGATE_SITE")
    return Path(directory) / _FILE if directory else Path(_FILE)


def _use(output: Path) -> str:
    if output in {path.absolute() for path in site.files(_FILE)}:
        return "gates use it from now on"
    return f"gates use it as {_FILE} of a site directory (rtgate --site DIR), or of .rtgate/ in the kernel repository"


def _changes(names: list[str]) -> Mapping[str, KernelChange]:
    changes = harmless_changes()
    unknown_names = sorted(set(names) - set(changes))
    if unknown_names:
        raise ConfigError(
            f"--change {', '.join(unknown_names)}: no such harmless change (allowed: {', '.join(changes)})"
        )
    return {name: change for name, change in changes.items() if not names or name in names}


@contextmanager
def _tree(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Iterator[Tree]:
    if arguments.commit:
        with checkout(arguments.tree, arguments.commit, "placebos", tell) as tree:
            yield tree
    else:
        yield source.open_tree(arguments.tree) if arguments.tree else source.default_tree(tell)


@contextmanager
def _report_kept_boots() -> Iterator[None]:
    """Tell who interrupts that nothing is lost."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        say("stopped: what is built and measured stays, and the same command goes on from there")
        raise
