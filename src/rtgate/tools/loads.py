# SPDX-License-Identifier: MIT
"""Loads: what runs beside a tool, each defined once, with the parameters taken from the board.

That a load ran is proven in each record: its processes were there at start, middle and end, and used CPU time. A site
or an installed package may add more (`extensions`): a function `load`, or one that an entry point names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.tools import extensions
from rtgate.tools.extensions import Extension, Kind
from rtgate.tools.needs import Need

Options = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load.

    Attributes:
        argv: the command; empty for no load.
        repeat: start the command again whenever it ends (programs that do a fixed amount of work).
        processes: how many processes it has at least while it runs.
        needs: what the target must have.
        image: the root filesystem image that has its programs.
        measures: whether it is a tool that measures as well, and writes down what when it is ended.
        devices: as a tool's (see `tools.Tool`).
        directory: where it writes on the target's own disk, for the plan to remove; empty for nowhere.
    """

    name: str
    argv: tuple[str, ...] = ()
    repeat: bool = False
    processes: int = 1
    needs: tuple[Need, ...] = ()
    image: str = "core"
    measures: bool = False
    devices: tuple[str, ...] = ()
    directory: str = ""


def _idle(_: Board) -> Load:
    return Load(name="idle", processes=0)


def _hackbench(board: Board) -> Load:
    # One group of 2 x 5 tasks per CPU. The default of 10 groups (400 tasks) takes minutes to start on an emulated
    # CPU; the load on the scheduler and the IPC paths is the same kind with fewer tasks.
    return Load(
        name="hackbench",
        argv=("hackbench", "--groups", str(board.cpus), "--fds", "5", "--loops", "100", "--datasize", "100"),
        repeat=True,
    )


def _memory(board: Board) -> str:
    """Return the memory that the vendor's reference runs used: 256 MiB of their 4 GiB, which is 1/16."""
    return f"{max(4, board.memory_mib // 16)}M"


def _usual(board: Board) -> Options:
    """Return the mix of the vendor's reference runs on RK3562, RK3568 and RK3588: -c CPUs --io 2 --vm 1."""
    return {"cpu": board.cpus, "io": 2, "vm": 1, "vm-bytes": _memory(board)}


# What a profile may ask of a load, by the names that its program gives to it.
_STRESS = ("cpu", "io", "vm", "vm-bytes", "hdd", "hdd-bytes", "timeout")
_STRESS_NG = (*_STRESS, "cpu-load", "cpu-method", "timerfd-freq")
_WORKERS = ("cpu", "io", "vm", "hdd")
_TEMPORARY = ("--temp-path", "/tmp")  # noqa: S108 - of stress-ng, on the target, where it is a RAM file system


def _stress(board: Board) -> Load:
    return _mix_workers("stress", board, _usual(board))


def _stress_ng(board: Board) -> Load:
    return _mix_workers("stress-ng", board, _usual(board))


def _mix_workers(name: str, board: Board, mix: Options) -> Load:
    """Return a mix of workers of `stress` or `stress-ng` as a load; those that write files do so on a disk."""
    words = (name, "--quiet", *(word for option, value in mix.items() for word in (f"--{option}", str(value))))
    processes = sum(int(mix.get(worker, 0)) for worker in _WORKERS)
    if "hdd" not in mix:
        return Load(name=name, argv=(*words, *(_TEMPORARY if name == "stress-ng" else ())), processes=processes)
    command, needs = _on_disk(board, f"exec {shlex.join(words)}")
    return Load(name=name, argv=("sh", "-c", command), processes=processes, needs=needs, directory=_directory(board))


_DISK = "/run/rtgate-disk"
# A board says where a disk may be written; a virtual one has a RAM disk, whose blocks go through the same code.
_RAM_DISK = (
    Need(test="[ -b /dev/ram0 ]", reason="the kernel has no RAM disk (CONFIG_BLK_DEV_RAM)"),
    Need(test="grep -qw ext2 /proc/filesystems", reason="the kernel has no ext2 file system (CONFIG_EXT2_FS)"),
)
_MOUNTED = (
    f"umount {_DISK} 2>/dev/null; mkdir -p {_DISK} && mke2fs -F /dev/ram0 >/dev/null && mount -t ext2 /dev/ram0 {_DISK}"
)


def _directory(board: Board) -> str:
    """Return the directory on the board's own disk; empty for a board whose loads write to a RAM disk."""
    return f"{board.scratch}/rtgate-load" if board.scratch else ""


def _on_disk(board: Board, command: str) -> tuple[str, tuple[Need, ...]]:
    """Return a shell command that runs `command` in a directory on a disk, and what it needs."""
    if board.scratch:
        place = shlex.quote(_directory(board))
        return f"mkdir -p {place} && cd {place} && {command}", ()
    return f"{_MOUNTED} && cd {_DISK} && {command}", _RAM_DISK


def _disk(board: Board) -> Load:
    writes = "while dd if=/dev/zero of=written bs=65536 count=64 2>/dev/null; do sync; done"
    command, needs = _on_disk(board, writes)
    return Load(name="disk", argv=("sh", "-c", command), needs=needs, directory=_directory(board))


def _fio(board: Board) -> Load:
    mix = "--name=load --rw=randrw --bs=4k --size=16m --ioengine=psync --fsync=16 --thread=0"
    command, needs = _on_disk(board, f"exec fio {mix} --time_based --runtime=1000000 --output=/dev/null")
    return Load(name="fio", argv=("sh", "-c", command), needs=needs, image="full", directory=_directory(board))


_LOOPBACK = Need(test="[ -e /proc/net/route ]", reason="the kernel has no TCP/IP (CONFIG_INET)")


def _network(_: Board) -> Load:
    # TCP and UDP through the loopback device: the protocol stacks and soft interrupts, no network card.
    return Load(
        name="network",
        argv=("stress-ng", "--quiet", "--sock", "1", "--udp", "1", *_TEMPORARY),
        processes=3,
        needs=(_LOOPBACK,),
    )


def _pressure(board: Board) -> Load:
    # Two thirds of the memory, mapped, touched and given back all the time: faults, zeroing, the page allocator.
    size = f"{board.memory_mib * 2 // 3 // 2}M"
    vm = ("--vm", "2", "--vm-bytes", size, "--vm-method", "flip", "--mmap", "1", "--mmap-bytes", "8M")
    return Load(
        name="memory",
        argv=("stress-ng", "--quiet", *vm, *_TEMPORARY),
        processes=4,
    )


_CALLS = ("pipe", "futex", "fork", "fault", "sigq", "timer")


def _syscalls(_: Board) -> Load:
    # One worker each for what enters the kernel by another door. With twice as many, programs do not get to run.
    workers = tuple(word for name in _CALLS for word in (f"--{name}", "1"))
    return Load(
        name="syscalls",
        argv=("stress-ng", "--quiet", *workers, *_TEMPORARY),
        processes=1 + len(_CALLS),  # with the one that started them
    )


def _combination(board: Board) -> Load:
    """Return hackbench, stress-ng and disk writes at once; when one of them ends, all do, so that it shows."""
    messages, stress, disk = _hackbench(board), _stress_ng(board), _disk(board)
    loop = f"while {shlex.join(messages.argv)}; do :; done"
    end = "kill -KILL 0"
    command = f"({loop}; {end}) & ({disk.argv[-1]}; {end}) & {shlex.join(stress.argv)}; {end}"
    processes = messages.processes + stress.processes + disk.processes
    return replace(disk, name="combination", argv=("sh", "-c", command), processes=processes)


def _game(board: Board) -> Load:
    """Return the mix of the vendor's run beside an Android game on RK3568, and what a game asks of CPUs and memory.

    That is as many workers as CPUs, each of which works for 5 ms and sleeps for 12 ms, and images that are copied all
    the time. The GPU does nothing.
    """
    mix = _mix_workers("stress-ng", board, {**_usual(board), "vm-bytes": "4M"})
    frames = ("--cpu", str(board.cpus), "--cpu-method", "collatz", "--cpu-load", "30", "--cpu-load-slice", "5")
    game = shlex.join(("stress-ng", "--quiet", *frames, "--memcpy", "1", *_TEMPORARY))
    end = "kill -KILL 0"
    command = f"({game}; {end}) & {shlex.join(mix.argv)}; {end}"
    # Beside the workers two that started them, and two shells.
    return Load(name="game", argv=("sh", "-c", command), processes=mix.processes + board.cpus + 1 + 4)


# Broken connections are what is left of a hackbench that was ended.
_ENDED = "-e 'Broken pipe' -e 'Connection reset' -e Interrupted"
_AGAIN = (
    "while :; do hackbench --groups 20 >/dev/null 2>hackbench.said; code=$?; "
    "if [ $code -gt 0 ] && [ $code -lt 128 ]; then cat hackbench.said >&2; break; fi; "
    f"[ -s hackbench.said ] && grep '(error: ' hackbench.said | grep -v {_ENDED} >&2 && break; done"
)
_RAM_DISK_COUNT = 48  # what fits on 64 MiB (CONFIG_BLK_DEV_RAM_SIZE=65536) with a file system


def _dd_hackbench(board: Board) -> Load:
    """Return the load of the reference runs on the NUC: 1 GiB written again and again, and hackbench, ended every 5 s.

    Its `hackbench 20` is `--groups 20` since rt-tests 2.0, which does not read numbers without a name. When one of the
    two cannot do its work the whole load ends, and says why; dd counts its bytes on standard error, so only what it
    said last is kept.
    """
    dd = f"dd if=/dev/zero of=bigfile bs=1024000 count={1024 if board.scratch else _RAM_DISK_COUNT}"
    writer, needs = _on_disk(board, f'{{ while {dd} 2>"$said"; do :; done; cat "$said" >&2; }}')
    end, killer = "kill -KILL 0", "while sleep 5; do killall hackbench 2>/dev/null; done"
    command = f"said=$PWD/dd.said; ({writer}; {end}) & ({_AGAIN}; {end}) & {killer}; {end}"
    programs = tuple(
        Need(test=f"command -v {name} >/dev/null", reason=f"the target has no {name}")
        for name in ("dd", "hackbench", "killall")
    )
    # Four shells and sleep, and at least one of the two.
    return Load(
        name="dd-hackbench",
        argv=("sh", "-c", command),
        processes=6,
        needs=(*needs, *programs),
        directory=_directory(board),
    )


_LOADS: dict[str, Callable[[Board], Load]] = {
    "idle": _idle,
    "hackbench": _hackbench,
    "stress": _stress,
    "stress-ng": _stress_ng,
    "disk": _disk,
    "fio": _fio,
    "network": _network,
    "memory": _pressure,
    "syscalls": _syscalls,
    "combination": _combination,
    "game": _game,
    "dd-hackbench": _dd_hackbench,
}
SHIPPED = tuple(_LOADS)


def names() -> tuple[str, ...]:
    """Return the names of all loads, rtgate's own first. Raises ConfigError: what a site or a package adds is wrong."""
    return (*SHIPPED, *outside())


def outside() -> Mapping[str, Extension]:
    """Return the loads that do not come with rtgate. Raises ConfigError: two have one name, or one cannot be one."""
    return extensions.extensions(Kind.LOAD, SHIPPED)


def check(extension: Extension) -> Callable[[Board], Load]:
    """Return the function of a load from outside. Raises ConfigError: it cannot be imported, or has none."""
    content = extension.content()
    function = getattr(content, "load", None) if isinstance(content, ModuleType) else content
    if not callable(function) or isinstance(function, type):
        raise extension.fail(f"{function!r} is not a function: define `def load(board: Board) -> Load`")
    return function  # type: ignore[no-any-return]


def _from_outside(extension: Extension, board: Board) -> Load:
    product = extension.call(check(extension), board)
    if not isinstance(product, Load):
        raise extension.fail(f"its function returned {product!r}: return a rtgate.tools.loads.Load")
    if product.name != extension.name:
        raise extension.fail(
            f"its load calls itself {product.name!r}, and is to be {extension.name!r}: give both one name"
        )
    if not product.argv or product.measures:
        raise extension.fail("its load has no command, or says that it measures: only tools measure; give it an `argv`")
    return product


# What programs of loads print when something of theirs failed, and not when the plan ends them with SIGTERM: then
# stress reports that its workers got signal 15, hackbench that connections broke, and stress-ng that a worker did not
# come to write the checksum of what it counted.
_COMPLAINT = re.compile(
    r"^(?:stress-ng: (?:error|fail): (?!.* (?:counter|run flag), \d+ vs 0$|.*: stressor metrics corrupted).*"
    r"|stress: FAIL: \[\d+\] \(\d+\) (?!<-- worker \d+ got signal 15|failed run completed|kill error).*"
    r"|fio: (?!terminating on signal).*|.*\(error: (?!Broken pipe|Connection reset|Interrupted).*\)"
    r"|(?:dd|mkdir): .*"
    r"|\S*sh: .*(?:not found|No such file or directory|Permission denied).*)$",
    re.MULTILINE,
)


def complaint(output: str) -> str:
    """Return the first line in which a load's output says that something of it failed; empty if there is none."""
    match = _COMPLAINT.search(output)
    return match[0].strip()[:200] if match else ""


_OPTIONS: Mapping[str, tuple[str, ...]] = {"stress": _STRESS, "stress-ng": _STRESS_NG}


def load(name: str, board: Board, options: Options | None = None) -> Load:
    """Return the load of this name for a board.

    Args:
        name: one of `names()`.
        board: whose CPUs, memory and disk it takes.
        options: what its program is asked for instead of what is usual, as a whole; None or nothing for the usual.

    Raises:
        ConfigError: there is none, or it has no such option.
    """
    if name not in names():
        raise ConfigError(f"unknown load {name!r} (allowed: {', '.join(names())})")
    if not options:
        return _LOADS[name](board) if name in _LOADS else _from_outside(outside()[name], board)
    check_options(name, options)
    return _mix_workers(name, board, options)


def check_options(name: str, options: Options) -> None:
    """Check that a load has these options. Raises ConfigError."""
    allowed_names = _OPTIONS.get(name, ())
    for option, value in options.items():
        if option not in allowed_names:
            choices = ", ".join(allowed_names) or "none"
            raise ConfigError(f"the load {name} has no option {option!r} (allowed: {choices})")
        if option in _WORKERS and not (type(value) is int and value > 0):  # true is an int
            raise ConfigError(f"{option} of the load {name} is {value!r} (allowed: a whole number of at least 1)")
    if options and not set(options) & set(_WORKERS):
        raise ConfigError(f"the load {name} has no worker (one of {', '.join(_WORKERS)})")
