# SPDX-License-Identifier: MIT
"""The instrument's logic as the firmware has it, and the tool's command that talks with it by this machine's shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import threading
import time
import tty
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.simulated_instrument import Behaviour, Logic, Period, instrument

from rtgate.board.instrument import Instrument
from rtgate.errors import ParseError
from rtgate.tools import Output, Setting, irq_instrument
from rtgate.tools.irq_instrument import BUCKETS, DRIVER, RAW, IrqInstrumentHard, IrqInstrumentThreaded
from rtgate.tools.measurement import Histogram, Measurement

PERIOD_TICKS = 12_000
SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"], "mksh": ["mksh"]}
TOOL = IrqInstrumentHard()


def _setting(pulses: int, port: str = "/dev/ttyS4") -> Setting:
    wires = Instrument(port=port, pulse="gpio3:12", answer="gpio3:13")
    return Setting(cpus=4, duration_s=pulses / 1000, virtual_time=False, instrument=wires)


def _parse(raw: bytes, pulses: int, interrupts: int) -> dict[str, Measurement]:
    files = {RAW: raw, "tool.out": f"answered {interrupts}\n".encode()}
    measurements = TOOL.parse(Output(files=files, exit_code=0, setting=_setting(pulses)))
    return {measurement.name: measurement for measurement in measurements}


def _session(periods: list[Period]) -> list[bytes]:
    """Return what an instrument sends in a measurement: its head, its result, and that again."""
    logic = Logic()
    head = logic.take(f"id\nselftest\nstart {len(periods)} 1000\n".encode())
    return [head, logic.measure(periods), logic.take(b"result\n")]


def _numbers(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    return {name: one.quantity.value for name, one in measurements.items() if one.quantity}


def _histogram(measurements: Mapping[str, Measurement]) -> Histogram:
    histogram = measurements["response"].histogram
    assert histogram is not None
    return histogram


PERIODS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(12, 400), st.integers(BUCKETS - 2, BUCKETS + 2), st.integers(12, 11_999)),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


@examples(300)
@given(PERIODS)
def test_what_the_firmware_counts_is_what_the_parser_reports(periods: list[Period]) -> None:
    ticks = [answer for answer, _ in periods if answer is not None]
    doubled = sum(again for _, again in periods)
    raw = b"".join(_session(periods))
    interrupts = len(ticks) + doubled
    if not ticks or interrupts > len(periods):
        with pytest.raises(ParseError, match="the answer's wire is noisy" if ticks else "check the answer's wire"):
            _parse(raw, len(periods), len(periods))
        return
    measurements = _parse(raw, len(periods), interrupts)
    inside = Counter(one * 1000 // 12 for one in ticks if one < BUCKETS)
    histogram = _histogram(measurements)
    assert (histogram.counts, histogram.overflow) == (inside, len(ticks) - inside.total())
    numbers = _numbers(measurements)
    assert numbers.pop("response.avg") == pytest.approx(sum(ticks) / len(ticks) / 12 * 1000)
    assert numbers == {
        "pulses": len(periods),
        "interrupts": interrupts,
        "answers": len(ticks),
        "answers.missed": len(periods) - len(ticks),
        "answers.doubled": doubled,
        "response.min": min(ticks) * 1000 // 12,
        "response.max": max(ticks) * 1000 // 12,
    }


def test_an_answer_that_comes_with_a_pulse_is_refused() -> None:
    """Nothing answers within 1 us. It is neither an answer nor a missed one, for which the kernel would be at fault."""
    with pytest.raises(ParseError, match=r"an answer came within 1 us of a pulse, 2 times: .*crosstalk"):
        _parse(b"".join(_session([(60, False), (None, False), (11, False), (0, False), (12, False)])), 5, 5)
    late: list[Period] = [(60, False), (None, False), (12, True)]
    assert _numbers(_parse(b"".join(_session(late)), 3, 3))["answers.missed"] == 1


def test_counts_of_half_a_day_fit() -> None:
    """A sum of 50 million answers is beyond 32 bits, so the firmware's arithmetic is tried with a few large ones."""
    raw = b"".join(_session([(11_999, False)] * 400_000))
    numbers = _numbers(_parse(raw, 400_000, 400_000))
    assert numbers["response.avg"] == pytest.approx(11_999 / 12 * 1000)


@cache
def _example() -> tuple[bytes, ...]:
    periods: list[Period] = [(60 + number % 7, False) for number in range(40)]
    return tuple(_session(periods))


@examples(300)
@given(st.data(), st.sampled_from([(0,), (1,), (0, 1)]))
def test_a_damaged_result_is_never_another_one(data: st.DataObject, copies: tuple[int, ...]) -> None:
    head, *results = _example()
    whole = _parse(head + b"".join(results), 40, 40)
    for number in copies:
        results[number] = _damage(results[number], data)
    with suppress(ParseError):
        assert _parse(head + b"".join(results), 40, 40) == whole


@examples(300)
@given(st.data())
def test_a_result_of_which_both_copies_are_damaged_is_refused(data: st.DataObject) -> None:
    head, *results = _example()
    damaged = b"".join(_damage(result, data, ("byte", "byte lost", "line lost")) for result in results)
    with pytest.raises(ParseError):
        _parse(head + damaged, 40, 40)


@examples(300)
@given(st.data())
def test_damage_before_the_measurement_is_refused(data: st.DataObject) -> None:
    head, first, second = _example()
    with pytest.raises(ParseError):
        _parse(_damage(head, data) + first + second, 40, 40)


DAMAGES = ("byte", "byte lost", "line lost", "line doubled", "line moved")


def _damage(text: bytes, data: st.DataObject, kinds: tuple[str, ...] = DAMAGES) -> bytes:
    """Return the text with a byte changed or lost, or with a line lost, doubled or moved."""
    lines = text.splitlines(keepends=True)
    line = data.draw(st.integers(0, len(lines) - 1), label="line")
    byte = data.draw(st.integers(0, len(text) - 2), label="byte")  # the last newline says nothing
    changes = {
        "byte": text[:byte] + bytes((text[byte] ^ 1 << data.draw(st.integers(0, 7), label="bit"),)) + text[byte + 1 :],
        "byte lost": text[:byte] + text[byte + 1 :],
        "line lost": b"".join(lines[:line] + lines[line + 1 :]),
        "line doubled": b"".join(lines[: line + 1] + lines[line:]),
        "line moved": b"".join(lines[:line] + lines[line + 1 :] + lines[line : line + 1]),
    }
    damaged = changes[data.draw(st.sampled_from(kinds), label="damage")]
    return damaged if damaged != text else text[:byte] + text[byte + 1 :]


@contextmanager
def play_driver(interrupts: int) -> Iterator[tuple[Path, list[bytes]]]:
    """Play the driver on a terminal: it takes what is written, and says how many edges it answered."""
    own, other = pty.openpty()
    said: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            said.append(os.read(own, 200))
            os.write(own, f"answered {interrupts}\n\x04".encode())  # and nothing more: the terminal's end of file

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Path(os.ttyname(other)), said
    finally:
        os.close(other)
        os.close(own)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of the tool's command left."""

    exit_code: int
    files: dict[str, bytes]
    pulses: int

    def parse(self) -> dict[str, Measurement]:
        output = Output(files=self.files, exit_code=self.exit_code, setting=_setting(self.pulses))
        return {one.name: one for one in TOOL.parse(output)}


def _environment(shell: str, utilities: Path) -> dict[str, str]:
    """Return the environment of a shell; busybox has its own utilities before this machine's."""
    if shell != "busybox":
        return {**os.environ}
    utilities.mkdir()
    subprocess.run(["busybox", "--install", "-s", utilities], check=True)
    return {**os.environ, "PATH": f"{utilities}:{os.environ['PATH']}"}


def _run(
    directory: Path,
    behaviour: Behaviour,
    *,
    shell: str = "sh",
    logic: Callable[[], Logic] = Logic,
    driver: str = "",
    interrupts: int = 200,
) -> Run:
    pulses = 200  # 0.2 s
    with instrument(behaviour, logic) as port, play_driver(interrupts) as (played, said):
        _, option, script = TOOL.argv(_setting(pulses, str(port)))
        done = subprocess.run(
            [*SHELLS[shell], option, script.replace(DRIVER, driver or str(played))],
            cwd=directory,
            env=_environment(shell, directory / "utilities"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    print(done.stderr.decode())
    if done.returncode == 0:
        assert said == [b"hard gpio3:12 gpio3:13\r\n"]
    files = {"tool.out": done.stdout, "tool.err": done.stderr, RAW: (directory / RAW).read_bytes()}
    return Run(done.returncode, files, pulses)


def _answers(pulses: int) -> list[Period]:
    return [(60 + number % 9, False) for number in range(pulses)]


in_each_shell = pytest.mark.parametrize("shell", [name for name, argv in SHELLS.items() if shutil.which(argv[0])])


@in_each_shell
def test_the_command_measures(shell: str, tmp_path: Path) -> None:
    run = _run(tmp_path, Behaviour(answers=_answers), shell=shell)
    assert run.exit_code == 0
    measurements = run.parse()
    assert _histogram(measurements).total == 200
    assert _numbers(measurements)["answers.missed"] == 0


def test_lost_pulses_are_missed_answers(tmp_path: Path) -> None:
    behaviour = Behaviour(answers=lambda pulses: [(None, False)] * 3 + _answers(pulses - 3))
    assert _numbers(_run(tmp_path, behaviour, interrupts=197).parse())["answers.missed"] == 3


def test_lost_answers_are_not_the_kernel_s(tmp_path: Path) -> None:
    run = _run(tmp_path, Behaviour(answers=lambda pulses: [(60, False), (None, False)] * (pulses // 2)))
    assert run.exit_code == 0
    with pytest.raises(ParseError, match=r"answered 200 times, the instrument saw 100: .*loses answers"):
        run.parse()


def _noise() -> Callable[[bytes], bytes]:
    """Return a line that damages the first result that passes."""
    results = iter((True,))

    def send(data: bytes) -> bytes:
        return data.replace(b"bucket 6", b"bucket 7") if data.startswith(b"result") and next(results, False) else data

    return send


def test_a_result_that_noise_damaged_is_read_from_its_copy(tmp_path: Path) -> None:
    run = _run(tmp_path, Behaviour(answers=_answers, noise=_noise()))
    assert b"bucket 7" in run.files[RAW]
    assert _histogram(run.parse()).total == 200


def test_noise_that_damages_both_copies_is_an_error(tmp_path: Path) -> None:
    run = _run(tmp_path, Behaviour(answers=_answers, noise=lambda data: data.replace(b"bucket 61", b"bucket 51")))
    assert run.exit_code == 0
    with pytest.raises(ParseError, match=r"a line of the instrument is damaged, 'bucket 51.*check its power"):
        run.parse()


def _damage_ends(copies: tuple[int, ...]) -> Callable[[bytes], bytes]:
    """Return a line that damages the last line of these copies of the result."""
    numbers = count()

    def send(data: bytes) -> bytes:
        return data.replace(b"\nend ", b"\nand ") if data.startswith(b"result") and next(numbers) in copies else data

    return send


@pytest.mark.parametrize("copies", [(0,), (1,)])
def test_one_end_is_enough(copies: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irq_instrument, "_DAMAGE_S", 1)
    run = _run(tmp_path, Behaviour(answers=_answers, noise=_damage_ends(copies)))
    assert b"\nand " in run.files[RAW]
    assert _histogram(run.parse()).total == 200


def test_an_instrument_without_a_result_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irq_instrument, "_DAMAGE_S", 1)
    begin = time.monotonic()
    run = _run(tmp_path, Behaviour(answers=_answers, noise=_damage_ends((0, 1))))
    assert time.monotonic() - begin < TOOL.expected(_setting(200)).work_s
    assert run.exit_code == 4
    with pytest.raises(ParseError, match="sent no line end: and lines="):
        run.parse()


@pytest.mark.parametrize(
    ("behaviour", "logic", "message"),
    [
        pytest.param(
            Behaviour(answers=_answers, restarts=True), Logic, "sent no line end: reset rtgate-instrument", id="restart"
        ),
        pytest.param(Behaviour(answers=_answers, silent=True), Logic, "does not answer", id="silence"),
        pytest.param(
            Behaviour(answers=_answers),
            lambda: Logic(crystal=False),
            "sent no line started: error the crystal does not run",
            id="no crystal",
        ),
        pytest.param(
            Behaviour(answers=_answers),
            lambda: Logic(timer=False),
            "sent no line selftest pass: selftest fail pulses=",
            id="selftest",
        ),
    ],
)
def test_an_instrument_that_does_not_measure_is_an_error(
    behaviour: Behaviour, logic: Callable[[], Logic], message: str, tmp_path: Path
) -> None:
    run = _run(tmp_path, behaviour, logic=logic)
    assert run.exit_code == 4
    with pytest.raises(ParseError, match=f"irq-instrument-hard ended with exit code 4: the instrument on .*{message}"):
        run.parse()


def test_a_driver_that_refuses_the_lines_is_an_error(tmp_path: Path) -> None:
    run = _run(tmp_path, Behaviour(answers=_answers), driver="/dev/full")
    assert run.exit_code == 4
    with pytest.raises(ParseError, match="the driver refuses hard gpio3:12 gpio3:13, and the kernel's log says why"):
        run.parse()


def test_a_port_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    _, option, script = IrqInstrumentThreaded().argv(_setting(200, "/dev/ttyNONE"))
    done = subprocess.run(["sh", option, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "/dev/ttyNONE is not a device\n")
    assert not Path("/dev/ttyNONE").exists()


@in_each_shell
def test_a_port_that_cannot_be_opened_is_an_error(shell: str, tmp_path: Path) -> None:
    """Each shell has an exit code of its own for it. A process without a terminal cannot open /dev/tty."""
    _, option, script = TOOL.argv(_setting(200, "/dev/tty"))
    command = [*SHELLS[shell], option, script.replace(DRIVER, "/dev/null")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, start_new_session=True)
    assert (done.returncode, b"/dev/tty" in done.stderr) == (3, True)


def _read_until(terminal: int, end: bytes) -> None:
    said = b""
    while not said.endswith(end):
        assert select.select([terminal], [], [], 30)[0], said
        said += os.read(terminal, 200)


@in_each_shell
def test_a_command_that_is_stopped_stops_the_instrument(shell: str, tmp_path: Path) -> None:
    """As at the plan's deadline: the signal goes to all of its processes."""
    own, other = pty.openpty()
    _, option, script = TOOL.argv(_setting(200, os.ttyname(other)))
    command = [*SHELLS[shell], option, script.replace(DRIVER, "/dev/null")]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True) as child:
        _read_until(own, b"\nstop\nid\n")
        os.killpg(child.pid, signal.SIGTERM)
        _, error = child.communicate(timeout=30)
    assert child.returncode == 4
    assert b"a signal ended the tool: " in error
    _read_until(own, b"\nstop\n")
    os.close(other)
    os.close(own)


@in_each_shell
def test_an_instrument_whose_command_was_killed_is_stopped_by_the_plan(shell: str, tmp_path: Path) -> None:
    """As after Ctrl-C: the plan kills the command, whose own trap then cannot run."""
    own, other = pty.openpty()
    tty.setraw(other)
    script = TOOL.undo(_setting(200, os.ttyname(other)))
    subprocess.run([*SHELLS[shell], "-c", script], cwd=tmp_path, check=True)
    _read_until(own, b"\nstop\n")
    os.close(other)
    os.close(own)


def test_a_port_that_has_gone_is_not_made_a_file(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    subprocess.run(["sh", "-c", TOOL.undo(_setting(200, str(port)))], check=True)
    assert not port.exists()
