# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.unit.lava.lab.test_check import DICTIONARY

from rtgate.cli import lab_check
from rtgate.cli.main import main
from rtgate.lava.client.access import Access
from rtgate.lava.client.server import Device, Job
from rtgate.lava.job.server_definition import Definition

JOB = Job(
    **dict.fromkeys(("name", "submitter", "device_type", "device", "priority", "submitted", "started", "ended"), ""),
    number=7,
    state="Finished",
    health="Complete",
    comment="",
    definition=Definition(""),
)


@dataclass
class FakeLab:
    """Answers as `client.Lava`."""

    access: Access = field(default_factory=lambda: Access("https://lab.example", None))
    types: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    dictionaries: Mapping[str, Any] = field(default_factory=dict)
    job_health: str = "Complete"
    job_device: str = "evb-01"
    interrupted: bool = False
    submitted: list[str] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)

    def version(self) -> tuple[int, int]:
        return (2023, 1)

    def whoami(self) -> str:
        return "gate"

    def knows(self, device_type: str) -> bool:
        return device_type in self.types

    def devices(self, device_type: str) -> tuple[Device, ...]:
        return self.types[device_type]

    def health_check(self, device_type: str) -> str:
        return "job_name: check" if device_type in self.checks else ""

    def dictionary(self, device: str) -> Mapping[str, Any]:
        found = self.dictionaries[device]
        assert isinstance(found, dict)
        return found

    def submit(self, definition: str, nonce: str) -> int:
        assert nonce in definition
        self.submitted.append(definition)
        return 7

    def job(self, number: int) -> Job:
        assert number == 7
        if self.interrupted:
            raise KeyboardInterrupt
        return replace(JOB, health=self.job_health, device=self.job_device)

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)


def device(name: str, **changes: Any) -> Device:
    facts: dict[str, Any] = {
        "device_type": "board",
        "state": "Idle",
        "health": "Good",
        "worker": "w1",
        "online": True,
        "tags": (),
        **changes,
    }
    return Device(name=name, **facts)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    made = FakeLab(
        types={"rk3568-evb1": (device("evb-01"),)}, checks=("rk3568-evb1",), dictionaries={"evb-01": DICTIONARY}
    )
    monkeypatch.setattr(lab_check, "Lava", lambda _, **more: made)
    monkeypatch.setattr(lab_check, "access", lambda _: made.access)
    return made


def test_a_lab_that_lacks_nothing(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab-check"]) == 0
    said = capsys.readouterr().out
    assert "https://lab.example: LAVA 2023.01, gate" in said
    assert "evb-01: Idle, health Good, online" in said
    assert "    docker: not known from here: only a job shows whether the worker has docker and the image" in said
    assert "docker: yes" not in said  # nobody looked
    assert "    board: yes\n" in said
    assert "unconfirmed: load addresses: " in said
    assert "rk3588" not in said
    assert lab.submitted == []


def test_what_is_missing_is_told_and_the_other_way_still_counts(
    lab: FakeLab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.dictionaries = {"evb-01": {**DICTIONARY, "commands": {"hard_reset": "reset"}}}
    assert main(["lab-check", "--board", "rk3568-evb1"]) == 0
    said = capsys.readouterr().out
    assert "    docker: no\n      a test gets no console" in said
    assert "    board: yes\n" in said


def test_a_board_that_no_way_leads_to_ends_with_3(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.dictionaries = {"evb-01": {}}
    assert main(["lab-check"]) == 3
    assert "    board: no\n      it cannot boot by u-boot" in capsys.readouterr().out


@pytest.mark.parametrize("changes", [{"online": False}, {"health": "Maintenance"}, {"health": "Bad"}])
def test_a_device_that_takes_no_jobs_is_no_way(lab: FakeLab, changes: dict[str, Any]) -> None:
    lab.types = {"rk3568-evb1": (device("evb-01", **changes),)}
    assert main(["lab-check"]) == 3


def test_a_board_that_the_lab_does_not_have(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab-check", "--board", "rk3588-evb1"]) == 3
    assert "does not know this device type" in capsys.readouterr().out
    lab.types = {}
    assert main(["lab-check"]) == 2
    assert "the lab has none of the device types" in capsys.readouterr().err
    assert main(["lab-check", "--board", "virt-arm64"]) == 2


def test_a_type_without_devices_or_health_check(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.checks = ()
    assert main(["lab-check"]) == 0
    assert "no health check: " in capsys.readouterr().out
    lab.types = {"rk3568-evb1": ()}
    assert main(["lab-check"]) == 3
    assert "no device of this type" in capsys.readouterr().out


@pytest.mark.parametrize(("health", "said"), [("Complete", "docker: yes"), ("Incomplete", "job 7 ended Incomplete")])
def test_a_probe_tells_about_docker(lab: FakeLab, capsys: pytest.CaptureFixture[str], health: str, said: str) -> None:
    lab.job_health = health
    assert main(["lab-check", "--probe"]) == 0
    assert said in capsys.readouterr().out
    (definition,) = lab.submitted
    assert yaml.safe_load(definition)["device_type"] == "rk3568-evb1"


def test_a_probe_tells_about_the_worker_that_ran_it(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.types = {"rk3568-evb1": (device("evb-01"), device("evb-02", worker="w2"), device("evb-03"))}
    lab.dictionaries = dict.fromkeys(("evb-01", "evb-02", "evb-03"), DICTIONARY)
    lab.job_device = "evb-02"
    assert main(["lab-check", "--probe"]) == 0
    assert len(lab.submitted) == 1
    answers = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    docker: ")]
    elsewhere = "docker: not known from here: job 7 ran on the worker w2"
    assert answers == [elsewhere, "docker: yes", elsewhere]


def test_a_probe_that_is_interrupted_leaves_no_job(lab: FakeLab) -> None:
    lab.interrupted = True
    assert main(["lab-check", "--probe"]) == 130
    assert lab.cancelled == [7]


def test_what_nobody_knows_is_no_way(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgate.lava.lab.check.missing", lambda _, way: ("no ramdisk",) if way == "board" else ())
    assert main(["lab-check"]) == 3
    assert main(["lab-check", "--probe"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--kernel", "URL"],
        ["--transport", "board"],
        ["--image", "rtgate:x"],
        ["--health-check", "rk3568-evb1", "--probe"],
        ["--health-check", "rk3568-evb1", "--server", "lab"],
    ],
)
def test_options_that_would_say_nothing(lab: FakeLab, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab-check", *words]) == 2
    assert f"leave out {words[-1] if len(words) == 3 else words[-2]}" in capsys.readouterr().err
    assert lab.submitted == []


def test_what_a_lab_says_cannot_steer_a_terminal(lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.dictionaries = {"evb-01": {"actions": {"boot": {"methods": {"\x1b]0;x\x07": None}}}}}
    main(["lab-check"])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "(its device type has: ?]0;x?)" in said


def test_a_health_check_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    url = "http://192.0.2.1/good"
    files = ["--kernel", f"{url}/Image", "--ramdisk", f"{url}/rootfs.cpio.gz", "--dtb", f"{url}/board.dtb"]
    assert main(["lab-check", "--health-check", "rk3568-evb1", *files]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["device_type"] == "rk3568-evb1"
    modules = f"{url}/modules.tar.xz"
    assert main(["lab-check", "--health-check", "rk3568-evb1", *files, "--modules", modules]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["actions"][0]["deploy"]["modules"] == {"url": modules, "compression": "xz"}
    assert main(["lab-check", "--health-check", "rk3568-evb1", *files[:4]]) == 2
    assert "rk3568-evb1-v10.dtb: give the URL of the kernel's with --dtb" in capsys.readouterr().err
    assert main(["lab-check", "--health-check", "rk3568-evb1"]) == 2
    assert "a kernel that is known to be good" in capsys.readouterr().err


def test_board_health_prints_results_that_lava_stores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("rtgate.lava.lab.health._CLOCK_S", 1.0)
    monkeypatch.setattr("rtgate.lava.lab.health._CLOCK_PPM", 1e9)
    monkeypatch.setattr("rtgate.lava.lab.health._BOOT_S", 1e9)
    assert main(["board-health", "--board", "rk3568-evb1", "--console", "command:sh"]) == 0
    said = capsys.readouterr().out
    for name in ("power", "line", "clock"):
        assert f"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=board.{name} RESULT=pass UNITS=" in said
    assert "TESTRAISE" not in said
    monkeypatch.setattr("rtgate.lava.lab.health._BOOT_S", 0.0)
    assert main(["board-health", "--board", "rk3568-evb1", "--console", "command:sh"]) == 1
    said = capsys.readouterr().out
    assert "TEST_CASE_ID=board.power RESULT=fail" in said
    assert "<LAVA_SIGNAL_TESTRAISE infra: " in said


def test_board_health_outside_of_a_job_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LAVA_CONNECTION_COMMAND", "LAVA_CONNECT_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    assert main(["board-health", "--board", "rk3568-evb1"]) == 2
    said = capsys.readouterr().out
    assert "needs LAVA_CONNECTION_COMMAND" in said
    assert "TEST_CASE_ID=board.health RESULT=fail" in said
