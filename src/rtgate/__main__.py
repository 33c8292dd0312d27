# SPDX-License-Identifier: MIT
"""The programs `rtgate` and `lava-tool`; `python -m rtgate` is `rtgate`.

Ctrl-C while a command loads (seconds on a slow machine) ends it at once: nothing has begun that would need an order.
Before the first line here runs, and so before anything can be caught, Python itself starts.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # typing's own would have to be imported, which takes long
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

INTERRUPTED = 130
_SILENCE_S = 2.5


def main() -> int:
    """Run `rtgate` and return its exit code."""
    return _run("rtgate.cli.main", "rtgate")


def lava_tool() -> int:
    """Run `lava-tool` and return its exit code."""
    return _run("rtgate.cli.lava_tool", "lava-tool")


def _run(module: str, program: str) -> int:
    code, ended = INTERRUPTED, False

    def leave(_signal: int, _frame: FrameType | None) -> NoReturn:
        if code == INTERRUPTED:
            os.write(2, f"{program}: interrupted\n".encode())
        os._exit(code)

    def loading(_signal: int, _frame: FrameType | None) -> None:
        os.write(2, f"{program}: loading\n".encode())

    def finish() -> None:
        # Python puts the default back when it ends, and the code of what was done would be lost.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if ended and code == INTERRUPTED:
            # Python kills itself with SIGINT instead when a Ctrl-C went through a text that it ran (a dataclass that is
            # made while a module loads), although it was caught (CPython 3.11, Py_RunMain, exit_sigint).
            os._exit(code)

    signal.signal(signal.SIGINT, leave)
    # Registered first, so called last: what others have registered was done by then.
    atexit.register(finish)
    # Until the command begins, which ends the timer: on a busy machine to load takes many seconds.
    signal.signal(signal.SIGALRM, loading)
    signal.setitimer(signal.ITIMER_REAL, _SILENCE_S, _SILENCE_S)
    sys.unraisablehook = _interrupt_again
    try:
        # Not above: what a command imports takes long, and is under way when people press Ctrl-C.
        import importlib  # noqa: PLC0415

        code = int(importlib.import_module(module).main())
    except KeyboardInterrupt:  # a second one, while the first was being told
        pass
    except SystemExit as end:  # argparse: help, or wrong usage
        code = end.code if isinstance(end.code, int) else _print_reason(program, end)
    signal.setitimer(signal.ITIMER_REAL, 0)
    # The work is done: an interruption from here on has nothing to stop but Python's own end.
    signal.signal(signal.SIGINT, leave)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    ended = True
    return code


def _print_reason(program: str, end: SystemExit) -> int:
    """Print the text that ended a program, as Python does, and return the exit code: somebody set it up wrong."""
    if end.code is not None:
        os.write(2, f"{program}: {end.code}\n".encode())
    return 2


def _interrupt_again(failure: Any) -> None:
    """Keep a Ctrl-C that arrived where Python drops exceptions (a destructor, a callback of a weak reference)."""
    if not issubclass(failure.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(failure)
        return
    import threading  # noqa: PLC0415 - see above

    # A moment later: this function is itself such a place.
    later = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    later.daemon = True
    later.start()


if __name__ == "__main__":
    raise SystemExit(main())
