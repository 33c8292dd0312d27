# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.disk_health import REPORTS, measurements

SETTING = Setting(cpus=1, duration_s=1, virtual_time=False)
PROGRAM = Path(__file__).parents[3] / "target" / "nvme" / "nvme-health.c"
GOOD = {"critical_warning": 0, "temperature": 310, "percent_used": 3, "media_errors": 7}


def _measured(before: object, after: object) -> dict[str, str]:
    files = {f"health.{moment}": json.dumps(one).encode() for moment, one in (("start", before), ("end", after))}
    found = measurements(Output(files=files, exit_code=0, setting=SETTING))
    assert {one.name for one in found} == set(REPORTS)
    return {one.name: str(one.quantity) for one in found}


def test_errors_are_those_since_the_start_and_warnings_those_of_either() -> None:
    after = {**GOOD, "temperature": 345, "media_errors": 9, "critical_warning": 2}
    assert _measured({**GOOD, "critical_warning": 1}, after) == {
        "disk.critical_warning": "3 count",
        "disk.media_errors": "2 count",
        "disk.used": "0.03 ratio",
        "disk.temperature": "72 celsius",
    }


def test_counters_that_a_double_cannot_hold_may_be_text() -> None:
    large = 2**100
    found = _measured({**GOOD, "media_errors": str(large)}, {**GOOD, "media_errors": large + 1})
    assert found["disk.media_errors"] == "1 count"


@pytest.mark.parametrize("missing", ["health.start", "health.end"])
def test_a_health_that_was_not_read_is_no_health(missing: str) -> None:
    files = {"health.start": json.dumps(GOOD).encode(), "health.end": json.dumps(GOOD).encode(), missing: b" "}
    assert measurements(Output(files=files, exit_code=0, setting=SETTING)) == ()


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({**GOOD, "media_errors": 6}, "fewer media errors"),
        ({**GOOD, "media_errors": -1}, "not a number"),
        ({**GOOD, "media_errors": True}, "not a number"),
        ({**GOOD, "media_errors": "x"}, "not a number"),
        ({**GOOD, "critical_warning": 256}, "cannot be"),
        ({**GOOD, "percent_used": 300}, "cannot be"),
        ({**GOOD, "temperature": "warm"}, "not a whole number"),
        ({}, "media errors are None"),
        ([], "is not an object"),
    ],
)
def test_what_a_disk_cannot_say_is_told(after: object, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _measured(GOOD, after)


@given(st.binary(max_size=200))
def test_hostile_text_is_read_or_refused(text: bytes) -> None:
    with contextlib.suppress(ParseError):
        measurements(Output(files={"health.start": text, "health.end": text}, exit_code=0, setting=SETTING))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return our own program, compiled for this machine with sanitizers."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("nvme") / "nvme-health"
    options = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Werror")
    sanitized = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    subprocess.run([compiler, *options, *sanitized, "-o", str(made), str(PROGRAM)], check=True, timeout=120)
    return made


def _run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=30, check=False)


def test_our_program_decodes_the_log_page_as_the_specification_has_it(program: Path, tmp_path: Path) -> None:
    page = bytearray(512)
    page[0], page[1:3], page[5] = 0b101, (310).to_bytes(2, "little"), 7
    page[160:176] = (2**127 + 1).to_bytes(16, "little")
    page[196:200] = (12).to_bytes(4, "little")
    stored = tmp_path / "page"
    stored.write_bytes(page)
    done = _run(program, "--page", str(stored))
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (found["critical_warning"], found["temperature"], found["percent_used"]) == (5, 310, 7)
    assert (found["media_errors"], found["critical_comp_time"]) == (2**127 + 1, 12)
    assert sum(value for key, value in found.items()) == 5 + 310 + 7 + 2**127 + 1 + 12
    files = {"health.start": done.stdout.encode(), "health.end": done.stdout.encode()}
    assert measurements(Output(files=files, exit_code=0, setting=SETTING))[0].quantity is not None


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("/dev/null",), 1, "nvme-health: /dev/null: is no NVMe disk"),
        (("/nonexistent",), 1, "nvme-health: /nonexistent: No such file or directory"),
        (("--page", "/dev/null"), 1, "is shorter than a health log"),
        ((), 2, "usage:"),
        (("--wrong",), 2, "usage:"),
        (("a", "b"), 2, "usage:"),
    ],
)
def test_our_program_says_why_it_cannot(program: Path, words: tuple[str, ...], code: int, reason: str) -> None:
    done = _run(program, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr
