# SPDX-License-Identifier: MIT
"""The instrument beside a board that raises interrupts and times their answers: a fact of the board's file."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtgate.strict_yaml import Value

# As target/modules/rtgate_irq_answer.c takes it: a label of up to 40 characters, which may hold colons, and a number.
_LINE = re.compile(r"[A-Za-z0-9_.:@,-]{1,40}:[0-9]{1,4}")
_PORT = re.compile(r"/dev/[A-Za-z0-9_.:/-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """An instrument, and how it is wired to the board.

    Attributes:
        port: the board's serial port that its UART is wired to.
        pulse: the GPIO line that it raises, as LABEL:LINE: the label of the GPIO chip and the number of the line there.
        answer: the GPIO line by which the board answers.
    """

    port: str
    pulse: str
    answer: str


def read(value: Value, *, virtual: bool, consoles: Collection[str]) -> Instrument:
    """Read the key `instrument` of a board's file. Raises ConfigError.

    Args:
        value: the key's value.
        virtual: whether the board is a virtual machine.
        consoles: what kernels call the device of the board's own console.
    """
    if virtual:
        value.fail("a virtual machine has no wires to an instrument: leave it out")
    data = value.mapping(required=("port", "pulse", "answer"))
    port = _port(data["port"], consoles)
    instrument = Instrument(port=port, pulse=_line(data["pulse"]), answer=_line(data["answer"]))
    if instrument.pulse == instrument.answer:
        data["answer"].fail(f"{instrument.answer} is the pulse's line, too: the answer needs another one")
    return instrument


def _port(value: Value, consoles: Collection[str]) -> str:
    if not _PORT.fullmatch(value.text()):
        value.fail(f"{value.text()!r} is not a serial port of the board (allowed: for example /dev/ttyS4)")
    if value.text().removeprefix("/dev/") in consoles:
        value.fail(f"{value.text()} is the board's own console: wire the instrument to another UART")
    return value.text()


def _line(value: Value) -> str:
    if not _LINE.fullmatch(value.text()):
        value.fail(
            f"{value.text()!r} is not a GPIO line (allowed: the label of its chip and its number there, as gpio3:12)"
        )
    return value.text()
