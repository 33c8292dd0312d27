# SPDX-License-Identifier: MIT
"""Cooling down: a board that was hot before it measured is not the board of the other arm.

`cool_to` in the board's file states the temperature, in degrees Celsius, that all its sensors must have come down to
before anything is measured in a boot. A board without sensors is measured as it is.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from rtgate.board.thermal import SENSORS, hottest
from rtgate.durations import Deadline
from rtgate.errors import HangError, InfrastructureError, TargetError, TransportError
from rtgate.target.session import Session

if TYPE_CHECKING:
    from rtgate.target.live import LiveTarget
    from rtgate.target.plan import Plan

LONGEST_S = 600.0
_EVERY_S = 10.0


def cool(live: LiveTarget, plan: Plan, limit_c: float) -> None:
    """Wait until a live target is cool enough.

    Raises:
        InfrastructureError: it is still too hot after ten minutes.
        Interrupted: as `LiveTarget.run`.
    """
    try:
        with ExitStack() as stack:
            shell = live.open_console(stack, plan, bytearray())
            live.ready(shell)
            _wait(Session(shell), limit_c)
            with suppress(TransportError):
                shell.leave()
    except (TargetError, TransportError, HangError):
        return  # whoever measures next finds out, and says whose fault it is


def _wait(session: Session, limit_c: float) -> None:
    deadline = Deadline.after(LONGEST_S)
    while True:
        _, output = session.output_of(f"cat {SENSORS} 2>/dev/null")
        temperature = hottest(output.decode("latin-1").replace("\r", "\n"))
        if temperature is None or temperature <= limit_c:
            return
        if deadline.expired:
            raise InfrastructureError(
                f"the board is at {temperature:g} C after {LONGEST_S:g} s of rest; {limit_c:g} C is asked"
            )
        time.sleep(deadline.sooner(_EVERY_S))
