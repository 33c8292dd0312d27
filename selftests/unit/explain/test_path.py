# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.explain.path import BlockExit, Code, block_exit, mean, profile
from rtgate.explain.trace import Block, Run
from rtgate.explain.wakeups import find

from .conftest import names, reported, trace

CALL, RETURN, JUMP, ERET = b"\x00\x00\x00\x94", b"\xc0\x03\x5f\xd6", b"\x00\x00\x00\x14", b"\xe0\x03\x9f\xd6"
BRK = b"\x00\x00\x21\xd4"  # brk #0x800


@pytest.mark.parametrize(
    ("arch", "code", "way"),
    [
        ("arm64", "00000094", BlockExit.CALL),
        ("arm64", "20003fd6", BlockExit.CALL),  # blr x1
        ("arm64", "c0035fd6", BlockExit.RETURN),
        ("arm64", "e0039fd6", BlockExit.EXCEPTION_RETURN),
        ("arm64", "00000014", BlockExit.OTHER),
        ("arm64", "20001fd6", BlockExit.OTHER),  # br x1
        ("arm64", "010000d4", BlockExit.OTHER),  # svc
        ("arm64", "000021d4", BlockExit.TRAP),  # brk #0x800
        ("arm64", "000040d4", BlockExit.OTHER),  # hlt #0
        ("x86_64", "e800000000", BlockExit.CALL),
        ("x86_64", "ffd0", BlockExit.CALL),  # call *%rax
        ("x86_64", "41ffd3", BlockExit.CALL),  # call *%r11
        ("x86_64", "ff1425", BlockExit.CALL),  # call *address
        ("x86_64", "ffe0", BlockExit.OTHER),  # jmp *%rax
        ("x86_64", "c3", BlockExit.RETURN),
        ("x86_64", "f3c3", BlockExit.RETURN),
        ("x86_64", "48cf", BlockExit.EXCEPTION_RETURN),
        ("x86_64", "480f07", BlockExit.EXCEPTION_RETURN),
        ("x86_64", "eb05", BlockExit.OTHER),
        ("x86_64", "0f0b", BlockExit.TRAP),  # ud2
        ("x86_64", "4889c3", BlockExit.OTHER),  # mov %rax,%rbx: its last byte is that of a return
    ],
)
def test_how_a_block_is_left(arch: str, code: str, way: BlockExit) -> None:
    assert block_exit(arch, bytes.fromhex(code)) is way


def traced(*steps: tuple[str, int, bytes]) -> tuple[Code, list[Run], tuple[int, int]]:
    """Return code and runs of blocks: (function, instructions, last instruction)."""
    base = 0xFFFF000000000000
    known = {name: base + 0x1000 * number for number, name in enumerate(dict.fromkeys(step[0] for step in steps))}
    by_address = {address: name for name, address in known.items()}
    blocks, runs, n = {}, [], 0
    for number, (name, count, last) in enumerate(steps):
        address = 0x400000 if name == "program" else known[name]
        blocks[number] = Block(address, count, last, 4 * count)
        runs.append(Run(n, number, 0))
        n += count
    return Code("arm64", blocks, lambda address: by_address[address]), runs, (0, n)


def test_what_a_function_calls_is_within_it() -> None:
    made = profile(*traced(("f", 5, CALL), ("g", 20, RETURN), ("f", 3, RETURN)), frozenset({"f"}))
    assert made.own == {"f": 8, "g": 20}
    assert made.within == {"f": 28, "g": 20}
    assert made.blamed == {"f": 28}
    assert made.total == 28


def test_a_caller_becomes_known_when_it_is_returned_to() -> None:
    made = profile(*traced(("delay", 100, RETURN), ("f", 3, RETURN), ("g", 4, JUMP)), frozenset({"f", "g"}))
    assert made.within == {"delay": 100, "f": 103, "g": 107}
    assert made.blamed == {"f": 103, "g": 4}


def test_an_interrupt_is_not_blamed_on_what_it_interrupted() -> None:
    steps = (("f", 5, JUMP), ("vectors", 1, JUMP), ("handler", 30, CALL), ("g", 7, RETURN), ("handler", 2, ERET))
    made = profile(*traced(*steps, ("f", 6, JUMP)), frozenset({"f"}))
    assert made.blamed == {"f": 11}
    assert made.within["handler"] == 39


WARNS = (
    *(("timer", 5, CALL), ("f", 9, BRK), ("vectors", 2, JUMP), ("brk_handler", 8, CALL), ("report_bug", 6, CALL)),
    *(("__warn", 7, CALL), ("_printk", 500, RETURN), ("__warn", 3, RETURN), ("report_bug", 1, RETURN)),
    *(("brk_handler", 4, ERET), ("f", 6, RETURN), ("timer", 2, RETURN)),
)


@pytest.mark.parametrize("differing", [frozenset({"f"}), frozenset[str]()])
def test_a_warning_is_a_call_by_the_function_that_warns(differing: frozenset[str]) -> None:
    """The trap was an interrupt, so that nobody was to blame, and what prints was named for its length."""
    made = profile(*traced(*WARNS), differing)
    assert made.warning == {"f": 531}
    assert made.printing == {}
    assert made.blamed == dict.fromkeys(differing, 546)
    assert made.within["timer"] == 553


def test_a_function_that_writes_to_the_log_is_who_prints() -> None:
    steps = (("f", 5, CALL), ("_printk", 7, CALL), ("vprintk_emit", 400, RETURN), ("_printk", 1, RETURN))
    made = profile(*traced(*steps, ("f", 3, RETURN)), frozenset())
    assert (made.printing, made.warning) == ({"f": 408}, {})


def test_the_message_of_a_warning_is_part_of_it() -> None:
    steps = (("f", 5, CALL), ("__warn_printk", 7, CALL), ("vprintk", 400, RETURN), ("__warn_printk", 1, RETURN))
    made = profile(*traced(*steps, ("f", 3, BRK)), frozenset())
    assert (made.printing, made.warning) == ({}, {"f": 408})


def test_an_interrupt_within_a_warning_is_not_the_warning() -> None:
    steps = (("f", 9, BRK), ("vectors", 2, CALL), ("__warn", 5, JUMP), ("vectors", 1, CALL), ("timer", 50, RETURN))
    made = profile(*traced(*steps, ("vectors", 1, ERET), ("__warn", 5, RETURN)), frozenset())
    assert made.warning == {"f": 12}


def test_a_jump_to_another_function_returns_to_the_caller() -> None:
    made = profile(*traced(("f", 5, CALL), ("g", 2, JUMP), ("h", 9, RETURN), ("f", 1, JUMP)), frozenset({"g"}))
    assert made.within == {"f": 17, "g": 2, "h": 9}
    assert made.blamed == {"g": 2}


def test_after_a_switch_another_thread_returns() -> None:
    steps = (("f", 5, CALL), ("cpu_switch_to", 9, RETURN), ("g", 4, RETURN), ("h", 3, JUMP))
    made = profile(*traced(*steps), frozenset({"f", "h"}))
    assert made.within == {"f": 14, "cpu_switch_to": 9, "g": 4, "h": 7}
    assert made.blamed == {"f": 14, "h": 7}


def test_a_thunk_that_returns_calls() -> None:
    steps = (("f", 5, CALL), ("__x86_indirect_thunk_rax", 2, CALL), ("__x86_indirect_thunk_rax", 3, RETURN))
    made = profile(*traced(*steps, ("g", 8, RETURN), ("f", 1, JUMP)), frozenset({"f"}))
    assert made.within["f"] == 19
    assert made.within["g"] == 8


def test_only_the_span_counts_but_what_is_before_makes_callers_known() -> None:
    code, runs, (_, end) = traced(("f", 50, CALL), ("g", 20, RETURN), ("f", 3, RETURN))
    made = profile(code, runs, (60, end), frozenset({"f"}))
    assert made.own == {"g": 10, "f": 3}
    assert made.blamed == {"f": 13}


def test_programs_are_one_thing() -> None:
    assert profile(*traced(("program", 5, JUMP), ("f", 2, ERET), ("program", 1, JUMP)), frozenset()).own == {
        "(programs)": 6,
        "f": 2,
    }


def test_the_mean_of_profiles() -> None:
    one = profile(*traced(("f", 4, JUMP)), frozenset({"f"}))
    two = profile(*traced(("f", 2, CALL), ("g", 6, JUMP)), frozenset({"f"}))
    made = mean([one, two])
    assert (made.own, made.total) == ({"f": 3, "g": 3}, 6)
    assert made.blamed == {"f": 6}


def test_a_captured_slow_wake_up_is_blamed_on_the_function_that_delays_it() -> None:
    found = trace("demo-arm64-idle")
    known = names()
    code = Code("arm64", found.blocks, lambda address: known[address])
    wakeups = find(found.events, reported("demo-arm64-idle"), 1_000_000).intervals
    slowest = max(wakeups, key=lambda wakeup: wakeup.latency_ns)
    runs = [run for run in found.runs if slowest.start - 4000 <= run.n < slowest.end]
    differing = frozenset({"hrtimer_wakeup", "__hrtimer_run_queues"})
    made = profile(code, runs, (slowest.start, slowest.end), differing)
    assert made.total == slowest.end - slowest.start
    assert max(made.blamed, key=lambda name: made.blamed[name]) == "hrtimer_wakeup"
    assert made.blamed["hrtimer_wakeup"] > 8700  # 70 us
    assert made.own["__delay_cycles"] > made.own["hrtimer_wakeup"]
