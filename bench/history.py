# SPDX-License-Identifier: MIT
"""How long a history of 100 000 records takes to answer what a gate asks of it. One command, no file stays.

    nice .venv/bin/python -m bench.history [--records 100000] [--history postgresql+psycopg://...]

The records are made by direct inserts: ten boards, 24 cases, a night of four boots each after the other, of which one
in twenty is invalid. A gate asks for 24 cases of one board: what each may borrow (boots that may be compared, their
records, levels, summaries, priors), and whether the board is qualified. The histograms have four CPUs of some 60
buckets, as cyclictest has them on a board. The goal on SQLite is 1 s.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice, product
from pathlib import Path
from typing import Any

from selftests.unit.report.conftest import Boot, make

from rtgate.history import queries, schema
from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.queries import BootFilter
from rtgate.history.store import Origin, _row
from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram
from rtgate.units import Unit

BOARDS, CASES, BOOTS, CPUS = 10, 24, 4, 4
SAMPLES = 720_000  # of 3 minutes at 4000 a second
_SHAPES = 12  # different records of a case; making each of 100 000 anew would take an hour


def main() -> None:
    """Make the history, measure, and print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, metavar="N")
    parser.add_argument("--history", metavar="URL", help="an empty database (default: a SQLite file)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        file = Path(name) / "history.db"
        with History.open(arguments.history or f"sqlite:///{file}", create=True) as history:
            began = time.monotonic()
            stored = _fill(history, arguments.records)
            size = f", {file.stat().st_size / 2**20:.0f} MiB" if file.exists() else ""
            print(f"{stored} records{size}, made in {time.monotonic() - began:.0f} s")
        _measure(arguments.history or f"sqlite:///{file}", arguments.repeat)


def _measure(url: str, repeat: int) -> None:
    likes = [_record(0, case, 0) for case in range(CASES)]
    whole, busy, listing = [], [], []
    for _ in range(repeat):
        began, before = time.monotonic(), time.process_time()
        with History.open(url) as history:
            lent = [borrow(history, like) for like in likes]
        whole.append(time.monotonic() - began)
        busy.append(time.process_time() - before)
        pairs = {prior.degrees for one in lent for prior in one.priors.values()}
        if not all(one.priors for one in lent):
            raise SystemExit("a gate may borrow nothing of so few records: a night has 960")
        with History.open(url) as history:
            began = time.monotonic()
            queries.contents(history, BootFilter(board="board-0"))
            listing.append(time.monotonic() - began)
    borrowed = f"{min(pairs)} to {max(pairs)} pairs of each"
    _show(f"a gate of {CASES} cases asks for all that it may borrow ({borrowed})", whole, "goal 1 s")
    _show("  of it this process on a core (others on this machine do not count)", busy, "")
    _show("`rtgate history list --board B`", listing, "")


def _show(what: str, values: list[float], goal: str) -> None:
    low, high = min(values), max(values)
    print(f"{what}: {statistics.median(values):.2f} s ({low:.2f}-{high:.2f}, {len(values)} times) {goal}".rstrip())


def _fill(history: History, records: int) -> int:
    made = {
        (board, case, shape): _row(_record(board, case, shape), _origin(0, board))
        for board in range(BOARDS)
        for case in range(CASES)
        for shape in range(_SHAPES)
    }
    environments = {row["environment"]: row.pop("environment_row") for row in made.values()}
    good = {(row["kernel"], row["board"]) for row in made.values()}
    told = {"run": "night-0", "promoted_at": "", "promoted_by": "", "verdict": "PASS", "unjudged": ""}
    with history.writing() as connection:
        connection.execute(schema.environments.insert(), list(environments.values()))
        promoted = [{"kernel": kernel, "board": board, **told} for kernel, board in sorted(good)]
        connection.execute(schema.promotions.insert(), promoted)
    rows = _rows(records, made)
    stored = 0
    while batch := list(islice(rows, 2000)):
        with history.writing() as connection:
            connection.execute(schema.boots.insert(), batch)
        stored += len(batch)
    return stored


def _origin(night: int, board: int) -> Origin:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night)
    return Origin(run=f"night-{night}-board-{board}", now=now, not_applicable={})


def _rows(records: int, made: Mapping[tuple[int, int, int], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows in the order in which boards would store them: night after night, board after board."""
    chance = random.Random(1)  # noqa: S311 - not for secrets
    for key, (night, board, case, number) in enumerate(islice(_every(), records)):
        row = made[board, case, (night * BOOTS + number) % _SHAPES]
        run = _origin(night, board).run
        valid = chance.random() > 0.05
        yield {**row, "key": f"{key:064d}", "run": run, "number": number, "valid": valid}


def _every() -> Iterator[tuple[int, int, int, int]]:
    for night in count():
        for board, case, number in product(range(BOARDS), range(CASES), range(BOOTS)):
            yield night, board, case, number


def _record(board: int, case: int, shape: int) -> Record:
    """Return a boot of cyclictest on four CPUs, with an exponential tail."""
    name = f"board-{board}"
    words = {"device": f"{name}-01", "tuning": f"case-{case}"}
    made = make(Boot(board=name, seed=None, cpus=CPUS, arm="baseline", changes=words))
    chance = random.Random(shape)  # noqa: S311 - not for secrets
    scale, events = math.exp(chance.gauss(0, 0.05)), math.exp(chance.gauss(0, 0.2))
    counts = {value: round(SAMPLES * 0.4 * 0.55 ** abs(value - 8)) for value in range(3, 16)}
    for value in range(16, 60):
        tail = SAMPLES * 1e-3 * events * math.exp(-(value - 15) / (6 * scale)) / 6
        counts[value] = int(tail) + (chance.random() < tail % 1)
    counts = {value: count for value, count in counts.items() if count}
    histogram = Histogram(unit=Unit.US, counts=counts, overflow=0, limit=1000)
    measurements = tuple(
        one if one.histogram is None else replace(one, histogram=histogram) for one in made.measurements
    )
    evidence = replace(made.evidence, expectation=replace(made.evidence.expectation, duration_s=180.0))
    return replace(made, case=f"latency/cyclictest:case-{case}", measurements=measurements, evidence=evidence)


if __name__ == "__main__":
    main()
