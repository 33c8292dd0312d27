# SPDX-License-Identifier: MIT
"""The transport `board`: a shell that nobody can ask carries out plans, and a log that lost lines is read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from selftests.faults import targets
from selftests.faults.targets import Blow, Machine, Stage, Target, lacking
from selftests.lava_records import is_complete

from rtgate.board import boards
from rtgate.errors import TransportError
from rtgate.lava.in_job import on_board
from rtgate.lava.results import records
from rtgate.lava.results.expected import Expected
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan as made
from rtgate.measure.profiles import Lengths, Profile
from rtgate.records import record as records_file
from rtgate.records.record import KernelIdentity, Record
from rtgate.tools.cyclictest import Cyclictest

pytestmark = [
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
    pytest.mark.xdist_group("on board"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
KERNEL = KernelIdentity(
    name="mine", flavour="preempt_rt", release="", image_sha256="a" * 64, source="a tree", provenance="rtgate"
)
PROFILE = Profile(name="smoke", description="", lengths=Lengths(duration_s=1, seeds=(1,), boots=1))
CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench"))
LIMIT_S = 60.0
_LONG = pytest.mark.long("the same damage in other places")


@pytest.fixture(autouse=True)
def board(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the board's plans work where the target can write, and be short."""
    real = boards.board("virt-arm64")
    monkeypatch.setattr(boards, "board", lambda _: replace(real, work_directory=targets.WORK))
    monkeypatch.setattr(on_board, "profile", lambda *_: PROFILE)


def expected() -> Expected:
    board = boards.board("virt-arm64")
    arms = {"baseline": KERNEL, "candidate": KERNEL}
    return Expected(
        board=board, profile=PROFILE, tuning="default", cases=CASES, boots=("baseline", "candidate"), kernels=arms
    )


def carried_out(target: Target, number: int = 2, limit_s: float = LIMIT_S) -> list[str]:
    """Have a target carry out the steps of a boot, as LAVA's shell does; return the lines of its log."""
    steps = on_board.steps(expected(), number)
    with Stage.make() as stage:
        machine = stage.start(target, random.Random(1))
        assert isinstance(machine, Machine)
        script = stage.path / "run.sh"
        script.write_text("set -e\nset -x\n" + "\n".join(steps) + '\nset +x\necho "the end"\n')
        script.chmod(0o755)
        machine.write(f"sh {script}\n".encode())
        log, until = b"", time.monotonic() + limit_s
        while b"\nthe end" not in log and time.monotonic() < until:
            try:
                log += machine.read()
            except TransportError:
                break
        machine.close()
    # As LAVA's logger does it.
    return log.decode("latin-1").replace("\r", "").replace('"', '\\"').split("\n")


@cache
def good() -> tuple[str, ...]:
    return tuple(carried_out(Target(log="[    0.000000] Linux version 6.12")))


def found(log: list[str], directory: Path) -> tuple[records.DecodedRecords, dict[str, Record]]:
    decoded = records.decode(log, directory)
    return decoded, {one.case: one for one in records_file.read_all(directory)}


def test_what_the_board_measured_is_read_from_the_log(tmp_path: Path) -> None:
    decoded, cases = found(list(good()), tmp_path)
    assert is_complete(decoded), (decoded, good())
    assert sorted(cases) == ["latency/cyclictest:hackbench", "latency/cyclictest:idle"]
    one = cases["latency/cyclictest:idle"]
    assert (one.arm, one.state, one.kernel, one.machine["boot"]) == ("candidate", "measured", KERNEL, "2")
    assert one.directory is not None
    assert one.directory.name == "002"
    assert [m.name for m in one.measurements if m.name == "latency.max"] == ["latency.max"]
    assert one.faults == ()


def test_busybox_is_enough(tmp_path: Path) -> None:
    decoded, cases = found(carried_out(Target(shell="busybox")), tmp_path)
    assert is_complete(decoded)
    assert {one.state for one in cases.values()} == {"measured"}


def test_a_board_that_lacks_a_program_says_so(tmp_path: Path) -> None:
    _, cases = found(carried_out(Target(shell="bare busybox")), tmp_path)
    assert {one.state for one in cases.values()} == {"lab"}
    assert "the target lacks cksum" in cases["latency/cyclictest:idle"].message


def test_no_line_is_too_long_for_a_board(tmp_path: Path) -> None:
    assert max(len(line) for line in good() if "rtgate1" in line or " F" in line) < 800


# What becomes of a line that is hit.
DAMAGE: dict[str, Callable[[str], list[str]]] = {
    "lines lost": lambda line: [],
    "lines twice": lambda line: [line, line],
    "letters changed": lambda line: [line[: len(line) // 2] + "~" + line[len(line) // 2 + 1 :]],
    "messages in lines": lambda line: [line[:40] + "[   17.1] usb 1-1: new device", line[40:]],
}


def hit(log: list[str], source: random.Random) -> set[int]:
    """Return the numbers of lines that are hit: one in four, and never all copies of a frame: nothing repairs that."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(log):
        places.setdefault(line, []).append(number)
    spared = {source.choice(numbers) for numbers in places.values() if len(numbers) >= on_board.COPIES}
    return {number for number in range(len(log)) if source.random() < 0.25} - spared


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=_LONG) for seed in (2, 3))])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_is_repaired_from_the_copies(damage: str, seed: int, tmp_path: Path) -> None:
    log = list(good())
    places = hit(log, random.Random(seed))
    damaged = [one for number, line in enumerate(log) for one in (DAMAGE[damage](line) if number in places else [line])]
    decoded, cases = found(damaged, tmp_path)
    assert is_complete(decoded), decoded.damaged
    _, whole = found(list(good()), tmp_path / "whole")
    for name, record in cases.items():
        assert record.measurements == whole[name].measurements


def test_a_frame_of_which_all_copies_are_lost_is_refused(tmp_path: Path) -> None:
    nonce = next(line.split(" ")[3] for line in good() if line.startswith("rtgate: case 1 "))
    log = [line for line in good() if not line.startswith(f"{nonce} 2 ")]
    decoded, cases = found(log, tmp_path)
    assert not is_complete(decoded)
    assert cases["latency/cyclictest:idle"].state == "unreadable"
    assert "1 of " in cases["latency/cyclictest:idle"].message
    assert cases["latency/cyclictest:idle"].measurements == ()
    assert cases["latency/cyclictest:hackbench"].state == "measured"


def test_a_truncated_log_is_never_half_read(tmp_path: Path) -> None:
    middle = next(number for number, line in enumerate(good()) if line.startswith("rtgate: case 2 "))
    decoded, cases = found(list(good()[: middle + 2]), tmp_path)
    assert not is_complete(decoded)
    assert cases["latency/cyclictest:idle"].state == "measured"
    assert cases["latency/cyclictest:hackbench"].state == "unreadable"
    assert "ends" in cases["latency/cyclictest:hackbench"].message


def test_a_panic_is_the_kernels_and_what_follows_is_not_measured(tmp_path: Path) -> None:
    log = carried_out(Target(blow=Blow(says=targets.captured_fault("panic", "Kernel panic"))), limit_s=15)
    _, cases = found(log, tmp_path)
    assert cases["latency/cyclictest:idle"].state == "kernel fault", log
    assert "panic" in {fault.kind for fault in cases["latency/cyclictest:idle"].faults}
    assert cases["latency/cyclictest:hackbench"].state == "lab"


def test_silence_that_lava_timed_out_is_a_hang(tmp_path: Path) -> None:
    log = carried_out(Target(blow=Blow()), limit_s=15)
    records.decode(log, tmp_path / "told", hung=True)
    assert {one.case: one.state for one in records_file.read_all(tmp_path / "told")} == {
        "latency/cyclictest:idle": "hang",
        "latency/cyclictest:hackbench": "lab",
    }
    _, cases = found(log, tmp_path / "cut")
    assert cases["latency/cyclictest:idle"].state == "unreadable"


def test_plans_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = list(good())
    monkeypatch.setattr(on_board, "plan", lambda case, arm, number: replace(made(case, arm, number), seed=99))
    decoded, cases = found(log, tmp_path)
    assert (is_complete(decoded), cases) == (False, {})
    assert "not those of this rtgate" in decoded.damaged[0]
