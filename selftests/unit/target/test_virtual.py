# SPDX-License-Identifier: MIT
"""A virtual-time board whose QEMU is a program of this test: it plays back a boot and says how it was started."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rtgate.board import boards
from rtgate.errors import ChangedError, InfrastructureError, Interrupted
from rtgate.rootfs.images import RootfsImage, overlay
from rtgate.target import cores, qemu, virtual
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan, script
from rtgate.target.shared_boots import SharedBoots
from rtgate.target.virtual import VirtualBoard
from rtgate.tools.loads import Load

PACKAGES = [str(Path(qemu.__file__).parents[2]), str(Path(__file__).parents[3])]
QEMU = f"""\
#!{sys.executable}
import gzip, io, json, os, pathlib, re, sys, tarfile, time
sys.path[:0] = {PACKAGES!r}
from selftests.frames import encode

if "--version" in sys.argv:
    print("QEMU emulator version 0.0 (fake)")
    sys.exit()
words = dict(zip(sys.argv, sys.argv[1:]))
console = pathlib.Path(words["-serial"].removeprefix("file:"))
initrd = pathlib.Path(words["-initrd"]).read_bytes()
nonce = re.search(rb"# rtgate plan (F\\w+):", initrd)[1].decode()
lab = pathlib.Path(__file__).parents[1]
said = {{"argv": sys.argv, "affinity": sorted(os.sched_getaffinity(0)), "initrd": initrd.decode("latin-1")}}
(lab / f"{{os.getpid()}}.writing").write_text(json.dumps(said))
(lab / f"{{os.getpid()}}.writing").rename(lab / "boots" / str(os.getpid()))
mode = (lab / "mode").read_text()
while mode == "wait" and not (lab / "go").exists():
    time.sleep(0.02)
if mode.startswith("exit"):
    print("no such machine", file=sys.stderr)
    sys.exit(int(mode.split()[1]))
started = "" if "early" in mode else "rtgate: plan started\\r\\n"
if mode == "panic in two parts":
    console.write_text(started + "[    0.5] Kernel pa")
    time.sleep(0.5)
    console.write_text(started + "[    0.5] Kernel panic - not syncing: no init\\r\\n")
    time.sleep(600)
if mode.startswith("panic"):
    console.write_text(started + "[    0.5] Kernel panic - not syncing: no init\\r\\n")
    sys.exit()
if mode.startswith("silence"):
    console.write_text(started + "last words\\r\\n")
    sys.exit()
if mode.startswith("full"):
    console.write_text("rtgate: cannot write /run/rtgate\\r\\n")
    sys.exit()
if mode.startswith("hang"):
    console.write_text(started + "last words\\r\\n")
    time.sleep(600)
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    member = tarfile.TarInfo("r/tool.out")
    member.size = 5
    tar.addfile(member, io.BytesIO(b"hello"))
data = gzip.compress(archive.getvalue(), mtime=0) if mode != "garbage" else b"no archive"
kernel = mode.partition("kernel says ")[2] + "\\r\\n"
console.write_text("\\r\\n".join([kernel + started + "rtgate: measured", *encode(data, nonce), ""]))
"""


@dataclass
class Lab:
    """A machine with that QEMU and a root filesystem."""

    directory: Path
    image: RootfsImage
    asked: list[Plan] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def mode(self, text: str) -> None:
        (self.directory / "mode").write_text(text)

    def rootfs(self, plan: Plan) -> RootfsImage:
        self.asked.append(plan)
        return self.image

    @property
    def board(self) -> VirtualBoard:
        return VirtualBoard(
            board=boards.board("virt-arm64"), image=self.directory / "Image", rootfs=self.rootfs, stop=self.stop
        )

    def boots(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in (self.directory / "boots").iterdir()]


def plan_of(seed: int = 1) -> Plan:
    return Plan(
        case="latency/stub:idle",
        argv=("stub",),
        load=Load(name="idle"),
        seed=seed,
        duration_s=1,
        image="full",
        command_line="isolcpus=1",
    )


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for name in ("bin", "boots"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin" / "qemu-system-aarch64"
    program.write_text(QEMU)
    program.chmod(0o755)
    (tmp_path / "Image").write_bytes(b"kernel")
    (tmp_path / "archive").write_bytes(b"an archive")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    qemu.version.cache_clear()
    image = RootfsImage(
        path=tmp_path / "none",
        archive=tmp_path / "archive",
        manifest=tmp_path / "none",
        name="full",
        arch="arm64",
        sha256="a" * 64,
        content_sha256="c" * 64,
        versions={},
    )
    made = Lab(tmp_path, image)
    made.mode("good")
    yield made
    qemu.version.cache_clear()


def option(boot: dict[str, Any], name: str) -> str:
    argv: list[str] = boot["argv"]
    assert argv.count(name) == 1
    return argv[argv.index(name) + 1]


def test_a_boot_carries_out_its_plan(lab: Lab) -> None:
    plan = plan_of(seed=7)
    found = lab.board.run(plan)
    assert (found.state, found.message, found.files) == (State.MEASURED, "", {"tool.out": b"hello"})
    assert found.console.startswith(b"\r\nrtgate: plan started\r\nrtgate: measured\r\n")
    assert set(found.seconds) == {"boot", "measured", "qemu", "total"}
    assert lab.asked == [plan]
    (boot,) = lab.boots()
    expected = b"an archive" + overlay({"rtgate/plan": script(plan).encode()})
    assert boot["initrd"].encode("latin-1") == expected
    assert option(boot, "-seed") == "7"
    assert option(boot, "-append").endswith(f"{boards.board('virt-arm64').command_line} isolcpus=1")
    assert option(boot, "-kernel") == str(lab.directory / "Image")


def test_the_record_gets_what_ran_the_board_without_names_of_this_boot(lab: Lab) -> None:
    first, second = lab.board.run(plan_of()), lab.board.run(plan_of())
    assert first.machine == second.machine
    digests = {"image_sha256", "initrd_sha256", "qemu_sha256"}
    assert set(first.machine) == {"qemu", "rootfs", "command", "plan", *digests}
    (boot, _) = lab.boots()
    handed = {
        "image_sha256": b"kernel",
        "initrd_sha256": boot["initrd"].encode("latin-1"),
        "qemu_sha256": QEMU.encode(),
    }
    assert {key: first.machine[key] for key in digests} == {
        key: hashlib.sha256(data).hexdigest() for key, data in handed.items()
    }
    assert first.machine["qemu"] == "QEMU emulator version 0.0 (fake)"
    assert first.machine["rootfs"] == "c" * 64
    command = first.machine["command"]
    assert command.startswith("qemu-system-aarch64 ")
    assert "-initrd DIR/initrd" in command
    assert "-kernel Image" in command
    assert "isolcpus=1" in command
    assert str(lab.directory) not in command


def test_what_a_boot_is_made_of_is_known_without_it_and_has_all_of_the_board(lab: Lab) -> None:
    """Boots of a board's file that was changed since must not be taken for boots of the new one."""
    board, plan = lab.board, plan_of()
    assert board.inputs(plan) == board.run(plan).machine
    loaded = replace(plan, load=replace(plan.load, argv=("stress", "--cpu", "2")))
    others = [replace(board, board=replace(board.board, memory_mib=64)).inputs(plan), board.inputs(loaded)]
    assert all(other != board.inputs(plan) for other in others)
    assert len(lab.boots()) == 1


def test_the_device_tree_that_qemu_is_handed_is_told(lab: Lab) -> None:
    (lab.directory / "board.dtb").write_bytes(b"a tree")
    qemu_ = lab.board.board.qemu
    assert qemu_ is not None
    named = replace(qemu_, arguments=(*qemu_.arguments, "-dtb", str(lab.directory / "board.dtb")))
    found = replace(lab.board, board=replace(lab.board.board, qemu=named)).run(plan_of())
    assert found.machine["dtb_sha256"] == hashlib.sha256(b"a tree").hexdigest()


@pytest.mark.parametrize("name", ["Image", "bin/qemu-system-aarch64"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_was_replaced_since_the_run_began_is_an_error_and_no_record(lab: Lab, name: str, when: str) -> None:
    path = lab.directory / name
    board = replace(
        lab.board,
        image_sha256=hashlib.sha256(b"kernel").hexdigest(),
        qemu_sha256=hashlib.sha256(QEMU.encode()).hexdigest(),
    )
    board.run(plan_of(seed=1))
    lab.mode("wait")
    with ThreadPoolExecutor(1) as pool:
        if when == "before":
            path.write_bytes(path.read_bytes() + b"# other\n")
        under_way = pool.submit(board.run, plan_of(seed=2))
        if when == "meanwhile":
            while len(lab.boots()) < 2:
                time.sleep(0.02)
            other = lab.directory / "other"
            other.write_bytes(path.read_bytes() + b"# other\n")
            other.chmod(0o755)
            other.rename(path)
        (lab.directory / "go").touch()
        with pytest.raises(ChangedError, match=r"changed while it was measured: .*(Image|qemu-system-aarch64)"):
            under_way.result()
    assert len(lab.boots()) == (1 if when == "before" else 2)


def test_arms_of_one_image_share_their_boots(lab: Lab) -> None:
    board = replace(lab.board, shared_boots=SharedBoots())
    first = [board.run(plan_of(seed)) for seed in (1, 2)]
    second = [board.run(plan_of(seed)) for seed in (1, 2)]
    assert len(lab.boots()) == 2
    assert ["shared" in one.machine for one in (*first, *second)] == [False, False, True, True]
    assert [replace(one, machine=first[0].machine) for one in second] == [
        replace(one, machine=first[0].machine) for one in first
    ]


def test_who_shares_a_boot_that_fails_fails_too(lab: Lab) -> None:
    board = replace(lab.board, shared_boots=SharedBoots(), image_sha256="0" * 64)
    for _ in range(2):
        with pytest.raises(ChangedError):
            board.run(plan_of())


def test_each_plan_has_the_image_that_it_needs(lab: Lab) -> None:
    other = replace(lab.image, content_sha256="d" * 64)
    board = replace(lab.board, rootfs=lambda plan: other if plan.image == "core" else lab.image)
    assert board.run(plan_of()).machine["rootfs"] == "c" * 64
    assert board.run(replace(plan_of(), image="core")).machine["rootfs"] == "d" * 64


# --- cores


def _cores(lab: Lab, count: int) -> list[list[int]]:
    """Boot so many times at once, and return the cores that the boots could use."""
    lab.mode("wait")
    with ThreadPoolExecutor(count) as pool:
        boots = [pool.submit(lab.board.run, plan_of(seed)) for seed in range(count)]
        end = time.monotonic() + 20
        try:
            while len(lab.boots()) < count and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            (lab.directory / "go").touch()
        assert {boot.result().state for boot in boots} == {State.MEASURED}
    return sorted(boot["affinity"] for boot in lab.boots())


def test_boots_at_once_have_cores_of_their_own_until_all_are_taken(lab: Lab) -> None:
    here = sorted(os.sched_getaffinity(0))
    if len(here) > 4:
        pytest.skip("this machine has too many cores to use them all up")
    found = _cores(lab, len(here) + 1)
    assert sorted(found, key=len) == [*([core] for core in here), here]


@pytest.mark.parametrize("mode", ["good", "panic", "exit 1", "garbage"])
def test_a_boot_gives_its_core_back(lab: Lab, mode: str) -> None:
    lab.mode(mode)
    lab.board.run(plan_of())
    free = sorted(os.sched_getaffinity(0))
    assert [boot["affinity"] for boot in lab.boots()] == [free[:1]]
    with cores.take_core() as core:
        assert core == free[0]


# --- boots that do not come to their end


@pytest.mark.parametrize(
    ("mode", "state", "message"),
    [
        ("panic early", State.NO_BOOT, "the kernel died while booting: "),
        ("panic", State.FAULT, "the kernel died during the measurement: "),
        ("silence early", State.NO_BOOT, "the machine stopped while booting without a word; "),
        ("silence", State.FAULT, "the machine stopped during the measurement without a word; "),
        ("exit 3", State.LAB, "QEMU ended with exit code 3: no such machine"),
        ("exit 0", State.LAB, "QEMU ended with exit code 0: no such machine"),
        ("full", State.LAB, "the target's RAM file system is full or not writable"),
        ("garbage", State.UNREADABLE, "the results are not an archive: "),
    ],
)
def test_whose_turn_it_is(lab: Lab, mode: str, state: State, message: str) -> None:
    lab.mode(mode)
    found = lab.board.run(plan_of())
    assert found.state is state
    assert found.message.startswith(message)
    assert found.files == {}
    assert found.machine["rootfs"] == "c" * 64


@pytest.mark.long("waits for seconds; a line that comes whole is in make test")
def test_a_dying_kernel_whose_line_comes_in_parts_is_ended(lab: Lab) -> None:
    lab.mode("panic in two parts")
    began = time.monotonic()
    found = lab.board.run(plan_of())
    assert found.message == "the kernel died during the measurement: [    0.5] Kernel panic - not syncing: no init"
    assert time.monotonic() - began < virtual._STALL_S


@pytest.mark.parametrize(
    ("mode", "state", "where"),
    [
        pytest.param("hang early", State.NO_BOOT, "while booting", marks=pytest.mark.long("as a later hang, 2 s")),
        ("hang", State.HANG, "during the measurement"),
    ],
)
def test_a_boot_that_gives_no_sign_of_life_is_ended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str, state: State, where: str
) -> None:
    monkeypatch.setattr(virtual, "_STALL_S", 1.0)
    lab.mode(mode)
    found = lab.board.run(plan_of())
    assert found.state is state
    assert found.message.startswith(f"the kernel hung {where}: no sign of life for 1 s; last lines of the console:\n")
    assert found.message.endswith("last words")
    _nothing_runs(lab)


@pytest.mark.long("waits for seconds; a stopped QEMU and a hang are in make test")
def test_a_boot_that_gets_no_processor_is_not_the_kernel_s_fault(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "_STALL_S", 1.0)
    monkeypatch.setattr(virtual, "_STARVED_S", 3.0)
    monkeypatch.setattr("rtgate.target.host.waited_s", lambda _: time.monotonic())
    lab.mode("hang early")
    found = lab.board.run(plan_of())
    assert found.state is State.LAB
    assert (
        found.message == "this host gave the machine no processor: no sign of life for 3 s while booting; measure again"
    )
    _nothing_runs(lab)


@pytest.mark.long("waits for seconds; a stopped QEMU and a hang are in make test")
def test_a_boot_that_uses_up_its_share_of_this_machine_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "_BOOT_CPU_S", 30.0)
    monkeypatch.setattr(virtual, "_CPU_S_PER_S", 4.0)
    monkeypatch.setattr(virtual, "cpu_seconds", lambda _: 33.0)
    lab.mode("hang early")
    found = lab.board.run(plan_of())
    assert found.state is State.NO_BOOT
    assert "30 s of this machine's CPU time were not enough" in found.message
    # The plan has its tool stopped after 22 virtual seconds. Asked once a second; the boot must have been seen before.
    spent = itertools.chain(itertools.repeat(0.0, 4), itertools.repeat(119.0))
    monkeypatch.setattr(virtual, "cpu_seconds", lambda _: next(spent))
    lab.mode("hang")
    found = lab.board.run(plan_of())
    assert found.state is State.HANG
    assert "118 s of this machine's CPU time were not enough" in found.message
    _nothing_runs(lab)


def test_stopping_ends_the_boot(lab: Lab) -> None:
    lab.mode("hang")
    found: list[Outcome | BaseException] = []

    def run() -> None:
        try:
            found.append(lab.board.run(plan_of()))
        except Interrupted as error:
            found.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    end = time.monotonic() + 20
    while not lab.boots() and time.monotonic() < end:
        time.sleep(0.02)
    lab.stop.set()
    runner.join(20)
    assert [type(one) for one in found] == [Interrupted]
    _nothing_runs(lab)
    with cores.take_core() as core:
        assert core == min(os.sched_getaffinity(0))


def _nothing_runs(lab: Lab) -> None:
    for path in (lab.directory / "boots").iterdir():
        assert not Path(f"/proc/{path.name}").exists()


def test_a_root_filesystem_that_is_gone_is_the_lab_s_fault(lab: Lab) -> None:
    (lab.directory / "archive").unlink()
    with pytest.raises(InfrastructureError, match="the virtual board could not be prepared: "):
        lab.board.run(plan_of())
    assert lab.boots() == []


def test_a_root_filesystem_that_cannot_be_made_is_the_lab_s_fault(lab: Lab) -> None:
    def broken(_: Plan) -> RootfsImage:
        raise InfrastructureError("no packages")

    with pytest.raises(InfrastructureError, match="no packages"):
        replace(lab.board, rootfs=broken).run(plan_of())
    assert lab.boots() == []


@pytest.mark.parametrize("refused", [False, True])
def test_the_end_of_a_process_is_waited_for(monkeypatch: pytest.MonkeyPatch, *, refused: bool) -> None:
    def refuse(_: int) -> int:
        raise PermissionError

    if refused:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with subprocess.Popen(["sleep", "0.3"]) as child, virtual._end(child) as wait:
        wait(0.01)
        assert child.poll() is None
        began = time.monotonic()
        wait(1.5 if refused else 50)
        assert child.poll() == 0
        assert time.monotonic() - began < 40
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def _with_hanging(lab: Lab, act: Callable[[int], None]) -> Outcome:
    """Return what comes of a boot that hangs early, and whose QEMU something happens to."""
    lab.mode("hang early")
    with ThreadPoolExecutor(1) as pool:
        boot = pool.submit(lab.board.run, plan_of())
        while not (started := list((lab.directory / "boots").iterdir())):
            time.sleep(0.02)
        act(int(started[0].name))
        return boot.result(timeout=60)


def test_a_stopped_qemu_is_the_host_s(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "_STALL_S", 2.0)
    outcome = _with_hanging(lab, lambda pid: os.kill(pid, signal.SIGSTOP))
    assert (outcome.state, outcome.faults) == (State.LAB, ())
    assert re.fullmatch(
        r"this host stopped QEMU \(state T\), not the kernel: no sign of life for \d+ s while booting; measure again",
        outcome.message,
    )


@pytest.mark.long("waits for seconds; a stopped QEMU and a hang are in make test")
def test_a_frozen_qemu_is_the_host_s(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen container's processes are in no state of their own: they use no time, and do not answer."""
    monkeypatch.setattr(virtual, "_STALL_S", 2.0)
    monkeypatch.setattr(qemu.Monitor, "silent", True)
    outcome = _with_hanging(lab, lambda _: None)
    assert outcome.state is State.LAB
    assert re.match(r"this host stopped QEMU \(no processor time used, no answer\), not the kernel: ", outcome.message)


@pytest.mark.long("waits for seconds; a stopped QEMU and a hang are in make test")
@pytest.mark.parametrize("version", [1, 2])
def test_a_qemu_in_a_frozen_control_group_is_the_host_s(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, freezer: Callable[[int, int], None], version: int
) -> None:
    """Killed, it dies only when it is thawed (version 1): nobody waits for that."""
    monkeypatch.setattr(virtual, "_STALL_S", 2.0)
    monkeypatch.setattr(qemu, "_DEATH_S", 1.0)
    outcome = _with_hanging(lab, lambda pid: freezer(version, pid))
    assert (outcome.state, outcome.faults) == (State.LAB, ())
    assert re.match(r"this host stopped QEMU \(frozen by a control group\), not the kernel: ", outcome.message)


def test_a_wall_clock_that_steps_ends_no_boot(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.cycle((0.0, 2e9, 1e9))
    monkeypatch.setattr(time, "time", lambda: next(steps))
    lab.mode("")
    assert lab.board.run(plan_of()).state is State.MEASURED


def test_the_time_in_which_we_were_frozen_ourselves_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look after an hour's pause says no more than one look: only time that somebody watched counts."""
    monkeypatch.setattr(virtual, "_LOOK_S", 16.0)
    assert virtual.watched_s(3.0, 3600.0) == 19.0
    assert virtual.watched_s(3.0, 1.0) == 4.0
