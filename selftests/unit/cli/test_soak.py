# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm
from selftests.unit.cli.conftest import Lab

from rtgate.cli import main, soak
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Chunk, Place
from rtgate.tools.cyclictest import Cyclictest
from rtgate.units import Quantity
from rtgate.workflow.soak import spec as orders
from rtgate.workflow.soak.progress import SoakProgress

ASKED = ["soak", "--board", "virt-arm64", "--case", "latency/cyclictest:idle", "--for", "6s", "--chunk", "2s"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["soak", "--for", "6s"], "a soak needs --board, --console, --case"),
        ([*ASKED, "--console", "tcp:h:1", "--chunk", "7s"], "longer than the soak"),
        ([*ASKED, "--console", "virtual", "--kernel", "kernel"], "needs a live console"),
        ([*ASKED, "--console", "telex:1"], "unknown console"),
        ([*ASKED, "--console", "tcp:h:1", "--case", "latency/cyclictest"], "is not a case"),
        ([*ASKED, "--console", "tcp:h:1", "--case", "signal/cyclictest:idle"], "no suite measures"),
        ([*ASKED, "--console", "tcp:h:1", "--case", "latency/cyclictest:lazy"], "unknown load"),
        (
            [*ASKED, "--console", "tcp:h:1", "--case", "scheduling/rt-migrate-test:idle"],
            "virt-arm64 cannot run scheduling/rt-migrate-test:idle: needs two CPUs",
        ),
        (["soak", "--continue", "nowhere"], "no soak under way"),
        (["soak", "--stop", "nowhere"], "no soak under way"),
        (["soak", "--continue", "nowhere", "--console", "tcp:h:1", "--patience", "1min"], "no soak under way"),
        (
            [
                *ASKED,
                "--tuning",
                "isolated",
                "--flavour",
                "generic",
                "--kernel",
                "k",
                "--records",
                "r",
                "--continue",
                "x",
            ],
            "--board, --case, --chunk, --records, --flavour, --tuning, --for: only where a soak begins",
        ),
        (["soak", "--stop", "x", "--chunk", "10min"], "--chunk: only where a soak begins, not with --stop"),
        (["soak", "--stop", "x", "--console", "host", "--kernel", "k"], "--console, --kernel: nothing is measured any"),
    ],
)
def test_mistakes_are_the_user_s(
    lab: Lab, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert 2 == main.main(words)
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.rglob("soak.json"))
    assert not Path("nowhere").exists()


def test_a_target_that_is_not_reached_leaves_nothing_behind(
    lab: Lab, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert 3 == main.main([*ASKED, "--console", "serial:nowhere"])
    assert "the target was not reached" in capsys.readouterr().err
    assert not list(tmp_path.rglob("soak.json"))


def test_a_soak_is_ended_without_its_board_its_console_or_its_kernel(lab: Lab, tmp_path: Path) -> None:
    """A board that rtgate starts is gone, and who ends the soak may be somebody else."""
    case, live, records = Case(suite="latency", tool=Cyclictest(), load="idle"), arm(FakeTarget()), tmp_path / "soak"
    order = orders.begin(case, live, "host", 3, records)
    chunk, outcome = measure(case, live, 1)
    record = replace(chunk, seed=None, chunk=Chunk(soak=order.nonce, number=1))
    records_file.write(record, outcome.files, outcome.console, records)
    assert main.main(["soak", "--stop", str(records)]) not in {2, 3}
    assert not orders.exists(records)
    assert planned.read(Place(records=records, board=order.board, arm="candidate", case=case.name)).boots == 1


def test_who_interrupts_a_soak_in_qemu_reads_how_it_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stop(_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(soak, "_measure", stop)
    assert main.main([*ASKED, "--console", "host", "--kernel", "kernel"]) == 130
    directory = tmp_path / "soak"
    assert f"rtgate soak --continue {directory} --kernel DIR (or --stop {directory})" in capsys.readouterr().err
    assert main.main([*ASKED, "--console", "host", "--kernel", "kernel"]) == 2
    assert f"`rtgate soak --continue {directory} --kernel DIR`, or --stop {directory}" in capsys.readouterr().err


def test_progress_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, live = Case(suite="latency", tool=Cyclictest(), load="hackbench"), arm(FakeTarget())
    order = orders.begin(case, live, "tcp:h:1", 3, tmp_path)
    first, second = (
        replace(measure(case, live, number)[0], chunk=Chunk(soak=order.nonce, number=number)) for number in (1, 2)
    )
    running = SoakProgress(order, [("latency", Quantity.parse("40 virtual us"))])
    running.begin([first])
    running.show_chunk(second, 3661)
    said = capsys.readouterr().err
    assert re.search(r"3 chunks of 2 s, 1 here already\n", said)
    assert re.search(r"\[2/3, 1:01:01 left\] chunk 2: max 45\.4 virtual us .*; so far max 45\.4 virtual us", said)
    assert re.search(r"; latency: 8 of \d+ over 40 virtual us", said)
    without = SoakProgress(order, [])
    without.show_chunk(first, 0)
    assert "99.9 % within" in capsys.readouterr().err
