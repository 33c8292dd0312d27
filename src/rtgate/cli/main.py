# SPDX-License-Identifier: MIT
"""The command `rtgate`."""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Container, Mapping, Sequence
from types import ModuleType
from typing import Any

from rtgate import __version__
from rtgate.cli import edge
from rtgate.report.notices import reminder, silence

# Each command is a module of this package with DESCRIPTION, `add_options` and `run`. It is loaded when the command is
# used: to load them all takes seconds.
_GROUPS = {
    "kernel": {
        "build": "build a kernel",
        "modules": "build kernel modules against a build",
        "rootfs": "build or find the root filesystem of a target",
    },
    "measure": {
        "gate": "build, measure, judge, report",
        "review": "gate a merge request, and answer it",
        "measure": "measure built kernels, judge nothing",
        "demo": "gate a kernel that is slow on purpose",
        "soak": "measure for hours, in chunks",
        "repeat": "prove that a virtual-time board repeats itself",
        "console": "a shell on a virtual board",
        "hub": "share a console among clients",
    },
    "forges": {
        "gerrit": "review each new patch set in Gerrit once",
        "webhook": "start a review when a member of GitLab or GitHub says so",
    },
    "judge": {
        "judge": "judge stored records, by any limits",
        "report": "make the report of stored and judged records",
        "explain": "say which functions made wake-ups or signals slower (virtual time)",
        "sections": "list where interrupts or preemption were off, and for how long (virtual time)",
        "check-records": "tell which files changed since a run was judged",
        "compare-env": "show how the environments of two records differ",
        "compare-flavours": "put an ordinary kernel, PREEMPT_RT and Xenomai beside each other",
        "pcie-limits": "show what PCI Express links can carry",
        "placebos": "learn what a comparison on virtual time may let through",
    },
    "lab": {
        "submit": "measure on a board of a LAVA lab",
        "render": "write a job as a file, without a LAVA server",
        "fetch": "fetch and judge what a job has measured",
        "jobs": "list jobs of a LAVA lab",
        "cancel": "cancel jobs of a LAVA lab",
        "select-cases": "choose what a board must measure after a virtual-time gate",
        "lab-check": "say what a LAVA lab supports",
        "in-job": "measure from inside a LAVA job",
        "board-health": "prove a board inside a LAVA health check",
    },
    "history": {
        "history": "keep measured boots in a database, show what is there",
        "baseline": "say which kernels are good: promote, revoke, show",
        "plan": "say how much must be measured for an answer",
        "trend": "show how a board's figures went, and where they changed",
        "calibrate": "propose limits from past good runs",
        "qualify": "measure a board's noise and its smallest detectable change",
    },
    "files": {
        "check": "validate all YAML files",
        "new-board": "add a board by answering questions",
        "where": "say which file a name comes from",
        "seeds": "list the limits that come from the reference documents",
    },
}
_COMMANDS = {name: line for commands in _GROUPS.values() for name, line in commands.items()}
_DESCRIPTION = "Gates real-time Linux kernels: did this change make real-time behaviour worse, where, how much?"
_EPILOG = """\
exit codes:
  0  pass
  1  FAIL: a limit, a regression, a kernel fault, a kernel that does not build or boot
  2  usage or configuration
  3  MISS: the lab failed, or something was not measured
  4  ERROR: an invalid measurement, or output that cannot be read
  5  inconclusive, not proven, or nothing was judged
  130  interrupted
"""


def parser(loaded_names: Container[str] = _COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line; of commands that are not loaded it knows no options."""
    top, commands = _top()
    for name in _COMMANDS:
        if name not in loaded_names:
            commands.add_parser(name)
            continue
        module = _module(name)
        command = commands.add_parser(
            name, description=module.DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_options(command)
    return top


def _top() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of what comes before a command, and what commands are added to."""
    top = argparse.ArgumentParser(
        prog="rtgate",
        usage="rtgate [-h] [--version] [--site DIR] COMMAND ...",
        description=f"{_DESCRIPTION}\n\n{_command_list()}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"rtgate {__version__}")
    top.add_argument("--site", metavar="DIR", help="the lab's own boards, builds, limits (default: $RTGATE_SITE)")
    # The description lists the commands, in groups, which argparse has not.
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog="rtgate", help=argparse.SUPPRESS
    )
    return top, commands


def _command_list() -> str:
    width = max(map(len, _COMMANDS))
    groups = ("\n".join([f"{group}:", *_lines(commands, width)]) for group, commands in _GROUPS.items())
    return "\n\n".join([*groups, "`rtgate COMMAND --help` explains a command."])


def _lines(commands: Mapping[str, str], width: int) -> list[str]:
    return [f"  {name:<{width}}  {line}" for name, line in commands.items()]


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"rtgate.cli.{command.replace('-', '_')}")


def _outline() -> argparse.ArgumentParser:
    """Return a parser that knows no command's options, but for boards: enough to say which command is meant."""
    top, commands = _top()
    for name in _COMMANDS:
        command = commands.add_parser(name, add_help=False, allow_abbrev=False)
        command.add_argument("--board", action="append", nargs="?", dest="boards", default=[])
        command.add_argument("-h", "--help", action="store_true")
    return top


def _check_boards(outline: argparse.Namespace) -> None:
    """Refuse a mistyped board before its command is loaded. Raises ConfigError.

    A history may hold boards that nobody has any more: its commands look for what is stored, and those that make
    something for a board ask for it themselves.
    """
    names = [name for name in outline.boards if name and not outline.help]
    if names and outline.command not in _GROUPS["history"]:
        # Not above: help and version need no boards, and to load them takes as long as all else here.
        from rtgate.board import boards  # noqa: PLC0415

        for name in names:
            boards.board(name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    outline, _ = _outline().parse_known_args(argv)
    if outline.site:
        os.environ["RTGATE_SITE"] = outline.site

    def action() -> int:
        _check_boards(outline)
        arguments = parser((outline.command,)).parse_args(argv)
        return _run(outline.command, arguments, edge.begin())

    return edge.exit_code("rtgate", action)


# What is a person's console, is read afterwards in a job's log, or lasts for hours and tells of each boot.
_SPEAKING = frozenset({"console", "hub", "in-job", "board-health", "soak", "placebos", "gerrit", "webhook"})


def _run(command: str, arguments: argparse.Namespace, silent_s: float) -> int:
    """Run a command, which is never silent for more than three seconds, with those before it began."""
    start = time.monotonic()

    def now() -> str:
        return f"{command} ... {time.monotonic() - start:.0f} s"

    with silence() if command in _SPEAKING else reminder(now, silent_s=silent_s):
        return int(_module(command).run(arguments))
