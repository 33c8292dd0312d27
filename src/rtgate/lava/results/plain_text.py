# SPDX-License-Identifier: MIT
"""Text from a target or from a stranger, as text that may be printed in a job.

LAVA scans all that a test prints for signals, whoever decodes a log scans it for frames, and terminals obey control
characters.
"""

from __future__ import annotations

import re

_LONGEST = 300
# `lava_dispatcher/actions/test/shell.py`: <LAVA_SIGNAL_..., <LAVA_TEST_RUNNER EXIT>.
_SIGNAL = re.compile(r"([<@])(?=LAVA_|rtgate1)", re.IGNORECASE)


def phrase(text: str) -> str:
    """Return the `plain_line` of a text, with single spaces, short enough to stand in a sentence of ours."""
    return " ".join(plain_line(text).split())[:_LONGEST]


def plain_line(text: str) -> str:
    """Return one line without control characters, in which LAVA sees no signal and we no frame."""
    line = " ".join(text.replace("\r", "\n").split("\n"))
    return _SIGNAL.sub(r"\1 ", "".join(letter if letter.isprintable() else "." for letter in line))
