# SPDX-License-Identifier: MIT
"""Two kernels through the whole gate: harmless ones pass or sleep, harmful ones fail and are explained.

All are compared with one baseline, whose boots are made once. With the seeds and the second look of any gate: Debian's
next point release makes another root file system, and so another phase of every boot here.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selftests.campaigns.comparisons import changes

from rtgate import site
from rtgate.files import waiting_lock
from rtgate.kernel.differing import differing
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.run import records_by_case
from rtgate.records.record import digest_source

from .conftest import CACHE, ROOT, Patched, build_kernel, rtgate, verdicts_of
from .edited_kernel import with_another_move

BUILDS = {"virt-arm64": "virt-arm64-preempt_rt", "virt-x86_64": "virt-x86_64-preempt_rt"}  # by board
RARE = Path(__file__).parents[1] / "data" / "rare-branch.patch"
NEVER, OFTEN = 1 << 30, 1 << 9  # wake-ups from one to the next that takes the branch; a boot has some 10 000
_X86 = pytest.mark.long("three kernels for x86 are built, 8 minutes without a cache; arm64 is the same question")
CHANGES = changes()
Changed = Callable[[str], Path]


@pytest.fixture(scope="session")
def changed(patched: Patched) -> Changed:
    """Return what builds a change of `selftests.campaigns.comparisons`."""
    return lambda name: patched(name, CHANGES[name].directory)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that has what rtgate's has, but no boot."""
    made = tmp_path_factory.mktemp("cache")
    for there in site.cache().iterdir():
        if there.name != "boots":
            (made / there.name).symlink_to(there)
    return made


@pytest.fixture(autouse=True)
def keeping(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep boots, for the tests of this module."""
    monkeypatch.setenv("RTGATE_CACHE", str(cache))
    monkeypatch.delenv("RTGATE_KEEP_BOOTS")


def gate(
    baseline: Path, candidate: Path, output: Path, *words: str, board: str = "virt-arm64"
) -> tuple[int, list[dict[str, Any]], str]:
    select = ("-k", "test_cyclictest.py and idle")
    arms = ("--baseline", baseline, "--kernel", candidate)
    done = rtgate("gate", "--board", board, *arms, "-o", output, *select, *words)
    return done.returncode, verdicts_of(output), done.stdout


def kinds(verdicts: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["status"], one["kind"]) for one in verdicts}


@pytest.mark.long("a copy of the source and a kernel of its own; the same kernels are compared in make test")
def test_the_bench_builds_its_kernels(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.comparisons", "build", "boot-nops-100"]
    words += ["--work", str(CACHE / "comparisons")]
    subprocess.run(words, cwd=ROOT, timeout=1500, check=True, env={**os.environ, "RTGATE_CACHE": str(CACHE)})
    built_there = {path.parent.name for path in (CACHE / "comparisons" / "kernels").glob("*/build.json")}
    assert built_there >= {"unpatched", "boot-nops-100"}


def test_a_harmless_change_is_not_proven_harmless_when_nobody_looked_whether_it_ran(
    kernel: Path, changed: Changed, tmp_path: Path
) -> None:
    code, verdicts, told = gate(kernel, changed("boot-nops-100"), tmp_path / "out", "--no-explain")
    assert code == 5
    assert ("DONE", "no worse") in kinds(verdicts)  # nobody looked whether it ran
    assert "the limits are kept; whether the kernel became worse is not proven" in told


@pytest.mark.long("a kernel more is built; small ones with renamed functions are compared in make test")
def test_a_function_with_another_name_is_no_difference_of_a_kernel(kernel: Path, changed: Changed) -> None:
    found = differing(Vmlinux(kernel / "vmlinux"), Vmlinux(changed("renamed-ttwu-do-activate") / "vmlinux"))
    assert found.renames == {"ttwu_do_activate": "ttwu_activate_and_preempt"}
    assert (found.functions, found.data) == (frozenset(), ())


@pytest.mark.long("a gate more; one harmless and one harmful change are in make test")
def test_a_change_that_did_not_run_is_for_boards(kernel: Path, changed: Changed, tmp_path: Path) -> None:
    code, verdicts, told = gate(kernel, changed("unused-text"), tmp_path / "out")
    assert code == 5
    assert ("SKIP", "not exercised") in kinds(verdicts)
    assert ("PASS", "no worse") not in kinds(verdicts)
    assert "not exercised here, nor beside hackbench, stress-ng, disk, network or syscalls, boards needed: " in told


@pytest.mark.long("a gate more, and five traced boots; unit tests have every answer of loads that are tried")
def test_the_load_that_reaches_what_did_not_run_is_named_with_its_profile(kernel: Path, tmp_path: Path) -> None:
    candidate = with_another_move(kernel, tmp_path / "candidate", "tcp_ack")
    code, verdicts, told = gate(kernel, candidate, tmp_path / "out")
    assert code == 5
    (skipped,) = (one for one in verdicts if one["kind"] == "not exercised")
    assert skipped["status"] == "SKIP"
    needed = "network reaches it (gate with --profile paths -k network)"
    assert skipped["sentence"].startswith(f"not exercised here, {needed}: while ")
    assert "changed instructions: 0 of 1 ran, 0 times (idle 0)" in skipped["sentence"]
    assert "network reaches it" in told
    (explained,) = json.loads((tmp_path / "out" / "verdict.json").read_text())["explained"]
    assert explained["reached_by"] == {"tcp_ack": ["network"]}
    usual, further = ("hackbench", "stress-ng"), ("disk", "network", "syscalls")
    assert explained["other_loads"] == {**dict.fromkeys(usual, "compare"), **dict.fromkeys(further, "paths")}


def test_a_body_that_is_three_percent_longer_is_found_and_explained(
    kernel: Path, changed: Changed, tmp_path: Path
) -> None:
    code, verdicts, told = gate(kernel, changed("wake-up-3-percent-longer"), tmp_path / "out")
    assert code == 1
    # Which figures of the body are certain after twelve boots, and which are open, hangs on the image.
    worse = {one["measurement"] for one in verdicts if (one["status"], one["kind"]) == ("FAIL", "regression")}
    assert worse
    assert worse <= {"latency mean", "latency p50", "latency p90"}
    assert ("PASS", "no worse") not in kinds(verdicts)
    (explained,) = (one["cause"] for one in verdicts if "instructions in try_to_wake_up" in one["cause"])
    # Of boots of median mean, so that it does not contradict the figure.
    assert re.search(r"each wake-up on average took .*, .* before \(\+\d", explained)
    assert "the kernel became worse than the baseline; it keeps every limit" in told


@pytest.mark.long("a gate more; one harmless and one harmful change are in make test")
def test_rare_interrupts_off_show_in_the_maximum_alone(kernel: Path, changed: Changed, tmp_path: Path) -> None:
    code, verdicts, _ = gate(kernel, changed("interrupts-off-50us"), tmp_path / "out", "--no-explain")
    assert code == 1
    assert {one["measurement"] for one in verdicts if one["kind"] == "regression"} == {"latency maximum"}


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Build a board's kernel that holds a raw lock in one of so many wake-ups.

    They are built in one copy of the source, which stays in the cache.
    """
    series, kernels = CACHE / "rare-branch", tmp_path_factory.mktemp("rare")
    series.mkdir(exist_ok=True)
    (series / "series").write_text("rare.patch\n")

    def build(board: str, every: int) -> Path:
        with waiting_lock(series / "lock", "builds the rare branch of the self-tests", patience_s=3000):
            (series / "rare.patch").write_text(RARE.read_text().replace("EVERY", str(every)))
            return build_kernel(kernels / f"{board}-{every}", BUILDS[board], "--patches", series)

    return build


@pytest.mark.long("two more kernels in two gates; unit tests have every answer of an exercised change")
@pytest.mark.parametrize("board", ["virt-arm64", pytest.param("virt-x86_64", marks=_X86)])
def test_a_branch_that_never_ran_is_for_boards_and_one_that_ran_is_not(
    board: str, kernel: Path, rare: Callable[[str, int], Path], tmp_path: Path
) -> None:
    baseline = build_kernel(tmp_path / "x86_64", BUILDS[board]) if board == "virt-x86_64" else kernel
    code, verdicts, _ = gate(baseline, rare(board, NEVER), tmp_path / "never", board=board)
    assert code == 5
    (skipped,) = (one for one in verdicts if one["kind"] == "not exercised")
    assert skipped["status"] == "SKIP"
    assert re.search(r"in no traced case ran the new code at hrtimer_wakeup\+0x[0-9a-f]+;", skipped["sentence"])
    assert re.search(r"changed instructions: [1-9]\d* of \d+ ran, \d{4,} times \(idle", skipped["sentence"])

    _, verdicts, _ = gate(baseline, rare(board, OFTEN), tmp_path / "often", board=board)
    assert not [one for one in verdicts if one["kind"] == "not exercised"]
    assert any("changed instructions: " in one["sentence"] for one in verdicts)


def signals(baseline: Path, candidate: Path, output: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Gate a kernel on the cases of the board that the profile names beside `virt-arm64`."""
    arms = ("--baseline", baseline, "--kernel", candidate)
    done = rtgate("gate", "--board", "virt-arm64", *arms, "-o", output, "-k", "signaltest", *words)
    return done.returncode, verdicts_of(output)


@pytest.mark.long("a gate more; one harmless and one harmful change are in make test")
def test_signals_between_two_cpus_are_compared_and_traced(kernel: Path, changed: Changed, tmp_path: Path) -> None:
    # Without a limit, and when nobody looked whether what changed ran, nothing is judged.
    code, verdicts = signals(kernel, changed("boot-nops-100"), tmp_path / "out", "--no-explain")
    assert code == 5
    (compared,) = (one for one in verdicts if one["kind"] == "no worse")
    assert (compared["board"], compared["case"]) == ("virt-arm64-smp2", "signal/signaltest:idle")
    assert not {"signals", "wake-ups across CPUs"} & set(compared["not_looked_at"])
    assert "would be found in 9 of 10 such runs: every figure from +" in compared["sentence"]
    assert "nobody looked" in compared["sentence"]

    code, verdicts = signals(kernel, changed("boot-nops-100"), tmp_path / "traced")
    assert code == 5
    (skipped,) = (one for one in verdicts if one["kind"] == "not exercised")
    assert "in no traced case ran what changed in placebo_init" in skipped["sentence"]


@pytest.mark.long("a gate more; one harmless and one harmful change are in make test")
def test_a_late_wake_up_of_another_cpu_is_a_regression(kernel: Path, changed: Changed, tmp_path: Path) -> None:
    code, verdicts = signals(kernel, changed("remote-wake-up-delayed"), tmp_path / "out")
    assert code == 1
    found = {(one["board"], one["measurement"]) for one in verdicts if one["kind"] == "regression"}
    assert ("virt-arm64-smp2", "roundtrip.avg") in found


def smoke(records: Path, *words: str) -> subprocess.CompletedProcess[str]:
    case = ["tests/latency/test_cyclictest.py", "-k", "idle", "--board", "virt-arm64", "--profile", "smoke"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *case, "--records", str(records), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def twelve(kernel: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the records of twelve boots of the baseline, which are kept now."""
    records = tmp_path_factory.mktemp("twelve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RTGATE_CACHE", str(cache))
        patch.delenv("RTGATE_KEEP_BOOTS")
        assert smoke(records, f"--arm=baseline={kernel}", "--seeds", "1-12", "--no-judge").returncode == 0
    return records


def test_of_twelve_boots_that_are_known_one_is_made_again(kernel: Path, twelve: Path, tmp_path: Path) -> None:
    assert smoke(tmp_path, f"--arm=baseline={kernel}", "--seeds", "1-12", "--no-judge").returncode == 0
    first, second = (
        records_by_case(records, "virt-arm64")["latency/cyclictest:idle"] for records in (twelve, tmp_path)
    )
    assert [digest_source(record) for record in first] == [digest_source(record) for record in second]
    assert not any(record.machine.keys() & {"booted", "repeated"} for record in first)
    assert sum("booted" in record.machine for record in second) == 11
    assert sum("repeated" in record.machine for record in second) == 1


@pytest.mark.long("more boots of one kernel; that known boots are made again is in make test")
def test_other_seeds_are_no_comparison(changed: Changed, twelve: Path, tmp_path: Path) -> None:
    records = shutil.copytree(twelve, tmp_path / "records")
    candidate = f"--arm=candidate={changed('boot-nops-100')}"
    assert smoke(records, candidate, "--seeds", "2", "--no-judge").returncode == 0
    done = smoke(records, "--replay", str(records))
    assert done.returncode == 1
    assert "cannot be compared: seeds: '1-12' against '2'" in done.stdout


@pytest.mark.long("more boots of one kernel; that known boots are made again is in make test")
@pytest.mark.usefixtures("twelve")
def test_a_baseline_that_prints_something_else_than_before_is_our_error(
    kernel: Path, changed: Changed, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "cache"
    own.mkdir()
    for there in cache.iterdir():
        if there.name != "boots":
            (own / there.name).symlink_to(there)
    shutil.copytree(cache / "boots", own / "boots")
    monkeypatch.setenv("RTGATE_CACHE", str(own))
    for path in (own / "boots").iterdir():
        before = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(before.replace(b"Booting Linux", b"Booting Minix")))
    arms = (f"--arm=baseline={kernel}", f"--arm=candidate={changed('boot-nops-100')}")
    done = smoke(tmp_path / "records", *arms, "--seeds", "1-2", "--no-boot-cache")
    assert done.returncode == 1
    assert "not compared: baseline, seed 1: virtual time did not repeat: an equal boot of 20" in done.stdout
    assert "Booting Minix" in done.stdout
