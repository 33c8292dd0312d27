# SPDX-License-Identifier: MIT
"""The command `rtgate`."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import NoReturn

from rtgate import __version__
from rtgate.errors import RtgateError
from rtgate.report.text import plain

# Each is a module of this package.
_COMMANDS = (
    *("gate", "demo", "soak", "build", "modules", "repeat", "screen", "explain", "report", "console"),
    *("plan", "history", "calibrate", "trend", "qualify"),
    *("compare-env", "where", "check", "rootfs", "pcie-limits"),
    *("submit", "jobs", "cancel", "fetch", "lab-check", "in-job", "board-health", "hub"),
)
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


def parser(commands: Sequence[str] = _COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line, with these commands."""
    top = argparse.ArgumentParser(
        prog="rtgate",
        description="Gates real-time Linux kernels: did this change make real-time behaviour worse, where, how much?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"rtgate {__version__}")
    _add_site(top)
    parsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in commands:
        _module(name).add_parser(parsers)
    return top


def _add_site(top: argparse.ArgumentParser) -> None:
    top.add_argument("--site", metavar="DIR", help="the lab's own boards, builds, limits (default: $RTGATE_SITE)")


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"rtgate.cli.{command.replace('-', '_')}")


def _named(argv: Sequence[str] | None) -> Sequence[str]:
    """Return the command that is named: to load all of them takes seconds. All, if none is, or for their help."""
    first = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    _add_site(first)
    first.add_argument("-h", "--help", action="store_true")
    first.add_argument("words", nargs=argparse.REMAINDER)
    try:
        found = first.parse_known_args(argv)[0]
    except argparse.ArgumentError:
        return _COMMANDS
    named = not found.help and found.words and found.words[0] in _COMMANDS
    return (found.words[0],) if named else _COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = parser(_named(argv)).parse_args(argv)
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
