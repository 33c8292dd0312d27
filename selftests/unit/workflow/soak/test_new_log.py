# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.measure.observations import LOG_GOES_ON, LOG_LOST
from rtgate.workflow.soak.new_log import last_line, new_lines

A, B, C = (f"[    {number}.000000] line {number}" for number in (1, 2, 3))
SAID = f"{LOG_GOES_ON}\n"
LOST = f"{LOG_LOST}\n"


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ((A, B), (A, B), SAID.encode()),
        ((A, B), (A, B, C), SAID.encode() + text(C)),
        ((A, B), (B, C), SAID.encode() + text(C)),  # the ring has lost its beginning
        ((A,), (B, C), LOST.encode() + text(B, C)),
        ((A, "no stamp"), (A, "no stamp", B), text(A, "no stamp", B)),  # a line that may be said twice
        ((), (A,), text(A)),
        ((A,), (), b""),
        (("<4>" + A,), ("<4>" + A, "<4>" + B), SAID.encode() + text("<4>" + B)),
    ],
)
def test_of_the_kernel_log_a_chunk_has_what_is_new(before: tuple[str, ...], now: tuple[str, ...], new: bytes) -> None:
    assert new_lines(text(*now), last_line(text(*before))) == new


def test_what_is_not_utf_8_is_found_again() -> None:
    log = b"[    1.000000] \xff\xfe\n"
    assert new_lines(log + text(B), last_line(log)) == SAID.encode() + text(B)
