# SPDX-License-Identifier: MIT
"""The command `rtgate`."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Container, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, NoReturn

from rtgate import __version__
from rtgate.errors import RtgateError
from rtgate.report.text import plain

# Each is a module of this package, and what the list of commands says of it.
_COMMANDS = {
    "gate": "build, measure, judge, report",
    "demo": "gate a kernel that is slow on purpose",
    "soak": "measure for hours, in chunks",
    "build": "build a kernel",
    "modules": "build kernel modules against a build",
    "repeat": "prove that a virtual-time board repeats itself",
    "screen": "what a board must measure after a virtual-time gate",
    "explain": "say which functions made wake-ups or signals slower (virtual time)",
    "report": "make the report of stored and judged records",
    "console": "a shell on a virtual board",
    "plan": "say how much must be measured for an answer",
    "history": "keep measured boots in a database, show what is there",
    "calibrate": "propose limits from past good runs",
    "trend": "show how a board's figures went, and where they changed",
    "qualify": "say how good a judge a board is",
    "check-records": "tell which files changed since a run was judged",
    "compare-env": "show how the environments of two records differ",
    "where": "say which file a name comes from",
    "check": "validate all YAML files",
    "rootfs": "build or find the root filesystem of a target",
    "pcie-limits": "show what PCI Express links can carry",
    "submit": "measure on a board of a LAVA lab",
    "jobs": "list jobs of a LAVA lab",
    "cancel": "cancel jobs of a LAVA lab",
    "fetch": "fetch and judge what a job has measured",
    "lab-check": "say what a LAVA lab supports",
    "in-job": "measure from inside a LAVA job",
    "board-health": "prove a board inside a LAVA health check",
    "hub": "share a console among clients",
}
_EPILOG = """\
exit codes:
  0  pass
  1  FAIL: a limit, a kernel fault, a kernel that does not build or boot
  2  usage or configuration
  3  MISS: the lab failed, or something was not measured
  4  ERROR: an invalid measurement, or output that cannot be read
  5  inconclusive, or nothing was judged
  130  interrupted
"""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a command adds its parser to: the list of commands says its line of it."""

    parsers: Any
    line: str

    def add_parser(self, name: str, **described: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self.parsers.add_parser(name, help=self.line, **described)
        return parser


def parser(loaded: Container[str] = _COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line; of commands that are not loaded it knows no options."""
    top = argparse.ArgumentParser(
        prog="rtgate",
        description="Gates real-time Linux kernels: did this change make real-time behaviour worse, where, how much?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"rtgate {__version__}")
    top.add_argument("--site", metavar="DIR", help="the lab's own boards, builds, limits (default: $RTGATE_SITE)")
    parsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in _COMMANDS.items():
        if name in loaded:
            _module(name).add_parser(_Listed(parsers, line))
        else:
            parsers.add_parser(name, help=line)
    return top


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"rtgate.cli.{command.replace('-', '_')}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    # To load all commands takes seconds. A word that is none of them is no command: none can be abbreviated.
    arguments = parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
    signal.setitimer(signal.ITIMER_REAL, 0)  # everything is loaded
    if arguments.site:
        os.environ["RTGATE_SITE"] = arguments.site
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        code = int(_module(arguments.command).run(arguments))
        sys.stdout.flush()
    except RtgateError as error:
        print(f"rtgate: {plain(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("rtgate: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception:  # noqa: BLE001 - the edge: anything that arrives here is a defect of rtgate
        traceback.print_exc()
        print("rtgate: this is a defect of rtgate; please report it with the lines above", file=sys.stderr)
        return 4
    return code


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
