# SPDX-License-Identifier: MIT
"""Interrupt response by an instrument, on a virtual board: its own UART, our driver, and pulses that are interrupts.

QEMU's power button is the pulse: it is wired to line 3 of the board's PL061, whose interrupt the driver answers. The
instrument is the firmware's logic on a pseudo-terminal, wired to a second UART of the board. Times of answers are made
up, as nothing outside of QEMU sees line 4. Boards are in host time: the instrument's clock is not the guest's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from selftests.integration.conftest import build_kernel, site_of_builds
from selftests.integration.live_board import LiveBoard, failures, live_board
from selftests.simulated_instrument import Behaviour, Period, instrument

from rtgate.board import boards
from rtgate.board.instrument import Instrument
from rtgate.measure.profiles import Lengths, Profile
from rtgate.records.record import Record
from rtgate.target.qemu import Monitor
from rtgate.tools.irq_instrument import IrqInstrumentHard, IrqInstrumentThreaded

pytestmark = pytest.mark.long("a kernel of its own, with GPIO: minutes without a cache")

BUILD = "virt-arm64-instrument"
DESCRIPTION = """\
arch: arm64
flavour: preempt_rt
base: tinyconfig
fragments: [realtime, preempt_rt, userspace, diagnosis, tracing, loads, pcie, virt-arm64, virt-arm64-pcie, instrument]
built_in: [rtgate_irq_answer]
"""
FRAGMENT = """\
CONFIG_GPIOLIB=y
CONFIG_GPIO_PL061=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_PCI=y
"""
WIRES = Instrument(port="/dev/ttyS0", pulse="9030000.pl061:3", answer="9030000.pl061:4")
PULSES = 20
PERIOD_US = 5000
BUTTON_S = 0.1
"""For so long the button stays pressed (QEMU 7.2, hw/gpio/gpio_key.c)."""


@dataclass
class Pulses:
    """Presses the power button when the instrument measures, and makes up when the board answered."""

    press: int = PULSES
    answer: int = PULSES
    monitor: Monitor | None = None

    def answers(self, pulses: int) -> list[Period]:
        assert self.monitor is not None
        assert pulses == PULSES
        for _ in range(self.press):
            assert self.monitor.ask("system_powerdown") == {}
            time.sleep(3 * BUTTON_S)  # an edge that comes before the last one has gone is none
        answered: list[Period] = [(60 + number, False) for number in range(self.answer)]
        return [*answered, *[(None, False)] * (pulses - self.answer)]


@dataclass(frozen=True)
class Bench:
    """A virtual board that stays on, and what its instrument does."""

    board: LiveBoard
    pulses: Pulses


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = site_of_builds(tmp_path_factory.mktemp("site"), {BUILD: DESCRIPTION}, {"instrument": FRAGMENT})
    return build_kernel(tmp_path_factory.mktemp("kernel") / BUILD, BUILD, RTGATE_SITE=str(site))


@pytest.fixture
def bench(kernel: Path, tmp_path: Path) -> Iterator[Bench]:
    pulses = Pulses()
    lengths = Lengths(duration_s=PULSES * PERIOD_US / 1e6, seeds=(1,), boots=1)
    board = replace(boards.board("virt-arm64"), instrument=WIRES)
    with instrument(Behaviour(answers=pulses.answers)) as port:
        words = ("-chardev", f"serial,id=instrument,path={port}", "-device", "pci-serial,chardev=instrument")
        profile = Profile(name="pulses", description="", lengths=lengths)
        with live_board(board, kernel / "Image", tmp_path, profile=profile, words=words) as live:
            pulses.monitor = live.monitor
            yield Bench(live, pulses)


def _figures(record: Record) -> dict[str, float]:
    return {one.name: one.quantity.value for one in record.measurements if one.quantity}


@pytest.mark.parametrize("tool", [IrqInstrumentHard, IrqInstrumentThreaded])
def test_each_pulse_is_an_interrupt_that_the_board_answers(
    tool: Callable[..., IrqInstrumentHard], bench: Bench
) -> None:
    record = bench.board.measure(tool(period_us=PERIOD_US))
    assert (record.state, record.message) == ("measured", "")
    figures = _figures(record)
    assert figures["interrupts"] == figures["answers"] == figures["pulses"] == PULSES
    (histogram,) = (one.histogram for one in record.measurements if one.histogram)
    assert histogram.counts == {(60 + number) * 1000 // 12: 1 for number in range(PULSES)}
    assert not failures(record)


def test_wires_that_are_broken_are_told_apart_from_answers_that_are_missing(bench: Bench) -> None:
    tool = IrqInstrumentHard(period_us=PERIOD_US)
    bench.pulses.answer = PULSES - 1
    missed = bench.board.measure(tool)
    assert (missed.state, missed.message) == ("measured", "")
    assert any("answers.missed" in sentence for sentence in failures(missed))
    bench.pulses.press = 0
    unwired = bench.board.measure(tool)
    assert unwired.state == "unreadable"
    assert "no pulse reached the kernel: check the pulse's wire" in unwired.message
