# SPDX-License-Identifier: MIT
"""Two boards in one job of a real LAVA server: the endpoint first, then the root complex, and both are judged."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from selftests.lab.lab import ROOT, STATE, Lab

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.records import record as records_file

pytestmark = pytest.mark.long("two boards boot and measure one after the other: minutes")

ROOT_COMPLEX, ENDPOINT = "lab-virt-x86_64-cable", "lab-virt-arm64-cable"
BUILDS = {ROOT_COMPLEX: "virt-x86_64-pcie", ENDPOINT: "virt-arm64-pcie"}
# Both machines have the same memory behind a function, in place of a cable (ci/lab/services).
FUNCTION = 'build: {build}\npcie: {{endpoint: {{id: "1af4:1110"}}}}\n'
CABLE = STATE / "run" / "cable"
BAR = "pcie/pcie-bar:idle"
SET_UP = "test -d /proc/self\necho the endpoint is set up >/dev/kmsg\n"
LIMIT_S = 900.0
MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def kernels(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Make boards that list the function, and yield a kernel for each."""
    directory = tmp_path_factory.mktemp("site")
    (directory / "boards").mkdir()
    made = {}
    for name, build in BUILDS.items():
        shipped = boards.board(name.removesuffix("-cable"))
        text = shipped.path.read_text().replace(f"build: {shipped.build}\n", FUNCTION.format(build=build))
        (directory / "boards" / f"{name}.yaml").write_text(text)
        made[name] = tmp_path_factory.mktemp("kernel") / name
        assert main(["build", build, "-o", str(made[name])]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RTGATE_SITE", str(directory))
        yield made


def submit(lab: Lab, kernels: dict[str, Path], directory: Path, set_up: str, *options: str) -> tuple[int, str]:
    """Submit a job, wait for its end, and return the exit code and what was said."""
    (directory / "set-up.sh").write_text(set_up)
    argv = [sys.executable, "-m", "rtgate", "submit", "--wait", "--board", ROOT_COMPLEX, "--suite", "pcie"]
    argv += ["--kernel", str(kernels[ROOT_COMPLEX]), "--profile", "mr", "-o", "report", *options]
    argv += ["--endpoint", ENDPOINT, "--endpoint-kernel", str(kernels[ENDPOINT]), "--endpoint-set-up", "set-up.sh"]
    environment = {**os.environ, **lab.environment, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stderr


def log(directory: Path, number: int) -> list[tuple[str, str]]:
    """Return the lines of a job's log, each with its time."""
    text = (directory / "report" / "lava" / f"job-{number}.log").read_text()
    return [(str(line["dt"]), str(line["msg"])) for line in yaml.load(text, Loader=yaml.CSafeLoader)]


def moment(lines: list[tuple[str, str]], text: str) -> str:
    return next(time for time, message in lines if text in message)


def word(seed: int, index: int) -> int:
    """Return a word of pcie-bar's pattern (target/pcie/bar.c)."""
    value = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def _mapping_boards() -> set[str]:
    """Return the boards whose QEMU has the common memory mapped."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, maps = (process / "cmdline").read_text(), (process / "maps").read_text()
        except OSError:
            continue  # it has ended
        if "qemu-system" in words and "/rtgate-lab/cable" in maps:
            found |= {name.removesuffix("-cable") for name in BUILDS if f"/{name.removesuffix('-cable')}-01." in words}
    return found


def test_both_sides_measure_one_memory_in_turn_and_are_judged_together(
    lab: Lab, kernels: dict[str, Path], tmp_path: Path
) -> None:
    assert _mapping_boards() == {name.removesuffix("-cable") for name in BUILDS}
    with CABLE.open("r+b") as memory:  # whose length must not change while the boards have it mapped
        memory.write(bytes(CABLE.stat().st_size))
    code, said = submit(lab, kernels, tmp_path, SET_UP)
    assert code in {0, 5}, said
    verdicts = json.loads((tmp_path / "report" / "verdict.json").read_text())["verdicts"]
    statuses = {(one["board"], one["case"]): one["status"] for one in verdicts}
    assert not {*statuses.values()} & {"FAIL", "ERROR", "MISS"}
    records = {(one.board, one.case): one for one in records_file.read_all(tmp_path / "report" / "records")}
    assert {case for board, case in records if board == ENDPOINT} == {
        case for board, case in records if board == ROOT_COMPLEX
    }
    for board in BUILDS:
        assert statuses[board, "pcie/pcie-link:idle"] == "PASS"
        assert statuses[board, BAR] in {"PASS", "DONE"}
        (wrong,) = [one for one in records[board, BAR].measurements if one.name == "bytes.wrong"]
        assert wrong.quantity is not None
        assert wrong.quantity.value == 0
    # The last operation reads what was written before it: each of the root complex' threads, one for each of its CPUs,
    # has its share of a MiB.
    words = struct.unpack(f"<{(1 << 20) // 8}Q", CABLE.read_bytes()[: 1 << 20])
    threads = boards.board(ROOT_COMPLEX).cpus
    for thread in range(threads):
        own = words[thread * len(words) // threads :][: len(words) // threads]
        assert own == tuple(word(word(1, thread), index) for index in range(len(own)))
    first = int(said.partition("/scheduler/job/")[2].split()[0])
    own_log, other = log(tmp_path, first), log(tmp_path, first + 1)
    set_up = moment(other, "the endpoint is set up")
    assert set_up < moment(own_log, "Linux version")
    measured = moment(other, "rtgate: every case was carried out")
    assert moment(own_log, "<LAVA_WAIT_COMPLETE") >= measured > moment(own_log, "Linux version")
    assert moment(own_log, "pcie-bar:idle: measured") > measured


def test_a_set_up_that_fails_is_the_labs_and_holds_no_board(lab: Lab, kernels: dict[str, Path], tmp_path: Path) -> None:
    code, said = submit(lab, kernels, tmp_path, "true\nfalse\n", "--retries", "0")
    assert code == 3, said
    verdicts = json.loads((tmp_path / "report" / "verdict.json").read_text())["verdicts"]
    assert {one["status"] for one in verdicts} == {"MISS"}
    assert any("the endpoint could not be set up" in one["sentence"] for one in verdicts)
