# SPDX-License-Identifier: MIT
"""Waiting for a server that does not answer, or asks to come later: not for ever, and not in silence."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rtgate.durations import Deadline
from rtgate.errors import InfrastructureError

Result = TypeVar("Result")


class NotNow(InfrastructureError):  # noqa: N818 - what happened, not whose mistake
    """The server did not answer, or not with an answer; the same request may succeed later.

    Attributes:
        after: seconds that the server asks to wait; 0 if it does not say.
    """

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        connect, answer: for one request; `answer` again for each MiB of what is answered.
        total: for a request with all its repetitions; a server that is updated is away for some minutes.
        first, longest: before the first repetition, and at most; it doubles from one to the next.
    """

    connect: float = 10.0
    answer: float = 60.0
    total: float = 600.0
    first: float = 0.5
    longest: float = 30.0

    def repeat(self, attempt: Callable[[], Result], who: str, say: Callable[[str], None]) -> Result:
        """Return what an attempt returns, after as many as it takes. One may have been carried out without an answer.

        Args:
            attempt: raises NotNow where the same may succeed later.
            who: answers, for messages.
            say: is told once when it does not answer, and once when it does again.

        Raises:
            InfrastructureError: no attempt succeeded in time.
        """
        deadline = Deadline.after(self.total)
        away = False
        for pause in self.waits():
            try:
                result = attempt()
            except NotNow as error:
                wait = max(pause, error.after)
                if deadline.remaining <= wait:
                    asks = f"; it asks to wait for {error.after:.0f} s" if error.after else ""
                    raise InfrastructureError(f"{error}{asks}; rtgate tries for {self.total:.0f} s") from error
                if not away:
                    away = True
                    say(f"{error}; trying again, for {self.total:.0f} s at most")
                time.sleep(wait)
            else:
                if away:
                    say(f"{who} answers again")
                return result
        raise AssertionError  # there is always a next pause

    def waits(self) -> Iterator[float]:
        """Yield how long to wait before each repetition; a little by chance, so that clients do not come together."""
        pause = self.first
        while True:
            yield pause * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            pause = min(pause * 2, self.longest)
