# SPDX-License-Identifier: MIT
"""Boots that two arms share: where both kernels are one image, each plan is carried out once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from rtgate.target.outcome import Outcome
from rtgate.target.plan import Plan

SHARED = "shared"  # the key in the record's machine


class SharedBoots:
    """The outcomes that were made for one arm and are taken for the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Future[Outcome]] = {}

    def outcome(self, plan: Plan, make: Callable[[Plan], Outcome]) -> Outcome:
        """Return what came of a plan: made now, or what the other arm's equal plan came to. Raises as `make`."""
        key = repr(plan)
        with self._lock:
            future = self._made.pop(key, None)
            mine: Future[Outcome] = Future()
            if future is None:
                self._made[key] = mine
        if future is not None:
            outcome = future.result()
            return replace(outcome, machine={**outcome.machine, SHARED: "yes"})
        try:
            mine.set_result(make(plan))
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()
