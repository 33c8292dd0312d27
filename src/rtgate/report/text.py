# SPDX-License-Identifier: MIT
"""Text that came from a target, made fit for a report.

A board under test is not trusted: its console holds terminal escapes, and could hold worse. No control character of
it reaches a report, a terminal or a browser.
"""

from __future__ import annotations

import re

# ECMA-48: CSI, then OSC, DCS, SOS, PM and APC up to their end (BEL or ST), then the two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_LINE_ENDS = re.compile(r"\r+\n|\r|\x85|\u2028|\u2029")
# C0 (tab and newline apart), DEL, C1, marks that reorder text (Unicode bidi controls), surrogates, non-characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def plain_text(text: str) -> str:
    """Return text without terminal escapes; other control characters become U+FFFD, line ends become newlines."""
    if text.isprintable():  # most is, and this is thirty times as fast
        return text
    return _CONTROLS.sub("\ufffd", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def one_line(text: str) -> str:
    """Return the `plain_text` of a text as one line with single spaces."""
    return " ".join(plain_text(text).split())


def visible(data: bytes) -> bytes:
    """Return a target's output as UTF-8 text in which each control character shows as its Unicode picture.

    Terminal escapes stay readable instead of vanishing: in a log, what the board sent matters.
    """
    text = _LINE_ENDS.sub("\n", data.decode("utf-8", errors="replace"))
    return _CONTROLS.sub(_picture, text).encode()


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def last_lines(data: bytes, count: int = 30) -> str:
    """Return the last lines of a target's output that hold anything."""
    lines = [line for line in plain_text(data.decode("utf-8", errors="replace")).split("\n") if line.strip()]
    return "\n".join(lines[-count:])
