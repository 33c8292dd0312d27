# SPDX-License-Identifier: MIT
"""Soaks whose consoles, workers, targets and disks fail: what was measured stays, and nothing is green by silence."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from selftests.faults import lines
from selftests.faults.carried import CASE
from selftests.faults.soaks import Bench, Console, closes, refuse, serve, striking_console
from selftests.faults.table import _PANIC, _WARNING
from selftests.faults.targets import GOOD, WORK, Blow, Machine, Stage, Target, lacking

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.verdict import Kind, Status
from rtgate.measure.observations import uname_flavour
from rtgate.workflow.soak import spec as orders

pytestmark = [
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
# The second time that the tool runs, and only then.
SECOND = "[ ! -e ../../second ] && [ -e ../../first ] && : >../../second && {act}; : >../../first; " + GOOD
Made = Callable[..., AbstractContextManager[Bench]]
_LONG = pytest.mark.long("the same soak in another shell, or ended in another way")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage.make() as made:
        yield made


@pytest.fixture
def bench(stage: Stage, tmp_path: Path) -> Iterator[Bench]:
    with Bench.make(stage, tmp_path / "records", Target()) as made:
        yield made


@pytest.fixture
def bench_of(stage: Stage, tmp_path: Path) -> Made:
    return lambda target: Bench.make(stage, tmp_path / "records", target)


def states(bench: Bench) -> list[tuple[str, str]]:
    return [(record.boot, record.state) for record in bench.all_records]


def measured(*numbers: int) -> list[tuple[str, str]]:
    return [(f"chunk {number}", "measured") for number in numbers]


PRINTK = ["4", "4", "1", "7"]


@pytest.mark.parametrize(
    "shell", ["dash", "busybox", *(pytest.param(name, marks=_LONG) for name in ("bash", "android", "odd prompt"))]
)
def test_every_chunk_becomes_a_record(bench_of: Made, shell: str) -> None:
    with bench_of(Target(shell=shell)) as bench:
        assert "complete" == bench.chunks(3).measure()
        assert measured(1, 2, 3) == states(bench)
        assert [Status.PASS] == [verdict.status for verdict in bench.verdicts]
        assert ["chunk 1", "chunk 2", "chunk 3"] == bench.seen
        assert PRINTK == bench.leftovers
        assert not (bench.records / "soak.json").exists()


@pytest.mark.parametrize("shell", ["dash", *(pytest.param(name, marks=_LONG) for name in ("busybox", "android"))])
def test_a_console_that_closes_in_mid_chunk_is_opened_again(bench_of: Made, shell: str) -> None:
    with bench_of(Target(shell=shell)) as bench:
        bench.openings = [closes(), refuse]
        assert "complete" == bench.chunks(4).measure()
        assert measured(*range(1, 5)) == states(bench)
        assert [Status.PASS] == [verdict.status for verdict in bench.verdicts]
        assert any("the target is out of reach" in text for text in bench.told)
        assert bench.told[-1] == "the target is back"
        # The plan that was under way has put its settings back, and nothing of it is left.
        assert PRINTK == bench.leftovers


def test_a_console_that_stays_away_can_be_gone_on_with(bench: Bench) -> None:
    bench.openings = [closes(), refuse, refuse]
    with pytest.raises(InfrastructureError, match="--continue"):
        bench.chunks(3, patience_s=0.1).measure()
    assert measured(1) == states(bench)
    assert "complete" == bench.chunks(3).measure()
    assert measured(1, 2, 3) == states(bench)
    assert PRINTK == bench.leftovers


def test_a_damaged_frame_is_asked_for_again(bench: Bench) -> None:
    source = random.Random(3)

    def hostile(machine: Machine) -> lines.Line:
        return lines.Line(Console(machine), lines.combine(lines.drops(source, 3000), lines.flips(source, 3000)))

    bench.openings = [hostile, hostile]
    assert "complete" == bench.chunks(3).measure()
    assert measured(1, 2, 3) == states(bench)
    assert sum(record.line["damaged"] + record.line["repeated"] for record in bench.all_records) > 0
    assert [Status.PASS] == [verdict.status for verdict in bench.verdicts]


@pytest.mark.parametrize("loudly", [pytest.param(True, marks=_LONG), False])
def test_a_target_that_starts_again_failed(bench: Bench, loudly: bool) -> None:
    bench.openings = [striking_console(Blow(then="boots", loudly=loudly))]
    assert "another boot_id" in (why := bench.chunks(9).measure()) or "started again" in why
    assert [*measured(1), ("chunk 2", "kernel fault")] == states(bench)
    assert Kind.FAULT in {verdict.kind for verdict in bench.verdicts if verdict.status is Status.FAIL}


def test_a_panic_belongs_to_its_chunk(bench: Bench) -> None:
    bench.openings = [striking_console(Blow(says=_PANIC))]
    assert "Kernel panic" in bench.chunks(9).measure()
    assert ["panic"] == [fault.kind for fault in bench.all_records[-1].faults]
    assert Kind.FAULT in {verdict.kind for verdict in bench.verdicts if verdict.status is Status.FAIL}


def test_a_target_that_falls_silent_hangs(bench: Bench) -> None:
    bench.openings = [striking_console(Blow(then="silent"))]
    assert "hung" in bench.chunks(9, patience_s=1).measure()
    assert [*measured(1), ("chunk 2", "hang")] == states(bench)
    assert Kind.HANG in {verdict.kind for verdict in bench.verdicts if verdict.status is Status.FAIL}


def test_a_fault_in_the_kernel_log_belongs_to_its_chunk(bench_of: Made) -> None:
    with bench_of(Target(tool=SECOND.format(act=": >../../warned"))) as bench:
        place = bench.machine._place
        (place / "warning").write_text(_WARNING)
        dmesg = place / "bin" / "dmesg"
        # What is said later follows, as in a kernel's log.
        warning = f"[ ! -e {WORK}/warned ] || cat {place}/warning"
        dmesg.write_text(dmesg.read_text().replace("; exit 0", f"; {warning}; exit 0"))
        assert "complete" == bench.chunks(4).measure()
        assert [[], ["warning"], [], []] == [[fault.kind for fault in record.faults] for record in bench.all_records]
        failed = [verdict for verdict in bench.verdicts if verdict.status is Status.FAIL]
        assert [("chunk 2", Kind.FAULT)] == [(verdict.boot, verdict.kind) for verdict in failed]


def test_a_full_disk_ends_the_soak_and_says_so(bench_of: Made) -> None:
    fill = "cat /dev/zero >../../fill 2>/dev/null"
    with bench_of(Target(tool=SECOND.format(act=fill))) as bench:
        with pytest.raises(InfrastructureError, match=r"disk is full.*--continue"):
            bench.chunks(5, patience_s=0.1).measure()
        assert measured(1) == states(bench)
        said = [verdict.sentence for verdict in bench.verdicts if verdict.status is Status.MISS]
        assert "4 of 5 boots" in said[0]


def test_a_target_that_cannot_soak_is_refused(bench_of: Made) -> None:
    with bench_of(Target(shell="bare busybox")) as bench:
        with pytest.raises(InfrastructureError, match="lacks cksum"):
            bench.chunks(3).measure()
        assert not (bench.records / "soak.json").exists()


def test_a_directory_has_one_soak_at_a_time(bench: Bench) -> None:
    bench.openings = [closes(), refuse, refuse]
    with pytest.raises(InfrastructureError, match="--continue"):
        bench.chunks(5, patience_s=0.1).measure()
    with pytest.raises(ConfigError, match="has not ended"):
        orders.begin(CASE, bench.arm, "bench", 3, bench.records)
    orders.give_up(orders.read(bench.records), bench.records)
    assert [Status.PASS] == [verdict.status for verdict in bench.verdicts]


# --- the command, over a console that other processes reach


BOARD = """\
# SPDX-License-Identifier: MIT
description: the fault bench
soc: none
arch: arm64
cpus: 1
memory: 512 MiB
console: {device: ttyS0, baud: 115200}
build: virt-arm64-preempt_rt
work_directory: WORK
"""


def site_of(directory: Path, work: object) -> Path:
    (directory / "site" / "boards").mkdir(parents=True)
    (directory / "site" / "boards" / "bench.yaml").write_text(BOARD.replace("WORK", str(work)))
    return directory / "site"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return site_of(tmp_path, WORK)


def rtgate(site: Path, *words: object) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "rtgate", "--site", site, "soak", *words]
    return subprocess.Popen(
        list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    )


def first_chunk(records: Path) -> None:
    end = time.monotonic() + 60
    while not list(records.rglob("001/record.json")):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=_LONG)])
def test_a_worker_that_is_gone_is_followed_by_another(bench: Bench, site: Path, number: signal.Signals) -> None:
    records = bench.records
    ran = ("--flavour", uname_flavour(os.uname().version))
    with serve(bench.machine) as port:
        asked = ("--board", "bench", "--console", f"tcp:127.0.0.1:{port}", "--case", "latency/cyclictest:idle")
        worker = rtgate(site, *asked, "--for", "4s", "--chunk", "1s", "--records", records, *ran)
        first_chunk(records)
        time.sleep(0.7)
        worker.send_signal(number)
        _, said = worker.communicate(timeout=60)
        print(said)
        if number is signal.SIGINT:
            assert 130 == worker.returncode
            assert re.search(r"interrupted, and nothing measures any more: rtgate soak --continue \S+", said)
        again = rtgate(site, "--continue", records)
        shown, said = again.communicate(timeout=120)
        print(said, shown)
    assert measured(1, 2, 3, 4) == states(bench)
    assert len({record.chunk for record in bench.all_records}) == 4
    assert (records / "verdict.json").exists()
    # What stands in for cyclictest has no real-time threads: the evidence of every chunk is judged as ever.
    assert 4 == again.returncode
    assert "invalid measurement in chunk 4 (threads)" in shown
