# SPDX-License-Identifier: MIT
"""How long a large report takes: 1000 stored records judged again, a report of 10 000 written, and opened in Chromium.

    nice .venv/bin/python -m bench.report [--boots 20] [--keep DIR]

The records are made up, as cyclictest writes them on virtual time: ten boards, 25 cases, two kernels, 20 boots of each.
One board has limits in thresholds.yaml, some of which are broken. Chromium's time is from its start until Allure's list
of tests stands; its own timers do not count. No file stays without --keep.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from selftests.unit.report.conftest import Boot, make
from selftests.written_records import write

from bench import ROOT

BOARD, BOARDS = "virt-arm64", 10
CASES = ("idle", "hackbench", "stress-ng", *(f"load-{number}" for number in range(3, 25)))
KERNELS = ("baseline", "candidate")
CONSOLE = b"".join(
    b"[    0.%06d] a line of the kernel, as long as most of them are\r\n" % number for number in range(300)
)
BROWSER_S = 120


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long something took, and how long its processes had a core: others on this machine do not count there."""

    elapsed: float
    busy: float

    @classmethod
    def now(cls) -> Seconds:
        """Return this moment."""
        told = os.times()
        return cls(time.monotonic(), told.children_user + told.children_system)

    def __sub__(self, began: Seconds) -> Seconds:
        return Seconds(self.elapsed - began.elapsed, self.busy - began.busy)


def main() -> None:
    """Make records, measure, and print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=20, metavar="N", help="of each case with each kernel")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave records and report there")
    arguments = parser.parse_args()
    with _directory(arguments.keep) as work:
        records = work / "records"
        made = _fill(records, arguments.boots)
        _show(f"{made} stored records judged again", _time_command("judge", records), 5)
        for number in range(1, BOARDS):
            _copy(records, f"board-{number}")
        made *= BOARDS
        _show(f"{made} stored records judged again", _time_command("judge", records), 50)
        _show(f"a report of {made} results written", _time_command("report", records, "-o", work / "report"), 20)
        page = work / "report" / "index.html"
        print(f"  index.html {page.stat().st_size / 2**20:.1f} MiB, summary.html {_kib(work)} KiB")
        browser = shutil.which("chromium")
        if browser is None:
            print("not measured: opening it, there is no chromium")
        else:
            _show("the report opened in a browser", _time_to_open(browser, page, work / "browser"), 5)


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        yield Path(name)


def _fill(records: Path, boots: int) -> int:
    for number, case in enumerate(CASES):
        for arm in KERNELS:
            high = 131.4 if arm == "candidate" and number % 3 == 0 else 61.2
            for seed in range(1, boots + 1):
                write(
                    make(Boot(case=f"latency/cyclictest:{case}", board=BOARD, arm=arm, seed=seed, high_us=high)),
                    records,
                    CONSOLE,
                )
    return len(CASES) * len(KERNELS) * boots


def _copy(records: Path, board: str) -> None:
    """Give another board the same records."""
    shutil.copytree(records / BOARD, records / board)
    for path in (records / board).rglob("record.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(f'"{BOARD}"', f'"{board}"'), encoding="utf-8")


def _time_command(*words: object) -> Seconds:
    program = shutil.which("rtgate") or str(ROOT / ".venv/bin/rtgate")
    began = Seconds.now()
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    seconds = Seconds.now() - began
    if done.returncode == 2 or "Traceback" in done.stderr:
        raise SystemExit(f"rtgate {words[0]} ended with {done.returncode}: {done.stderr[-800:]}")
    return seconds


def _time_to_open(browser: str, page: Path, profile: Path) -> Seconds:
    """Return the seconds until the list of tests stands, which the browser then writes out."""
    argv = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=5000",
    ]
    began = Seconds.now()
    done = subprocess.run(
        [*argv, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=BROWSER_S, check=False
    )
    seconds = Seconds.now() - began
    if 'data-testid="tree-' not in done.stdout:
        raise SystemExit("the browser does not show the list of tests")
    return seconds


def _kib(work: Path) -> int:
    return (work / "report" / "summary.html").stat().st_size >> 10


def _show(what: str, seconds: Seconds, goal: int) -> None:
    print(f"{what}: {seconds.elapsed:.1f} s (goal {goal} s), of it {seconds.busy:.1f} s on a core", flush=True)


if __name__ == "__main__":
    main()
