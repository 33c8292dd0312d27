# SPDX-License-Identifier: MIT
"""How long rtgate takes, as a table and as bench/results.json. Nothing here passes or fails.

Run it on a machine that does nothing else; the figures of the README come from here.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from selftests import lava_records
from selftests.frames import encode

from bench import ROOT
from bench.figures import Figure, figure, machine, show
from rtgate.kernel.source import default_tree, open_tree
from rtgate.lava.results import log, records
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.records.record import read, write
from rtgate.tools import Output, Setting
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.pcie_bar import PcieBar
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.kernels import build_kernel

CAPTURES = ROOT / "selftests" / "data" / "rt-tests" / "2.10"
BOARD, BUILD = "virt-arm64", "virt-arm64-preempt_rt"
VIRTUAL = ("virt-arm64", "virt-x86_64")
REPEATS = 5


def main() -> None:
    """Measure everything and show it."""
    os.environ["RTGATE_KEEP_BOOTS"] = "no"  # what a boot takes, not what reading it again does
    kernel = build_kernel(BUILD, None, ROOT / "build" / BUILD).directory
    figures = [*_one_measurement(kernel), _changed_file(), _time_second_gate(), _every_suite(kernel), _day(), _frames()]
    figures += [*_on_the_line(), *_by_kernel(), _transfer_time()]
    figures.append(_job_log(kernel))
    figures += [_wide_stores(), *map(_devices, VIRTUAL)]
    show(figures)
    document = {"machine": machine(), "figures": [asdict(one) for one in figures]}
    (ROOT / "bench" / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _one_measurement(kernel: Path) -> list[Figure]:
    """Time 10 s of idle cyclictest, one boot at a time, and what of it is neither boot nor tool."""
    (arm,) = make_arms(ArmRequest(board=BOARD, kernels={"candidate": kernel}, profile="mr"))
    case = Case(suite="latency", tool=Cyclictest(), load="idle")
    whole, harness, here = [], [], []
    with tempfile.TemporaryDirectory() as records:
        for seed in range(1, REPEATS + 1):
            began = time.monotonic()
            record, outcome = measure(case, arm, seed)
            read(write(record, outcome.files, outcome.console, Path(records)))
            whole.append(time.monotonic() - began)
            harness.append(whole[-1] - record.seconds["measured"])
            here.append(whole[-1] - record.seconds["qemu"])
    return [
        figure("10 s of cyclictest, idle, one CPU: from asking to parsed record", whole, 3.5),
        figure("of it neither boot nor tool (frames, records, parsing)", harness, 0.3),
        figure("of that rtgate itself, the rest is the target packing its results", here, 0.05),
    ]


def _changed_file() -> Figure:
    """Time a rebuild after one changed C file, and a 12-seed idle measurement until the verdict."""
    # Below what git ignores: a run that is killed leaves a kernel's source there.
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-", dir=ROOT / "build") as name:
        tree = Path(name) / "linux"
        subprocess.run(["cp", "-a", "--reflink=auto", str(default_tree().path), str(tree)], check=True)
        shutil.rmtree(tree / "rtgate-build", ignore_errors=True)
        output = Path(name) / "kernel"
        build_kernel(BUILD, open_tree(tree), output)
        values = []
        for turn in range(2):
            with (tree / "kernel" / "time" / "hrtimer.c").open("a", encoding="utf-8") as source:
                source.write(f"\nint rtgate_bench_{turn};\n")
            began = time.monotonic()
            build_kernel(BUILD, open_tree(tree), output)
            _gate(["--kernel", str(output), "--seeds", "1-12", "-k", "idle", "-o", f"{name}/report"])
            values.append(time.monotonic() - began)
    return figure("rebuild after one changed C file, 12 seeds idle, verdict and report", values, 60)


def _time_second_gate() -> Figure:
    values = []
    for _ in range(2):
        began = time.monotonic()
        _gate(["-o", str(ROOT / "bench" / "report")])
        values.append(time.monotonic() - began)
    return figure("make gate again, nothing changed (12 boots, report)", values, 60)


def _every_suite(kernel: Path) -> Figure:
    """Time every suite of a merge request, with one seed."""
    seconds = _time_suites(["tests"], BOARD, kernel, "--profile", "mr")
    return figure("all suites of the profile mr, one seed", [seconds], 120)


def _time_suites(suites: list[str], board: str, kernel: Path, *words: str) -> float:
    """Return the seconds of suites with one seed. Raises CalledProcessError: not every case was measured."""
    with tempfile.TemporaryDirectory() as records:
        how = ["--board", board, "--kernel", str(kernel), "--seeds", "1", "--no-judge", "-q", "--records", records]
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "pytest", *suites, *how, *words], cwd=ROOT, check=True)
        return time.monotonic() - began


def _day() -> Figure:
    """Time the parsing of a day of cyclictest: 8 CPUs, 10 000 buckets each."""
    counts = {str(value): max(1, int(43_200 * math.exp(-value / 400))) for value in range(10_000)}
    thread = {"histogram": counts, "cycles": sum(counts.values()), "min": 0, "avg": 100.0, "max": 9999}
    document = {"resolution_in_ns": 0, "thread": {str(cpu): {**thread, "cpu": cpu} for cpu in range(8)}}
    files = {"cyclictest.json": json.dumps(document, indent=2).encode()}
    output = Output(files=files, exit_code=0, setting=Setting(cpus=8, duration_s=86_400, virtual_time=False))
    values = []
    for _ in range(20):
        began = time.perf_counter()
        Cyclictest(range_us=10_000).parse(output)
        values.append(1000 * (time.perf_counter() - began))
    return figure("parsing a day of cyclictest, 8 CPUs with 10 000 buckets", values, 50, "ms")


def _frames() -> Figure:
    """Return how much longer frames are than the base64 in them."""
    data = bytes(range(256)) * 80
    sent = sum(len(line) + 1 for line in encode(data, "F012345678"))
    return figure("frames beyond the base64 in them", [100 * (sent / len(base64.b64encode(data)) - 1)], 5, "%")


def _on_the_line() -> list[Figure]:
    """Return how long results of cyclictest on 8 CPUs travel at 115 200 baud, as frames with 10 bits for each byte.

    Made up, in buckets of 1 us: ten minutes under a load (a lognormal body around 12 us and a tail of one wake-up in a
    hundred thousand, some 270 buckets on each CPU); and the same with something in each of 1000 buckets.
    """
    chance = random.Random(1)  # noqa: S311 - the same made-up latencies every time
    body = [math.exp(-((math.log((us + 1) / 12) / 0.35) ** 2) / 2) / (us + 1) for us in range(1000)]
    weights = [one + 2e-6 * math.exp(-us / 250) for us, one in enumerate(body)]
    figures = []
    for name, most in (("270", 0), ("1000", 40)):
        seconds = []
        for _ in range(REPEATS):
            drawn = [Counter(chance.choices(range(1000), weights, k=600_000)) for _ in range(8)]
            filled = [{us: one[us] + (most and chance.randint(1, most)) for us in range(1000)} for one in drawn]
            threads = [_thread(cpu, counts) for cpu, counts in enumerate(filled)]
            seconds.append(_line_s({"cyclictest.json": json.dumps(_document(threads), indent=2).encode()}))
        figures.append(figure(f"cyclictest on 8 CPUs with {name} buckets each, at 115 200 baud", seconds, 1))
    return figures


def _by_kernel() -> list[Figure]:
    """Return how long made-up results travel of a kernel whose tail is short, and of one whose tail is long.

    Share of the wake-ups in the tail, and the microseconds in which it falls to 1/e; a wake-up each millisecond.
    """
    chance = random.Random(1)  # noqa: S311 - the same made-up latencies every time
    body = [math.exp(-((math.log((us + 1) / 12) / 0.35) ** 2) / 2) / (us + 1) for us in range(1000)]
    figures = []
    for name, share, falls in (("real-time", 1e-5, 25), ("stock", 2e-4, 250)):
        tail = [share * math.exp(-us / falls) / falls for us in range(1000)]
        for hours in (1, 24):
            expected = [hours * 3_600_000 * (one / sum(body) + more) for one, more in zip(body, tail, strict=True)]
            drawn = [{us: _around(mean, chance) for us, mean in enumerate(expected)} for _ in range(8)]
            document = _document([_thread(cpu, counts) for cpu, counts in enumerate(drawn)])
            seconds = _line_s({"cyclictest.json": json.dumps(document, indent=2).encode()})
            figures.append(figure(f"cyclictest on 8 CPUs, a {name} kernel, {hours} h, at 115 200 baud", [seconds], 1))
    return figures


def _around(mean: float, chance: random.Random) -> int:
    """Return how often something happens that does so so often on average (Poisson, normal where it is often)."""
    if mean > 50:
        return round(chance.gauss(mean, math.sqrt(mean)))
    left, count = chance.random() - math.exp(-mean), 0
    term = math.exp(-mean)
    while left > 0:
        count += 1
        term *= mean / count
        left -= term
    return count


def _transfer_time() -> Figure:
    """Return how long a captured result would travel, had each of 8 CPUs one: its counts, drawn anew for each.

    It is of an idle board on a busy host, whose latencies are spread more than those of any real-time board in the
    reference documents: some 220 buckets of 1 us.
    """
    capture = json.loads((CAPTURES / "cyclictest-host-idle.json").read_text(encoding="utf-8"))
    counts = {int(bucket): count for bucket, count in capture["thread"]["0"]["histogram"].items()}
    chance = random.Random(1)  # noqa: S311 - the same counts every time
    drawn = [Counter(chance.choices(list(counts), list(counts.values()), k=sum(counts.values()))) for _ in range(8)]
    threads = [_thread(cpu, dict(sorted(one.items()))) for cpu, one in enumerate(drawn)]
    seconds = _line_s({"cyclictest.json": json.dumps(_document(threads), indent=2).encode()})
    return figure("cyclictest on 8 CPUs as captured on a busy host, at 115 200 baud", [seconds], 1)


def _thread(cpu: int, counts: dict[int, int]) -> dict[str, Any]:
    occupied = {us: count for us, count in counts.items() if count}
    cycles = sum(occupied.values())
    mean = sum(us * count for us, count in occupied.items()) / cycles
    histogram = {str(us): count for us, count in occupied.items()}
    return {
        "histogram": histogram,
        "cycles": cycles,
        "min": min(occupied),
        "max": max(occupied),
        "avg": mean,
        "cpu": cpu,
    }


def _document(threads: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "file_version": 1,
        "cmdline:": " ".join(Cyclictest().argv(Setting(cpus=8, duration_s=600, virtual_time=False))),
        "rt_test_version:": "2.10",
        "return_code": 0,
        "num_threads": 8,
        "resolution_in_ns": 0,
        "thread": {str(number): thread for number, thread in enumerate(threads)},
    }


def _line_s(files: dict[str, bytes]) -> float:
    """Return the seconds that files travel, packed as a plan packs them; the line ends as a terminal ends it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"r/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    frames = encode(gzip.compress(packed.getvalue(), 9), "F012345678")
    return 10 * sum(len(line) + 2 for line in frames) / 115_200


def _job_log(kernel: Path) -> Figure:
    """Time the reading of 200 records from the log of a LAVA job."""
    (arm,) = make_arms(ArmRequest(board=BOARD, kernels={"candidate": kernel}, profile="smoke"))
    record, outcome = measure(Case(suite="latency", tool=Cyclictest(), load="hackbench"), arm, 1)
    values = []
    with tempfile.TemporaryDirectory() as name:
        sent = Path(name) / "sent"
        for seed in range(1, 201):
            write(replace(record, seed=seed), outcome.files, outcome.console, sent)
        lines = [log.LogLine(number, "", "target", text, "") for number, text in enumerate(lava_records.encode(sent))]
        text = log.dump(lines)
        for repeat in range(REPEATS):
            began = time.monotonic()
            records.decode((line.text for line in log.parse(text)), Path(name) / str(repeat))
            values.append(time.monotonic() - began)
    return figure("200 records from a job's log", values, 3)


def _wide_stores() -> Figure:
    """Compare pcie-bar's 128-bit stores with a plain C loop over the same mapping, in the same run, in host time."""
    board, build = "virt-x86_64", "virt-x86_64-pcie"
    kernel = build_kernel(build, None, ROOT / "build" / build).directory
    (arm,) = make_arms(ArmRequest(board=board, kernels={"candidate": kernel}, profile="mr", console="host"))
    values = []
    for seed in range(1, REPEATS + 1):
        record, _ = measure(Case(suite="pcie", tool=PcieBar(), load="idle"), arm, seed)
        rates = {one.name: one.quantity.value for one in record.measurements if one.quantity}
        values.append(100 * rates["store128.rate"] / rates["plain128.rate"])
    return figure("pcie-bar's 128-bit stores, of a plain C loop's rate (more is better)", values, 90, "%")


def _devices(board: str) -> Figure:
    """Time the suites of PCI Express and NVMe with one seed, on a board that has their devices."""
    build = f"{board}-pcie"
    kernel = build_kernel(build, None, ROOT / "build" / build).directory
    seconds = _time_suites(["tests/pcie", "tests/nvme"], board, kernel)
    return figure(f"suites pcie and nvme, {board}, one seed", [seconds], 180)


def _gate(words: list[str]) -> None:
    """Gate the shipped kernel. Raises CalledProcessError: it did not pass."""
    program = shutil.which("rtgate") or str(ROOT / ".venv/bin/rtgate")
    subprocess.run([program, "gate", "--board", BOARD, *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
