# SPDX-License-Identifier: MIT
"""smokey, each test by itself: captured output of a virtual board (selftests/data/xenomai), and faults in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.threads import ThreadScope
from rtgate.tools.xenomai_smokey import XenomaiSmokey

SETTING = Setting(cpus=2, duration_s=5, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=5, virtual_time=True)
CAPTURED = (Path(__file__).resolve().parents[2] / "data/xenomai/3.3.1/xenomai-smokey.out").read_text()
"""SOURCES.md beside it says how."""


def part(name: str, said: str = "", code: int = 0) -> str:
    return f"== {name}\n{said or f'{name} OK'}\n== exit code {code}\n"


def _parse(out: str, err: str = "", code: int = 0) -> dict[str, float]:
    """Return each measurement by its name, and those of one test by that of the test."""
    files = {"tool.out": out.encode(), "tool.err": err.encode()}
    return {
        _name(one): value(one) for one in XenomaiSmokey().parse(Output(files=files, exit_code=code, setting=SETTING))
    }


def _name(one: Measurement) -> str:
    assert one.better is (Better.HIGHER if one.name == "tests.passed" else Better.LOWER)
    return one.labels["test"] if one.name == "test.failed" else one.name


def value(one: Measurement) -> float:
    assert one.quantity is not None
    return one.quantity.value


def test_what_a_virtual_board_printed() -> None:
    found = _parse(CAPTURED)
    assert [found[f"tests.{word}"] for word in ("passed", "skipped", "failed")] == [18, 14, 0]
    assert not {"gdb", "vxworkstests", "psostests", "bufp"} & {*found}, "they say that they were skipped"
    assert {"y2038", "alchemytests"} < {*found}, "parts of them were skipped"


def test_a_test_that_fails_and_one_that_crashes_are_named() -> None:
    failed = part("posix_clock", "posix-clock.c:420, assertion failed: diff\ntest posix_clock failed: 22", 1)
    found = _parse("3\n" + part("arith") + failed + part("leaks", "leaks OK", 139))
    assert found == {
        "tests.passed": 1,
        "tests.skipped": 0,
        "tests.failed": 2,
        "arith": 0,
        "posix_clock": 1,
        "leaks": 1,
    }


@pytest.mark.parametrize(
    ("out", "err", "code", "reason"),
    [
        ("", "", 0, "smokey listed 0 tests, and 0 are whole: no message"),
        ("0\n", "", 0, "smokey listed 0 tests"),
        ("", "smokey: not found\n", 127, "exit code 127: smokey: not found"),
        (part("arith"), "", 0, "smokey listed 0 tests, and 1 are whole"),
        ("2\n" + part("arith"), "", 0, "listed 2 tests, and 1 are whole"),
        ("2\n" + part("arith") + "== leaks\nleaks OK\n", "", 0, "listed 2 tests, and 1 are whole"),
        ("2\n" + part("arith") + part("arith"), "", 0, "listed 2 tests"),
        ("1\n" + part("arith", "all is well"), "", 0, "arith ended with 0 and did not say OK: all is well"),
        ("1\n" + part("arith"), "sh: syntax error\n", 2, "exit code 2: sh: syntax error"),
    ],
)
def test_what_says_nothing_certain_is_refused(out: str, err: str, code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(out, err, code)


def test_a_run_that_the_plan_stopped_is_refused() -> None:
    files = {"tool.out": part("arith").encode(), "tool.deadline": b"after 100 s\n"}
    with pytest.raises(ParseError, match="was stopped after 100 s"):
        XenomaiSmokey().parse(Output(files=files, exit_code=143, setting=SETTING))


SMOKEY = """\
#!/bin/sh
case $1 in
--list) printf '#0   arith\\n\\tSums.\\n#1   leaks\\n\\tMemory, on a heap.\\n'; exit ;;
--run=arith) echo "arith OK $*"; cat ;;
--run=leaks) echo 'leaks failed' >&2; kill -SEGV $$ ;;
esac
"""


def test_each_test_of_the_list_is_run_by_a_shell(tmp_path: Path) -> None:
    (tmp_path / "smokey").write_text(SMOKEY)
    (tmp_path / "smokey").chmod(0o755)
    *_, shell, option, command = XenomaiSmokey(vm=True, rounds=3).argv(SETTING)
    done = subprocess.run(
        [str(shutil.which(shell)), option, command],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("2\n")
    words = "--run=arith --vm random_alloc_rounds=3 pattern_check_rounds=3"
    assert [line for line in done.stdout.splitlines()[1:] if "Segmentation" not in line] == [
        *("== arith", f"arith OK {words}", "== exit code 0"),
        *("== leaks", "leaks failed", "== exit code 139"),
    ]


def test_a_list_that_breaks_off_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "smokey").write_text("#!/bin/sh\necho '#0   arith'\nkill -SEGV $$\n")
    (tmp_path / "smokey").chmod(0o755)
    *_, option, command = XenomaiSmokey().argv(SETTING)
    paths = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", option, command], env=paths, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (139, b"")


def test_a_test_skipped_whole_did_not_pass() -> None:
    """As y2038 of Xenomai 3.3 on kernels before 5.4 (testsuite/smokey/y2038/syscall-tests.c)."""
    found = _parse("1\n" + part("y2038", "y2038: skipped. (no y2038 safe kernel)\ny2038 OK"))
    assert (found["tests.passed"], found["tests.skipped"]) == (0, 1)


def test_on_virtual_time_the_clock_is_set_and_memory_is_tested_for_seconds() -> None:
    *path, shell, option, command = XenomaiSmokey().argv(VIRTUAL)
    assert path == ["env", "PATH=/usr/xenomai/bin:/usr/bin:/usr/sbin:/bin:/sbin"]
    assert (shell, option) == ("sh", "-c")
    assert command.startswith("date -s 202401010000 >/dev/null && list=$(smokey --list) || exit; ")
    assert "--run=$name random_alloc_rounds=4 pattern_check_rounds=4 " in command
    assert "--vm" not in command


def test_it_is_skipped_without_cobalt_and_measures_no_thread() -> None:
    assert [need.test for need in XenomaiSmokey.needs] == ["[ -e /proc/xenomai/version ]"]
    assert XenomaiSmokey(seconds=70).expected(SETTING) == Expected(
        threads=(),
        duration_s=0,
        work_s=70,
        seen=ThreadScope.SESSION,
        counts=(Count(measurement="tests.passed", least=1),),
    )


@examples(200)
@given(start=st.integers(0, len(CAPTURED)), length=st.integers(0, 40), new=st.text("= \nOKcodexit0123", max_size=8))
def test_damaged_text_is_read_or_refused(start: int, length: int, new: str) -> None:
    try:
        found = _parse(CAPTURED[:start] + new + CAPTURED[start + length :])
    except ParseError:
        return
    assert sum(found[f"tests.{word}"] for word in ("passed", "skipped", "failed")) >= 1
