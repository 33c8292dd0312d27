# SPDX-License-Identifier: MIT
"""Critical sections have the lengths that they are known to have, and a planted one is named though it ran once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rtgate.board import boards
from rtgate.explain.cache_models import MODELS
from rtgate.explain.handler_lengths import interrupt_handlers
from rtgate.explain.lock_holds import RawLock, raw_locks
from rtgate.explain.replay import Replay
from rtgate.explain.section_path import section_profiles
from rtgate.explain.sections import BootSections, Kind, Log, Section, sections_by_site
from rtgate.explain.spots import SpotNames
from rtgate.explain.trace import TraceRequest
from rtgate.kernel.interrupt_handlers import handler_calls
from rtgate.kernel.preemption import preemption
from rtgate.kernel.raw_locks import lock_functions, lock_name
from rtgate.kernel.vmlinux import Vmlinux, plain_name
from rtgate.measure.case_record import measure
from rtgate.records.codec import decode
from rtgate.target.qemu import version
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import find_case

from .conftest import ROOT, Patched, rtgate

DATA = ROOT / "selftests" / "data" / "sections"
WALKED = 64 * 1024 // 64  # lines of memory, twice as many as an L1D of 32 KiB has
# (kind, context, function) and the length in instructions, as init/known.c of the patch says it.
EXACT = {
    ("irqsoff", "thread", "known_irqs_off"): 2 * 1000 + 1,
    ("irqsoff", "thread", "known_irqs_off_long"): 2 * 100_000 + 1,  # an interrupt is pending in the end
    ("irqsoff", "thread", "known_irqs_restored"): 2 * 1100 + 1,
    ("irqsoff", "softirq", "known_softirq"): 2 * 4000 + 1,
    ("preemptoff", "thread", "known_preemption_off"): 2 * 1200 + 3,
    ("preemptoff", "thread", "known_preemption_off_long"): 2 * 200_000 + 3,  # without the interrupts that come in it
    ("preemptoff", "thread", "known_preemption_off_nested"): 2 * 1300 + 9,
    ("irqsoff", "thread", "known_overlap"): 4,
    ("preemptoff", "thread", "known_overlap"): 2 * 1400 + 4,
    ("preemptirqsoff", "thread", "known_overlap"): 2 * 1400 + 7,
    ("irqsoff", "thread", "known_begin"): 2 * 1500 + 4,
    # What postpones the scheduler, the interrupts in it left out.
    ("poid", "thread", "known_irqs_off"): 2 * 1000 + 1,
    ("poid", "softirq", "known_softirq"): 2 * 4000 + 1,
    ("poid", "thread", "known_preemption_off_long"): 2 * 200_000 + 3,
    ("poid", "thread", "known_overlap"): 2 * 1400 + 7,
    ("irqsoff", "thread", "known_walk"): 3 * WALKED + 1,
    ("irqsoff", "thread", "known_walk_across"): 3 * WALKED // 2 + 1,
}
"""How long each section is on arm64, whenever it runs."""
X86 = {
    ("irqsoff", "thread", "known_irqs_restored"): 2 * 1100 + 2,
    ("preemptoff", "thread", "known_preemption_off"): 2 * 1200 + 1,
    ("preemptoff", "thread", "known_preemption_off_long"): 2 * 200_000 + 1,
    ("preemptoff", "thread", "known_preemption_off_nested"): 2 * 1300 + 3,
    ("irqsoff", "thread", "known_overlap"): 2,
    ("preemptoff", "thread", "known_overlap"): 2 * 1400 + 2,
    ("preemptirqsoff", "thread", "known_overlap"): 2 * 1400 + 3,
    ("poid", "thread", "known_preemption_off_long"): 2 * 200_000 + 1,
    ("poid", "thread", "known_overlap"): 2 * 1400 + 3,
    ("irqsoff", "thread", "known_walk"): 4 * WALKED + 1,
    ("irqsoff", "thread", "known_walk_across"): 4 * WALKED // 2 + 1,
}
"""And on x86-64, where counting is one instruction instead of three."""
INTERRUPTS = {"arm64": ("el1h_64_irq", "el0t_64_irq"), "x86_64": ("asm_sysvec_apic_timer_interrupt",)}
"""Where the timer's interrupts enter."""
WAKE_UP = "wake-up-3-percent-longer"
LONGER = range(108, 116)
"""What its `try_to_wake_up()` takes more: the loop of 108, and a few around it; 111 with GCC 12."""
PHASE = 54
"""Up to what the mean of another stage may differ, as boots have their wake-ups at other moments: half of that."""
TIMERS = {"arm64": "arch_timer_handler_virt", "x86_64": "__sysvec_apic_timer_interrupt"}
"""What the kernel calls as their handler."""
PRIMARY = 2
"""Instructions of `irq_default_primary_handler`, which returns a constant."""
QEMUS = {"arm64": "qemu-system-aarch64", "x86_64": "qemu-system-x86_64"}
BOARDS = ("virt-arm64", "virt-arm64-smp2", "virt-arm64-smp4", "virt-x86_64", "virt-x86_64-smp2")
KNOWN = [
    pytest.param(board, qemu, id=f"{board}-{qemu or 'here'}") for qemu in ("", "trixie", "sid") for board in BOARDS
]
LOCK = 2 * 1600  # with what locks and unlocks around it
LONG_LOCK = 2 * 150_000
ALTERED = frozenset({"known_end", "known_hrtimer_function", "hrtimer_interrupt"})
"""Functions whose calls are looked for: the first enables interrupts, the second runs in a hard interrupt, the third
calls the second. And one of `TIMERS`, which calls the third."""


@pytest.mark.long("a kernel of its own")
@pytest.mark.parametrize(("board", "qemu"), KNOWN, indirect=["qemu"])
@pytest.mark.usefixtures("qemu")
def test_sections_of_known_lengths_are_measured_to_the_instruction(
    patched: Patched, board: str, request: pytest.FixtureRequest
) -> None:
    arch, cpus = boards.board(board).arch, boards.board(board).cpus
    emulator = version(QEMUS[arch])
    if board == "virt-x86_64-smp2" and "version 11.1." in emulator:
        pytest.skip(f"{emulator}: a boot of this board does not repeat")
    unpatched = request.getfixturevalue("x86_64_kernel") if arch == "x86_64" else None
    directory = patched(f"known-lengths-{arch}", DATA / "known-lengths", unpatched)
    found, log = of_whole_boot(directory, board, ALTERED | {TIMERS[arch]})
    exact = EXACT | X86 if arch == "x86_64" else EXACT
    entries = INTERRUPTS[arch]
    by_site = {
        (str(each.site.kind), str(each.site.context), each.site.begin.function): each
        for each in found
        if each.site.begin.function.startswith("known_")
    }
    lengths = {key: (by_site[key].longest, by_site[key].total / by_site[key].count) for key in exact}
    assert lengths == {key: (length, length) for key, length in exact.items()}
    assert min(by_site[key].count for key in exact) > 50  # each 20 ms of 2 s and more
    assert by_site["irqsoff", "thread", "known_begin"].site.end.function == "known_end"
    for kind in ("irqsoff", "preemptoff", "preemptirqsoff"):
        lock = by_site[kind, "thread", "known_raw_lock"]
        assert lock.total == lock.count * lock.longest
        assert LOCK < lock.longest < LOCK + 40
        assert (lock.site.begin.helper, lock.site.end.function) == ("_raw_spin_lock_irqsave", "known_raw_lock")
    locks = known_locks(log, Vmlinux(directory / "vmlinux"), cpus)
    assert [(lock.name, lock.function) for lock in locks] == [
        ("known_lock", "known_raw_lock"),
        ("known_long_lock", "known_raw_lock_long"),
    ]
    for hold, spin in zip(locks, (LOCK, LONG_LOCK), strict=True):  # without the interrupts that come in the second
        assert hold.total == hold.count * hold.longest
        assert spin < hold.longest < spin + 10
    assert locks[0].count == by_site["irqsoff", "thread", "known_raw_lock"].count
    if cpus == 1:
        check_walks(*(by_site["irqsoff", "thread", f"known_walk{name}"] for name in ("", "_across", "_twice")))
        check_misses_of_interrupts(by_site["preemptoff", "thread", "known_preemption_off_long"], found)
    # What runs in a hard interrupt is a part of it.
    assert not any(context == "hardirq" for _, context, _ in by_site)
    interrupts = [each for each in found if each.site.begin.function == entries[0] and each.site.kind == "irqsoff"]
    assert max(each.longest for each in interrupts) > 2 * 5000
    if cpus == 1:  # with several, instructions of the others are counted, too
        assert 2 * 5000 < int((log.interrupts["end"] - log.interrupts["start"]).max()) < 2 * 5000 + 8000
    check_calls_and_handlers(found, log, Vmlinux(directory / "vmlinux"), cpus)


def check_calls_and_handlers(found: Sequence[Section], log: Log, kernel: Vmlinux, cpus: int) -> None:
    entries = INTERRUPTS[kernel.arch]
    calls: dict[tuple[str, str, str], int] = {}
    for each in found:
        for call in each.calls:
            key = (call.function, each.site.begin.function, str(each.site.kind))
            calls[key] = max(call.instructions, calls.get(key, 0))
    handlers = interrupt_handlers(log.handlers, range(1 << 31), kernel, 1)
    (timer,) = (handler for handler in handlers if handler.function == TIMERS[kernel.arch])
    for kind in ("irqsoff", "preemptirqsoff"):
        assert calls.pop(("known_end", "known_begin", kind)) == 2 * 1500 + 2  # a constant is loaded first
        # And the result is returned; the caller waits for nothing else.
        inner = calls.pop(("known_hrtimer_function", entries[0], kind))
        assert inner == 2 * 5000 + 3
        outer = calls.pop(("hrtimer_interrupt", entries[0], kind))
        assert inner < outer < timer.longest
        if cpus == 1:  # with several, the tick may wait for a lock until it is the other CPU's turn
            assert timer.longest < inner + 8000
    # Handlers are followed by who calls them, and calls by where functions begin. Each runs with interrupts off; an
    # interrupt that comes with preemption off is no part of that section.
    assert calls.pop((timer.function, entries[0], "irqsoff")) == timer.longest
    assert outer < calls.pop((timer.function, entries[0], "preemptirqsoff")) <= timer.longest
    # Parts of the same interrupts.
    assert {begin for function, begin, _ in calls} <= {*entries[1:], "irq_enter_rcu"}


def check_walks(once: Section, across: Section, twice: Section) -> None:
    check_misses(once, WALKED)
    check_misses(twice, 8 * 1024 // 64)  # the first walk of both; the larger ones before it left nothing of it
    # Each word is in two lines, which the walk before has left in the second level alone.
    assert across.misses is not None
    assert across.misses.total.l1d == WALKED * across.count
    assert across.misses.total.l2 < across.count


def check_misses(walk: Section, lines: int) -> None:
    """Each line of memory misses the first level once, and the code is two lines."""
    assert walk.misses is not None
    total, longest = walk.misses.total, walk.misses.longest
    assert (total.l1d, longest.l1d) == (lines * walk.count, lines)
    # The longest is the first of equal ones. The boot has used 512 KiB since it cleared the buffer;
    # while it is idle, it does not between one walk and the next.
    assert longest.l2 == lines
    assert total.l2 < total.l1d / 2
    assert total.l1i <= 2 * walk.count


def check_misses_of_interrupts(spin: Section, found: Sequence[Section]) -> None:
    """The section touches one line of data, and two of code; interrupts within it miss more, and are left out."""
    assert spin.misses is not None
    assert spin.misses.total.l1d <= 2 * spin.count
    assert spin.misses.total.l1i <= 3 * spin.count
    hardirq = [each for each in found if str(each.site.context) == "hardirq" and each.misses]
    assert sum(each.misses.total.l1i for each in hardirq if each.misses) > 10 * sum(each.count for each in hardirq)


def known_locks(log: Log, kernel: Vmlinux, cpus: int) -> list[RawLock]:
    """Return the holds of the patch's locks in the whole boot. Those of all CPUs have the names of their variables."""
    locks = raw_locks(log.locks, log.cpu_offsets, range(1 << 31), kernel, 1)
    offsets = log.cpu_offsets["offset"].tolist()
    names = {lock.name for lock in locks}
    assert names >= {"runqueues", "hrtimer_bases"}
    # What lies behind the image's copy of CPUs' variables, as the second CPU's own behind those of the first one.
    assert not names & {"init_sighand", "cpuhp_hp_states", "__compound_literal"}
    queues = [lock for lock in np.unique(log.locks["lock"]).tolist() if lock_name(kernel, lock, offsets) == "runqueues"]
    assert len(queues) == 2 * cpus  # two locks in each
    return [lock for lock in locks if lock.name.startswith("known_")]


def of_whole_boot(directory: Path, board: str, altered: frozenset[str]) -> tuple[tuple[Section, ...], Log]:
    """Return the sections of a boot from power-on to the end, and what the plugin wrote."""
    case = find_case("latency/cyclictest:idle", "smoke")
    kernels = {"candidate": directory}
    (arm,) = make_arms(ArmRequest(board=board, kernels=kernels, profile="smoke", console="virtual"))
    kernel = Vmlinux(directory / "vmlinux")
    kept = preemption(kernel)
    begins = [one.address for one in kernel.symbols if plain_name(one.name) in altered]
    assert len(begins) == len(altered)
    request = TraceRequest(
        slice_bits=21,
        preemption=kept,
        altered=begins,
        locks=lock_functions(kernel),
        handlers=handler_calls(kernel),
        caches=MODELS["cortex-a55"] if arm.board.cpus == 1 else None,
    )
    record, _ = measure(case, arm, 1)
    # It raises if the boot is not the one that was measured without it.
    replay = Replay(case=case, arm=arm, seed=1, kernel=kernel, expected=record)
    _, seen = replay.trace(request)
    assert seen.sections is not None
    assert seen.sections.unseen == 0
    names = [plain_name(kernel.function_at(address)) for address in begins]
    found = sections_by_site(seen.sections, range(1 << 31), SpotNames(kernel, kept).spot, 1, names)
    check_what_ran(replay, found)
    return found, seen.sections


def check_what_ran(replay: Replay, found: Sequence[Section]) -> None:
    """What ran in a section is as much as it is long, whatever other CPUs and interrupts did meanwhile."""
    known = [
        each for each in found if each.site.begin.function.startswith("known_") and each.site.kind is not Kind.POID
    ]
    profiles = section_profiles(replay, known, frozenset())
    sums = {str(each.site): (each.longest, ran.total) for each, ran in zip(known, profiles, strict=True)}
    assert {site: both for site, both in sums.items() if abs(both[0] - both[1]) > 1} == {}


@pytest.mark.long("kernels of their own, and boots under load")
@pytest.mark.parametrize(
    ("name", "load", "known"),
    [
        # 60 us are 7500 instructions, and 40 us are 5000, of which the longest one of the baseline takes some.
        ("softirq-interrupts-off", "idle", (7500, "run_timer_softirq")),
        ("timer-wheel-locked-longer", "hackbench", (4000, "__run_timer_base")),
    ],
)
def test_a_planted_section_is_named_first_and_is_in_the_bound(
    kernel: Path, patched: Patched, tmp_path: Path, name: str, load: str, known: tuple[int, str]
) -> None:
    least, function = known
    output = tmp_path / "sections.json"
    words = ("--board", "virt-arm64", "--baseline", kernel, "--case", f"latency/cyclictest:{load}", "-o", output)
    done = rtgate("sections", "--kernel", patched(name, DATA / "planted" / name), *words, "--caches", "cortex-a55")
    assert done.returncode == 0
    last = done.stdout.splitlines()[-1]
    sentence = re.match(r"\w+ off for ([0-9,]+) instructions .* more in (\w+): .* \(softirq\)", last)
    assert sentence is not None
    assert int(sentence[1].replace(",", "")) >= least
    assert sentence[2] == function
    kernels = json.loads(output.read_text())["kernels"]
    for arm in ("baseline", "candidate"):
        wakeups = decode(kernels[arm], BootSections).wakeup_misses
        assert wakeups is not None
        assert wakeups.count > 9000  # 10 s, at both ends of which some are left out
        # Code of a wake-up and of what runs between two does not fit into 32 KiB, and fits into 512.
        assert wakeups.count < wakeups.total.l1i < wakeups.instructions / 4
        assert wakeups.total.l2 < wakeups.total.l1i / 10
    before, after = (decode(kernels[arm], BootSections).bound for arm in ("baseline", "candidate"))
    assert before is not None
    assert after is not None
    assert before.measured < before.instructions
    assert after.measured < after.instructions
    assert function in after.postponed.place
    assert after.instructions > before.instructions


@pytest.mark.long("two boots that are followed")
def test_a_wake_up_becomes_longer_in_the_stage_that_was_changed(kernel: Path, patched: Patched, tmp_path: Path) -> None:
    output = tmp_path / "sections.json"
    candidate = patched(WAKE_UP, ROOT / "selftests" / "data" / "comparisons" / "harmful" / WAKE_UP)
    words = ("--board", "virt-arm64", "--baseline", kernel, "--profile", "smoke", "-o", output)
    done = rtgate("sections", "--kernel", candidate, *words)
    assert done.returncode == 0
    kernels = json.loads(output.read_text())["kernels"]
    stages = [decode(kernels[arm], BootSections).stages for arm in ("baseline", "candidate")]
    means: list[dict[str, float]] = []
    for each in stages:
        assert each is not None
        assert each.count > 1800  # 2 s, at both ends of which some are left out
        assert each.others < each.count / 100
        assert sum(stage.total for stage in each.stages) == each.whole.total
        means.append({stage.name: stage.total / each.count for stage in each.stages})
    changes = {name: means[1][name] - means[0][name] for name in means[0]}
    assert round(changes.pop("wake-up")) in LONGER
    assert {name: change for name, change in changes.items() if abs(change) > PHASE} == {}
    row = next(line for line in done.stdout.splitlines() if line.startswith("wake-up "))
    assert f"{means[1]['wake-up'] - means[0]['wake-up']:+.1f}" in row.split()


@pytest.mark.long("a kernel of its own, and a boot under load")
def test_handlers_in_interrupts_and_in_threads_are_listed(pcie_kernel: Path, tmp_path: Path) -> None:
    output = tmp_path / "sections.json"
    words = ("--board", "virt-arm64", "--case", "nvme/cyclictest:fio-randread", "--profile", "smoke", "-o", output)
    done = rtgate("sections", "--kernel", pcie_kernel, *words)
    assert done.returncode == 0
    assert re.search(r"^nvme_irq +thread +[0-9,]+ ", done.stdout, re.MULTILINE)
    boot = decode(json.loads(output.read_text())["kernels"]["candidate"], BootSections)
    handlers = {(handler.function, str(handler.context)): handler for handler in boot.handlers}
    assert {"arch_timer_handler_virt", "ipi_handler"} <= {name for name, context in handlers if context == "hardirq"}
    # PREEMPT_RT handles the disk's interrupts in a thread, which a function wakes that returns a constant.
    primary, threaded = handlers["irq_default_primary_handler", "hardirq"], handlers["nvme_irq", "thread"]
    assert (primary.longest, primary.total) == (PRIMARY, PRIMARY * primary.count)
    assert 0.9 * primary.count < threaded.count < 1.1 * primary.count
    assert threaded.total > 1000 * threaded.count
