# SPDX-License-Identifier: MIT
"""pmqtest: how long a message takes through a POSIX message queue, from `mq_send` to a receiver that waits for it.

Its `--timeout` is not used: in 2.4 and 2.10 a sender then takes two answers for each message and the run ends after
two samples, with exit code 0 (src/pmqtest/pmqtest.c; seen).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rtgate.tools.needs import Need
from rtgate.tools.pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Pmqtest(Pairs):
    """Options of pmqtest."""

    name: ClassVar[str] = "pmqtest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test="grep -qw mqueue /proc/filesystems", reason="needs POSIX message queues (CONFIG_POSIX_MQUEUE)"),
    )
