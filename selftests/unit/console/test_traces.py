# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.console import traces
from rtgate.console.faults import Fault, FaultKind, scan

CAPTURED = Path(__file__).resolve().parents[2] / "data" / "console"

# Written from the sources of 6.12 (kernel/sched/core.c, kernel/locking/lockdep.c, lib/dump_stack.c), not captured.
SLEEPING = "BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:48"
ARM64 = ("dump_backtrace", "show_stack", "dump_stack_lvl", "dump_stack", "__might_resched", "rt_spin_lock")
X86 = ("dump_stack_lvl", "__might_resched.cold", "rt_spin_lock")
SCHEDULING = (
    "dump_backtrace",
    "show_stack",
    "dump_stack_lvl",
    "dump_stack",
    "__schedule_bug",
    "__schedule",
    "schedule",
)
ALLOCATING = (*ARM64, "get_page_from_freelist", "__alloc_pages_noprof", "new_slab", "___slab_alloc", "__kmalloc_noprof")
PREEMPTIBLE = ("dump_stack_lvl", "check_preemption_disabled", "debug_smp_processor_id")

REFERENCES = """\
WARNING: CPU: 0 PID: 12 at lib/refcount.c:28 refcount_warn_saturate+0x1/0x2
pc : refcount_warn_saturate+0x1/0x2
Call trace:
 refcount_warn_saturate+0x1/0x2
 driver_put+0x1/0x2"""
STALL = """\
rcu: INFO: rcu_preempt self-detected stall on CPU
Call Trace:
 <IRQ>
 rcu_sched_clock_irq+0x1/0x2
 </IRQ>
RIP: 0010:spinning+0x1/0x2"""


def splat(functions: tuple[str, ...], line: str = SLEEPING, style: str = "[   10.000000] ") -> str:
    told = [line, "in_atomic(): 1, irqs_disabled(): 128, non_block: 0, pid: 7, name: irq/42-dw", "Call trace:"]
    return "\n".join(style + one for one in (*told, *(f" {name}+0x30/0x100" for name in functions)))


def place(log: str) -> tuple[str, ...]:
    (fault,) = scan(log)
    return traces.place(fault)


@pytest.mark.parametrize("helpers", [ARM64, X86, SCHEDULING, ALLOCATING, PREEMPTIBLE, ()])
@pytest.mark.parametrize("style", ["", "[   10.000000] ", "[   10.000000][   C10] ", "<4>[   10.000000] "])
def test_the_place_comes_after_what_reports(helpers: tuple[str, ...], style: str) -> None:
    rest = ("vendor_gpio_irq", "handle_irq_event", "handle_fasteoi_irq", "generic_handle_domain_irq")
    assert place(splat((*helpers, *rest), style=style)) == rest[:3]
    assert place(splat((*helpers, "another_irq", *rest[1:]), style=style)) != rest[:3]


def test_guesses_are_no_place_and_what_a_compiler_appends_is_no_name() -> None:
    log = splat(X86).replace("Call trace:", "Call Trace:") + "\n[   10.000000]  ? guessed+0x1/0x2\n"
    assert place(f"{log}[   10.000000]  <IRQ>\n[   10.000000]  foo.isra.0.cold+0x1/0x2 [module]\n") == ("foo",)


@pytest.mark.parametrize("helpers", [ARM64, X86, ()])
def test_helpers_alone_are_no_place(helpers: tuple[str, ...]) -> None:
    assert place(splat(helpers)) == ()


def test_what_was_interrupted_is_not_where_a_sleeping_function_was_called() -> None:
    log = splat((*X86, "vendor_irq"))
    interrupted = "[   10.000000] RIP: 0010:cpuidle_enter_state+0xcb/0x440\n[   10.000000]  cpuidle_enter+0x1/0x2"
    assert place(f"{log}\n{interrupted}") == ("vendor_irq", "cpuidle_enter")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("WARNING: CPU: 0 PID: 12 at kernel/x.c:3 foo+0x1/0x2", ("foo",)),
        ("WARNING: kernel/x.c:3 at foo+0x1/0x2, CPU#1: migration/1/33", ("foo",)),
        ("WARNING: CPU: 0 PID: 12 at kernel/x.c:3", ("kernel/x.c",)),
        ("kernel BUG at lib/list_debug.c:29!", ("lib/list_debug.c",)),
        ("BUG: KASAN: slab-out-of-bounds in broken+0xc/0x14", ("broken",)),
        ("sched: RT throttling activated", ("sched: RT throttling activated",)),
        ("BUG: using smp_processor_id() in preemptible [00000000] code: sh/1\ncaller is foo+0x1/0x2", ("foo",)),
        ("watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [kworker/0:1:10]", ()),
        ("Kernel panic - not syncing: VFS: Unable to mount root fs", ()),
        (SLEEPING, ()),
        (REFERENCES, ("driver_put",)),
        (STALL, ("spinning",)),
    ],
)
def test_where_other_faults_happened(log: str, expected: tuple[str, ...]) -> None:
    assert place(log) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("oops", ("bad_oops_later_run",)),
        ("panic", ("bad_no_boot", "do_one_initcall", "kernel_init_freeable")),
    ],
)
def test_the_place_in_captured_logs(name: str, expected: tuple[str, ...]) -> None:
    assert place((CAPTURED / f"{name}.log").read_text(encoding="utf-8", errors="replace")) == expected


def circular(wanted: str, held: str, function: str = "foo") -> str:
    return f"""\
[    1.000000] WARNING: possible circular locking dependency detected
[    1.000000] 6.12.117 Not tainted
[    1.000000] ------------------------------------------------------
[    1.000000] cat/87 is trying to acquire lock:
[    1.000000] ffff000003a0 ({wanted}){{+.+.}}-{{3:3}}, at: {function}+0x28/0x60
[    1.000000]
[    1.000000] but task is already holding lock:
[    1.000000] ffff000003b8 ({held}){{....}}-{{2:2}}, at: bar+0x18/0x60
[    1.000000] the existing dependency chain (in reverse order) is:
[    1.000000] -> #1 ({held}){{....}}-{{2:2}}:
[    1.000000]        lock_acquire+0x1/0x2
[    1.000000] Call trace:
[    1.000000]  dump_backtrace+0x98/0x120
[    1.000000]  print_circular_bug+0x1/0x2
[    1.000000]  check_noncircular+0x1/0x2
[    1.000000]  __lock_acquire+0x1/0x2
[    1.000000]  lock_acquire+0x1/0x2
[    1.000000]  rt_spin_lock+0x1/0x2
[    1.000000]  {function}+0x28/0x60
"""


def test_lockdep_is_about_two_locks() -> None:
    wanted = "(work_completion)(&one->work)"
    assert place(circular(wanted, "&two->lock/1")) == (f"{wanted} at foo", "&two->lock/1 at bar", "foo")
    indented = circular(wanted, "&two->lock/1").replace("[    1.000000] but", " " * 15 + "but")
    assert place(indented) == place(circular(wanted, "&two->lock/1"))
    same = [place(circular(*locks)) for locks in (("a", "b"), ("a", "c"), ("c", "b"), ("a", "b", "other"))]
    assert len(set(same)) == 4


@pytest.mark.parametrize(
    "about",
    [
        "cat/87 [HC0[0]:SC0[0]:HE1:SE1] is trying to acquire:",
        "and this task is already holding:",
        "cat/87 [HC0[0]:SC0[0]:HE1:SE1] takes:",
        "cat/87 just changed the state of lock:",
        "but this lock took another, HARDIRQ-unsafe lock in the past:",
        "cat/87 is trying to lock:",
    ],
)
def test_other_reports_of_lockdep_name_a_lock_too(about: str) -> None:
    log = f"WARNING: inconsistent lock state\n{about}\nffff000003a0 (&x->lock){{?.+.}}-{{3:3}}, at: foo+0x28/0x60"
    assert place(log) == ("&x->lock at foo",)


def test_locks_that_are_only_held_are_none_that_it_is_about() -> None:
    log = "WARNING: suspicious RCU usage\n1 lock held by cat/87:\n #0: ffff (&x){+.+.}-{3:3}, at: foo+0x1/0x2"
    assert place(log) == ()


@given(st.sampled_from(FaultKind), st.text(max_size=80), st.text(max_size=300))
def test_any_text_has_a_place_or_none(kind: FaultKind, line: str, text: str) -> None:
    assert isinstance(traces.place(Fault(kind, line, f"{text}\nCall trace:\n{text}")), tuple)
    traces.said_at(Fault(kind, line, text))


@given(
    st.integers(0, 10**12),
    st.sampled_from(["", "[    T1]", "[   C10]"]),
    st.sampled_from(["", "<4>", "target# ", "half a line[    0.000001] "]),
)
def test_a_fault_says_when_it_was_said(microseconds: int, caller: str, before: str) -> None:
    seconds, rest = divmod(microseconds, 10**6)
    (fault,) = scan(f"{before}[{seconds:5}.{rest:06}]{caller} {SLEEPING}\n[{seconds + 1:5}.000000]{caller} more\n")
    assert traces.said_at(fault) == microseconds / 10**6


def test_a_fault_without_a_stamp_does_not_say_when() -> None:
    assert traces.said_at(Fault(FaultKind.ATOMIC, SLEEPING, f"{SLEEPING}\n[    1.000000] more")) is None
    assert traces.said_at(Fault(FaultKind.AER, "AER: 3 new errors", "AER: 3 new errors")) is None


def test_an_error_without_a_name_is_counted_by_its_bit() -> None:
    line = "3 new correctable AER errors of 0000:01:00.0 (RxErr 2, dev_cor_errs_bit[5] 1)"
    fault = Fault(FaultKind.AER, line, line)
    assert traces.counts(fault) == {"RxErr": 2, "dev_cor_errs_bit[5]": 1}
    assert traces.place(fault) == ("new correctable AER errors of 0000:01:00.0",)
