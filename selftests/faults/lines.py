# SPDX-License-Identifier: MIT
"""Hostile lines: what happens to bytes between a target and us, in either direction. All of it is seeded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rtgate.console.transport import Transport

# Called with what arrived, also when nothing did; returns what arrives now.
Change = Callable[[bytes], bytes]

PRINTK = (
    "[   12.345678] usb 1-1: new high-speed USB device number 2 using xhci_hcd\r\n",
    "[   12.345680][    T1] random: crng init done\r\n",
    '[   12.345682] audit: type=1400 audit(1700000000.000:2): apparmor="STATUS" name="F0000000000 1 AAAA 1"\r\n',
    "[   12.345684] mmc0: cannot verify signal voltage switch\r\n",
    "<6>[   12.345686] F0000000000 end 1 1 1\r\n",
    "\r\n",
)


class Line:
    """A line whose bytes something happens to on the way to us, on the way from us, or both."""

    def __init__(self, inner: Transport, inward: Change | None = None, outward: Change | None = None) -> None:
        self._inner = inner
        self._inward = inward or (lambda data: data)
        self._outward = outward or (lambda data: data)

    def read(self) -> bytes:
        return self._inward(self._inner.read())

    def write(self, data: bytes) -> None:
        changed = self._outward(data)
        if changed:
            self._inner.write(changed)

    def close(self) -> None:
        self._inner.close()


class OneByte(Line):
    """A line that delivers one byte at a time."""

    _waiting = b""

    def read(self) -> bytes:
        self._waiting = self._waiting or super().read()
        first, self._waiting = self._waiting[:1], self._waiting[1:]
        return first


def each_byte(change: Callable[[int], bytes]) -> Change:
    """Change bytes one by one, so that the damage does not depend on how they arrive in time."""
    return lambda data: b"".join(map(change, data))


def drops(source: random.Random, rate: int) -> Change:
    """Lose one byte in `rate`."""
    return each_byte(lambda byte: b"" if source.random() < 1 / rate else bytes([byte]))


def flips(source: random.Random, rate: int) -> Change:
    """Flip a bit of one byte in `rate`."""
    return each_byte(lambda byte: bytes([byte ^ (1 << source.randrange(8)) if source.random() < 1 / rate else byte]))


def inserts(source: random.Random, rate: int) -> Change:
    """Add one byte of noise for `rate` bytes."""
    return each_byte(lambda byte: bytes([byte, source.randrange(256)]) if source.random() < 1 / rate else bytes([byte]))


def gaps(source: random.Random, rate: int) -> Change:
    """Lose up to 200 bytes in a row, once in `rate` bytes: an input buffer that was full."""
    left = 0

    def one(byte: int) -> bytes:
        nonlocal left
        if left:
            left -= 1
            return b""
        if source.random() < 1 / rate:
            left = source.randrange(200)
        return bytes([byte])

    return each_byte(one)


def doubles(source: random.Random, chance: float) -> Change:
    """Deliver what arrived a second time."""
    return lambda data: data + data if source.random() < chance else data


def bursts(source: random.Random, chance: float, *, inside: bool) -> Change:
    """Put kernel messages between lines, or anywhere, as a console without `quiet` does."""
    places = range(256) if inside else b"\n"

    def one(byte: int) -> bytes:
        if byte not in places or source.random() > chance:
            return bytes([byte])
        messages = source.choices(PRINTK, k=source.randrange(1, 4))
        return bytes([byte]) + "".join(messages).encode()

    return each_byte(one)


def stops(source: random.Random, seconds: float, after: int) -> Change:
    """Stop once for some seconds, somewhere in the first `after` bytes; what was sent then arrives late."""
    left, until, waiting = source.randrange(after), 0.0, bytearray()

    def change(data: bytes) -> bytes:
        nonlocal left, until
        waiting.extend(data)
        if left >= 0:
            left -= len(data)
            if left < 0:
                until = time.monotonic() + seconds
        if time.monotonic() < until:
            return b""
        arrived = bytes(waiting)
        waiting.clear()
        return arrived

    return change


def ends(how: str) -> Change:
    """Change the ends of lines: `\\r\\n` and `\\n` become `how`."""
    return lambda data: data.replace(b"\r", b"").replace(b"\n", how.encode())


def by_line(damage: Callable[[bytes], bytes]) -> Change:
    """Damage whole lines, however they arrive."""
    rest = b""

    def change(data: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        return b"".join(damage(line) + b"\n" for line in lines)

    return change


def first(word: str, count: int) -> Change:
    """Damage the first `count` lines that hold a word."""
    left = count

    def damage(line: bytes) -> bytes:
        nonlocal left
        if left and word.encode() in line:
            left -= 1
            return line.replace(word.encode(), b"#" * len(word))
        return line

    return by_line(damage)


def combine(*changes: Change) -> Change:
    """Let one thing happen after the other."""

    def change(data: bytes) -> bytes:
        for one in changes:
            data = one(data)
        return data

    return change
