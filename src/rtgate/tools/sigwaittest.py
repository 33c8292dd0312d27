# SPDX-License-Identifier: MIT
"""sigwaittest: how long a thread takes to return from `sigwait` after another thread sent it a signal.

It has no `--smp`, so each pair's priority is one lower than that of the pair before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rtgate.tools.pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sigwaittest(Pairs):
    """Options of sigwaittest."""

    name: ClassVar[str] = "sigwaittest"
    suites: ClassVar[tuple[str, ...]] = ("signal",)
    same_priority: ClassVar[bool] = False
