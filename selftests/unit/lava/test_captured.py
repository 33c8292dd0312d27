# SPDX-License-Identifier: MIT
"""Logs of a real server: `selftests/data/lava`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.lava.job.test_request import ORDER
from selftests.unit.lava.results.test_classify import job

from rtgate.lava.client.submission import Attempt
from rtgate.lava.results import log
from rtgate.lava.results.classify import Blame, classify
from rtgate.lava.results.fetch import fetch
from rtgate.lava.results.phases import section
from rtgate.measure.case import Case
from rtgate.records import record as records_file
from rtgate.tools.cyclictest import Cyclictest

DATA = Path(__file__).parents[2] / "data" / "lava"
CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench", "stress-ng"))
EXPECTED = replace(
    ORDER,
    board="lab-virt-arm64",
    cases=CASES,
    kernels={"candidate": ORDER.kernels["candidate"]},
    boots=("candidate",),
    profile="smoke",
).expected()


def captured(name: str) -> tuple[log.LogLine, ...]:
    return log.parse((DATA / f"2023.01-{name}.log").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "health", "blame", "state", "told"),
    [
        ("complete", "Complete", Blame.NOBODY, None, ""),
        ("panic-cancelled", "Canceled", Blame.PRODUCT, "no boot", 'Unable to mount root fs on "/dev/ram0"'),
        ("no-kernel-image", "Incomplete", Blame.PRODUCT, "no boot", "refuses the image: Bad Linux ARM64 Image magic!"),
        ("silent-boot", "Incomplete", Blame.SILENT, "no boot", "its last line: [ 5.109927] Run /init as init process"),
        ("ramdisk-broken", "Incomplete", Blame.LAB, "lab", "(tftp-deploy): unable to decompress file"),
        ("no-container-image", "Incomplete", Blame.LAB, "lab", "docker does not run there, or has no such image"),
        ("test-timeout", "Incomplete", Blame.LAB, "lab", "container: lava-docker-test-shell timed out"),
    ],
)
def test_whose_fault(name: str, health: str, blame: Blame, state: str | None, told: str) -> None:
    found = classify(job(health), captured(name))
    assert (found.blame, found.state) == (blame, state)
    assert told in found.sentence


def test_every_capture_is_in_the_table() -> None:
    sources = (DATA / "SOURCES.md").read_text()
    for path in DATA.glob("*.log"):
        assert f"`{path.name}`" in sources
        assert not [line for line in log.parse(path.read_text()) if line.level == "unreadable"]


def test_sections_of_a_real_job() -> None:
    begun = [one.action for line in captured("complete") if (one := section(line))]
    assert begun == ["tftp-deploy", "uboot-action", "lava-docker-test", "finalize"]


def test_records_of_a_real_job(tmp_path: Path) -> None:
    lines = captured("complete")
    finished = replace(job("Complete"), device="lab-virt-arm64-01")
    found = fetch(EXPECTED, Attempt(job=finished, lines=lines, ending=classify(finished, lines)), tmp_path)
    assert (found.measured, found.broken, found.notes) == (3, 0, ())
    for record in records_file.read_all(tmp_path):
        assert (record.state, record.environment.kernel_release) == ("measured", "6.12.117")
        assert record.environment.device == "lab-virt-arm64-01"
        assert "U-Boot 2023.01" in record.environment.firmware


@pytest.mark.parametrize(("name", "state"), [("panic-cancelled", "no boot"), ("test-timeout", "lab")])
def test_boots_that_broke_become_records(name: str, state: str, tmp_path: Path) -> None:
    lines = captured(name)
    finished = job("Incomplete")
    attempt = Attempt(job=finished, lines=lines, ending=classify(finished, lines))
    assert fetch(EXPECTED, attempt, tmp_path).broken == 3
    for record in records_file.read_all(tmp_path):
        assert record.state == state
        assert record.directory is not None
        assert "Linux version 6.12.117" in (record.directory / "console.log").read_text()
