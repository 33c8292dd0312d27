# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from selftests import lava_log
from selftests.fake_target import measured_outcome
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines, result
from selftests.lava_records import print_records
from selftests.lava_server import BOARD, SITE_BOARD, TOKEN, LavaServer, Story, lava_server
from selftests.unit.cli.conftest import _forget_qemu, _undrawn
from selftests.unit.lava.results.test_classify import PANIC

from rtgate import strict_yaml
from rtgate.cli import main
from rtgate.console.faults import scan
from rtgate.errors import ConfigError, InfrastructureError, RtgateError
from rtgate.judge.compare.looks import RELEASE
from rtgate.judge.compare.procedures import Measure
from rtgate.lava.client.submission import Attempt, Submission
from rtgate.lava.job.file_server import serving
from rtgate.lava.job.request import MeasurementRequest
from rtgate.measure.case import Case
from rtgate.records import planned, record
from rtgate.records.record import Place
from rtgate.records.schedule import Schedule
from rtgate.target.outcome import Outcome, State
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow import suites
from rtgate.workflow.sequential import StoredComparison

__all__ = ["_forget_qemu", "_undrawn"]

CASES = (Case(suite="latency", tool=Cyclictest(), load="idle"),)
_LONG = pytest.mark.long("a whole submission more; others, with failures of lab and kernel, are in make test")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LavaServer]:
    """A lab with one board of the type, a kernel and a ramdisk beside; nothing waits long."""
    with lava_server() as running:
        running.types = {BOARD: ""}
        running.device()
        running.devices[0]["device_type"] = BOARD
        for name, text in (("RTGATE_LAVA_URL", running.url), ("RTGATE_LAVA_TOKEN", TOKEN), ("HOME", str(tmp_path))):
            monkeypatch.setenv(name, text)
        for name in ("XDG_CONFIG_HOME", "GITLAB_CI", "CI_PIPELINE_ID", "GITHUB_RUN_ID", "RTGATE_LAVA_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(suites, "cases", lambda *_arguments, **_: CASES)
        monkeypatch.setattr("rtgate.lava.client.follow.time.sleep", lambda _s: None)
        monkeypatch.setattr("rtgate.workflow.conclusion.html.generate", lambda _results, output: output / "index.html")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
        (tmp_path / "site" / "boards").mkdir(parents=True)
        (tmp_path / "site" / "boards" / f"{BOARD}.yaml").write_text(SITE_BOARD)
        (tmp_path / "kernel").mkdir()
        (tmp_path / "kernel" / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(8))
        (tmp_path / "ramdisk.cpio.gz").write_bytes(b"\x1f\x8b")
        yield running


COMMON = ("submit", "--board", BOARD, "--kernel", "kernel", "--ramdisk", "ramdisk.cpio.gz", "--profile", "smoke")
WAIT = (*COMMON, "--wait")


def story(tmp_path: Path, *, health: str = "Complete", end: str = "") -> Story:
    lines = print_records(tmp_path / "sent", CASES, board=BOARD)
    return Story(log=[deploy(1), boot_lines(2), lava_log.shell(3, lines), end or end_lines()], health=health)


def verdicts(path: Path = Path("report")) -> list[dict[str, str]]:
    found = json.loads((path / "verdict.json").read_text())["verdicts"]
    assert isinstance(found, list)
    return found


def test_from_kernel_to_verdict(server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.stories.append(story(tmp_path))
    assert main.main(WAIT) in {0, 5}
    told = capsys.readouterr()
    assert "1 of 1 boards usable, 1 free, 0 jobs waiting" in told.err
    assert "job 1: Finished Complete" in told.err
    assert "== 2 uboot-action (at most 00:05:00)" in told.err
    assert "rtgate: latency/cyclictest:idle: measured" in told.err
    assert "@rtgate1" not in told.err
    assert "latency/cyclictest:idle" in told.out
    assert (tmp_path / "report/records" / BOARD / "candidate/latency.cyclictest:idle/001/record.json").is_file()
    assert (tmp_path / "report/lava/job-1.log").read_text().startswith("- {")
    summary = json.loads((tmp_path / "report/lava/job-1.json").read_text())
    assert (summary["blame"], summary["device"]) == ("nobody", "board-01")
    assert {verdict["case"] for verdict in verdicts()} == {"latency/cyclictest:idle"}
    assert 'name="latency/cyclictest:idle"' in (tmp_path / "report/junit.xml").read_text()


def test_the_job_holds_no_secret(server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.stories.append(story(tmp_path))
    main.main([*WAIT, "-v"])
    told = capsys.readouterr()
    written = "".join(path.read_text(errors="replace") for path in (tmp_path / "report").rglob("*") if path.is_file())
    assert TOKEN not in told.out + told.err + server.jobs[1].definition + written


def test_files_are_served_until_the_job_has_ended(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = story(tmp_path)
    server.stories.append(made)
    fetched: list[int] = []
    step = type(server)._job

    def fetching(self: LavaServer, query: object, body: object, number: str) -> object:
        if server.jobs[1].state == "Running":
            job = strict_yaml.data(server.jobs[1].definition)
            url = job["actions"][0]["deploy"]["kernel"]["url"]
            fetched.append(requests.get(url, timeout=5).status_code)
        return step(self, query, body, number)

    monkeypatch.setattr(type(server), "_job", fetching)
    main.main(WAIT)
    assert set(fetched) == {200}
    url = strict_yaml.data(server.jobs[1].definition)["actions"][0]["deploy"]["kernel"]["url"]
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=1)


def test_a_kernel_that_panics_fails(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "Kernel panic - not syncing")]
    server.stories.append(Story(log=parts, health="Incomplete"))
    assert main.main(WAIT) == 1
    assert len(server.jobs) == 1
    assert {(one["status"], one["kind"]) for one in verdicts()} == {("FAIL", "boot")}
    assert "Unable to mount root fs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("action", "code", "verdict"),
    [(lava_log.ON_BOARD, 1, ("FAIL", "hang")), ("lava-docker-test-shell-retry", 3, ("MISS", "lab"))],
)
def test_a_shell_that_hangs_during_the_test_is_the_kernels_on_the_board_alone(
    server: LavaServer, action: str, code: int, verdict: tuple[str, str]
) -> None:
    """On the worker rtgate has shorter deadlines of its own: there an upload may be slow, and no kernel."""
    parts = [deploy(1), boot_lines(2), lava_log.shell(3, ["rtgate: measuring"], action)]
    parts += [end_lines("Test", "the shell timed out after 600 seconds")]
    server.stories += [Story(log=list(parts), health="Incomplete") for _ in range(3)]
    assert main.main(WAIT) == code
    assert {(one["status"], one["kind"]) for one in verdicts()} == {verdict}


def silent_second() -> Story:
    """The baseline boots; the kernel after it begins, and says nothing any more."""
    parts = [deploy(1), boot_lines(2), lava_log.shell(3), deploy(4), boot(5, *KERNEL) + lava_log.pass_time(120)]
    over = result("auto-login-action", "fail") + end_lines("Job", "auto-login-action timed out")
    return Story(log=[*parts, over], health="Incomplete")


@pytest.mark.parametrize("boots_again", [False, pytest.param(True, marks=_LONG)])
def test_a_silent_boot_is_proved_by_boots_that_come_after_it(server: LavaServer, *, boots_again: bool) -> None:
    proof = silent_second()
    if boots_again:
        proof = Story(log=[*proof.log[:4], boot_lines(5), lava_log.shell(6), end_lines()])
    server.stories += [silent_second(), proof]
    assert main.main([*WAIT, "--baseline", "kernel", "--boots", "1"]) == (3 if boots_again else 1)
    asked = strict_yaml.data(server.jobs[2].definition)
    names = [action["test"]["definitions"][0]["name"] for action in asked["actions"] if "test" in action]
    assert names == ["rtgate-1-baseline", "rtgate-2-candidate"]
    assert not any(key.startswith("rtgate.order") for key in asked["metadata"])
    assert ("FAIL" in {one["status"] for one in verdicts()}) is not boots_again
    assert sorted(path.name for path in Path("report/lava").glob("*.log")) == ["job-1.log", "job-2.log"]


def test_a_lab_whose_power_fails_is_a_miss_after_three_attempts(
    server: LavaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    power = [deploy(1), boot(2), result("reset-device", "fail"), end_lines("Infrastructure", "reset-device failed")]
    server.stories += [Story(log=list(power), health="Incomplete") for _ in range(3)]
    assert main.main(WAIT) == 3
    assert len(server.jobs) == 3
    assert "trying again (2 of 2)" in capsys.readouterr().err
    assert all(one["status"] == "MISS" for one in verdicts())
    assert sorted(path.name for path in Path("report/lava").glob("*.log")) == [f"job-{n}.log" for n in (1, 2, 3)]


def test_a_lab_that_works_the_second_time(server: LavaServer, tmp_path: Path) -> None:
    power = [deploy(1), boot(2), end_lines("Infrastructure", "reset-device failed")]
    server.stories += [Story(log=power, health="Incomplete"), story(tmp_path)]
    assert main.main(WAIT) in {0, 5}
    assert {one["case"] for one in verdicts()} == {"latency/cyclictest:idle"}


def test_complete_without_records_is_a_miss(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.stories.append(Story(log=[deploy(1), boot_lines(2), lava_log.shell(3, ["rtgate: nothing"]), end_lines()]))
    assert main.main(WAIT) == 3
    assert "the log has no records" in capsys.readouterr().err


def test_a_panic_that_lava_recovered_from_fails(server: LavaServer, tmp_path: Path) -> None:
    made = story(tmp_path)
    made.log[1] = boot(2, *KERNEL, *PANIC) + boot_lines(2)
    server.stories.append(made)
    assert main.main(WAIT) == 1
    assert "died in an attempt" in " ".join(one["sentence"] for one in verdicts())


def test_without_waiting_the_number_is_all(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("", server.url) as files:
        kernel, ramdisk = (files.publish(tmp_path / name) for name in ("kernel/Image", "ramdisk.cpio.gz"))
        urls = ("--kernel", kernel, "--ramdisk", ramdisk)
        assert main.main(["submit", "--board", BOARD, *urls, "--profile", "smoke"]) == 0
        told = capsys.readouterr()
        assert (told.out, "later, anywhere: rtgate fetch 1" in told.err) == ("1\n", True)
        job = strict_yaml.data(server.jobs[1].definition)
        assert job["actions"][0]["deploy"]["kernel"]["url"] == kernel
        assert main.main([*COMMON[:3], *urls[:1], f"{kernel}x", *urls[2:], "--wait"]) == 2
    assert "the lab could not fetch it either" in capsys.readouterr().err


def test_without_waiting_nobody_would_serve_files(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(COMMON) == 2
    assert "--wait, or --put URL" in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--untrusted",), "--untrusted: name the devices"),
        (("--untrusted", "--tag", "x", "--upload", "http://h/u"), "no way to write anywhere"),
        (("--boots", "0"), "expected at least 1"),
        (("--metadata", "nothing"), "expected KEY=TEXT"),
        (("--metadata", "rtgate.nonce=1"), "does not begin with `rtgate.`"),
        (("--tag", "fast"), "with the tags fast"),
        (("--device", "board-99"), "no device 'board-99'"),
        (("--dtb", "nowhere.dtb"), "no such file"),
        (("--kernel", "https://u:secret@h/Image"), "name or password"),
        (("--server", "lab7"), "neither a URL nor an identity"),
        (("--tuning", "nothing"), "has no tuning"),
    ],
)
def test_mistakes_are_found_before_anything_is_submitted(
    server: LavaServer, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert main.main([*WAIT, *options]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "secret" not in said
    assert server.jobs == {}


def test_without_a_token_nothing_is_asked(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTGATE_LAVA_TOKEN")
    assert main.main(WAIT) == 2
    assert "takes no job without a token: name its file with RTGATE_LAVA_TOKEN_FILE" in capsys.readouterr().err
    assert server.requests == []


def test_a_server_that_is_away_is_said_at_once(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.moods.append(("GET", "version", "503"))
    server.stories.append(story(tmp_path))
    assert main.main(WAIT) in {0, 5}
    said = capsys.readouterr().err
    assert said.index("trying again, for 600 s at most") < said.index("answers again") < said.index("boards usable")


def test_every_board_is_away(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.devices[0]["health"] = "Maintenance"
    assert main.main(WAIT) == 3
    assert "board-01 Maintenance" in capsys.readouterr().err


def test_a_board_that_no_lab_has(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WAIT, "--board", "virt-arm64"]) == 2
    assert "no lab can boot it" in capsys.readouterr().err


# --- interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=_LONG)])
def test_a_signal_cancels_the_job(server: LavaServer, tmp_path: Path, number: signal.Signals) -> None:
    server.stories.append(Story(log=[deploy(1)], endless=True, queued=0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    child = subprocess.Popen(
        [sys.executable, "-m", "rtgate", *WAIT],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pause, deadline = threading.Event(), time.monotonic() + 60
    while time.monotonic() < deadline and not (server.jobs and server.jobs[1].state == "Running"):
        pause.wait(0.05)  # nothing here sleeps, see `server`
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "job 1 is cancelled" in said
    assert server.jobs[1].state in {"Canceling", "Finished"}


# --- two kernels, in looks


def compared(tmp_path: Path, arms: tuple[str, ...]) -> Story:
    log = [deploy(1)]
    for number, arm in enumerate(arms, 1):
        place = tmp_path / f"sent-{len(list(tmp_path.glob('sent-*')))}"
        lines = print_records(place, CASES, boot=number, name=arm, board=BOARD)
        log += [boot_lines(2 * number), lava_log.shell(2 * number + 1, lines)]
    return Story(log=[*log, end_lines()])


TURNS = ("baseline", "candidate", "candidate", "baseline", "baseline", "candidate")
LOOKS = (*WAIT, "--baseline", "kernel")


def told_in(outcome: Outcome, directory: Path, boot: int = 1, arm: str = "candidate") -> str:
    """Return the test of a boot in which this came of every case."""
    return lava_log.shell(3 * boot, print_records(directory, CASES, boot=boot, name=arm, board=BOARD, outcome=outcome))


HANG = Outcome(state=State.HANG, message="the target hung during the measurement")
SPLAT = "[   60.000000] WARNING: possible circular locking dependency detected"
POWER = boot(5) + result("reset-device", "fail") + end_lines("Infrastructure", "reset-device failed")


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        pytest.param(HANG, "hang", marks=_LONG),
        (Outcome(state=State.FAULT, message="the kernel died during the measurement", faults=scan(PANIC[0])), None),
        pytest.param(replace(measured_outcome(), faults=scan(SPLAT)), None, marks=_LONG),
    ],
    ids=["hang", "panic", "lockdep"],
)
def test_a_failure_that_was_measured_before_the_lab_failed_is_not_measured_away(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: Outcome, kind: str | None
) -> None:
    bad = [deploy(1), boot_lines(2), told_in(outcome, tmp_path / "bad"), deploy(4), POWER]
    good = [deploy(1), boot_lines(2), told_in(measured_outcome(), tmp_path / "one")]
    good += [deploy(4), boot_lines(5), told_in(measured_outcome(), tmp_path / "two", 2), end_lines()]
    server.stories += [Story(log=bad, health="Incomplete"), Story(log=good)]
    assert main.main([*WAIT, "--boots", "2"]) == 1
    assert len(server.jobs) == 1
    assert (kind or "kernel fault") in {one["kind"] for one in verdicts() if one["status"] == "FAIL"}
    assert "trying again could only hide this: latency/cyclictest:idle: " in capsys.readouterr().err


@_LONG
def test_a_baseline_that_hung_before_the_lab_failed_is_measured_again(server: LavaServer, tmp_path: Path) -> None:
    bad = [deploy(1), boot_lines(2), told_in(HANG, tmp_path / "bad", arm="baseline"), deploy(4), POWER]
    server.stories += [Story(log=bad, health="Incomplete"), compared(tmp_path, TURNS[:2])]
    assert main.main([*LOOKS, "--boots", "1"]) == 5
    assert len(server.jobs) == 2


LOST = Outcome(state=State.LAB, message="the console socket://lab:7001 closed: connection reset")
FROZEN = Outcome(state=State.LAB, message="no shell came up: the target does not answer")


@pytest.mark.parametrize(
    ("second", "status", "code", "boots"),
    [
        ((measured_outcome(), LOST), "DONE", 5, 2),
        pytest.param((measured_outcome(), FROZEN), "MISS", 3, 3, marks=_LONG),
        pytest.param((replace(measured_outcome(), faults=scan(SPLAT)), LOST), "FAIL", 1, 3, marks=_LONG),
    ],
    ids=["console lost", "frozen", "with a failure in it"],
)
def test_a_pair_that_the_lab_broke_is_left_out_and_no_longer_owed(
    server: LavaServer, tmp_path: Path, second: tuple[Outcome, Outcome], status: str, code: int, boots: int
) -> None:
    story, outcomes = (
        [deploy(1)],
        [measured_outcome(), measured_outcome(), *second, measured_outcome(), measured_outcome()],
    )
    for number, (arm, outcome) in enumerate(zip(TURNS, outcomes, strict=True), 1):
        story += [boot_lines(3 * number), told_in(outcome, tmp_path / str(number), number, arm)]
    server.stories.append(Story(log=[*story, end_lines()]))
    assert main.main([*LOOKS, "--boots", "3"]) == code
    assert {one["status"] for one in verdicts()} - {"DONE"} == {status} - {"DONE"}
    place = Place(records=Path("report/records"), board=BOARD, arm="candidate", case=CASES[0].name)
    assert planned.read(place).boots == boots


@_LONG
def test_what_follows_a_pair_that_was_left_out_has_numbers_of_its_own(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [Measure((CASES[0].name,), 1, 3), None]
    monkeypatch.setattr(StoredComparison, "missing_pairs", lambda _self, _empty_cases=(): answers.pop(0))
    story, outcomes = (
        [deploy(1)],
        [measured_outcome(), measured_outcome(), measured_outcome(), LOST, measured_outcome(), measured_outcome()],
    )
    for number, (arm, outcome) in enumerate(zip(TURNS, outcomes, strict=True), 1):
        story += [boot_lines(3 * number), told_in(outcome, tmp_path / str(number), number, arm)]
    server.stories += [Story(log=[*story, end_lines()]), compared(tmp_path, TURNS[:2])]
    main.main(LOOKS)
    assert len(server.jobs) == 2
    found = sorted((one.arm, one.pair or 0) for one in record.read_all(Path("report/records")))
    assert found == [(arm, pair) for arm in ("baseline", "candidate") for pair in (1, 3, 4)]


@_LONG
def test_parts_that_nobody_came_to_are_missed(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasurementRequest, "usual_s", 1800.0)
    image = hashlib.sha256(Path("kernel/Image").read_bytes()).hexdigest()
    measured = lava_log.shell(3, print_records(tmp_path / "one", CASES, board=BOARD, image=image))
    broken = [deploy(1), boot_lines(2), measured, deploy(4), POWER]
    server.stories += [Story(log=list(broken), health="Incomplete") for _ in range(3)]
    assert main.main([*WAIT, "--boots", "6"]) == 3
    (missing,) = (one["sentence"] for one in verdicts() if one["kind"] == "missing")
    assert missing.startswith("4 of 6 boots left no record")


@_LONG
@pytest.mark.parametrize("error", [InfrastructureError, ConfigError])
def test_a_server_that_is_lost_or_refuses_a_job_takes_no_failure_with_it(
    error: type[RtgateError],
    server: LavaServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(MeasurementRequest, "usual_s", 1800.0)
    run = Submission.run

    def lose_the_second(submission: Submission) -> tuple[Attempt, ...]:
        if server.jobs:
            raise error("the server does not answer")
        return run(submission)

    monkeypatch.setattr(Submission, "run", lose_the_second)
    story = [deploy(1)]
    for number, (arm, outcome) in enumerate(zip(TURNS, (measured_outcome(), HANG), strict=False), 1):
        story += [boot_lines(3 * number), told_in(outcome, tmp_path / str(number), number, arm)]
    server.stories.append(Story(log=[*story, end_lines()]))
    assert main.main([*LOOKS, "--boots", "3"]) == 1
    assert "not measured on: the server does not answer" in capsys.readouterr().err
    assert {"FAIL", "MISS"} <= {one["status"] for one in verdicts()}


@_LONG
def test_no_part_of_a_comparison_runs_on_another_board(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MeasurementRequest, "usual_s", 1800.0)
    server.devices.append({**server.devices[0], "hostname": "another"})
    server.stories.append(compared(tmp_path, TURNS[:2]))
    assert main.main([*LOOKS, "--boots", "3"]) == 3
    assert len(server.jobs) == 1
    assert "not measured on: no tag keeps a job on the board that the others ran on" in capsys.readouterr().err


@_LONG
def test_equal_boots_end_at_the_first_look_and_it_is_written_down(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stories.append(compared(tmp_path, TURNS))
    assert main.main(LOOKS) == 5  # nobody has qualified the board
    assert len(server.jobs) == 1
    for arm in ("baseline", "candidate"):
        place = Place(records=Path("report/records"), board=BOARD, arm=arm, case=CASES[0].name)
        assert planned.read(place).schedule == Schedule(steps=RELEASE.steps, taken=(3,))
        assert sorted(one.pair or 0 for one in record.read_all(Path("report/records")) if one.arm == arm) == [1, 2, 3]
    (said,) = [one["sentence"] for one in verdicts() if one["kind"] == "not proven"]
    assert " in 3 pairs" in said


def test_what_is_open_gets_a_further_job(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [Measure((CASES[0].name,), 3, 6), None]
    monkeypatch.setattr(StoredComparison, "missing_pairs", lambda _self, _empty_cases=(): answers.pop(0))
    server.stories += [compared(tmp_path, TURNS), compared(tmp_path, TURNS)]
    main.main(LOOKS)
    assert len(server.jobs) == 2
    assert f"measuring on: 3 more pairs of {CASES[0].name}" in capsys.readouterr().err
    found = list(record.read_all(Path("report/records")))
    assert sorted((one.arm, one.pair or 0) for one in found) == [
        (arm, pair) for arm in ("baseline", "candidate") for pair in range(1, 7)
    ]
    place = Place(records=Path("report/records"), board=BOARD, arm="candidate", case=CASES[0].name)
    assert (planned.read(place).boots, planned.read(place).schedule.taken) == (6, (3, 6))
    assert planned.missing(place, [one for one in found if one.arm == "candidate"]) == ()


@_LONG
def test_the_budget_of_the_board_allows_no_further_job(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        StoredComparison, "missing_pairs", lambda _self, _empty_cases=(): Measure((CASES[0].name,), 3, 6)
    )
    server.stories.append(compared(tmp_path, TURNS))
    main.main([*LOOKS, "--budget", "1min"])
    assert len(server.jobs) == 1
    assert "board-minutes more; " in capsys.readouterr().err


def test_a_budget_that_is_not_a_duration_is_refused(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WAIT, "--budget", "soon"]) == 2
    assert "not a duration" in capsys.readouterr().err
    assert server.jobs == {}
