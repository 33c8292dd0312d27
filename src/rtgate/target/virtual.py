# SPDX-License-Identifier: MIT
"""Virtual-time boards: QEMU counts instructions, and the plan runs in the initramfs.

The same kernel, plan and seed give the same bits, whatever else this machine does. What makes that so (verified with
QEMU 7.2): `-icount shift=N,sleep=off`, `-seed`, an RTC on the virtual clock, `nokaslr`, the serial line into a file,
and nothing typed. The clock is watched over QEMU's monitor, which reads it without disturbing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board.boards import Board, Qemu
from rtgate.console.faults import FATAL, Fault, scan
from rtgate.console.frames import FrameReader
from rtgate.durations import Deadline
from rtgate.errors import ChangedError, InfrastructureError, Interrupted
from rtgate.files import scratch
from rtgate.rootfs.images import RootfsImage, overlay
from rtgate.target import boot_cache, boot_digests, cores, host
from rtgate.target.boot_cache import BootCache, CachedBoot
from rtgate.target.host import cpu_seconds
from rtgate.target.outcome import Outcome, State, console_end, read_outcome
from rtgate.target.plan import Plan, has_measured, has_started, script
from rtgate.target.qemu import Machine, Monitor, process, version
from rtgate.target.shared_boots import SharedBoots
from rtgate.target.virtual_clock import virtual_seconds

BOOT_S = 60.0  # virtual seconds that a boot may take; a good one takes 0.8
_PANIC_GRACE_S = 2.0  # host seconds in which a dying kernel may finish its trace
_STALL_S = 40.0  # host seconds without a sign of life (clock and console stand) and without waiting for a processor
_STARVED_S = 600.0  # host seconds without a sign of life, whatever it waited for
_HOST = "this host "  # how a reason begins that is not the kernel's
_LOOK_S = 16.0  # host seconds between two looks at most, with QEMU's monitor silent; more: we were stopped ourselves
_BOOT_CPU_S = 20.0  # host CPU seconds that a boot may use; a good one uses about one
_CPU_S_PER_S = 4.0  # and for each second of measuring; a loaded one uses about one and a half
_CHANGED = (
    "the kernel or what boots it changed while it was measured: {}, QEMU or the root filesystem: "
    "find out who writes there, and measure again"
)
_POLL_S = 0.1  # each look at a boot takes time from a core that emulates


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualBoard:
    """A virtual board with a kernel and a root filesystem: boots, carries out one plan, and is gone.

    Attributes:
        image: the kernel's Image or bzImage, which nobody writes while this board is used.
        rootfs: returns the root filesystem image of a plan.
        stop: set by whoever wants all boots to end now.
        plugin: a plugin of QEMU's with its arguments, as -plugin takes them; it must not disturb virtual time.
        boot_cache: boots that were made before and need not be made again; None to make every boot.
        shared_boots: boots of another arm with the same image, which need not be made again; None to make every boot.
        image_sha256: what `image` is; empty if nobody knows.
        qemu_sha256: which QEMU the run began with; empty if nobody knows.
    """

    board: Board
    image: Path
    rootfs: Callable[[Plan], RootfsImage]
    stop: threading.Event = field(default_factory=threading.Event)
    plugin: str = ""
    boot_cache: BootCache | None = None
    shared_boots: SharedBoots | None = None
    image_sha256: str = ""
    qemu_sha256: str = ""

    def run(self, plan: Plan) -> Outcome:
        """Boot, carry out the plan, and return what came of it.

        Raises:
            ChangedError: the kernel, or what boots it, is not what the run began with.
            InfrastructureError: this machine cannot do it: no QEMU, no room on the disk.
            Interrupted: `stop` was set.
        """
        if self.shared_boots is None or self.plugin:
            return self._run(plan)
        return self.shared_boots.outcome(plan, self._run)

    def _run(self, plan: Plan) -> Outcome:
        try:
            with scratch(Path(tempfile.gettempdir()), "rtgate-boot-") as directory:
                boot = _Boot(plan, self._machine(plan, directory), self.rootfs(plan), directory)
                inputs = self._inputs(boot)
                outcome = self._outcome(boot)
                if self._inputs(boot) != inputs:
                    raise ChangedError(_CHANGED.format(boot.machine.image))
        except OSError as error:
            raise InfrastructureError(f"the virtual board could not be prepared: {error}") from error
        return replace(outcome, machine={**inputs, **outcome.machine})

    def inputs(self, plan: Plan) -> dict[str, str]:
        """Return what a boot of a plan is made of, as `machine` of its record has it. Raises as `run`."""
        try:
            with scratch(Path(tempfile.gettempdir()), "rtgate-boot-") as directory:
                return self._inputs(_Boot(plan, self._machine(plan, directory), self.rootfs(plan), directory))
        except OSError as error:
            raise InfrastructureError(f"what a boot is made of cannot be read: {error}") from error

    def _inputs(self, boot: _Boot) -> dict[str, str]:
        """Return what QEMU is handed. Raises ChangedError: the run began with something else."""
        image, program = boot_digests.sha256(boot.machine.image), boot_digests.program(self._qemu.binary)
        boot_digests.check_unchanged("the kernel", boot.machine.image, self.image_sha256, image)
        boot_digests.check_unchanged("QEMU", self._qemu.binary, self.qemu_sha256, program)
        facts = {"qemu": version(self._qemu.binary), "rootfs": boot.rootfs.content_sha256, "command": boot.command}
        facts |= {"image_sha256": image, "initrd_sha256": boot.initrd_sha256, "qemu_sha256": program}
        facts |= boot_digests.device_tree(boot.machine.argv())
        plan = hashlib.sha256(script(boot.plan).encode()).hexdigest()[:16]  # two kernels are compared on equal ones
        return {**facts, "plan": plan}

    def _machine(self, plan: Plan, directory: Path) -> Machine:
        return Machine(
            board=self.board,
            image=self.image,
            initrd=directory / "initrd",
            serial=f"file:{directory / 'console'}",
            seed=plan.seed,
            command_line=plan.command_line,
            virtual_time=True,
            monitor=directory / "qmp",
            devices=plan.devices,
            plugin=self.plugin,
        )

    def _outcome(self, boot: _Boot) -> Outcome:
        """Return what came of a boot: of an equal one that was made before, or of this one."""
        if self.boot_cache is None or not boot.machine.is_isolated or self.plugin:
            return self._boot(boot)
        digest = self._digest(boot)
        cached_boot = self.boot_cache.find(digest)
        if cached_boot is not None and not self.boot_cache.is_due(digest, boot.plan.case, boot.plan.seed):
            outcome = self._watch(boot).read(cached_boot.console)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            return replace(outcome, seconds=cached_boot.seconds, machine={"booted": cached_boot.booted, "taken": now})
        outcome = self._boot(boot)
        whole = outcome.state is State.MEASURED and "ended" not in outcome.machine
        if self._digest(boot) != digest:
            raise ChangedError(_CHANGED.format(boot.machine.image))
        if cached_boot is None and whole:
            self.boot_cache.keep(digest, outcome.console, outcome.seconds)
        # What QEMU prints after the results, until it is ended by force, depends on this machine.
        if cached_boot is None or outcome.state is State.LAB or (outcome.state is State.MEASURED and not whole):
            return outcome
        return self._check_repetition(outcome, cached_boot, digest)

    def _check_repetition(self, outcome: Outcome, cached_boot: CachedBoot, digest: str) -> Outcome:
        """Return the outcome of a boot that was made again: no measurement, if it printed something else."""
        assert self.boot_cache is not None
        different = boot_cache.difference(cached_boot.console, outcome.console)
        if not different:
            return replace(outcome, machine={"repeated": cached_boot.booted})
        self.boot_cache.differs(digest)
        message = f"virtual time did not repeat: an equal boot of {cached_boot.booted} printed other bytes: {different}"
        message += f" ({outcome.message})" if outcome.message else ""
        return replace(
            outcome, state=State.UNREPEATED, faults=(), message=f"{message}; --no-boot-cache makes every boot anew"
        )

    def _digest(self, boot: _Boot) -> str:
        # What is called QEMU may be a script, whose bytes say nothing of the QEMU that it starts.
        command = f"{version(self._qemu.binary)}: {boot.command}"
        return boot_cache.digest(
            self._qemu.binary, command, boot.extra_archive, (boot.machine.image, boot.rootfs.archive)
        )

    def _boot(self, boot: _Boot) -> Outcome:
        # The uncompressed archive: unpacking gzip takes the target 0.75 virtual seconds.
        shutil.copyfile(boot.rootfs.archive, boot.machine.initrd)
        with boot.machine.initrd.open("ab") as stream:
            stream.write(boot.extra_archive)
        with cores.take_core() as core:
            watch = self._watch(boot)
            began = time.monotonic()
            with process(cores.bind_command(boot.machine.argv(), core), boot.directory / "qemu.log") as child:
                reason = watch.until_over(child)
                watch.seconds["qemu"] = round(time.monotonic() - began, 3)
            outcome = watch.outcome(reason, child.returncode)
            facts = {"ended": reason or f"exit code {child.returncode}"} if reason or child.returncode else {}
            seconds = {**watch.seconds, "total": round(time.monotonic() - began, 3)}
            return replace(outcome, seconds=seconds, machine=facts)

    def _watch(self, boot: _Boot) -> _Watch:
        return _Watch(boot.directory, boot.plan, self.board.arch, self.stop)

    @property
    def _qemu(self) -> Qemu:
        assert self.board.qemu is not None
        return self.board.qemu


@dataclass(frozen=True, slots=True)
class _Boot:
    """One plan, the machine for it, the root filesystem of all boots, and a directory for this one."""

    plan: Plan
    machine: Machine
    rootfs: RootfsImage
    directory: Path

    @property
    def extra_archive(self) -> bytes:
        """What the initramfs gets beside the root filesystem."""
        return overlay({"rtgate/plan": script(self.plan).encode()})

    @property
    def initrd_sha256(self) -> str:
        """The digest of the initramfs: of the file that was handed over, or of what it would be made from."""
        if self.machine.initrd.exists():
            return boot_digests.sha256(self.machine.initrd)
        return hashlib.sha256(self.rootfs.archive.read_bytes() + self.extra_archive).hexdigest()

    @property
    def command(self) -> str:
        """QEMU's command line without the names of temporary files, so that equal boots have equal ones."""
        words = [Path(word).name if word.startswith("LD_PRELOAD=") else word for word in self.machine.argv()]
        text = " ".join(words).replace(str(self.directory), "DIR")
        return text.replace(str(self.machine.image), self.machine.image.name)


class _Watch:
    """Follows one boot: its console file, its clock, its process."""

    def __init__(self, directory: Path, plan: Plan, arch: str, stop: threading.Event) -> None:
        self.seconds: dict[str, float] = {}
        self._console = directory / "console"
        self._errors = directory / "qemu.log"
        self._monitor = Monitor(directory / "qmp")
        self._plan = plan
        self._arch = arch
        self._stop = stop
        self._began = time.monotonic()
        self._log = b""
        self._looked = 0

    def read(self, console: bytes) -> Outcome:
        """Return what a boot came to that was made before, from what it printed."""
        self._log = console
        return self.outcome("", 0)

    def until_over(self, child: subprocess.Popen[bytes]) -> str:
        """Wait until QEMU has ended or must be ended; return why: empty, or the deadline that passed."""
        try:
            with _end(child) as wait:
                return self._follow(child, wait)
        finally:
            self._monitor.close()
            self._read()

    def _follow(self, child: subprocess.Popen[bytes], wait: Callable[[float], object]) -> str:
        last_change = clock_read = time.monotonic()
        clock = wait_s = still = cpu_s = 0.0
        grace: Deadline | None = None
        while child.poll() is None:
            wait(_POLL_S)
            if self._stop.is_set():
                raise Interrupted("stopped")
            if self._read():
                still, wait_s = 0.0, host.waited_s(child.pid) or 0.0
                last_change = time.monotonic()
                if grace is None and self._fatal():
                    grace = Deadline.after(_PANIC_GRACE_S)
            if grace is not None and grace.expired:
                return "fault"
            if time.monotonic() - clock_read < 1.0:
                continue
            clock_read, since = time.monotonic(), max(clock_read, last_change)
            still = watched_s(still, clock_read - since)
            now = virtual_seconds(self._monitor, self._arch)
            if now is not None and now != clock:
                clock, still, wait_s = now, 0.0, host.waited_s(child.pid) or 0.0
                last_change = time.monotonic()
            before, cpu_s = cpu_s, cpu_seconds(child.pid)
            # What waits for a processor gives no sign of life either, and is not the kernel's fault.
            stall = still - max(0.0, (host.waited_s(child.pid) or 0.0) - wait_s)
            silent = self._monitor.silent and cpu_s == before
            reason = (
                self._stop_reason(child.pid, stall, silent=silent)
                or self._overdue(clock, stall, cpu_s)
                or self._starvation_reason(still)
            )
            if reason:
                return reason
        return ""

    @staticmethod
    def _stop_reason(pid: int, stall: float, *, silent: bool) -> str:
        why = host.why_stopped(pid, silent=silent) if stall > _STALL_S else ""
        return why and f"{_HOST}stopped QEMU ({why}), not the kernel: no sign of life for {stall:.0f} s"

    @staticmethod
    def _starvation_reason(still: float) -> str:
        reason = f"{_HOST}gave the machine no processor: no sign of life for {_STARVED_S:.0f} s"
        return reason if still > _STARVED_S else ""

    def _read(self) -> bool:
        if not self._console.exists():
            return False
        with self._console.open("rb") as stream:
            stream.seek(len(self._log))
            new = stream.read()
        self._log += new
        for name, predicate in (("boot", has_started), ("measured", has_measured)):
            if new and name not in self.seconds and predicate(self._log[-len(new) - 100 :].decode("latin-1")):
                self.seconds[name] = round(time.monotonic() - self._began, 3)
        return bool(new)

    def _fatal(self) -> bool:
        """Return whether what came since the last look, from the beginning of its line, says that the kernel died."""
        new = self._log[self._log.rfind(b"\n", 0, self._looked) + 1 :]
        self._looked = len(self._log)
        return any(fault.kind in FATAL for fault in scan(new.decode("utf-8", errors="replace")))

    def _overdue(self, clock: float, stall: float, cpu_s: float) -> str:
        """Return which deadline has passed.

        The host's deadline is in CPU time of QEMU, not on the wall clock: a host that is busy with other things must
        not make a good kernel look hung.
        """
        if "boot" not in self.seconds and clock > BOOT_S:
            return f"it did not come to the plan within {BOOT_S:.0f} virtual seconds"
        whole = BOOT_S + self._plan.deadline_s + 10
        if clock > whole:
            return f"the plan did not end within {whole:.0f} virtual seconds"
        # What has a fixed amount of work to do takes as long as the plan lets it, whatever its length is called.
        limit = _BOOT_CPU_S + (_CPU_S_PER_S * self._plan.tool_deadline_s if "boot" in self.seconds else 0)
        if cpu_s > limit:
            return f"{limit:.0f} s of this machine's CPU time were not enough"
        if stall > _STALL_S:
            return f"no sign of life for {_STALL_S:.0f} s"
        return ""

    def outcome(self, reason: str, exit_code: int) -> Outcome:
        """Say what the boot came to."""
        reader = FrameReader(self._plan.nonce)
        reader.feed(self._log)
        reader.finish()
        faults = scan(self._log.decode("utf-8", errors="replace"))
        outcome = replace(read_outcome(reader), console=self._log, faults=faults)
        if reader.has_closing_line:
            return outcome
        state, message = self._explain_unfinished(reason, exit_code, faults)
        return replace(outcome, state=state, message=message)

    def _explain_unfinished(self, reason: str, exit_code: int, faults: tuple[Fault, ...]) -> tuple[State, str]:
        where = "during the measurement" if "boot" in self.seconds else "while booting"
        fatal = [fault for fault in faults if fault.kind in FATAL]
        if fatal:
            state = State.FAULT if "boot" in self.seconds else State.NO_BOOT
            return state, f"the kernel died {where}: {fatal[0].line}"
        if reason.startswith(_HOST):
            return State.LAB, f"{reason} {where}; measure again"
        if reason:
            state = State.HANG if "boot" in self.seconds else State.NO_BOOT
            return state, f"the kernel hung {where}: {reason}; {console_end(self._log)}"
        message = self._errors.read_text(errors="replace").strip()
        # A warning of QEMU's says nothing about a machine that printed something and stopped.
        if exit_code != 0 or (message and not self._log):
            return State.LAB, f"QEMU ended with exit code {exit_code}: {message[:500] or 'no message'}"
        if "rtgate: cannot write" in self._log.decode("latin-1"):
            return State.LAB, "the target's RAM file system is full or not writable"
        state = State.FAULT if "boot" in self.seconds else State.NO_BOOT
        return state, f"the machine stopped {where} without a word; {console_end(self._log)}"


@contextlib.contextmanager
def _end(child: subprocess.Popen[bytes]) -> Iterator[Callable[[float], object]]:
    """Yield what waits for the end of a process, for so many seconds at most."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except OSError:  # a container may refuse it
        yield time.sleep
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield lambda seconds: poll.poll(1000 * seconds)
    finally:
        os.close(descriptor)


def watched_s(still: float, since: float) -> float:
    """Return for how many seconds somebody saw a boot stand still, `since` seconds after the last look.

    A look that comes much later than asked for was kept from happening: this process was stopped, and its QEMU with
    it (a paused container, a frozen virtual machine). CLOCK_MONOTONIC itself leaves a suspended host out
    (clock_gettime(2)).
    """
    return still + min(since, _LOOK_S)
