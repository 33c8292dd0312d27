# SPDX-License-Identifier: MIT
"""The command `rtgate`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from rtgate import __version__
from rtgate.cli import (
    board_health,
    build,
    calibrate,
    cancel,
    check,
    compare_env,
    console,
    demo,
    explain,
    fetch,
    gate,
    history,
    hub,
    in_job,
    jobs,
    lab_check,
    modules,
    pcie_limits,
    plan,
    qualify,
    repeat,
    report,
    rootfs,
    screen,
    soak,
    submit,
    trend,
    where,
)
from rtgate.errors import RtgateError
from rtgate.report.text import plain

_COMMANDS = (
    *(gate, demo, soak, build, modules, repeat, screen, explain, report, console),
    *(plan, history, calibrate, trend, qualify),
    *(compare_env, where, check, rootfs, pcie_limits),
    *(submit, jobs, cancel, fetch, lab_check, in_job, board_health, hub),
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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="rtgate",
        description="Gates real-time Linux kernels: did this change make real-time behaviour worse, where, how much?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"rtgate {__version__}")
    top.add_argument("--site", metavar="DIR", help="the lab's own boards, builds, limits (default: $RTGATE_SITE)")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = parser().parse_args(argv)
    if arguments.site:
        os.environ["RTGATE_SITE"] = arguments.site
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    command = arguments.command.replace("-", "_")
    module = next(module for module in _COMMANDS if module.__name__.rsplit(".", 1)[-1] == command)
    try:
        code = int(module.run(arguments))
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
