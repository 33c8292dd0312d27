# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from rtgate.board import boards
from rtgate.board.instrument import Instrument
from rtgate.measure.instrument_need import needs
from rtgate.tools.irq_instrument import IrqInstrumentHard
from rtgate.tools.irq_response import IrqHard
from rtgate.tools.needs import NEVER

BOARD = boards.board("rk3568-evb1")
WIRES = Instrument(port="/dev/ttyS4", pulse="gpio3:12", answer="gpio3:13")


def test_a_board_without_an_instrument_is_known_before_it_boots() -> None:
    (need,) = needs(IrqInstrumentHard(), BOARD)
    assert (need.test, need.reason) == (NEVER, "rk3568-evb1.yaml names no instrument (instrument:)")


def test_otherwise_nothing_is_needed() -> None:
    assert needs(IrqInstrumentHard(), replace(BOARD, instrument=WIRES)) == ()
    assert needs(IrqHard(), BOARD) == ()
