# SPDX-License-Identifier: MIT
"""The name of a case: which suite measures with which tool beside which load, and how the board is tuned."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rtgate.board.tuning import DEFAULT
from rtgate.errors import ConfigError

_NAME = re.compile(r"([^/:+\s]+)/([^/:+\s]+):([^/:+\s]+)(?:\+([^/:+\s]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseName:
    """`suite/tool:load`, with `+tuning` where the board was tuned."""

    suite: str
    tool: str
    load: str
    tuning: str = DEFAULT.name

    def __str__(self) -> str:
        suffix = "" if self.tuning == DEFAULT.name else f"+{self.tuning}"
        return f"{self.suite}/{self.tool}:{self.load}{suffix}"

    @classmethod
    def parse(cls, text: str) -> CaseName:
        """Return the name that a text is. Raises ConfigError."""
        match = _NAME.fullmatch(text)
        if match is None or match[4] == DEFAULT.name:
            raise ConfigError(
                f"{text!r} is not a case (allowed: SUITE/TOOL:LOAD, for example latency/cyclictest:idle; "
                "+TUNING after it)"
            )
        return cls(suite=match[1], tool=match[2], load=match[3], tuning=match[4] or DEFAULT.name)

    @property
    def without_tuning(self) -> CaseName:
        """The same case on a board as it boots."""
        return replace(self, tuning=DEFAULT.name)
