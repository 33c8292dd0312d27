# SPDX-License-Identifier: MIT
from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.pip_stress import PipStress
from rtgate.units import Quantity, Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
SETTING = Setting(cpus=1, duration_s=10.0, virtual_time=True)
GOOD = (DATA / "2.10" / "pip_stress.out").read_bytes()
NOT_TESTED = (DATA / "2.10" / "pip_stress-not-tested.out").read_bytes()
STOPPED = b"after 20 s\n"


def _parse(files: Mapping[str, bytes], exit_code: int = 0) -> tuple[Measurement, ...]:
    return PipStress().parse(Output(files=files, exit_code=exit_code, setting=SETTING))


def _failures(files: Mapping[str, bytes], exit_code: int = 0) -> float:
    (found,) = _parse(files, exit_code)
    assert found.quantity is not None
    assert (found.name, found.better, found.unit) == ("failures", Better.LOWER, Unit.COUNT)
    return found.quantity.value


def test_an_inversion_that_was_handled_is_no_failure() -> None:
    assert _failures({"tool.out": GOOD, "tool.err": b""}) == 0
    assert [one.name for one in _parse({"tool.out": GOOD})] == list(PipStress.reports)


def test_version_2_4_said_the_same() -> None:
    text = (DATA / "2.4" / "pip_stress.txt").read_bytes()
    assert text == GOOD + b"rc=0\n"


def test_a_run_that_never_ends_is_a_failure() -> None:
    # Seen with a mutex without inheritance: both outputs empty, exit code 143 once it was stopped.
    assert _failures({"tool.out": b"", "tool.err": b"", "tool.deadline": STOPPED}, 143) == 1


@pytest.mark.parametrize(
    ("files", "code", "reason"),
    [
        ({"tool.out": NOT_TESTED}, 0, "priority inheritance was not tested"),
        ({"tool.out": b""}, 0, "printed no result: nothing"),
        ({}, 0, "printed no result: nothing"),
        ({"tool.out": b"rubbish\n"}, 0, "printed no result: rubbish"),
        ({"tool.out": GOOD + NOT_TESTED}, 0, "printed no result: Successfully"),
        ({"tool.out": GOOD[:-8]}, 0, "printed no result"),
        ({"tool.out": GOOD}, 1, "exit code 1: Successfully"),
        ({"tool.out": GOOD, "tool.deadline": STOPPED}, 143, "stopped after 20 s"),
        ({"tool.err": b"mmap: no memory\n", "tool.deadline": STOPPED}, 143, "stopped after 20 s"),
        (
            {"tool.out": GOOD, "tool.err": b"Operation not permitted set_rt_prio: sched_setscheduler(): \n"},
            0,
            "could not do its test: Operation not permitted",
        ),
        ({"tool.err": b"pip_stress: unrecognized option '--usleep=20000'\n"}, 1, "exit code 1: .*unrecognized option"),
    ],
)
def test_what_is_refused_says_why(files: Mapping[str, bytes], code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(files, code)


def test_the_command_line_and_what_must_be_seen() -> None:
    tool = PipStress(usleep_us=5000)
    assert tool.argv(SETTING) == ("pip_stress", "--usleep=5000")
    assert tool.expected(SETTING) == Expected(threads=(), duration_s=0.005)
    assert PipStress.name == "pip_stress"
    assert PipStress.suites == ("scheduling",)
    assert PipStress().argv(SETTING) == ("pip_stress", "--usleep=20000")


@pytest.mark.parametrize(
    ("help_text", "met"),
    [
        ("-h --help  Show this help menu.\n-u TIME  --usleep=TIME   Specify the sleep time in usec", True),
        ("-h --help  Show this help menu.", False),
    ],
)
def test_the_need_tells_versions_with_the_option(tmp_path: Path, help_text: str, met: bool) -> None:
    program = tmp_path / "pip_stress"
    program.write_text(f"#!/bin/sh\necho '{help_text}'\n", encoding="ascii")
    program.chmod(0o755)
    (need,) = PipStress().required()
    command = f"{need.test} || echo missing"
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=False, timeout=10
    )
    assert (done.stdout == "") is met


@examples(150)
@given(
    out=st.sampled_from([GOOD, NOT_TESTED, b"", GOOD + GOOD]) | st.binary(max_size=80),
    err=st.just(b"") | st.binary(max_size=20),
    stopped=st.sampled_from([b"", STOPPED]),
    code=st.sampled_from([0, 0, 1, 143, 255]),
)
def test_anything_is_read_or_refused(out: bytes, err: bytes, stopped: bytes, code: int) -> None:
    files = {"tool.out": out, "tool.err": err, "tool.deadline": stopped}
    try:
        (found,) = _parse(files, code)
    except ParseError:
        return
    if found.quantity == Quantity(0, Unit.COUNT):
        assert (out.strip(), err.strip(), stopped, code) == (GOOD.strip(), b"", b"", 0)
    else:
        assert found.quantity == Quantity(1, Unit.COUNT)
        # As text, which has more kinds of space than bytes have.
        assert (out.decode(errors="replace").strip(), err.decode(errors="replace").strip()) == ("", "")
        assert stopped == STOPPED
