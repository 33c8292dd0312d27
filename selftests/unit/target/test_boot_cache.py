# SPDX-License-Identifier: MIT
"""Boots that were made before: taken only where everything is equal, made again now and then, and compared."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.target.test_virtual import Lab, lab, plan_of

from rtgate.errors import ChangedError
from rtgate.target import boot_cache, qemu
from rtgate.target.boot_cache import AGAIN_EVERY, VARIABLE, BootCache, difference
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.virtual import VirtualBoard

__all__ = ["lab"]  # the fixture

DAY = 86_400


def day(seed: int, *, due: bool) -> float:
    """Return a moment of next year, on a day on which a seed's boots are made again, or are not."""
    first = int(time.time() / DAY) + 365
    days = (number * DAY + 1.0 for number in range(first, first + AGAIN_EVERY))
    return next(began for began in days if BootCache(Path(), began).is_due("", plan_of().case, seed) is due)


def boot(lab: Lab, plan: Plan | None = None, *, due: bool = False, board: VirtualBoard | None = None) -> Outcome:
    """Boot in a run that began after everything that was kept so far."""
    plan = plan or plan_of()
    kept_boots = BootCache(lab.directory / "kept", day(plan.seed, due=due))
    return replace(board or lab.board, boot_cache=kept_boots).run(plan)


def test_an_equal_boot_is_not_made_again(lab: Lab) -> None:
    first, second = boot(lab), boot(lab)
    assert len(lab.boots()) == 1
    assert "booted" not in first.machine
    assert second.machine.keys() - first.machine.keys() == {"booted", "taken"}
    assert replace(second, machine=first.machine) == first


CHANGES: dict[str, Callable[[Lab], tuple[Plan, VirtualBoard]]] = {
    "seed": lambda lab: (plan_of(seed=2), lab.board),
    "plan": lambda lab: (replace(plan_of(), argv=("stub", "-q")), lab.board),
    "command line": lambda lab: (replace(plan_of(), command_line="isolcpus=2"), lab.board),
    "kernel": lambda lab: (plan_of(), replace(lab.board, image=written(lab.directory / "Other", b"another kernel"))),
    "root file system": lambda lab: (
        plan_of(),
        replace(
            lab.board,
            rootfs=lambda _: replace(lab.image, archive=written(lab.directory / "other", b"another archive")),
        ),
    ),
    "QEMU": lambda lab: (plan_of(), of_another_qemu(lab)),
}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def of_another_qemu(lab: Lab) -> VirtualBoard:
    """The program changes, and calls itself as before."""
    program = lab.directory / "bin" / "qemu-system-aarch64"
    program.write_text(program.read_text() + "# patched\n")
    qemu.version.cache_clear()
    return lab.board


_LONG = pytest.mark.long("other changes of a boot")


@pytest.mark.parametrize("change", [name if name == "QEMU" else pytest.param(name, marks=_LONG) for name in CHANGES])
def test_a_boot_that_differs_in_anything_is_made(lab: Lab, change: str) -> None:
    boot(lab)
    plan, board = CHANGES[change](lab)
    found = boot(lab, plan, board=board)
    assert len(lab.boots()) == 2
    assert "booted" not in found.machine


def test_a_kernel_that_is_written_anew_at_its_place_is_another_one(lab: Lab) -> None:
    boot(lab)
    (lab.directory / "Image").write_bytes(b"Kernel")
    boot(lab)
    assert len(lab.boots()) == 2


def test_a_file_that_the_board_names_is_part_of_the_boot(lab: Lab) -> None:
    """A device tree, say: its name stays, its content changes."""
    qemu_ = lab.board.board.qemu
    assert qemu_ is not None
    tree = written(lab.directory / "board.dtb", b"one tree")
    named = replace(lab.board.board, qemu=replace(qemu_, arguments=(*qemu_.arguments, "-dtb", str(tree))))
    board = replace(lab.board, board=named)
    assert "booted" not in boot(lab, board=board).machine
    assert "booted" in boot(lab, board=board).machine
    tree.write_bytes(b"another tree")
    assert "booted" not in boot(lab, board=board).machine


@pytest.mark.parametrize("option", ["-drive", "-netdev", "-virtfs"])
def test_what_this_machine_reaches_into_is_made_again(lab: Lab, option: str) -> None:
    qemu_ = lab.board.board.qemu
    assert qemu_ is not None
    open_ = replace(lab.board.board, qemu=replace(qemu_, arguments=(*qemu_.arguments, option, "x")))
    boot(lab, board=replace(lab.board, board=open_))
    boot(lab, board=replace(lab.board, board=open_))
    assert len(lab.boots()) == 2


def test_a_kernel_that_is_built_anew_while_it_boots_is_neither_kept_nor_measured(lab: Lab) -> None:
    lab.mode("wait")
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(boot, lab)
        while not lab.boots():
            time.sleep(0.02)
        (lab.directory / "Image").write_bytes(b"a new kernel")
        (lab.directory / "go").touch()
        with pytest.raises(ChangedError, match="changed while it was measured"):
            under_way.result()
    assert not list((lab.directory / "kept").glob("*"))


def test_of_two_equal_boots_in_one_run_one_is_made(lab: Lab) -> None:
    """So that two kernels of one image are not compared with one and the same file."""
    boot(lab)
    board = replace(lab.board, boot_cache=BootCache(lab.directory / "kept", day(1, due=False)))
    assert [board.run(plan_of()).machine.keys() & {"booted", "repeated"} for _ in range(2)] == [
        {"booted"},
        {"repeated"},
    ]


def test_a_run_takes_nothing_that_it_made_itself(lab: Lab) -> None:
    """Two kernels of one image are both booted, so that it shows when virtual time does not repeat."""
    board = replace(lab.board, boot_cache=BootCache(lab.directory / "kept", time.time() - 60))
    assert "booted" not in board.run(plan_of()).machine
    assert "booted" not in board.run(plan_of()).machine
    assert len(lab.boots()) == 2


def test_on_its_day_a_boot_is_made_again_and_compared(lab: Lab) -> None:
    boot(lab)
    found = boot(lab, due=True)
    assert len(lab.boots()) == 2
    assert (found.state, found.machine.keys() & {"booted", "repeated"}) == (State.MEASURED, {"repeated"})


def test_of_twelve_seeds_one_is_made_again_each_day_and_each_has_its_day() -> None:
    today = [{seed for seed in range(1, 13) if BootCache(Path(), d * DAY).is_due("", "a", seed)} for d in range(12)]
    assert [len(seeds) for seeds in today] == [1] * 12
    assert set.union(*today) == set(range(1, 13))


def test_who_asks_for_it_gets_every_boot_made_and_compared(lab: Lab) -> None:
    boot(lab)
    found = replace(lab.board, boot_cache=BootCache(lab.directory / "kept", day(1, due=False), again=True)).run(
        plan_of()
    )
    assert len(lab.boots()) == 2
    assert "repeated" in found.machine


def test_a_boot_that_does_not_repeat_is_no_measurement_and_is_forgotten(lab: Lab) -> None:
    boot(lab)
    lab.mode("kernel says hello")
    found = boot(lab, due=True)
    assert found.state is State.UNREPEATED
    assert "printed other bytes: line 1 of the console was '' and is 'hello'" in found.message
    assert boot(lab).state is State.MEASURED
    assert len(lab.boots()) == 3


def test_after_one_that_differs_a_run_makes_every_boot(lab: Lab) -> None:
    for seed in (1, 2):
        boot(lab, plan_of(seed))
    board = replace(lab.board, boot_cache=BootCache(lab.directory / "kept", day(1, due=True)))
    lab.mode("kernel says hello")
    assert board.run(plan_of(1)).state is State.UNREPEATED
    assert board.run(plan_of(2)).state is State.UNREPEATED


@pytest.mark.parametrize("mode", ["panic", "silence", "garbage", "exit 1", "full"])
def test_only_what_measured_is_kept(lab: Lab, mode: str) -> None:
    lab.mode(mode)
    assert boot(lab).state is not State.MEASURED
    lab.mode("good")
    assert boot(lab).state is State.MEASURED
    assert len(lab.boots()) == 2


@pytest.mark.parametrize("mode", ["panic", "silence", "garbage"])
def test_what_measured_before_and_dies_now_did_not_repeat_whatever_it_says(lab: Lab, mode: str) -> None:
    boot(lab)
    lab.mode(mode)
    found = boot(lab, due=True)
    assert (found.state, found.faults) == (State.UNREPEATED, ())


def test_a_qemu_that_fails_is_the_labs_fault_as_ever(lab: Lab) -> None:
    boot(lab)
    lab.mode("exit 1")
    assert boot(lab, due=True).state is State.LAB


@pytest.mark.parametrize(
    "content", [b"", b"no archive", b"\x1f\x8b\x08\x00\x00", gzip.compress(b"{}\nconsole", mtime=0)]
)
def test_what_is_damaged_on_the_disk_is_made_again(lab: Lab, content: bytes) -> None:
    boot(lab)
    (path,) = (lab.directory / "kept").iterdir()
    path.write_bytes(content)
    assert "booted" not in boot(lab).machine
    assert len(lab.boots()) == 2


def test_a_traced_boot_is_always_made(lab: Lab) -> None:
    boot(lab)
    boot(lab, board=replace(lab.board, plugin="trace.so"))
    boot(lab, board=replace(lab.board, plugin="trace.so"))
    assert len(lab.boots()) == 3


def test_without_it_every_boot_is_made(lab: Lab) -> None:
    lab.board.run(plan_of())
    lab.board.run(plan_of())
    assert len(lab.boots()) == 2
    assert not (lab.directory / "kept").exists()


def test_a_disk_that_takes_nothing_costs_nothing_but_time(lab: Lab) -> None:
    (lab.directory / "kept").write_text("a file, no directory")
    assert boot(lab).state is State.MEASURED
    assert boot(lab).state is State.MEASURED
    assert len(lab.boots()) == 2


def test_what_is_old_and_the_oldest_of_too_much_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(boot_cache, "_LARGEST_BYTES", 250)
    (tmp_path / "boots").mkdir()
    now = time.time()
    for name, age in {"new": 1, "week": 7, "fortnight": 14, "month": 31}.items():
        os.utime(written(tmp_path / "boots" / name, b"." * 100), (now, now - age * DAY))
    assert BootCache.open(again=False) is not None
    assert {path.name for path in (tmp_path / "boots").iterdir()} == {"new", "week"}


def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no")
    assert BootCache.open(again=False) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"one\r\ntwo\r\n", b"one\r\ntwo\r\n", ""),
        (b"one\r\ntwo\r\n", b"one\r\ntow\r\n", "line 2 of the console was 'two' and is 'tow'"),
        (b"one\r\n", b"one\r\ntwo\r\n", "line 2 of the console was '' and is 'two'"),
        (b"one", b"one\ntwo", "it has 2 lines, and had 1"),
    ],
)
def test_two_consoles_differ_where_people_can_find_it(before: bytes, after: bytes, expected: str) -> None:
    assert difference(before, after) == expected
