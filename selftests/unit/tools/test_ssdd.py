# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError, UnfinishedError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.ssdd import JSON, Ssdd
from rtgate.tools.threads import ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
SETTING = Setting(cpus=1, duration_s=10.0, virtual_time=True)
GOOD, GOOD_JSON = (DATA / f"2.10/ssdd-virtual-idle.{end}" for end in ("out", "json"))
BAD = (DATA / "2.10/ssdd-failed.out").read_text()
BAD_JSON = (DATA / "2.10/ssdd-failed.json").read_bytes()
THREE = Ssdd(forks=3, steps=20_000)
ERROR = "forktest#1/46: EXITING, ERROR: wait on PTRACE_SINGLESTEP #2157: wanted STATE_STOPPED, saw STATE_SIGNALED"
REST = " instead (and saw signo 9 too)\n"


def _parse(
    text: str, document: bytes = BAD_JSON, *, code: int = 1, tool: Ssdd = THREE, deadline: bytes = b""
) -> tuple[Measurement, ...]:
    files = {"tool.out": text.encode(), JSON: document, "tool.deadline": deadline}
    return tool.parse(Output(files=files, exit_code=code, setting=SETTING))


def _values(found: tuple[Measurement, ...]) -> dict[str, float]:
    assert {one.unit for one in found} == {Unit.COUNT}
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def test_a_good_run_has_no_failures() -> None:
    found = _parse(GOOD.read_text(), GOOD_JSON.read_bytes(), code=0, tool=Ssdd())
    assert _values(found) == {"failures": 0, "tests": 10}
    assert {one.name: one.better for one in found} == {"failures": Better.LOWER, "tests": Better.NEITHER}
    assert {one.name for one in found} == set(Ssdd.reports)


def test_a_kernel_that_fails_is_measured_not_an_error() -> None:
    # Of three pairs one tracer saw its process killed, and one tracer was killed itself and printed nothing.
    assert BAD.count("EXITING, ERROR") == 1
    assert _values(_parse(BAD, tool=Ssdd(forks=3, steps=20_000))) == {"failures": 2, "tests": 3}


def test_before_2_10_a_busy_target_may_fail_too() -> None:
    text, document = ((DATA / "2.4" / f"ssdd-failed.{end}") for end in ("out", "json"))
    with pytest.raises(
        ParseError, match=r"2 of 3 tests failed, which before rt-tests 2.10 a busy target is enough for"
    ):
        _parse(text.read_text(), document.read_bytes(), tool=Ssdd(forks=3, steps=200_000))


def test_a_lost_signal_of_2_10_is_a_failure_although_its_line_names_no_test() -> None:
    text = BAD.replace(ERROR + REST, "EXITING, ERROR: Timeout: no signal received in 10 seconds\n")
    assert _values(_parse(text))["failures"] == 2


@pytest.mark.parametrize(
    "line",
    [
        "forktest#1/46: EXITING, ERROR: fork returned errno 11",
        "forktest#1/46: EXITING, ERROR: attach failed.  errno 1",
        "forktest#1/46: EXITING, ERROR: sigaction returned -1, errno 22",
        "EXITING, ERROR: unable to mask signal set",
        "forktest#1/46: EXITING, ERROR: PTRACE_SINGLESTEP #0: returned status -1, errno 5, signo 19",
    ],
)
def test_a_set_up_that_failed_is_an_error_unless_something_else_failed_too(line: str) -> None:
    one_more = BAD.replace(ERROR + REST, line + "\n")
    assert _values(_parse(one_more))["failures"] == 2, "the tracer that was killed is a failure"
    alone = one_more.replace("One or more", "forktest#2/47: EXITING, no error\nOne or more")
    with pytest.raises(ParseError, match=r"could not be set up: EXITING, ERROR: "):
        _parse(alone)


@pytest.mark.parametrize(
    "line",
    [
        "forktest#1/46: EXITING, ERROR: PTRACE_SINGLESTEP #7: returned status -1, errno 5, signo 5",
        "forktest#1/46: EXITING, ERROR: PTRACE_SINGLESTEP #0: returned status -1, errno 3, signo 5",
    ],
)
def test_a_step_that_fails_later_or_for_another_reason_is_the_kernels(line: str) -> None:
    text = BAD.replace(ERROR + REST, line + "\nforktest#2/47: EXITING, no error\n")
    assert _values(_parse(text))["failures"] == 1


@pytest.mark.parametrize(
    ("text", "document", "code", "reason"),
    [
        (BAD, BAD_JSON, 0, "exit code 0, return_code 1"),
        (BAD, GOOD_JSON.read_bytes(), 1, "exit code 1, return_code 0"),
        (
            BAD.replace("One or more tests FAILED.", "All tests PASSED."),
            BAD_JSON,
            1,
            "2 of 3 tests failed, it says 'All",
        ),
        (BAD.replace("One or more tests FAILED.\n", ""), BAD_JSON, 1, "it says 'forktest#0/45: EXITING, no error'"),
        (BAD + "main: fork returned errno 11\n", BAD_JSON, 1, "it says 'main: fork returned errno 11'"),
        (BAD + "forktest#1/46: EXITING, no error\n" * 2, BAD_JSON, 1, "0 of 3 tests failed, it says 'forktest#1/46"),
        (BAD + "forktest#1/46: EXITING, no error\n" * 3, BAD_JSON, 1, "4 of 3 tests ended"),
        (BAD.replace("#steps: 20000", "#steps: 2000"), BAD_JSON, 1, "did not say that it does what was asked"),
        (BAD.replace("#forks: 3\n", ""), BAD_JSON, 1, "did not say that it does what was asked"),
        ("", BAD_JSON, 1, "did not say that it does what was asked of it: no output"),
        ("", BAD_JSON, 0, "did not say that it does what was asked of it: no output"),
        (BAD, b"", 1, "wrote no JSON"),
        (BAD, BAD_JSON[:40], 1, "JSON is damaged"),
        (BAD, b"{}", 1, "no 'return_code'"),
        (BAD, BAD_JSON, 143, "exit code 143: #main"),
        ((DATA / "2.4/ssdd-sigterm.out").read_text(), BAD_JSON, 124, "exit code 124: #main"),
        ((DATA / "2.4/ssdd.txt").read_text(), (DATA / "2.4/ssdd.json").read_bytes(), 0, "did not say that it does"),
    ],
)
def test_what_is_refused_says_why(text: str, document: bytes, code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(text, document, code=code)


def test_a_run_that_never_ended_is_refused() -> None:
    with pytest.raises(ParseError, match="stopped after 20 s"):
        _parse(GOOD.read_text(), GOOD_JSON.read_bytes(), code=0, tool=Ssdd(), deadline=b"after 20 s\n")


@examples(60)
@given(end=st.integers(0, len(BAD) - 2), code=st.integers(0, 1))
def test_truncated_text_is_refused(end: int, code: int) -> None:
    with pytest.raises(ParseError):
        _parse(BAD[:end], code=code)


@examples(200)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(BAD)), st.integers(0, 40), st.text(max_size=6) | st.just("\n[    1.2] x")),
        max_size=4,
    ),
    code=st.integers(0, 1),
    document=st.sampled_from([BAD_JSON, GOOD_JSON.read_bytes()]) | st.binary(max_size=20),
)
def test_damaged_output_never_turns_a_failure_into_a_success(
    edits: list[tuple[int, int, str]], code: int, document: bytes
) -> None:
    text = BAD
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        values = _values(_parse(text, document, code=code))
    except ParseError:
        return
    assert 1 <= values["failures"] <= values["tests"] == 3


def test_the_command_line_and_what_must_be_seen() -> None:
    assert Ssdd().argv(SETTING) == ("ssdd", "--forks=10", "--iters=1000", "--json=ssdd.json")
    assert Ssdd().expected(SETTING) == Expected(threads=(), duration_s=0, work_s=13, seen=ThreadScope.SESSION)


def test_more_work_may_take_longer() -> None:
    assert Ssdd(forks=20, steps=10_000).expected(SETTING).work_s == 260


def test_some_tests_that_ended_well_say_that_it_was_at_work() -> None:
    some = GOOD.read_text().replace("forktest#3/", "forktest#three/").replace("All tests PASSED.\n", "")
    with pytest.raises(UnfinishedError, match=r"stopped after 20 s, when 9 of 10 tests had ended, all well"):
        _parse(some, b"", code=143, tool=Ssdd(), deadline=b"after 20 s\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD.read_text(),  # all ended: what it waited for then was not their work
        BAD,
        GOOD.read_text().partition("forktest#")[0],
    ],
)
def test_other_runs_that_did_not_end_stood_still(text: str) -> None:
    with pytest.raises(ParseError, match="stopped after 20 s: it did not end by itself") as caught:
        _parse(text, code=143, tool=Ssdd(), deadline=b"after 20 s\n")
    assert not isinstance(caught.value, UnfinishedError)
