# SPDX-License-Identifier: MIT
"""How often a comparison on boards is wrong, on synthetic noise of a lab: tables for docs/results/error-rates.md.

Only the boots are drawn (`selftests.campaigns.boards`); rtgate's own code judges (`selftests.campaigns.board_gates`).

    python -m bench.worlds                      all tables, about 10 minutes on one core
    python -m bench.worlds --requests 200       a look
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from selftests.campaigns.board_gates import (
    CASES,
    GATES,
    METRICS,
    SCREEN,
    SLOW,
    Case,
    cases,
    gate_outcome,
    judge_interleaved,
    judge_rows,
)
from selftests.campaigns.boards import CHANGES, NONE, SESSIONS, WORLDS, Boots, World, draw, levels_of

from rtgate.judge.compare.looks import RELEASE, Looks
from rtgate.judge.compare.paired import Prior, Series
from rtgate.judge.compare.procedures import ComparisonState, Screening, comparisons

TAIL = "tail x1.3"


class Cell(NamedTuple):
    """One gate in one world with one change."""

    requests: int
    false: int  # requests with a failed case that did not change
    caught: int  # requests whose changed case failed
    undecided: int  # requests whose changed case (or any, without a change) is undecided
    minutes: float


ZERO = Cell(0, 0, 0, 0, 0.0)


def add(one: Cell, other: Cell) -> Cell:
    """Return two shares of a cell together."""
    return Cell(
        one.requests + other.requests,
        one.false + other.false,
        one.caught + other.caught,
        one.undecided + other.undecided,
        one.minutes + other.minutes,
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A share of the work: some merge requests of one world."""

    world: str
    requests: int
    changed: int  # of them with each change
    slow: int  # of them judged by A
    seed: int


def run(job: Job) -> dict[tuple[str, str], Cell]:
    """Draw merge requests and judge them, without a change and with each change in one case."""
    world, rng = WORLDS[job.world], np.random.default_rng(job.seed)
    fixed = levels_of(world)
    names = [str(number) for number in range(CASES)]
    cells: dict[tuple[str, str], Cell] = {}
    bank = [judge_rows(cases(rng, world, CASES, NONE, fixed), names) for _ in range(job.requests)]
    for gate in GATES:
        cells["none", gate] = _cell(gate, bank, "")
    for name, change in CHANGES.items():
        changed = judge_rows(cases(rng, world, job.changed, change, fixed), ["0"] * job.changed)
        requests = [[one, *bank[number % len(bank)][1:]] for number, one in enumerate(changed)]
        for gate in GATES:
            cells[name, gate] = _cell(gate, requests[: job.slow] if gate == SLOW else requests, "0")
    return cells


def _cell(gate: str, requests: Iterable[Sequence[Case]], changed: str) -> Cell:
    total = ZERO
    for request in requests:
        found = GATES[gate](request)
        open_ = changed in found.undecided if changed else bool(found.undecided)
        cell = Cell(1, bool(found.failed - {changed}), changed in found.failed, open_, found.minutes)
        total = add(total, cell)
    return total


def fixed_pairs(world: World, name: str, count: int, seed: int = 11) -> dict[int, float]:
    """Return by number of pairs how often a change is found, of a case always measured so often, at one look.

    The level is that of one of the 96 tests of a merge request in the worst case: 1 % / 96.
    """
    rng, fixed, sd = np.random.default_rng(seed), levels_of(world), world.drift
    most, hits = 40, dict.fromkeys((3, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40), 0)
    for _ in range(count):
        past = draw(rng, world, np.repeat(rng.normal(0, sd, SESSIONS), 2), NONE, fixed)
        drift = np.full(most, rng.normal(0, sd)) + rng.normal(0, 0.15 * sd, most)
        base, mine = draw(rng, world, drift, NONE, fixed), draw(rng, world, drift, CHANGES[name], fixed)
        for pairs in hits:
            hits[pairs] += any(_sees(past, base, mine, metric, pairs) for metric in METRICS)
    return {pairs: hit / count for pairs, hit in hits.items()}


def _sees(past: Boots, base: Boots, mine: Boots, metric: str, pairs: int) -> bool:
    known = past.logs[metric]
    prior = Prior(float(((known[0::2] - known[1::2]) ** 2).mean()), SESSIONS)
    difference = tuple((mine.logs[metric] - base.logs[metric]).tolist())
    reading = Series(case="", metric=metric, differences=difference, prior=prior).at(pairs)
    return reading.large and reading.p <= RELEASE.alpha / (4 * CASES)


def false_alarms_alone(name: str, count: int, seed: int = 23) -> str:
    """Return how often a case alone fails at 1 %, with the looks of the simulation that the method comes from.

    Its figures for A and B are beside, so that two programs that share no code can be compared.
    """
    world, rng, fixed = WORLDS[name], np.random.default_rng(seed), levels_of(WORLDS[name])
    told = []
    for change, expected in zip((NONE, CHANGES[TAIL], CHANGES["probability x2"]), PUBLISHED[name], strict=True):
        made = judge_rows(cases(rng, world, count, change, fixed), ["0"] * count)
        a = sum(bool(judge_interleaved([one]).failed) for one in made) / count
        b = sum(bool(_confirm(one)) for one in made) / count
        told.append(f"A {a:.3f} (there {expected[0]}), B {b:.3f} (there {expected[1]})")
    return f"one case alone, at 1 %: unchanged {told[0]}; {TAIL} {told[1]}; probability x2 {told[2]}"


def _confirm(case: Case) -> frozenset[str]:
    screens = [Screening(case="0", boots=SCREEN, suspicion=case.suspicion)]
    looks = Looks(((5, 0.4), (10, 0.6)), alpha=0.03)
    found = comparisons(ComparisonState(screens=screens, pairs=case.evidence, looks=looks, level=0.12))
    return gate_outcome(found, 0).failed


PUBLISHED = {
    "quiet": ((".001", ".002"), (".930", ".987"), (".922", ".998")),
    "noisy": ((".004", ".005"), (".760", ".721"), (".727", ".712")),
    "bimodal": ((".003", ".005"), (".704", ".743"), (".834", ".876")),
}


def tables(arguments: argparse.Namespace) -> None:
    """Print the tables, and write the figures as JSON if asked."""
    shares = max(1, arguments.requests // 20)
    document: dict[str, object] = {}
    for world in arguments.worlds:
        seed = 1000 * list(WORLDS).index(world)
        jobs = [
            Job(world, 20, max(1, arguments.changed // shares), max(1, arguments.slow // shares), seed + share)
            for share in range(shares)
        ]
        cells: dict[tuple[str, str], Cell] = {}
        for part in _spread(jobs, arguments.jobs):
            for key, cell in part.items():
                cells[key] = add(cells.get(key, ZERO), cell)
        print(f"\n### World: {world}\n")
        _print(_rows(cells))
        needed = {name: fixed_pairs(WORLDS[world], name, arguments.changed) for name in (TAIL, "tail x1.2")}
        for name, found in needed.items():
            print(f"\n{name}, found by the number of pairs, one look at 1 % over 96 tests: {_curve(found)}")
        print(f"\n{false_alarms_alone(world, 2 * arguments.changed)}", flush=True)
        document[world] = {f"{change}: {gate}": cell._asdict() for (change, gate), cell in cells.items()}
        document[f"{world}, pairs"] = {
            name: {str(n): share for n, share in found.items()} for name, found in needed.items()
        }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _spread(jobs: Sequence[Job], processes: int) -> Iterator[dict[tuple[str, str], Cell]]:
    if processes <= 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run, jobs)


def _rows(cells: dict[tuple[str, str], Cell]) -> Iterator[list[str]]:
    yield ["gate", "false alarms", *CHANGES]
    for gate in GATES:
        none = cells["none", gate]
        yield [
            gate,
            f"{100 * none.false / none.requests:.2f} % of {none.requests}",
            *(f"{100 * cells[name, gate].caught / cells[name, gate].requests:.0f} %" for name in CHANGES),
        ]
    for gate in list(GATES)[-2:]:
        found = [cells[name, gate] for name in ("none", *CHANGES)]
        yield [f"{gate}: undecided", *(f"{100 * one.undecided / one.requests:.0f} %" for one in found)]
    for gate in GATES:
        found = [cells[name, gate] for name in ("none", *CHANGES)]
        yield [f"{gate}: board-minutes", *(f"{one.minutes / one.requests:.0f}" for one in found)]


def _print(rows: Iterable[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        print("| " + " | ".join(row) + " |")
        if number == 0:
            print("|" + "---|" * len(row))


def _curve(found: dict[int, float]) -> str:
    enough = next((str(pairs) for pairs, share in found.items() if share >= 0.7), "more than 40")
    return ", ".join(f"{pairs}: {100 * share:.0f} %" for pairs, share in found.items()) + f"; 70 % take {enough}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="merge requests without a change, in each world")
    parser.add_argument("--changed", type=int, default=1000, help="merge requests with each change")
    parser.add_argument("--slow", type=int, default=400, help="of those with a change, judged by procedure A as well")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--jobs", type=int, default=1, help="processes; the tables do not depend on it")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    tables(parser.parse_args())


if __name__ == "__main__":
    main()
