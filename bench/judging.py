# SPDX-License-Identifier: MIT
"""How long the judging of a comparison on boards takes: 24 cases of 12 pairs with full histograms.

`python -m bench.judging` judges them as they were drawn, and read from records. No boots.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from selftests.campaigns.board_gates import BOOT_MINUTES, CASES, PAIRS
from selftests.campaigns.boards import MINUTES, NONE, WORLDS, draw_record

from rtgate.judge.compare.looks import RELEASE, compare
from rtgate.judge.compare.paired import Evidence
from rtgate.judge.compare.pairing import CaseHistory, evidence, findings
from rtgate.records import record as records_file
from rtgate.records.record import Record

CPUS, BUCKETS = 4, 300


def main() -> None:
    """Time the judging of boots that have a histogram of `BUCKETS` buckets for each CPU."""
    rng = np.random.default_rng(1)
    pairs = {
        name: [(_wide(rng, name, "baseline"), _wide(rng, name, "candidate")) for _ in range(PAIRS)]
        for name in map(str, range(CASES))
    }
    began = time.perf_counter()
    _judge(pairs)
    print(f"{CASES} cases x {PAIRS} pairs, {CPUS} CPUs with {BUCKETS} buckets: judged in {_since(began):.2f} s")
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        for case in pairs.values():
            for pair in case:
                for one in pair:
                    records_file.write(one, {}, b"", Path(name))
        began = time.perf_counter()
        read: dict[str, dict[str, list[Record]]] = {}
        for one in records_file.read_all(Path(name)):
            read.setdefault(one.case, {}).setdefault(one.arm, []).append(one)
        reading = _since(began)
        _judge({case: list(zip(arms["baseline"], arms["candidate"], strict=True)) for case, arms in read.items()})
        print(f"read from {2 * CASES * PAIRS} records in {reading:.2f} s, and judged: {_since(began):.2f} s")


def _wide(rng: np.random.Generator, case: str, arm: str) -> Record:
    made = draw_record(rng, WORLDS["noisy"], 0.0, NONE, (f"latency/bench:{case}", arm))
    (one,) = made.measurements
    assert one.histogram is not None
    counts = dict.fromkeys(range(BUCKETS), 1) | dict(one.histogram.counts)
    histogram = replace(one.histogram, counts=counts)
    return replace(
        made, measurements=tuple(replace(one, histogram=histogram, labels={"cpu": str(cpu)}) for cpu in range(CPUS))
    )


def _judge(pairs: dict[str, list[tuple[Record, Record]]]) -> None:
    family: list[Evidence] = []
    for case, found in pairs.items():
        family += evidence(case, found, CaseHistory(), RELEASE.steps[0][0])
    for comparison in compare(family):
        findings(comparison, MINUTES, BOOT_MINUTES)


def _since(began: float) -> float:
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
