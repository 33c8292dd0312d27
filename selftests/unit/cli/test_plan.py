# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.campaigns.comparisons import IDLE, MEASURED, UNPATCHED
from selftests.campaigns.kernels import measured_boots
from selftests.unit.history.conftest import make_good, origin
from selftests.unit.history.conftest import record as in_history
from selftests.unit.judge.compare.test_summaries import exponential, long
from selftests.written_records import write

from rtgate.board.boot import ArmName, TimeBase
from rtgate.cli import main, plan
from rtgate.history.database import History
from rtgate.history.store import add
from rtgate.records.record import Record


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main.main(["plan", *words])
    said = capsys.readouterr()
    return code, " ".join(said.out.split()), said.err


def on_a_clock(record: Record) -> Record:
    return replace(record, environment=replace(record.environment, time=TimeBase.HOST))


@pytest.fixture
def night(tmp_path: Path) -> Path:
    for number, scale in enumerate([6.0, 6.4, 5.8, 6.1, 6.0, 6.6], 1):
        write(on_a_clock(long(exponential(scale_us=scale), seed=number)), tmp_path)
    return tmp_path


def test_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = planned(capsys, "--share", "1e-6", "--over", "70us", "--confidence", "0.99", "--rate", "4000/s")
    assert code == 0
    assert "a share of at most 1e-06 over 70 us, with 0.99 confidence" in out
    assert "┃ ┃ samples ┃ measured ┃ boots ┃ board ┃" in out
    assert "none over the level │ 4605168 │ 19 min │ 7 │ 35 min" in out


def test_two_minutes_cannot_tell_the_published_share(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--share", "0.0000833%", "--over", "70 us", "--board", "rk3568-evb1", "--measured", "2min")
    code, out, _ = planned(capsys, *words)
    assert code == 0
    assert "4000 samples/s (cyclictest every 1 ms on the 4 CPUs of rk3568-evb1)" in out
    assert "2 min cannot tell: at the limit they have 0.4 events over the level, and none at all" in out


def test_half_an_hour_can(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--share", "0.0000833%", "--over", "70us", "--rate", "4000/s", "--measured", "30min")
    assert "30 min are enough: 7200000 samples" in planned(capsys, *words)[1]


def test_a_change_from_records(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = planned(capsys, "--detect", "+20%", "--records", str(night))
    assert code == 0
    assert "winsorised mean" in out
    assert "1 h return level" in out
    assert "x1.2 with a power of 0.9, at 0.01 false alarms in 3 tests" in out


def test_a_change_from_a_standard_deviation(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = planned(capsys, "--detect", "x1.2", "--metric", "1 h return level", "--sd", "0.07", "--tests", "96")
    assert code == 0
    assert "1 h return level │ 0.07 │ 14 │ │ 2.3 h │ x1.2" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "1e-6"], "--over 70us"),
        (["--share", "1e-6", "--over", "70us"], "how many samples a second?"),
        (["--share", "1e-6", "--over", "70us", "--rate", "0/s"], "more than nothing"),
        (["--share", "1e-6", "--over", "70us", "--rate", "4000us"], "--rate 4000us: us cannot be converted to /s"),
        (["--share", "2", "--over", "70us", "--rate", "4000/s"], "a share lies between 0 and 1"),
        (["--share", "few", "--over", "70us", "--rate", "4000/s"], "not a share"),
        (["--share", "1e-6", "--over", "70", "--rate", "4000/s"], "is not a number with a unit"),
        (["--share", "1e-6", "--over", "70us", "--board", "none-such"], "none-such"),
        (["--detect", "+20%"], "how much do boots differ?"),
        (["--detect", "20", "--sd", "0.1"], "not a change"),
        (["--detect", "-20%", "--sd", "0.1"], "a ratio above 1"),
        (["--detect", "+20%", "--sd", "-1"], "a standard deviation"),
        (["--detect", "+20%", "--sd", "0.1", "--power", "2"], "a power lies between 0 and 1"),
        (["--detect", "+20%", "--records", "nowhere"], "there is no such directory"),
        (["--detect", "+20%", "--records", "nowhere", "--sd", "1"], "leave one out"),
        (["--detect", "+20%", "--sd", "0.1", "--boot", "long"], "not a duration"),
    ],
)
def test_mistakes(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] == "--detect":
        words = [f"{words[0]}={words[1]}", *words[2:]]
    code, _, err = planned(capsys, *words)
    assert code == 2
    assert said in err


def test_a_metric_that_the_records_do_not_have(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = planned(capsys, "--detect", "+20%", "--records", str(night), "--metric", "speed")
    assert code == 2
    assert "(they have: 1 h return level, exceedance rate, winsorised mean)" in err


def test_too_few_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(on_a_clock(long(exponential())), tmp_path)
    code, _, err = planned(capsys, "--detect", "+20%", "--records", str(tmp_path))
    assert code == 2
    assert "no two boots of one kernel" in err


def test_a_change_from_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    with History.open(url, create=True) as history:
        scales = [1.0, 1.02, 0.99, 1.0, 1.01, 1.0]
        boots = [in_history(number, scale=scale) for number, scale in enumerate(scales, 1)]
        add(history, boots, origin())
        make_good(history, boots)
    code, out, _ = planned(capsys, "--detect", "+20%", "--board", "bench", "--history", url)
    assert code == 0
    assert "winsorised mean" in out
    assert planned(capsys, "--detect", "+20%", "--history", url)[0] == 2
    assert planned(capsys, "--detect", "+20%", "--board", "bench", "--history", url, "--sd", "0.1")[0] == 2
    code, _, err = planned(capsys, "--detect", "+20%", "--board", "rk3568-evb1", "--history", url)
    assert code == 2
    assert "no pair of boots of a good kernel on rk3568-evb1" in err


CAMPAIGN = MEASURED / "rootfs-fbbdee09"


@pytest.fixture(scope="module")
def boots() -> tuple[Record, ...]:
    """Return twelve idle boots of one real kernel on virtual time."""
    return measured_boots(CAMPAIGN)[IDLE][UNPATCHED].records


def on_virtual_time(records: Iterable[Record], directory: Path) -> str:
    for record in records:
        # The campaign is from before page faults were read.
        threads = tuple(replace(one, minor_faults=0, major_faults=0) for one in record.evidence.threads)
        read = replace(record, evidence=replace(record.evidence, threads=threads))
        write(read, directory)
    return str(directory)


def test_a_change_on_virtual_time(
    boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = on_virtual_time((replace(one, seconds={"total": 10.0}) for one in boots), tmp_path)
    code, out, _ = planned(capsys, "--detect", "+5%", "--records", directory)
    assert code == 0
    # Eight boots of each kernel, of 10 s: 160 s of one core. That eight are the fewest: test_phase_planning.
    assert re.search(r"latency p50 │ x1\.02\d │ 100% of 12 │ 8 │ 3 min", out)
    assert re.search(r"latency maximum │ x1\.\d+ │ \d% of 12 │ - │ │", out)
    assert "x1.05 put upon 100 pairs" in out
    assert "in 14 tests of all its figures" in out  # seven figures are learnt
    assert "12 boots may miss phases that up to 22% of all boots have" in out
    assert "wakeups.lost is zero in some boot" in out
    words = ("--detect", "+5%", "--records", directory, "--metric", "latency p50", "--tests", "50")
    assert re.search(r"100% of 12 │ 10 │ .* in 100 tests", planned(capsys, *words)[1])


def test_of_two_kernels_the_baseline_is_planned(
    boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = measured_boots(CAMPAIGN)[IDLE]["context-switch-longer"].records
    words = ("--detect", "+5%", "--metric", "latency p50", "--records")
    alone = planned(capsys, *words, on_virtual_time((replace(one, arm=ArmName.BASELINE) for one in boots), tmp_path))
    on_virtual_time((replace(one, arm=ArmName.CANDIDATE) for one in slow), tmp_path)
    assert planned(capsys, *words, str(tmp_path)) == alone
    on_virtual_time((replace(one, arm=ArmName.BASELINE, seed=(one.seed or 0) + 100) for one in slow), tmp_path)
    code, _, err = planned(capsys, *words, str(tmp_path))
    assert code == 2
    assert "boots of 2 kernels" in err


def test_what_a_gate_would_not_use_is_not_planned_from(
    boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [replace(one.environment, emulator="QEMU emulator version 9.1.0") for one in boots]
    made = [replace(one, environment=environment) for one, environment in zip(boots, other, strict=True)]
    nobody = replace(made[0].evidence, threads=())
    broken = [replace(made[0], evidence=nobody), *made[1:]]
    words = ("--detect", "+5%", "--metric", "latency p50", "--records")
    code, out, _ = planned(capsys, *words, on_virtual_time(broken, tmp_path / "one"))
    assert code == 0
    assert "100% of 11" in out
    assert "1 of 12 boots are not valid and left out" in out
    assert "measured with QEMU 9.1, harmless changes were measured on 7.2" in out
    code, _, err = planned(capsys, *words, on_virtual_time(boots[:7], tmp_path / "few"))
    assert code == 2
    assert "7 boots are too few" in err


def test_a_figure_that_virtual_time_does_not_have(
    boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = on_virtual_time(boots, tmp_path)
    code, _, err = planned(capsys, "--detect", "+5%", "--records", directory, "--metric", "winsorised mean")
    assert code == 2
    assert "latency p99.9, latency maximum)" in err
    code, _, err = planned(capsys, "--detect", "+5%", "--records", directory, "--metric", "wakeups.lost")
    assert code == 2
    assert "wakeups.lost is zero in some boot" in err


def test_options_that_would_do_nothing_are_refused(
    boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = on_virtual_time(boots, tmp_path)
    words = ("--detect", "+5%", "--records")
    for option, length in (("--boot", "3min"), ("--overhead", "1min")):
        code, _, err = planned(capsys, *words, directory, option, length)
        assert code == 2
        assert f"{option} would do nothing: what a boot on virtual time costs" in err
    for where in (("--records", directory), ("--sd", "0.1")):
        code, _, err = planned(capsys, "--detect", "+5%", *where, "--device", "b-2")
        assert code == 2
        assert "--device would do nothing: it chooses among the boots of a history" in err


def test_options_of_the_other_question_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for question, mine, other in (
        (("--share", "1e-6", "--over", "70us", "--rate", "1000/s"), plan._OF_A_CHANGE, "--detect"),
        (("--detect", "+5%", "--sd", "0.1"), plan._OF_A_SHARE, "--share"),
    ):
        for option in mine:
            code, _, err = planned(capsys, *question, f"--{option}", "0")
            assert code == 2
            assert f"--{option} would do nothing: it belongs to {other}; leave it out" in err


def test_every_option_belongs_to_a_question() -> None:
    parser = main.parser(["plan"])._actions[-1].choices["plan"]  # type: ignore[index]
    of_both = {"help", "share", "detect", "board", "boot", "overhead"}
    assert {action.dest for action in parser._actions} == of_both | {*plan._OF_A_SHARE, *plan._OF_A_CHANGE}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--share 1e-6 --over 70us --rate 1000/s --board b", "--board would do nothing: --rate says"),
        ("--detect +5% --sd 0.1 --board b", "--board would do nothing: --sd says"),
        ("--share 1e-6 --over 70us --board virt-arm64 --rate=", "--board would do nothing"),
        ("--share 1e-6 --over 70us --rate=", "rtgate: "),
        ("--share 1e-6 --over=", "rtgate: "),
        ("--share 1e-6 --over 70us --board virt-arm64 --measured=", "--measured: '' is not a duration"),
    ],
)
def test_what_says_nothing_is_not_passed_over(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = planned(capsys, *words.split())
    assert code == 2
    assert said in err
    assert "defect" not in err


def test_clocks_are_not_mixed(boots: tuple[Record, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = on_virtual_time((*boots, on_a_clock(long(exponential()))), tmp_path)
    code, _, err = planned(capsys, "--detect", "+5%", "--records", directory)
    assert code == 2
    assert "name a directory of either" in err


def test_no_tests_at_all_are_refused(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = planned(capsys, "--detect", "+20%", "--records", str(night), "--tests", "0")
    assert code == 2
    assert "at least one test" in err
