# SPDX-License-Identifier: MIT
"""The commands of the reference documents: each is given by a profile, option by option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.measure import profiles
from rtgate.measure.profiles import Profile
from rtgate.tools import Expected, Setting, Tool, loads
from rtgate.tools.registry import TOOLS
from rtgate.tools.threads import SCHED_DEADLINE, SCHED_FIFO, SCHED_OTHER, Threads

SEEDS = yaml.safe_load((Path(__file__).resolve().parents[1] / "data" / "seeds" / "commands.yaml").read_text())
PROFILES = profiles.read(site.shipped_directory() / "profiles.yaml")
BOARD = replace(boards.board("virt-arm64"), scratch="/var/tmp")

# Short options by their long ones, as the usage texts have them. `?` takes a value only in the same word, or one that
# begins with a digit in the next; `=` takes one always; nothing takes none.
_PAIRS = {"-a": "--affinity?", "-t": "--threads?", "-p": "--prio=", "-i": "--interval=", "-d": "--distance="}
_RT_TESTS = {"-m": "--mlockall", "-q": "--quiet", "-l": "--loops=", "-D": "--duration="}
_CYCLICTEST = {
    **_PAIRS,
    **_RT_TESTS,
    "-p": "--priority=",
    "-c": "--clock=",
    "-h": "--histogram=",
    "-S": "--smp",
    "-n": "-n",
    "--policy": "--policy=",
    "--json": "--json=",
}
_LONG = {name: f"{name}=" for name in ("--json", "--seconds", "--latency", "--packet", "--packets", "--hardlimit")}
_STRESS = {"-c": "--cpu=", "-t": "--timeout=", "--quiet": "--quiet"}
SHORT: Mapping[str, Mapping[str, str]] = {
    "cyclictest": _CYCLICTEST,
    "signaltest": {**_PAIRS, **_RT_TESTS, "-p": "--priority="},
    **{name: {**_PAIRS, **_RT_TESTS} for name in ("pmqtest", "ptsematest", "svsematest", "sigwaittest")},
    "deadline_test": {name: f"{name}=" for name in ("-t", "-i", "-s", "-p", "-P")},
    "cyclicdeadline": {"-t": "--threads=", **_RT_TESTS},
    "hackbench": {"-s": "--datasize=", "-l": "--loops=", "-g": "--groups=", "-f": "--fds=", "-P": "--process"},
    "pi_stress": {"--duration": "--duration=", "--verbose": "--verbose"},
    "rtgate-queuelat": {"-m": "--max-len=", "-c": "--cycles=", "-p": "--packets=", "-f": "--freq=", **_LONG},
    "stress": _STRESS,
    "stress-ng": _STRESS,
}
FIO = Storage(
    serial="S1", model="", overwrite=Overwrite.FILE, name="/mnt/test", file_system=FileSystem.NONE, engine="libaio"
)


def options(words: list[str]) -> tuple[str, set[str]]:
    """Return a command's program, and its options as `--name` or `--name=value`."""
    found: set[str] = set()
    while words[0] in {"env", "sh", "-c", "exec"} or "=" in words[0]:  # how it is started, and where it lies
        words = words[1:]
    words = [word for word in words if not word.startswith("0>")]
    if words[0] == "taskset":
        listed = words[2] if words[1] == "-c" else _cpus(words[1])
        found.add(f"taskset={listed}")
        words = words[3:] if words[1] == "-c" else words[2:]
    program = words.pop(0).rpartition("/")[2]
    program = {"queuelat": "rtgate-queuelat"}.get(program, program)
    while words:
        found.update(_option(program, words))
    return program, found


def _cpus(mask: str) -> str:
    return ",".join(str(cpu) for cpu in range(64) if int(mask, 16) >> cpu & 1)


def _option(program: str, words: list[str]) -> set[str]:
    """Take an option from the front of the words, with its value; several short ones may share a word."""
    word, short = words.pop(0), SHORT.get(program, {})
    if program == "fio":
        return {_fio(word, words)}
    if not word.startswith("-"):
        return {word}
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        takes = bool(words) and not words[0].startswith("-")
        return {f"{name}={value}" if equals else f"{name}={words.pop(0)}" if takes else name}
    name, value = word[:2], word[2:]
    meaning = short[name]
    if meaning[-1] not in "=?":
        return {meaning, *(_option(program, [f"-{value}", *words]) if value else ())}
    if not value and words and (meaning.endswith("=") or words[0][0].isdigit()):
        value = words.pop(0)
    return {f"{meaning[:-1]}={value}" if value else meaning[:-1]}


def _fio(word: str, words: list[str]) -> str:
    """Return an option of fio, which takes one dash or two, and a value after a space."""
    name, equals, value = f"--{word.lstrip('-')}".partition("=")
    if not equals and words and not words[0].startswith("-"):
        return f"{name}={words.pop(0)}"
    return f"{name}={value}" if equals else name


def _setting(entry: Mapping[str, Any], profile: Profile) -> Setting:
    return Setting(
        cpus=entry["cpus"],
        duration_s=profile.of(entry["tool"], entry["suite"]).duration_s,
        virtual_time=False,
        memory_mib=4096,
        storage=FIO,
    )


def _tool(entry: Mapping[str, Any]) -> tuple[Tool, Setting]:
    profile = PROFILES[entry["profile"]]
    return profile.fit(TOOLS[entry["tool"]](), entry["suite"]), _setting(entry, profile)


def _id(entry: Mapping[str, Any]) -> str:
    return f"{entry['source']} {entry.get('tool', '')} {entry['command']}"[:90]


def _printed(entry: Mapping[str, Any]) -> tuple[str, set[str]]:
    """Return the command as printed, with what rtgate spells otherwise, and without what it leaves out."""
    program, printed = options(entry["command"].replace("<CPU MHz>", "MHZ").split())
    same = entry.get("same", {})
    assert set(same) <= printed
    left_out = {one for one in printed if one.partition("=")[0] in entry.get("left_out", {})}
    assert {one.partition("=")[0] for one in left_out} == set(entry.get("left_out", {}))
    return program, {same.get(one, one) for one in printed - left_out}


@pytest.mark.parametrize("entry", SEEDS["tools"], ids=_id)
def test_a_tool_is_given_the_document_s_command(entry: Mapping[str, Any]) -> None:
    tool, setting = _tool(entry)
    program, printed = _printed(entry)
    name, given = options(_words(tool.argv(setting)))
    assert name == program
    assert printed - given == set()
    own = {f"{option}={value}" for option, value in SEEDS["own"][program].items()}
    more = {one for one in given - printed if one.partition("=")[0] not in SEEDS["added"][program]}
    assert more - own == set()


def _words(argv: tuple[str, ...]) -> list[str]:
    """Return the words of a command, also of one that a shell starts; fio's rounds, which come first, are left out."""
    words = [part for word in argv for part in (word.split() if word.startswith("exec ") else [word])]
    if words[0] != "fio":
        return words
    first = next(place for place, word in enumerate(words) if word.startswith("-name=") and "round" in word)
    return [*words[:first], words[-1]]


@pytest.mark.parametrize("entry", SEEDS["loads"], ids=_id)
def test_a_load_is_given_the_document_s_command(entry: Mapping[str, Any]) -> None:
    load = loads.load(entry["load"], BOARD, PROFILES[entry["profile"]].loads[entry["load"]])
    words = list(load.argv) if load.argv[0] != "sh" else load.argv[-1].rpartition("exec ")[2].split()
    program, printed = options(entry["command"].split())
    name, given = options(words)
    assert (name, printed - given) == (program, set())
    assert {one.partition("=")[0] for one in given - printed} <= set(SEEDS["added"][program])


def test_workers_that_write_do_so_on_the_board_s_disk() -> None:
    load = loads.load("stress", BOARD, PROFILES["oee-rk3568"].loads["stress"])
    assert load.argv[-1].startswith("mkdir -p /var/tmp/rtgate-load && cd /var/tmp/rtgate-load && exec stress ")
    assert load.processes == 4 + 2 + 2 + 2


def test_the_load_of_the_notes_is_what_they_print() -> None:
    command = loads.load("dd-hackbench", BOARD).argv[-1]
    for part in ("dd if=/dev/zero of=bigfile bs=1024000 count=1024", "hackbench --groups 20", "sleep 5; do killall"):
        assert part in command


def test_the_game_s_place_is_taken_beside_the_document_s_own_mix() -> None:
    load = loads.load("game", boards.board("rk3568-evb1"))
    assert "stress-ng --quiet --cpu 4 --io 2 --vm 1 --vm-bytes 4M --temp-path /tmp; kill" in load.argv[-1]
    assert "--cpu 4 --cpu-method collatz --cpu-load 30 --cpu-load-slice 5 --memcpy 1 " in load.argv[-1]
    assert load.processes == (4 + 2 + 1) + (4 + 1) + 4


def test_each_profile_of_a_document_offers_no_other_tool_or_load() -> None:
    named = {entry["profile"] for entry in (*SEEDS["tools"], *SEEDS["loads"])} - {"guide"}
    for name in named:
        profile = PROFILES[name]
        asked = {entry["tool"] for entry in SEEDS["tools"] if entry["profile"] == name}
        assert set(profile.only) == asked
        assert set(profile.options) == asked
        assert set(profile.loads) - {"idle", "dd-hackbench", "game"} == {
            entry["load"] for entry in SEEDS["loads"] if entry["profile"] == name
        }


def _expected(name: str, tool: str) -> Expected:
    entry = next(entry for entry in SEEDS["tools"] if (entry["profile"], entry["tool"]) == (name, tool))
    made, setting = _tool(entry)
    return made.expected(setting)


@pytest.mark.parametrize(
    ("profile", "tool", "threads", "seconds", "cpus"),
    [
        ("report-4", "cyclictest", [(4, SCHED_FIFO, 99)], 3600, ()),
        ("core-rk3576j", "cyclictest", [(8, SCHED_FIFO, 99)], 1000, ()),
        ("oee-rk3568", "cyclictest", [(1, SCHED_FIFO, 99)], 43200, (2,)),
        ("oee-rk3568", "signaltest", [(4, SCHED_FIFO, 99)], 625, (2,)),
        ("nuc", "cyclictest", [(1, SCHED_FIFO, 99)], 1000, ()),
        ("nuc-bound", "cyclictest", [(1, SCHED_FIFO, 99)], 1000, (0,)),
        ("nuc-load", "cyclictest", [(1, SCHED_FIFO, 80)], 7200, ()),
        ("nuc", "signaltest", [(2, SCHED_FIFO, 99)], 625, ()),
        ("nuc", "svsematest", [(2, SCHED_FIFO, 99)], 100, ()),
        ("nuc", "pmqtest", [(2, SCHED_FIFO, 99)], 3600, ()),
        ("nuc", "cyclicdeadline", [(1, SCHED_DEADLINE, 0)], 3600, ()),
        ("nuc", "deadline_test", [(1, SCHED_DEADLINE, 0)], 10, ()),
        ("nuc", "oslat", [(4, SCHED_OTHER, 0)], 2, ()),
        ("nuc", "queuelat", [(1, SCHED_OTHER, 0)], 3600, (3,)),
    ],
)
def test_what_must_be_seen_follows_the_options(
    profile: str, tool: str, threads: list[tuple[int, int, int]], seconds: float, cpus: tuple[int, ...]
) -> None:
    found = _expected(profile, tool)
    assert found.threads == tuple(
        Threads(count=count, policy=policy, priority=priority) for count, policy, priority in threads
    )
    assert (found.duration_s, found.cpus) == (seconds, cpus)


def test_a_run_without_a_histogram_counts_the_wake_ups_of_its_slowest_thread() -> None:
    found = _expected("report-4", "cyclictest")
    assert found.interval_us == 0
    (count,) = found.counts
    # The fourth thread has a period of 1000 + 3 * 500 us.
    assert count.measurement == "wakeups"
    assert count.least == pytest.approx(0.95 * 3600 * 1e6 / 2500)


def test_a_histogram_makes_all_periods_equal_whatever_the_distance() -> None:
    found = _expected("nuc-load", "cyclictest")
    assert (found.interval_us, found.counts) == (10_000, ())


def test_short_runs_of_a_deadline_need_hrtick_and_no_histogram_needs_no_option() -> None:
    nuc = PROFILES["nuc"].fit(TOOLS["cyclicdeadline"](), "scheduling")
    assert [need.reason.split(" in ")[0] for need in nuc.required()] == [
        "runs of less than 2 ms need the scheduler feature HRTICK_DL"
    ]
    assert ["--histogram" in need.test for need in TOOLS["cyclicdeadline"]().required()] == [True]


def board_without(board: Board) -> Board:
    """Return a board without a disk of its own."""
    return replace(board, scratch="")


def test_without_a_disk_the_load_of_the_notes_takes_a_ram_disk() -> None:
    load = loads.load("dd-hackbench", board_without(BOARD))
    assert "mount -t ext2 /dev/ram0" in load.argv[-1]
    assert [need.reason for need in load.needs][-1] == "the target has no killall"
