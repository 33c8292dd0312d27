# SPDX-License-Identifier: MIT
"""What the plan read of processes, by the numbers of proc(5)'s fields."""

from __future__ import annotations

from dataclasses import replace

from rtgate.board.tuning import Tuning
from rtgate.records.evidence import LoadSample
from rtgate.validity.load import load_seen
from rtgate.validity.settings import kernel_threads


def stat(name: str, **fields: object) -> str:
    """Return a line of /proc/PID/stat: its fields are numbers of proc(5), from `f3` on, 0 where nobody names them."""
    rest = (
        {f"f{number}": "0" for number in range(3, 53)}
        | {"f3": "S"}
        | {key: str(value) for key, value in fields.items()}
    )
    return f"77 ({name}) {' '.join(rest.values())}\n"


def test_a_load_s_time_is_that_of_its_processes_and_of_those_they_waited_for() -> None:
    ours = stat("hackbench (x)", f6=40, f13=10_000, f14=1, f15=20, f16=300, f17=4000, f18=20_000)
    ended = stat("hackbench", f6=40, f3="Z", f14=50_000)
    files = {"load.pid": b"40\n", "processes.middle": (ours + ended + stat("sh", f6=41, f14=9)).encode()}
    assert load_seen(files) == (LoadSample(moment="middle", processes=1, ticks=54_321),)


def test_without_the_load_s_number_no_process_is_its() -> None:
    files = {"processes.start": stat("sh", f6="").encode(), "processes.end": stat("sh", f6=40).encode()}
    assert {(one.processes, one.ticks) for one in load_seen(files)} == {(0, 0)}


def test_of_the_kernel_s_threads_those_are_kept_whose_priority_is_set() -> None:
    lines = stat("irq/30-eth0", f39=1, f40=50, f41=1) + stat("kworker/0:1", f39=1)
    files = {"kthreads": lines.encode()}
    tuning = Tuning(name="one", description="", priorities=(("irq/30", 50),))
    (thread,) = kernel_threads(files, tuning)
    assert (thread.name, thread.processor, thread.priority, thread.policy) == ("irq/30-eth0", 1, 50, 1)
    assert kernel_threads(files, replace(tuning, priorities=())) == ()
