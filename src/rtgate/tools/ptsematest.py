# SPDX-License-Identifier: MIT
"""ptsematest: how long a thread takes to get a pthread mutex that another thread releases.

The run ends after a time, not after a number of samples: see `rtgate.tools.pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rtgate.tools.pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptsematest(Pairs):
    """Options of ptsematest."""

    name: ClassVar[str] = "ptsematest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    counted: ClassVar[bool] = False
