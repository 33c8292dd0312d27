# SPDX-License-Identifier: MIT
"""Whether this host kept a boot from running: QEMU stopped or frozen, rtgate stopped with it, the host suspended.

CLOCK_MONOTONIC goes on while processes are stopped, so after a pause every deadline of a boot has passed at once; it
stands still while the host is suspended, CLOCK_BOOTTIME does not (clock_gettime(2)). Neither is ever set, unlike the
wall clock.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rtgate.target import host

_LOOK_S = 1.0
PAUSE_S = 15.0
"""Seconds between two looks from which on this process was stopped itself; a busy host delays a look by less."""
_SUSPENDED_S = 1.0  # what CLOCK_BOOTTIME gains on CLOCK_MONOTONIC between two looks is the time of a suspend


class HostWatch:
    """Looks once a second, from a thread of its own, while it is entered.

    Args:
        pid: of the QEMU that runs the board; None for a board that is not a process of this host.
    """

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._seconds: dict[str, float] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._last = _clocks()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._last = _clocks()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def stop_reason(self) -> str:
        """Return what this host did and for how long, as the beginning of a sentence; empty if nothing."""
        self._look()
        return " and ".join(f"{what} for {seconds:.0f} s" for what, seconds in self._seconds.items() if seconds >= 1)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            monotonic, boottime = _clocks()
            duration, suspension = monotonic - self._last[0], boottime - self._last[1] - (monotonic - self._last[0])
            self._last = monotonic, boottime
            if suspension >= _SUSPENDED_S:
                self._add("this host was suspended", suspension)
            if duration >= PAUSE_S:
                self._add(f"this host stopped rtgate{'' if self._pid is None else ' and QEMU'}", duration)
            elif why := "" if self._pid is None else host.why_stopped(self._pid):
                # Since the last look at most; a stop that has just begun is a look's length to be sure of.
                self._add(f"this host stopped QEMU ({why})", max(duration, _LOOK_S))

    def _add(self, what: str, seconds: float) -> None:
        self._seconds[what] = self._seconds.get(what, 0.0) + seconds


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
