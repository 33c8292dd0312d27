# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from selftests.unit.history.conftest import CASE, NOW, Fill, record
from selftests.unit.report.conftest import Boot as Made
from selftests.unit.report.conftest import make
from selftests.written_records import write

from rtgate.board.boot import State, TimeBase
from rtgate.cli import calibrate
from rtgate.cli.main import main
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.qualifying import Standing, examine, keep, standing_of
from rtgate.history.queries import BootFilter
from rtgate.history.screens import level
from rtgate.history.store import Origin, add
from rtgate.judge.learn.screening import ScreenProposal
from rtgate.records import record as records_file
from rtgate.records.environment import Environment
from rtgate.records.record import Record


def night(sd: float, boots: int = 24) -> list[float]:
    chance = random.Random(boots)
    return [1 + chance.gauss(0, sd) for _ in range(boots)]


def test_a_device_is_not_qualified_before_a_night_said_so(history: History) -> None:
    standing = standing_of(history, record(1))
    assert standing == Standing(False, "bench bench-01 was never qualified for latency/cyclictest:idle: rtgate qualify")


def test_a_night_qualifies_a_device_for_a_case_in_its_environment(fill: Fill, history: History) -> None:
    fill("night-1", night(0.005))
    examined = examine(history, queries.find(history, BootFilter()))
    assert examined is not None
    like, standing = examined
    body = next(one for one in standing.noise if one.metric == "winsorised mean")
    assert body.pairs == 12
    assert 0.002 < body.boot_sd < 0.02
    assert body.smallest < 1.08
    keep(history, queries.find(history, BootFilter()), like, standing, NOW)
    assert standing_of(history, record(99)).qualified == standing.qualified
    assert "another environment" in standing_of(history, record(99, firmware="newer")).reason
    assert "never qualified" in standing_of(history, record(99, device="bench-02")).reason
    assert "never qualified" in standing_of(history, record(99, case="latency/cyclictest:hackbench")).reason


def test_the_newest_night_counts(fill: Fill, history: History) -> None:
    fill("quiet", night(0.002))
    fill("noisy", night(0.3), first=100, image="b" * 64)
    for run in ("quiet", "noisy"):
        boots = queries.find(history, BootFilter(runs=[run]))
        examined = examine(history, boots)
        assert examined is not None
        keep(history, boots, *examined, NOW)
    standing = standing_of(history, record(999))
    assert not standing.qualified
    assert "must not be missed" in standing.reason


def test_a_device_is_qualified_in_two_environments(fill: Fill, history: History) -> None:
    fill("isolated", night(0.002), tuning="isolated")
    fill("plain", night(0.3), first=100, image="b" * 64, tuning="plain")
    for run in ("isolated", "plain"):
        boots = queries.find(history, BootFilter(runs=[run]))
        examined = examine(history, boots)
        assert examined is not None
        keep(history, boots, *examined, NOW)
    assert standing_of(history, record(999, tuning="isolated")).qualified
    assert "must not be missed" in standing_of(history, record(999, tuning="plain")).reason
    assert "bench-01 was not qualified on 2026" in standing_of(history, record(999, tuning="third")).reason


def test_virtual_time_needs_no_qualification(history: History) -> None:
    assert standing_of(history, make(Made())).qualified


def test_boots_that_are_all_invalid_say_nothing(fill: Fill, history: History) -> None:
    fill("night-1", night(0.01, 4), online="")
    assert examine(history, queries.find(history, BootFilter())) is None


@pytest.fixture
def bench(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with the board `bench`, and a history; the directory for records."""
    monkeypatch.setenv("RTGATE_HISTORY", url)
    (tmp_path / "site" / "boards").mkdir(parents=True)
    shipped = Path(__file__).parents[3] / "boards" / "rk3568-evb1.yaml"
    (tmp_path / "site" / "boards" / "bench.yaml").write_text(shipped.read_text())
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    return tmp_path / "night"


def dead(number: int, state: str) -> Record:
    """Return a boot that never measured: of its environment only the board's file is known, and the lab's device."""
    known = Environment(board="bench", time=TimeBase.REAL, device="bench-01", tuning=record().environment.tuning)
    return replace(
        record(number), state=State(state), message="no shell", measurements=(), environment=known, boot_id=""
    )


def test_the_command_stores_and_shows(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, scale in enumerate(night(0.002), 1):
        write(record(number, scale=scale), bench)
    code = main(["qualify", "--board", "bench", "--records", str(bench)])
    said = capsys.readouterr().out
    assert code in {0, 5}
    assert "latency/cyclictest:idle (bench-01): " in said
    assert "(24 boots, 0 invalid)" in said


def test_records_that_are_stored_already_are_found_in_whatever_run(
    bench: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    boots = [record(number, scale=scale) for number, scale in enumerate(night(0.002), 1)]
    for boot in boots:
        write(boot, bench)
    assert main(["history", "add", str(bench), "--run", "night-1"]) == 0
    add(history, [record(99, scale=9, image="b" * 64)], Origin(run="night-1", now=NOW, not_applicable={}))
    assert main(["qualify", "--board", "bench", "--records", str(bench)]) == 0
    assert "(24 boots, 0 invalid)" in capsys.readouterr().out  # and not what the run has of another kernel


def test_each_device_is_named(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device, first, sd in (("bench-01", 1, 0.002), ("bench-02", 101, 0.3), ("", 201, 0.002)):
        for number, scale in enumerate(night(sd), first):
            write(record(number, scale=scale, device=device), bench)
    lost = dead(301, "hang")
    write(replace(lost, environment=replace(lost.environment, device="bench-03")), bench)
    assert main(["qualify", "--board", "bench", "--records", str(bench)]) == 5
    said = capsys.readouterr().out
    assert "\nlatency/cyclictest:idle (bench-01): qualified (24 boots" in said
    assert "\nlatency/cyclictest:idle (bench-02): NOT qualified: " in said
    assert "\nlatency/cyclictest:idle: qualified (24 boots" in said
    assert "\nlatency/cyclictest:idle (bench-03): NOT qualified: of 1 boots 1 were not good" in said
    rows = [line.split()[:2] for line in said.splitlines() if " winsorised mean  " in line]
    case = "latency/cyclictest:idle"
    assert rows == [[case, "winsorised"], [case, "(bench-01)"], [case, "(bench-02)"]]
    assert "latency/cyclictest:idle (bench-01) latency.max" in said


@pytest.mark.parametrize("state", ["no boot", "kernel fault", "hang", "lab"])
def test_boots_that_died_are_boots(bench: Path, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number, scale in enumerate(night(0.002), 1):
        write(record(number, scale=scale), bench)
        records_file.write(dead(100 + number, state), {"tool.rc": b"0\n"}, b"", bench)
    assert main(["qualify", "--board", "bench", "--records", str(bench)]) == 5
    said = capsys.readouterr().out
    assert "24 of 48 boots were not valid" in said
    assert "(48 boots, 24 invalid)" in said


@pytest.mark.parametrize("good", [0, 1])
def test_a_night_that_died_ends_the_qualification(
    bench: Path, history: History, fill: Fill, capsys: pytest.CaptureFixture[str], good: int
) -> None:
    fill("night-1", night(0.002))
    assert main(["qualify", "--board", "bench", "--runs", "night-1"]) == 0
    assert standing_of(history, record(1)).qualified
    boots = [*(record(number) for number in range(100, 100 + good)), *(dead(number, "hang") for number in range(23))]
    add(history, boots, Origin(run="night-2", now=NOW, not_applicable={}))
    capsys.readouterr()
    assert main(["qualify", "--board", "bench", "--runs", "night-2"]) == 5
    told = capsys.readouterr().out
    assert told == (
        f"latency/cyclictest:idle (bench-01): NOT qualified: of {23 + good} boots 23 were not good, "
        "too few to make a pair of boots (first: hang: no shell)\n"
    )
    assert not standing_of(history, record(1)).qualified
    assert standing_of(history, record(1, device="bench-02")).reason.endswith(
        "never qualified for latency/cyclictest:idle: rtgate qualify"
    )
    assert main(["qualify", "--board", "bench", "--runs", "night-1"]) == 0
    assert standing_of(history, record(1)).qualified


def test_a_history_without_boots_is_a_mistake(
    bench: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["qualify", "--board", "bench"]) == 2
    assert "has no boots of good kernels of bench (rtgate history list)" in capsys.readouterr().err


def test_what_died_before_the_board_was_what_it_is_does_not_count(
    bench: Path, history: History, fill: Fill, capsys: pytest.CaptureFixture[str]
) -> None:
    early = Origin(run="last-year", now=NOW - timedelta(days=400), not_applicable={})
    add(history, [dead(number, "hang") for number in range(200, 212)], early)
    fill("night-1", night(0.002))
    main(["qualify", "--board", "bench"])
    assert "(24 boots, 0 invalid)" in capsys.readouterr().out
    main(["qualify", "--board", "bench", "--runs", "last-year,night-1"])
    assert "(36 boots, 12 invalid)" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--runs", "night-1"]])
def test_boots_that_their_environment_makes_invalid_are_boots(
    bench: Path, fill: Fill, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for number, scale in enumerate(night(0.002, 24)):
        fill("night-1", [scale], first=number + 1, online="" if number % 2 else "0")
    assert main(["qualify", "--board", "bench", *words]) == 5
    assert "(24 boots, 12 invalid)" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--runs", "night-1,reviews"]])
def test_invalid_boots_of_another_profile_are_not_this_one_s(
    bench: Path, history: History, fill: Fill, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    fill("night-1", night(0.002))
    reviews = [replace(dead(number, "hang"), profile="review") for number in range(200, 218)]
    add(history, reviews, Origin(run="reviews", now=NOW, not_applicable={}))
    assert main(["qualify", "--board", "bench", *words]) == 0
    assert "(24 boots, 0 invalid)" in capsys.readouterr().out


def test_good_boots_of_another_environment_are_left_out_aloud(
    bench: Path, fill: Fill, capsys: pytest.CaptureFixture[str]
) -> None:
    fill("night-1", night(0.002, 6), firmware="older")
    fill("night-2", night(0.002), first=101)
    assert main(["qualify", "--board", "bench"]) in {0, 5}
    said = capsys.readouterr()
    assert "(24 boots, 0 invalid)" in said.out
    assert (
        f"{CASE}: 6 of 30 boots are left out: their environment is not that of the boot stored last (run night-2)"
        in said.err
    )


def test_a_run_that_was_never_stored_qualifies_nothing(
    bench: Path, history: History, fill: Fill, capsys: pytest.CaptureFixture[str]
) -> None:
    fill("night-1", night(0.002))
    assert main(["qualify", "--board", "bench", "--runs", "night-1,night-12"]) == 2
    assert "--runs: no good boots of night-12" in capsys.readouterr().err
    assert "never qualified" in standing_of(history, record(1)).reason


def test_a_calibration_that_is_refused_stores_no_level(
    bench: Path, history: History, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill("night-1", night(0.002))
    proposal = ScreenProposal(level=0.02, flagged=1, sessions=12, upper=0.3, problem="")
    monkeypatch.setattr(calibrate, "propose_screen", lambda _: proposal)
    assert main(["calibrate", "--board", "bench", "--looser-because", "night-12"]) == 2
    assert level(history, record(1)) is None
    assert main(["calibrate", "--board", "bench"]) == 5
    assert level(history, record(1)) == 0.02
