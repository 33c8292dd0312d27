# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.errors import InfrastructureError
from rtgate.target import qemu
from rtgate.target.qemu import Machine, Monitor

VIRTUAL = [name for name in site.names("boards") if boards.board(name).virtual]


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "lockstep_library", lambda: Path("/cache/turns.so"))


def machine(
    board: Board,
    *,
    seed: int | None = None,
    virtual: bool = False,
    monitor: Path | None = None,
    command_line: str = "",
    devices: tuple[str, ...] = (),
) -> list[str]:
    return Machine(
        board=board,
        image=Path("/build/Image"),
        initrd=Path("/image.cpio"),
        serial="file:/console",
        seed=seed,
        virtual_time=virtual,
        monitor=monitor,
        command_line=command_line,
        devices=devices,
    ).argv()


def option(argv: Sequence[str], name: str) -> str:
    assert argv.count(name) == 1
    return argv[list(argv).index(name) + 1]


@pytest.mark.parametrize("name", VIRTUAL)
@pytest.mark.parametrize("virtual", [True, False])
def test_what_the_board_says_is_what_runs(name: str, virtual: bool) -> None:
    board = boards.board(name)
    assert board.qemu is not None
    argv = machine(board, virtual=virtual)
    assert board.qemu.binary in argv
    assert option(argv, "-machine") == board.qemu.machine
    assert option(argv, "-cpu") == board.qemu.cpu
    assert option(argv, "-smp") == str(board.cpus)
    assert option(argv, "-m") == f"{board.memory_mib}M"
    assert option(argv, "-kernel") == "/build/Image"
    assert option(argv, "-initrd") == "/image.cpio"
    assert option(argv, "-serial") == "file:/console"
    assert option(argv, "-append").split()[0] == f"console={board.console.device},{board.console.baud}"
    assert option(argv, "-append").endswith(board.command_line)
    # Nothing that could be different on another machine.
    for fixed in ("-nodefaults", "-no-user-config", "-no-reboot"):
        assert fixed in argv
    assert option(argv, "-accel") == "tcg"
    assert option(argv, "-display") == "none"


@pytest.mark.parametrize("name", VIRTUAL)
def test_virtual_time_counts_instructions(name: str) -> None:
    board = boards.board(name)
    assert board.qemu is not None
    argv = machine(board, virtual=True, seed=7)
    counting = option(argv, "-icount")
    assert counting.startswith(f"shift={board.qemu.shift},sleep=off")
    assert counting.endswith(",rr=record,rrfile=/dev/null") == (board.cpus == 1)
    assert option(argv, "-rtc") == "base=2024-01-01,clock=vm"
    assert option(argv, "-seed") == "7"
    assert (argv[:2] == ["env", "LD_PRELOAD=/cache/turns.so"]) == (board.cpus > 1)
    assert ("debug-threads=on" in argv) == (board.cpus > 1)


@pytest.mark.parametrize("name", VIRTUAL)
def test_host_time_does_not_count(name: str) -> None:
    argv = machine(boards.board(name))
    for absent in ("-icount", "-rtc", "-seed", "env"):
        assert absent not in argv


def test_only_the_seed_tells_two_boots_apart() -> None:
    board = boards.board("virt-arm64")
    one, other = machine(board, virtual=True, seed=1), machine(board, virtual=True, seed=22)
    assert one == machine(board, virtual=True, seed=1)
    assert [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]] == [("1", "22")]


# What limits were learnt with. A change here means that they have to be learnt again.
LATENCY_MACHINES = {
    "virt-arm64": "qemu-system-aarch64 -nodefaults -no-user-config -no-reboot -display none -accel tcg"
    " -machine virt,gic-version=3 -cpu cortex-a57 -smp 1 -m 512M"
    " -icount shift=3,sleep=off,rr=record,rrfile=/dev/null -rtc base=2024-01-01,clock=vm -seed 1"
    " -serial file:/console -kernel /build/Image -initrd /image.cpio"
    " -append console=ttyAMA0,115200 printk.time=1 nokaslr oops=panic panic=-1",
    "virt-x86_64": "qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -accel tcg"
    " -machine q35 -cpu qemu64 -smp 1 -m 512M"
    " -icount shift=3,sleep=off,rr=record,rrfile=/dev/null -rtc base=2024-01-01,clock=vm -seed 1"
    " -serial file:/console -kernel /build/Image -initrd /image.cpio"
    " -append console=ttyS0,115200 printk.time=1 nokaslr oops=panic panic=-1",
    "virt-riscv64": "qemu-system-riscv64 -nodefaults -no-user-config -no-reboot -display none -accel tcg"
    " -machine virt -cpu rv64 -smp 1 -m 512M"
    " -icount shift=3,sleep=off,rr=record,rrfile=/dev/null -rtc base=2024-01-01,clock=vm -seed 1"
    " -serial file:/console -kernel /build/Image -initrd /image.cpio"
    " -append console=ttyS0,115200 printk.time=1 nokaslr oops=panic panic=-1",
}


@pytest.mark.parametrize("name", LATENCY_MACHINES)
def test_a_boot_that_asks_for_no_device_keeps_its_machine(name: str) -> None:
    assert " ".join(machine(boards.board(name), virtual=True, seed=1)) == LATENCY_MACHINES[name]


@pytest.mark.parametrize(
    ("name", "iommu"),
    [
        ("virt-arm64", "virt,gic-version=3,iommu=smmuv3"),
        ("virt-x86_64", "intel-iommu,intremap=on,caching-mode=on"),
    ],
)
def test_devices_come_behind_an_iommu(name: str, iommu: str) -> None:
    board = boards.board(name)
    both = machine(board, devices=("nvme", "edu"))
    plain = machine(board)
    assert iommu in both
    assert iommu not in plain
    first = min(number for number, word in enumerate(both) if word.startswith(("edu,", "pcie-root-port,", "nvme,")))
    assert both.index(iommu) < first
    assert any(word.startswith("edu,") and "dma_mask=0xffffffffffffffff" in word for word in both)
    assert any(word.startswith("nvme,") and "bus=rp1" in word for word in both)
    assert not any("ivshmem" in word for word in both)
    assert both == machine(board, devices=("edu", "nvme"))


@pytest.mark.parametrize(("devices", "recorded"), [((), True), (("edu", "endpoint"), True), (("edu", "nvme"), False)])
def test_a_boot_with_a_disk_is_not_recorded(devices: tuple[str, ...], recorded: bool) -> None:
    argv = machine(boards.board("virt-arm64"), virtual=True, devices=devices)
    assert ("rr=record" in option(argv, "-icount")) == recorded


@pytest.mark.parametrize("own", ["", "quiet nokaslr"])
@pytest.mark.parametrize("more", ["", "isolcpus=1 nohz_full=1"])
def test_kernel_arguments_follow_those_of_the_board(own: str, more: str) -> None:
    board = replace(boards.board("virt-arm64"), command_line=own)
    words = option(machine(board, command_line=more), "-append").split(" ")
    assert words == [f"console={board.console.device},{board.console.baud}", *own.split(), *more.split()]


def test_the_monitor_is_there_when_it_is_asked_for() -> None:
    board = boards.board("virt-arm64")
    assert "-qmp" not in machine(board)
    assert option(machine(board, monitor=Path("/run/qmp")), "-qmp") == "unix:/run/qmp,server=on,wait=off"


def test_the_boards_own_arguments_are_kept() -> None:
    board = boards.board("virt-arm64")
    assert board.qemu is not None
    own = replace(board, qemu=replace(board.qemu, arguments=("-device", "a b,c=d")), command_line="")
    assert option(machine(own), "-device") == "a b,c=d"
    assert option(machine(own), "-append") == f"console={board.console.device},{board.console.baud}"


def test_a_missing_qemu_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    qemu.version.cache_clear()
    with pytest.raises(
        InfrastructureError, match="qemu-system-aarch64 is not installed: on Debian, apt install qemu-sys"
    ):
        qemu.version("qemu-system-aarch64")


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/nowhere\n"])
def test_a_qemu_that_does_not_start_is_the_labs_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "qemu-broken").write_text(text)
    (tmp_path / "qemu-broken").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="qemu-broken does not start: "):
        qemu.version("qemu-broken")


# --- the monitor


class FakeMonitor:
    """Speaks QMP on a socket, as QEMU does, and says what `answers` returns."""

    def __init__(self, path: Path, answers: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.connections = 0
        self._answers = answers
        self._open: socket.socket | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._open = connection = self._socket.accept()[0]
                with connection, connection.makefile("rw") as stream:
                    self.connections += 1
                    self._talk(stream)

    def _talk(self, stream: Any) -> None:
        self._say(stream, {"QMP": {"version": {}, "capabilities": []}})
        for line in stream:
            request = json.loads(line)
            if request["execute"] == "qmp_capabilities":
                self._say(stream, {"return": {}})
                continue
            self.asked.append(request)
            replies = self._answers(request)
            if not replies:
                return
            for reply in replies:
                self._say(stream, reply)

    @staticmethod
    def _say(stream: Any, message: dict[str, Any]) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._open is not None:
            with suppress(OSError):  # it has ended by itself
                self._open.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)


Serve = Callable[[Callable[[dict[str, Any]], list[dict[str, Any]]]], FakeMonitor]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(answers: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> FakeMonitor:
            made = FakeMonitor(tmp_path / "qmp", answers)
            stack.callback(made.close)
            return made

        yield start


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    made = Monitor(tmp_path / "qmp")
    yield made
    made.close()


def test_the_monitor_answers(monitor: Monitor, serve: Serve) -> None:
    fake = serve(lambda request: [{"event": "RTC_CHANGE"}, {"return": {"asked": request["execute"]}}])
    assert monitor.ask("query-status") == {"asked": "query-status"}
    assert monitor.ask("qom-get", path="/machine", property="rtc-time") == {"asked": "qom-get"}
    assert fake.asked[1]["arguments"] == {"path": "/machine", "property": "rtc-time"}
    assert fake.connections == 1


def test_a_command_that_qemu_refuses_has_no_answer(monitor: Monitor, serve: Serve) -> None:
    serve(lambda _: [{"error": {"class": "GenericError"}}])
    assert monitor.ask("nonsense") is None
    assert monitor.ask("nonsense") is None


def test_a_monitor_that_nobody_asked_can_be_closed(tmp_path: Path) -> None:
    Monitor(tmp_path / "qmp").close()


@pytest.mark.parametrize("left", [False, True], ids=["never there", "left by a QEMU that is gone"])
def test_a_monitor_that_cannot_be_reached_is_silent_and_can_be_closed(
    tmp_path: Path, monitor: Monitor, *, left: bool
) -> None:
    if left:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(tmp_path / "qmp"))
    assert monitor.ask("cont") is None
    assert monitor.ask("cont") is None
    monitor.close()


def test_a_monitor_that_was_not_there_yet_is_reached_later(monitor: Monitor, serve: Serve) -> None:
    assert monitor.ask("cont") is None
    serve(lambda _: [{"return": {"running": True}}])
    assert monitor.ask("cont") == {"running": True}


def test_a_qemu_that_ends_is_silent(monitor: Monitor, serve: Serve) -> None:
    serve(lambda _: [])
    assert monitor.ask("quit") is None
    assert monitor.ask("quit") is None


def test_an_answer_that_is_no_json_is_none(tmp_path: Path, monitor: Monitor) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "qmp"))
        server.listen()

        def talk() -> None:
            with server.accept()[0] as stream:
                stream.sendall(b'{"QMP": {}}\nnonsense\n')
                stream.recv(1000)

        talker = threading.Thread(target=talk, daemon=True)
        talker.start()
        assert monitor.ask("cont") is None
        talker.join(5)
