# SPDX-License-Identifier: MIT
"""Frames (`rtgate.console.frames`) as the shell of a target makes them."""

from __future__ import annotations

import base64

from rtgate.console.frames import PAYLOAD
from rtgate.files import cksum


def encode(data: bytes, nonce: str) -> list[str]:
    """Return the frames of data."""
    text = base64.b64encode(data).decode("ascii")
    heads = [
        f"{nonce} {number} {text[start : start + PAYLOAD]}"
        for number, start in enumerate(range(0, len(text), PAYLOAD), start=1)
    ]
    lines = [_seal(head) for head in heads]
    total = cksum("".join(f"{line}\n" for line in lines).encode("ascii"))
    return [*lines, _seal(f"{nonce} end {len(lines)} {total}")]


def _seal(head: str) -> str:
    return f"{head} {cksum((head + chr(10)).encode('ascii'))}"
