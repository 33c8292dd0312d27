# SPDX-License-Identifier: MIT
"""svsematest: how long a thread takes to get a System V semaphore that another thread releases.

It makes its semaphore's key from the file that the environment variable `_` names, or from its own name as a file
(`ftok` in src/svsematest/svsematest.c). Only some shells set `_`; without it the tool ends with exit code 0 and
without results, so it is set here to the tool's own file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rtgate.tools.needs import Need
from rtgate.tools.pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Svsematest(Pairs):
    """Options of svsematest."""

    name: ClassVar[str] = "svsematest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test="[ -e /proc/sysvipc/sem ]", reason="needs System V semaphores (CONFIG_SYSVIPC)"),
    )
    launcher: ClassVar[tuple[str, ...]] = ("env", "_=/proc/self/exe")
