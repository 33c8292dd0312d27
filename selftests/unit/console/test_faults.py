# SPDX-License-Identifier: MIT
from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.console.faults import FATAL, Fault, FaultKind, banner, orderly_end, scan

CAPTURED = Path(__file__).resolve().parents[2] / "data" / "console"

# These messages are written from the kernel's sources (6.12 unless a comment says otherwise), not captured; those in
# selftests/data/console are captured.
PANIC = """\
Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)
CPU: 0 UID: 0 PID: 1 Comm: swapper/0 Not tainted 6.12.117 #1
Call trace:
 panic+0x368/0x378
---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0) ]---"""
OOPS_ARM64 = """\
Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
Mem abort info:
  ESR = 0x0000000096000004
Internal error: Oops: 0000000096000004 [#1] PREEMPT_RT SMP
Modules linked in:
CPU: 0 UID: 0 PID: 10 Comm: kworker/0:1 Not tainted 6.12.117 #1
pc : broken+0xc/0x14
Call trace:
 broken+0xc/0x14
 kthread+0xfc/0x100
---[ end trace 0000000000000000 ]---"""
# Of a 6.12.117 on QEMU's virt machine.
BUG_RISCV = """\
Kernel BUG [#1]
Modules linked in:
CPU: 0 UID: 0 PID: 0 Comm: swapper Not tainted 6.12.117 #1
Hardware name: riscv-virtio,qemu (DT)
epc : setup_smp+0xb8/0x118
 ra : setup_smp+0xb2/0x118
status: 0000000200000100 badaddr: 0000000000000000 cause: 0000000000000003
[<ffffffff80404c18>] setup_smp+0xb8/0x118
[<ffffffff804047f4>] setup_arch+0x598/0x5dc
[<ffffffff80400656>] start_kernel+0x68/0x8aa
Code: b700 2905 8522 0097 ffe0 80e7 75e0 842a b761 e091 (9002) 8413
---[ end trace 0000000000000000 ]---"""
OOPS_X86 = """\
BUG: kernel NULL pointer dereference, address: 0000000000000010
#PF: supervisor read access in kernel mode
#PF: error_code(0x0000) - not-present page
Oops: Oops: 0000 [#1] PREEMPT_RT SMP
RIP: 0010:broken+0xc/0x14
---[ end trace 0000000000000000 ]---"""
PAGE_FAULT_X86 = """\
BUG: unable to handle page fault for address: ffffc90000fd0000
#PF: supervisor write access in kernel mode
Oops: Oops: 0002 [#1] PREEMPT_RT SMP
---[ end trace 0000000000000000 ]---"""
GENERAL_PROTECTION = """\
Oops: general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] PREEMPT_RT SMP
RIP: 0010:broken+0xc/0x14
---[ end trace 0000000000000000 ]---"""
# Before 6.10 the line did not start with "Oops".
GENERAL_PROTECTION_OLD = "general protection fault: 0000 [#1] PREEMPT SMP\n---[ end trace 0000000000000000 ]---"
BUG_WARNING_WORKQUEUE = "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!"
WARNING = """\
WARNING: CPU: 1 PID: 33 at kernel/sched/core.c:1234 set_task_cpu+0x1a0/0x1c0
Modules linked in: virtio_net virtio_pci
CPU: 1 UID: 0 PID: 33 Comm: migration/1 Not tainted 6.12.117 #1
Call trace:
 set_task_cpu+0x1a0/0x1c0
---[ end trace 0000000000000000 ]---"""
# Since 6.19 (kernel/panic.c, __warn); of a module, and without debug information, it is shorter or longer.
WARNING_NEW = """\
WARNING: kernel/sched/core.c:1234 at set_task_cpu+0x1a0/0x1c0, CPU#1: migration/1/33
Modules linked in: virtio_net virtio_pci
CPU: 1 UID: 0 PID: 33 Comm: migration/1 Not tainted 6.19.0 #1
Call trace:
 set_task_cpu+0x1a0/0x1c0
---[ end trace 0000000000000000 ]---"""
WARNING_NEW_MODULE = "WARNING: drivers/gpu/drm/drm.c:12 at drm_irq+0x94/0xb0 [drm], CPU#12: kworker/u8:1/174"
ATOMIC = """\
BUG: scheduling while atomic: cyclictest/87/0x00000002
Modules linked in:
Call trace:
 dump_backtrace+0x90/0xe4"""
SLEEPING = "BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:48"
STALL = """\
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: 	1-...!: (0 ticks this GP) idle=1b74/1/0x4000000000000002 softirq=0/0 fqs=0 rcuc=21004 jiffies(starved)
rcu: 	(detected by 0, t=21002 jiffies, g=-1147, q=3 ncpus=2)"""
SOFT = "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [kworker/0:1:10]"

MESSAGES = [
    pytest.param(PANIC, FaultKind.PANIC, id="panic"),
    pytest.param(OOPS_ARM64, FaultKind.OOPS, id="oops arm64"),
    pytest.param(OOPS_X86, FaultKind.OOPS, id="oops x86"),
    pytest.param(PAGE_FAULT_X86, FaultKind.OOPS, id="page fault x86"),
    pytest.param(GENERAL_PROTECTION, FaultKind.OOPS, id="general protection"),
    pytest.param(GENERAL_PROTECTION_OLD, FaultKind.OOPS, id="general protection, old"),
    pytest.param(
        "Internal error: Oops - Undefined instruction: 0000000002000000 [#1] SMP", FaultKind.OOPS, id="undefined"
    ),
    pytest.param("Oops - illegal instruction [#1]", FaultKind.OOPS, id="undefined, riscv"),
    pytest.param("Oops [#1]", FaultKind.OOPS, id="oops, riscv"),
    pytest.param(BUG_RISCV, FaultKind.OOPS, id="the end of a BUG(), riscv"),
    pytest.param("invalid opcode: 0000 [#1] SMP NOPTI", FaultKind.OOPS, id="invalid opcode, old"),
    pytest.param("stack segment: 0000 [#2] PREEMPT_RT SMP", FaultKind.OOPS, id="stack segment, old"),
    pytest.param("kernel BUG at kernel/time/hrtimer.c:1234!", FaultKind.BUG, id="BUG()"),
    pytest.param("Kernel BUG at broken+0xc/0x14 [verbose debug info unavailable]", FaultKind.BUG, id="BUG(), no debug"),
    pytest.param("BUG: using smp_processor_id() in preemptible [00000000] code: sh/1", FaultKind.BUG, id="preemptible"),
    pytest.param("BUG: spinlock bad magic on CPU#0, swapper/0", FaultKind.BUG, id="spinlock"),
    pytest.param("BUG: Bad page state in process hackbench  pfn:40a51", FaultKind.BUG, id="page state"),
    pytest.param("BUG kmalloc-64 (Not tainted): Right Redzone overwritten", FaultKind.BUG, id="SLUB"),
    pytest.param("BUG dentry (Tainted: G        W         ): Poison overwritten", FaultKind.BUG, id="SLUB, tainted"),
    pytest.param("UBSAN: array-index-out-of-bounds in kernel/time/timer.c:12:3", FaultKind.BUG, id="UBSAN"),
    pytest.param('irq 16: nobody cared (try booting with the "irqpoll" option)', FaultKind.WARNING, id="nobody cared"),
    pytest.param(BUG_WARNING_WORKQUEUE, FaultKind.BUG, id="workqueue"),
    pytest.param(WARNING, FaultKind.WARNING, id="warning"),
    pytest.param(WARNING_NEW, FaultKind.WARNING, id="warning, new"),
    pytest.param(WARNING_NEW_MODULE, FaultKind.WARNING, id="warning, new, of a module"),
    pytest.param("WARNING: at broken+0xc/0x14, CPU#0: sh/1", FaultKind.WARNING, id="warning, new, no debug info"),
    pytest.param("BUG: KASAN: slab-out-of-bounds in broken+0xc/0x14", FaultKind.KASAN, id="KASAN"),
    pytest.param("BUG: KFENCE: use-after-free read in broken+0xc/0x14", FaultKind.KFENCE, id="KFENCE"),
    pytest.param("WARNING: possible circular locking dependency detected", FaultKind.LOCKDEP, id="circular"),
    pytest.param("WARNING: possible recursive locking detected", FaultKind.LOCKDEP, id="recursive"),
    pytest.param("WARNING: possible irq lock inversion dependency detected", FaultKind.LOCKDEP, id="inversion"),
    pytest.param("WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected", FaultKind.LOCKDEP, id="unsafe"),
    pytest.param("WARNING: inconsistent lock state", FaultKind.LOCKDEP, id="inconsistent"),
    pytest.param("WARNING: bad unlock balance detected!", FaultKind.LOCKDEP, id="balance"),
    pytest.param("WARNING: held lock freed!", FaultKind.LOCKDEP, id="freed"),
    pytest.param("WARNING: lock held when returning to user space!", FaultKind.LOCKDEP, id="user space"),
    pytest.param("WARNING: cyclictest/87 still has locks held!", FaultKind.LOCKDEP, id="still held"),
    pytest.param("WARNING: suspicious RCU usage", FaultKind.LOCKDEP, id="RCU usage"),
    pytest.param("WARNING: circular locking deadlock detected!", FaultKind.LOCKDEP, id="rtmutex, old"),
    pytest.param("WARNING: chain_key collision", FaultKind.LOCKDEP, id="chain key"),
    pytest.param("INFO: trying to register non-static key.", FaultKind.LOCKDEP, id="non-static key"),
    pytest.param("BUG: MAX_LOCKDEP_ENTRIES too low!", FaultKind.LOCKDEP, id="lockdep is too small"),
    pytest.param("[ BUG: Invalid wait context ]", FaultKind.LOCKDEP, id="wait context"),
    pytest.param(ATOMIC, FaultKind.ATOMIC, id="atomic"),
    pytest.param(SLEEPING, FaultKind.ATOMIC, id="sleeping"),
    pytest.param("BUG: scheduling in a non-blocking section: sh/1/1", FaultKind.ATOMIC, id="non-blocking"),
    pytest.param(STALL, FaultKind.RCU_STALL, id="stall"),
    # kernel/rcu/tasks.h, which is part of a file without a prefix
    pytest.param("INFO: rcu_tasks detected stalls on tasks:", FaultKind.RCU_STALL, id="stalled tasks"),
    pytest.param("INFO: rcu_tasks_trace detected stalls? (Late IPI?)", FaultKind.RCU_STALL, id="stalled, tracing"),
    pytest.param(
        "rcu: INFO: rcu_preempt detected stall, but suppressed full report due to a stuck CSD-lock.",
        FaultKind.RCU_STALL,
        id="stuck CSD lock",
    ),
    pytest.param("rcu: INFO: rcu_preempt self-detected stall on CPU", FaultKind.RCU_STALL, id="self-detected"),
    pytest.param(
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... } 21 jiffies s: 1 root: 0x2/.",
        FaultKind.RCU_STALL,
        id="expedited",
    ),
    pytest.param("INFO: task kworker/u4:1:38 blocked for more than 120 seconds.", FaultKind.HUNG_TASK, id="hung task"),
    # Since 7.1 (kernel/hung_task.c).
    pytest.param(
        "INFO: task dd:456 blocked in I/O wait for more than 122 seconds.", FaultKind.HUNG_TASK, id="hung task, I/O"
    ),
    pytest.param(SOFT, FaultKind.SOFT_LOCKUP, id="soft lockup"),
    pytest.param("watchdog: Watchdog detected hard LOCKUP on cpu 1", FaultKind.HARD_LOCKUP, id="hard lockup"),
    pytest.param("NMI watchdog: Watchdog detected hard LOCKUP on cpu 1", FaultKind.HARD_LOCKUP, id="hard lockup, old"),
    pytest.param("watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3", FaultKind.HARD_LOCKUP, id="hard, new"),
    pytest.param("Watchdog detected hard LOCKUP on cpu 1", FaultKind.HARD_LOCKUP, id="hard lockup, buddy, vendors'"),
    pytest.param("sched: RT throttling activated for cpu 1", FaultKind.THROTTLING, id="RT throttling, vendors'"),
    pytest.param("sched: RT throttling activated", FaultKind.THROTTLING, id="RT throttling"),
    pytest.param("sched: DL replenish lagged too much", FaultKind.THROTTLING, id="DL lag"),
]


def stamped(text: str, style: str = "[{:12.6f}] ") -> str:
    lines = text.split("\n")
    return "\n".join(style.format(6.5 + number / 1e5) + line for number, line in enumerate(lines))


BEFORE = "random: crng init done\nRun /init as init process"
AFTER = "clk: Disabling unused clocks\nFreeing unused kernel memory: 448K"


STYLES = ["", "[{:12.6f}] ", "[{:12.6f}][    T1] ", "[{:12.6f}][   C10] ", "<3>[{:12.6f}] "]
WRITTEN = [*((style, "\r\n") for style in STYLES), *((STYLES[1], end) for end in ("\n", "\r", "\r\r\n", "\n\r"))]


@pytest.mark.parametrize(("message", "kind"), MESSAGES)
def test_a_fault_is_found(message: str, kind: FaultKind) -> None:
    for style, end in WRITTEN:
        log = stamped(f"{BEFORE}\n{message}\n{AFTER}", style).replace("\n", end)
        (found,) = scan(log)
        assert found.kind is kind
        assert found.line == message.split("\n", 1)[0]
        assert message.rpartition("\n")[2] in found.text
        assert "random" not in found.text
        assert "\r" not in found.text


@pytest.mark.parametrize(("message", "kind"), MESSAGES)
def test_a_fault_at_the_very_end_is_found(message: str, kind: FaultKind) -> None:
    assert [fault.kind for fault in scan(message.split("\n", 1)[0])] == [kind]


@pytest.mark.parametrize("before", ["target# ", "login: ", "half a line", "F0123 3 AAAA", "<6>[    1.000000] x [ T1] "])
@pytest.mark.parametrize("style", ["[{:12.6f}] ", "[{:12.6f}][    T1] ", "<3>[{:12.6f}] "])
def test_what_stood_in_front_of_a_fault_is_not_part_of_it(before: str, style: str) -> None:
    (found,) = scan(before + stamped(f"{SOFT}\n{STALL}", style).split("\n")[0] + "\r\ntarget# ls\r\nbin dev")
    assert (found.kind, found.line) == (FaultKind.SOFT_LOCKUP, SOFT)
    assert found.text == before + stamped(SOFT, style)


@pytest.mark.parametrize("message", [OOPS_ARM64, OOPS_X86, PAGE_FAULT_X86, GENERAL_PROTECTION, PANIC, WARNING])
def test_a_trace_belongs_to_its_fault_to_the_end_mark(message: str) -> None:
    (found,) = scan(stamped(f"{BEFORE}\n{message}\n{AFTER}"))
    assert found.text == stamped(f"{BEFORE}\n{message}\n{AFTER}").split("\n", 2)[2].rsplit("\n", 2)[0]


def kinds(log: str) -> list[FaultKind]:
    return [fault.kind for fault in scan(log)]


def test_an_oops_that_ends_in_a_panic_is_both() -> None:
    panic = "Kernel panic - not syncing: Oops: Fatal exception\nKernel Offset: disabled\nRebooting in 1 seconds.."
    oops, end = scan(stamped(f"{OOPS_ARM64}\n{panic}\n{AFTER}"))
    assert (oops.kind, end.kind) == (FaultKind.OOPS, FaultKind.PANIC)
    assert oops.text.endswith("---[ end trace 0000000000000000 ]---")
    assert end.text.endswith("Rebooting in 1 seconds..")


def test_an_oops_that_is_cut_short_by_a_panic_is_both() -> None:
    log = stamped("Internal error: Oops: 96000004 [#1] SMP\npc : broken+0xc\nKernel panic - not syncing: stack")
    assert kinds(log) == [FaultKind.OOPS, FaultKind.PANIC]


def test_faults_are_told_in_their_order() -> None:
    log = stamped(f"{WARNING}\n{BEFORE}\n{STALL}\n{AFTER}\n{SOFT}\n{OOPS_ARM64}\n{PANIC}")
    expected = [FaultKind.WARNING, FaultKind.RCU_STALL, FaultKind.SOFT_LOCKUP, FaultKind.OOPS, FaultKind.PANIC]
    assert kinds(log) == expected


def test_each_of_two_warnings_counts() -> None:
    assert kinds(stamped(f"{WARNING}\n{WARNING}")) == [FaultKind.WARNING, FaultKind.WARNING]


CUT = "------------[ cut here ]------------"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ([], ""),
        ([CUT], ""),  # WARN_ON()
        ([CUT, "wake-up 1000 of swapper/0"], "wake-up 1000 of swapper/0"),  # WARN()
        ([CUT, "two", "lines"], "two lines"),
        (["an ordinary line"], ""),
        ([CUT, "long ago", *(["an ordinary line"] * 4)], ""),
    ],
)
@pytest.mark.parametrize("style", ["", "[   10.000000] ", "[   10.000000][   C10] "])
def test_why_a_warning_fired_stands_before_it(before: list[str], reason: str, style: str) -> None:
    (fault,) = scan("\n".join(style + line for line in ["ordinary", *before, *WARNING.split("\n")]))
    assert fault.reason == reason
    assert fault.line == WARNING.split("\n", maxsplit=1)[0]


def test_a_bug_dies_as_an_oops() -> None:
    text = "kernel BUG at lib/list_debug.c:29!\nInternal error: Oops - BUG: 00000000f2000800 [#1] PREEMPT_RT SMP"
    assert kinds(stamped(text)) == [FaultKind.BUG, FaultKind.OOPS]


def test_what_programs_print_is_not_part_of_a_fault() -> None:
    (found,) = scan(stamped(STALL) + "\ntarget# echo hello\nhello")
    assert found.text == stamped(STALL)


def test_a_fault_that_never_ends_does_not_swallow_the_log() -> None:
    (found,) = scan(stamped(ATOMIC + "\nnoise" * 1000))
    assert found.text.count("\n") < 100


@pytest.mark.parametrize(
    "line",
    [
        "DEBUG: nothing is wrong",
        "usb: DEBUG: port reset",
        "traps: a.out[123] general protection fault ip:7f0 sp:7ff error:0 in libc.so.6[7f0+195000]",
        "a.out[123]: segfault at 0 ip 000055 sp 00007f error 4 in a.out[55+1000]",
        "rcu: Preemptible hierarchical RCU implementation.",
        "rcu: 	RCU priority boosting: priority 1 delay 500 ms.",
        "watchdog: Delayed init of the lockup detector failed: -19",
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "Warning: unable to open an initial console.",
        "WARNING: this system is a demo",
        "WARNING: kernel/x.c:1 at the end of its line",
        "WARNING: at boot, CPU 1 was slow",
        "rcu_tasks_wait_gp: rcu_tasks grace period number 85 (since boot) is 131273 jiffies old.",
        "INFO: task startplasma:1473 is blocked on a mutex likely owned by task dd:1.",
        "cut: 1a2b [1]",
        "printk: legacy bootconsole [pl11] enabled",
        "debug: ignoring loglevel setting.",
        "Kernel command line: oops=panic panic=-1 softlockup_panic=1",
        "sched: RT throttling disabled",
        "sched_clock: 57 bits at 63MHz, resolution 16ns, wraps every 4398046511096ns",
        "INFO: lockdep is turned off.",
    ],
)
def test_an_ordinary_line_is_no_fault(line: str) -> None:
    assert scan(line) == ()
    assert scan(stamped(line)) == ()


def captured(name: str) -> tuple[Fault, ...]:
    return scan((CAPTURED / f"{name}.log").read_text(encoding="utf-8", errors="replace"))


@pytest.mark.parametrize("name", ["measured-idle", "measured-hackbench", "hang"])
def test_a_captured_console_without_a_fault_shows_none(name: str) -> None:
    assert captured(name) == ()


def test_the_captured_oops_is_found_with_its_trace() -> None:
    (found,) = captured("oops")
    assert found.kind is FaultKind.OOPS
    address = "0000000000000000"
    assert found.line == f"Unable to handle kernel NULL pointer dereference at virtual address {address}"
    assert "Internal error: Oops: 0000000096000046 [#1] PREEMPT_RT SMP" in found.text
    assert "pc : bad_oops_later_run+0xc/0x14" in found.text
    assert found.text.endswith(f"---[ end trace {address} ]---")


def test_the_captured_panic_is_found_with_its_trace() -> None:
    (found,) = captured("panic")
    assert (found.kind, found.line) == (FaultKind.PANIC, "Kernel panic - not syncing: rtgate self-test: no boot")
    assert "bad_no_boot+0x14/0x18" in found.text


def test_only_a_dead_kernel_is_fatal() -> None:
    """`kernel BUG at` dies as an oops; a kernel that says `BUG: using smp_processor_id()` goes on."""
    assert {FaultKind.PANIC, FaultKind.OOPS} == FATAL


ARM64_BOOT = "Booting Linux on physical CPU 0x0000000000 [0x411fd070]"
VERSION = "Linux version 6.12.117 (rtgate@rtgate) (aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_RT"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (f"F0123 1 AAAA\r\n[    0.000000] {ARM64_BOOT}\r\n[    0.000000] {VERSION}\r\n", ARM64_BOOT),
        (f"half a l[    0.000000] {VERSION}\r\nmore", VERSION),
        (f"x\r{VERSION}", VERSION),
        (
            "garbage\r\nU-Boot SPL 2017.09-gabc (Jun 01 2023 - 08:00:00 +0000)\r\n",
            "U-Boot SPL 2017.09-gabc (Jun 01 2023",
        ),
        ("\nU-Boot 2024.01-rc2 (Jan 08 2024)\n", "U-Boot 2024.01-rc2 (Jan 08 2024)"),
        ("rtgate: plan started\nrtgate: measured\n", ""),
        ("[    1.0] usb: this is not Linux version 6.1", ""),
        ("a U-Boot 2024.01 was flashed", ""),
    ],
)
def test_a_machine_that_starts_is_seen(log: str, line: str) -> None:
    assert banner(log).startswith(line)
    assert bool(banner(log)) == bool(line)


@pytest.mark.parametrize("name", ["measured-idle", "oops", "panic"])
def test_captured_boots_are_seen(name: str) -> None:
    assert "Linux" in banner((CAPTURED / f"{name}.log").read_text(encoding="utf-8", errors="replace"))


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("x\r\n[   10.593896] reboot: Restarting system\r\n", "reboot: Restarting system"),
        ("[   10.593896] reboot: Power down", "reboot: Power down"),
        ("Rebooting in 5 seconds..", ""),
    ],
)
def test_a_machine_that_was_told_to_stop_is_seen(log: str, line: str) -> None:
    assert orderly_end(log) == line


WORDS = st.sampled_from(
    [
        *(line for parameter in MESSAGES for line in str(parameter.values[0]).split("\n")[:2]),
        *(
            "\n",
            "\r",
            "\r\n",
            "[    1.000000] ",
            "<3>",
            "[ T1] ",
            "---[ end trace 0 ]---",
            "BUG: ",
            "INFO: task ",
            "x" * 99,
        ),
    ]
)


@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=30).map("".join)))
def test_any_text_can_be_scanned(log: str) -> None:
    for fault in scan(log):
        assert fault.text.split("\n")[0].strip().endswith(fault.line)
        assert fault.text.replace("\n", "") in log.replace("\r", "").replace("\n", "")


def test_a_second_fault_of_one_kind_is_not_part_of_the_first() -> None:
    splat = "BUG: sleeping function called from invalid context at {}.c:1\nin_atomic(): 1, irqs_disabled(): 0\n"
    found = scan(stamped(splat.format("old") + splat.format("new")))
    assert [fault.line for fault in found] == [splat.format(name).split("\n")[0] for name in ("old", "new")]


LONG = 1_000_000


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(stamped(AFTER) + "\n", id="ordinary lines"),
        pytest.param(stamped(OOPS_ARM64) + "\n", id="oopses"),
        pytest.param(stamped(SOFT + "\n" + STALL) + "\n", id="faults in turns"),
        pytest.param("x", id="one long line"),
        pytest.param("         \n", id="empty lines"),
        pytest.param("INFO: task ", id="almost hung tasks"),
        pytest.param("rcu: INFO: " + "r" * 50, id="almost stalls"),
        pytest.param("WARNING: CPU: 1 PID: ", id="almost warnings"),
        pytest.param("WARNING: " + "safe" * 10, id="almost unsafe"),
        pytest.param("WARNING: a.c:1 at f [", id="almost new warnings"),
        pytest.param("[    1.000000] BUG: ", id="stamps and faults in one line"),
    ],
)
def test_a_long_log_is_scanned_in_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        began = time.process_time()
        scan(piece * (size // len(piece)))
        return time.process_time() - began

    gc.disable()  # it would look through what other tests left in this process
    try:
        short, whole = seconds(LONG // 8), seconds(LONG)
    finally:
        gc.enable()
    assert whole < 8 * 3 * max(short, 0.02)
    assert whole < 10
