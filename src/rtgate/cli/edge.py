# SPDX-License-Identifier: MIT
"""The edge of the command line: what a program makes of signals and errors. `rtgate` and `lava-tool` share it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rtgate.errors import ConfigError, Location, RtgateError
from rtgate.report.notices import end_loading
from rtgate.report.text import plain_text

_READER_GONE = 141  # of a shell's program that SIGPIPE ended


def begin() -> float:
    """Take signals, end the timer of loading, and return the seconds since it last spoke.

    Call it when everything is loaded: what loads has nothing to put in order, and ends at once.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    return end_loading()


def exit_code(program: str, action: Callable[[], int]) -> int:
    """Run an action and return its exit code, or what an error comes to, which is printed in the program's name.

    Raises:
        SystemExit: argparse said what the usage is.
    """
    try:
        code = _refusing_exit(action)
        sys.stdout.flush()
    except RtgateError as error:
        print(f"{program}: {plain_text(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except Exception:  # noqa: BLE001 - the edge: anything that arrives here is a defect of rtgate
        traceback.print_exc()
        print(f"{program}: this is a defect of rtgate; please report it with the lines above", file=sys.stderr)
        return 4
    return code


def _refusing_exit(action: Callable[[], int]) -> int:
    """Return what an action returns. Raises ConfigError: a site's tool, which may do anything, called `sys.exit()`.

    Its exit code would be rtgate's: with 0 a gate passed that had measured nothing.
    """
    try:
        return action()
    except SystemExit as end:
        last = traceback.extract_tb(end.__traceback__)[-1]
        if last.filename == argparse.__file__:
            raise
        message = f"this line ended the program (SystemExit: {end.code}): raise an error that says what is wrong"
        raise ConfigError(message, Location(Path(last.filename), last.lineno or 1, 1)) from end


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
