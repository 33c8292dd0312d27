# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtgate.target import cores

SOURCE = str(Path(cores.__file__).parents[2])
HOLD = f"""
import sys, time
sys.path.insert(0, {SOURCE!r})
from rtgate.target import cores
with cores.take_core() as core:
    print(core, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this machine two cores, and the test locks of its own."""
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 3})


def test_each_taker_gets_a_core_of_its_own_until_all_are_taken() -> None:
    with (
        cores.take_core() as first,
        cores.take_core() as second,
        cores.take_core() as third,
        cores.take_core() as fourth,
    ):
        assert (first, second, third, fourth) == (3, 7, None, None)


def test_a_core_is_free_again_afterwards() -> None:
    with cores.take_core() as first:
        with cores.take_core() as second:
            assert (first, second) == (3, 7)
        with cores.take_core() as third:
            assert third == 7
    with cores.take_core() as again:
        assert again == 3


def test_a_core_is_free_again_after_an_error() -> None:
    def broken() -> None:
        with cores.take_core() as core:
            raise RuntimeError(f"oh, on {core}")

    with pytest.raises(RuntimeError, match="oh, on 3"):
        broken()
    with cores.take_core() as core:
        assert core == 3


def test_who_got_none_frees_none() -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(cores.take_core()) for _ in range(2)]
        with cores.take_core() as none:
            assert none is None
        with cores.take_core() as still:
            assert still is None
        assert held == [3, 7]


def test_threads_get_different_cores() -> None:
    found: list[int | None] = []
    both = threading.Barrier(3, timeout=20)

    def take() -> None:
        with cores.take_core() as core:
            found.append(core)
            both.wait()

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join(30)
    assert sorted(found, key=str) == [3, 7, None]


def _holder() -> tuple[subprocess.Popen[str], int]:
    program = f"import os\nos.sched_getaffinity = lambda _: {{3, 7}}\n{HOLD}"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_another_process_s_core_is_taken_until_it_dies(end: signal.Signals) -> None:
    process, core = _holder()
    try:
        assert core == 3
        with cores.take_core() as other, cores.take_core() as none:
            assert (other, none) == (7, None)
    finally:
        process.send_signal(end)
        process.communicate()
    with cores.take_core() as free:
        assert free == 3


def test_a_child_of_the_taker_does_not_keep_the_core() -> None:
    with cores.take_core() as core:
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with cores.take_core() as again:
            assert again == core == 3
    finally:
        child.kill()
        child.wait()


def test_cores_that_this_process_may_not_use_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    with cores.take_core() as only, cores.take_core() as none:
        assert (only, none) == (5, None)


def test_a_command_without_a_core_is_left_as_it_is() -> None:
    argv = ["qemu-system-aarch64", "-M", "virt"]
    assert cores.bind_command(argv, None) == argv


@pytest.mark.parametrize("why", ["idle", "refused", "absent"])
def test_where_threads_cannot_wait_for_each_other_a_command_is_only_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    if why == "idle":
        monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    if why == "refused":
        (tmp_path / "chrt").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "chrt").chmod(0o755)
    cores._in_turn.cache_clear()
    try:
        assert cores.bind_command(["qemu"], 3) == ["taskset", "--cpu-list", "3", "qemu"]
    finally:
        cores._in_turn.cache_clear()


def test_a_bound_command_has_one_core_and_its_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    last = max(os.sched_getaffinity(0))
    printed = "import os; print(sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0) == os.SCHED_BATCH)"
    done = subprocess.run(
        cores.bind_command([sys.executable, "-c", printed], last), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"[{last}] True\n"


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="Not a directory"), cores.take_core():
        pass
