# SPDX-License-Identifier: MIT
"""The whole way, for real: kernels are built, QEMU boots them, the command line is what users type."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from selftests.integration.conftest import ROOT, Patched, records_of, rtgate, verdicts_of

from rtgate.tools.registry import TOOLS

_LONG = pytest.mark.long("another way to the same; one is in make test")
FAULTS = ROOT / "selftests" / "data" / "bad-kernels" / "fault-on-demand"


@pytest.fixture(scope="session")
def breaking_kernel(patched: Patched) -> Path:
    return patched("breaking", FAULTS)


@pytest.fixture(scope="session")
def good_report(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = tmp_path_factory.mktemp("report") / "good"
    done = rtgate("gate", "--board", "virt-arm64", "--kernel", kernel, "-k", "idle", "-o", report)
    assert done.returncode == 0
    return report


def test_the_default_kernel_passes(good_report: Path) -> None:
    assert {"PASS"} == {verdict["status"] for verdict in verdicts_of(good_report)}
    page = (good_report / "index.html").read_text(errors="replace")
    assert len(page) > 1_000_000  # one file with everything in it
    assert '<testcase classname="virt-arm64.candidate"' in (good_report / "junit.xml").read_text()


def test_a_browser_shows_the_report(good_report: Path) -> None:
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *words, (good_report / "index.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = re.sub(r"\s+", " ", re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", done.stdout))
    assert "board virt-arm64" in text
    assert "kernel flavour preempt_rt" in text
    assert "Total 1 Passed 1" in text
    # The first screen, and what of Allure's page its style relies on.
    assert "PASS every limit was kept" in text
    assert re.search(r'<html[^>]* data-section="default"[^>]* data-active-pane="tree"', done.stdout)
    for tab in ("qualityGate", "globalAttachments", "globalErrors"):
        assert f'data-testid="nav-tab-{tab}"' in done.stdout


def test_seeds_are_phases(good_report: Path) -> None:
    found = records_of(good_report / "records")
    assert [1, 2, 3, 4] == [record["seed"] for record in found]
    assert 4 == len({json.dumps(record["measurements"]) for record in found})
    assert {"virtual ns"} == {record["measurements"][0]["unit"] for record in found}


@pytest.mark.long("a whole gate more; unit tests replace a kernel and QEMU in one with a fake QEMU")
def test_who_replaces_the_kernel_meanwhile_changes_nothing(kernel: Path, good_report: Path, tmp_path: Path) -> None:
    """After the first record the directory holds a kernel that does not even boot."""
    copy, report, ended = tmp_path / kernel.name, tmp_path / "report", threading.Event()
    shutil.copytree(kernel, copy)

    def replace_it() -> None:
        while not list(report.rglob("record.json")):
            if ended.wait(0.05):
                return
        for path in copy.iterdir():
            path.write_bytes(b"no kernel")
        copy.rename(tmp_path / "away")

    replacing = threading.Thread(target=replace_it)
    replacing.start()
    words = ["--kernel", copy, "-k", "idle", "-o", report]
    try:
        done = rtgate("gate", "--board", "virt-arm64", *words, RTGATE_KEEP_BOOTS="no")
    finally:
        ended.set()
        replacing.join(timeout=60)
    assert done.returncode == 0
    assert not copy.exists()
    assert [one["sentence"] for one in verdicts_of(report)] == [one["sentence"] for one in verdicts_of(good_report)]
    image = json.loads((kernel / "build.json").read_text())["artefacts"]["image"]["sha256"]
    found = records_of(report / "records")
    assert {(one["kernel"]["image_sha256"], one["machine"]["image_sha256"]) for one in found} == {(image, image)}
    assert [one["measurements"] for one in found] == [
        one["measurements"] for one in records_of(good_report / "records")
    ]


def test_records_are_judged_again_without_a_board(good_report: Path, tmp_path: Path) -> None:
    limits = tmp_path / "tight.yaml"
    limits.write_text(
        "virt-arm64:\n  preempt_rt:\n    latency/cyclictest:idle:\n"
        '      - {measurement: latency.max, kind: max, limit: 5 virtual us, source: "a limit nobody keeps"}\n'
    )
    verdict = tmp_path / "verdict.json"
    words = [
        "--replay",
        good_report / "records",
        "--thresholds",
        limits,
        "--verdict",
        verdict,
        "--profile",
        "quick",
        "-k",
        "idle",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/nonexistent"},
    )
    assert 1 == done.returncode
    (only,) = json.loads(verdict.read_text())["verdicts"]
    assert "FAIL" == only["status"]
    pattern = (
        r"latency.max was [\d.]+ virtual us \(\d+ instructions\) on CPU 0 in seed \d, over the limit of 5.0 virtual us"
    )
    assert re.match(pattern, only["sentence"])
    assert "a limit nobody keeps" in only["sentence"]


def test_a_slow_kernel_is_found_out(slow_kernel: Path, tmp_path: Path) -> None:
    done = rtgate("gate", "--board", "virt-arm64", "--kernel", slow_kernel, "-k", "idle", "-o", tmp_path / "report")
    assert 1 == done.returncode
    failed = [verdict for verdict in verdicts_of(tmp_path / "report") if verdict["status"] == "FAIL"]
    assert "limit" in {verdict["kind"] for verdict in failed}


@pytest.mark.parametrize(
    ("board", "load"),
    [
        pytest.param("virt-arm64", "idle", marks=_LONG),
        ("virt-arm64", "hackbench"),
        pytest.param("virt-arm64-smp2", "idle", marks=_LONG),
        pytest.param("virt-arm64-smp2", "hackbench", marks=_LONG),
    ],
)
def test_a_virtual_board_repeats_itself(kernel: Path, board: str, load: str) -> None:
    words = ["--kernel", kernel, "--seeds", "1-2", "--times", "3", "--profile", "smoke"]
    words += ["--case", f"latency/cyclictest:{load}"]
    done = rtgate("repeat", "--board", board, *words)
    assert 0 == done.returncode
    assert "2 different histograms over 2 seeds" in done.stdout


def test_the_same_suite_runs_over_a_live_console(kernel: Path, tmp_path: Path) -> None:
    words = ["--kernel", kernel, "--console", "host", "--profile", "smoke", "-k", "idle", "-o", tmp_path / "report"]
    done = rtgate("gate", "--board", "virt-arm64", *words)
    assert 5 == done.returncode  # host-time latencies are shown, not judged
    (record,) = records_of(tmp_path / "report" / "records")
    assert ("measured", "host") == (record["state"], record["environment"]["time"])
    assert {"DONE"} == {verdict["status"] for verdict in verdicts_of(tmp_path / "report")}


def test_a_console_without_input_ends_and_one_with_input_gets_it(kernel: Path) -> None:
    program = [sys.executable, "-m", "rtgate", "console", "--board", "virt-arm64", "--kernel", str(kernel)]
    assert subprocess.run(program, stdin=subprocess.DEVNULL, check=False, timeout=60).returncode == 0
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        deadline = threading.Timer(120, child.kill)  # what waits for its output sees the end of it
        deadline.daemon = True
        deadline.start()
        said = b""
        while b"target# " not in said:
            said += os.read(child.stdout.fileno(), 4096) or pytest.fail(f"no prompt: {said[-500:]!r}")
        os.write(child.stdin.fileno(), b"echo al''ive; poweroff -f\n")
        said = child.stdout.read()
        assert b"alive\r\n" in said
        assert child.wait(timeout=60) == 0
        deadline.cancel()


@pytest.mark.long("three boots on host time; the fault bench has soaks in make test")
def test_a_soak_is_measured_in_chunks(kernel: Path, tmp_path: Path) -> None:
    case = ("--case", "latency/cyclictest:hackbench", "--for", "6s", "--chunk", "2s")
    console = ("--board", "virt-arm64", "--kernel", kernel, "--console", "host")
    done = rtgate("soak", *console, *case, "--records", tmp_path / "soak")
    assert 5 == done.returncode
    found = records_of(tmp_path / "soak")
    assert [1, 2, 3] == [record["chunk"]["number"] for record in found]
    assert {"measured"} == {record["state"] for record in found}
    assert 3 == len({record["boot_id"] for record in found})  # a board in QEMU boots for each chunk
    assert rtgate("report", tmp_path / "soak", "-o", tmp_path / "report", "--no-html").returncode == 0


def site_with(directory: Path, arguments: str) -> Path:
    """Return a site directory whose board `broken` is virt-arm64 with more kernel arguments."""
    text = (ROOT / "boards" / "virt-arm64.yaml").read_text()
    (directory / "boards").mkdir(parents=True)
    (directory / "boards" / "broken.yaml").write_text(text.replace("command_line: ", f"command_line: {arguments} "))
    return directory


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        ("panic", "boot", "Kernel panic - not syncing: rtgate self-test: no boot"),
        ("oops", "kernel fault", "Unable to handle kernel NULL pointer dereference"),
        pytest.param("warn", "kernel fault", "WARNING: CPU: 0", marks=_LONG),
        pytest.param(
            "hang",
            "hang",
            "the kernel hung during the measurement",
            marks=pytest.mark.long("a hang is waited for, 2 minutes; the fault bench has one in make test"),
        ),
    ],
)
def test_a_kernel_that_breaks_fails(breaking_kernel: Path, tmp_path: Path, fault: str, kind: str, says: str) -> None:
    site = site_with(tmp_path / "site", f"rtgate_fault={fault}")
    words = ["--kernel", breaking_kernel, "--profile", "smoke", "--seeds", "1", "-o", tmp_path / "report"]
    done = rtgate("--site", site, "gate", "--board", "broken", "-k", "idle", *words)
    assert 1 == done.returncode
    failed = [verdict for verdict in verdicts_of(tmp_path / "report") if verdict["status"] == "FAIL"]
    assert [kind] == [verdict["kind"] for verdict in failed]
    assert says in failed[0]["sentence"]


def test_a_lost_flavour_is_the_kernels_fault(kernel: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(kernel / "Image", bare / "Image")
    words = ["--flavour", "generic", "--profile", "smoke", "--seeds", "1", "-k", "idle", "-o", tmp_path / "report"]
    done = rtgate("gate", "--board", "virt-arm64", "--kernel", bare, *words)
    assert 1 == done.returncode
    assert (
        "flavour lost: seed 1: the kernel should be generic and is preempt_rt"
        in verdicts_of(tmp_path / "report")[0]["sentence"]
    )


def below(parent: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found = [parent]
    for pid in found:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has just ended
                found += [int(word) for word in path.read_text().split()]
    return found[1:]


def boards_of(parent: int) -> list[int]:
    """Return the QEMU processes below a process."""
    return [pid for pid in below(parent) if _is_board(pid)]


def _is_board(pid: int) -> bool:
    """Return whether a process is QEMU with a kernel: not `qemu --version`, and not what is still to become QEMU."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"\0-kernel\0" in line and line.startswith(b"qemu")


def started(words: Sequence[object]) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a gate and wait until its boards run."""
    process = subprocess.Popen([sys.executable, "-m", "rtgate", *map(str, words)], cwd=ROOT, start_new_session=True)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        boards = boards_of(process.pid)
        if boards:
            time.sleep(1)
            return process, boards_of(process.pid)
        time.sleep(0.1)
    process.kill()
    raise AssertionError("no board was started")


@pytest.mark.parametrize("kill", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=_LONG)])
def test_an_interrupted_gate_leaves_nothing(kernel: Path, tmp_path: Path, kill: signal.Signals) -> None:
    report = tmp_path / "report"
    process, boards = started(
        ["gate", "--board", "virt-arm64", "--kernel", kernel, "--profile", "nightly", "-o", report]
    )
    process.send_signal(kill)
    assert 130 == process.wait(timeout=30)
    assert not [pid for pid in boards if Path(f"/proc/{pid}").exists()]
    assert not list((report / "records").rglob(".writing-*"))


def test_killed_outright_it_leaves_nothing_running(kernel: Path, tmp_path: Path) -> None:
    words = ["gate", "--board", "virt-arm64", "--kernel", kernel, "--profile", "nightly", "-o", tmp_path / "report"]
    process, boards = started(words)
    everything = below(process.pid)
    assert set(boards) < set(everything)  # the suites, too
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while [pid for pid in everything if Path(f"/proc/{pid}").exists()] and time.monotonic() < until:
        time.sleep(0.2)
    assert not [pid for pid in everything if Path(f"/proc/{pid}").exists()]


def test_a_qemu_that_dies_is_the_labs_fault(kernel: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    words = ["--kernel", kernel, "--profile", "quick", "--seeds", "1", "-k", "hackbench", "-o", report]
    process, boards = started(["gate", "--board", "virt-arm64", *words])
    for pid in boards:
        os.kill(pid, signal.SIGKILL)
    assert 3 == process.wait(timeout=60)
    (only,) = verdicts_of(report)
    assert ("MISS", "lab") == (only["status"], only["kind"])
    assert "QEMU ended with exit code -9" in only["sentence"]


# What a virtual board with one CPU cannot do: no Cobalt core, no second CPU, no second of its own, no tracepoints.
SKIPPED = {
    "latency/jailhouse-demo:hackbench",
    "latency/jailhouse-demo:idle",
    "latency/preemptirq:hackbench",
    "latency/preemptirq:idle",
    "latency/preemptirq:stress-ng",
    "latency/queuelat:idle",
    "latency/xenomai-cyclictest:hackbench",
    "latency/xenomai-cyclictest:idle",
    "latency/xenomai-latency-irq:hackbench",
    "latency/xenomai-latency-irq:idle",
    "latency/xenomai-latency-kernel:hackbench",
    "latency/xenomai-latency-kernel:idle",
    "latency/xenomai-latency:hackbench",
    "latency/xenomai-latency:idle",
    "scheduling/rt-migrate-test:idle",
    "scheduling/xenomai-clocktest:hackbench",
    "scheduling/xenomai-clocktest:idle",
    "scheduling/xenomai-smokey:idle",
    "scheduling/xenomai-switchtest:idle",
}


@pytest.mark.long("four minutes for each board; test_busy_tools and test_pcie have tools of each suite")
@pytest.mark.parametrize(
    ("board", "kernel_of", "select"),
    [
        ("virt-arm64", "kernel", ""),
        # Not the default build: another kernel takes minutes to compile. What this one has of devices is for test_pcie.
        ("virt-x86_64", "x86_64_pcie_kernel", "latency or signal or scheduling"),
    ],
)
def test_every_tool_measures(
    board: str, kernel_of: str, select: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    words = ["--kernel", request.getfixturevalue(kernel_of), "--profile", "mr", "-o", report]
    # It took 326 s on two cores of a slow machine that had nothing else to do.
    done = rtgate("gate", "--board", board, *words, *(["-k", select] if select else []), timeout=1500)
    assert 0 == done.returncode
    found = {record["case"]: record for record in records_of(report / "records")}
    without_devices = {case for case in found if case.startswith(("irq/", "pcie/", "nvme/"))}
    skipped = {case for case, record in found.items() if record["state"] == "skipped"}
    assert SKIPPED | without_devices == skipped
    measured = {case: record for case, record in found.items() if record["state"] == "measured"}
    assert len(found) - len(skipped) == len(measured)
    assert all(record["measurements"] for record in measured.values())
    assert {"preempt_rt"} == {record["environment"]["flavour"] for record in measured.values()}
    tools = {case.partition("/")[2].partition(":")[0] for case in found}
    suites = set(select.split(" or "))
    assert {name for name, tool in TOOLS.items() if not select or suites & set(tool.suites)} == tools


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["gate", "--board", "nothing"], 2, "unknown name 'nothing' in boards (allowed: "),
        (["gate", "--board", "virt-arm64", "--kernel", "selftests"], 2, "selftests"),
        (["gate", "--board", "virt-arm64", "--tree", "docs"], 2, "docs"),
        (["gate", "--board", "virt-arm64", "--build", "nothing"], 2, "unknown name 'nothing' in kernel-configs"),
        (["gate", "--board", "virt-arm64", "--base", "HEAD"], 2, "name it with --tree"),
        (["repeat", "--board", "virt-arm64", "--kernel", "x", "--times", "1"], 2, "--times must be at least 2"),
        (["where", "nothing"], 2, "no board, build, image or file is called 'nothing'"),
    ],
)
def test_a_mistake_is_one_clear_error(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "report")] if words[0] == "gate" else []
    done = rtgate(*words, *output)
    assert code == done.returncode
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_judging_again_comes_to_the_gate_s_verdicts(good_report: Path, tmp_path: Path) -> None:
    verdict = tmp_path / "verdict.json"
    done = rtgate("judge", good_report / "records", "--verdict", verdict, PATH="/nonexistent")
    assert done.returncode == 0
    assert json.loads(verdict.read_text())["verdicts"] == verdicts_of(good_report)
