# SPDX-License-Identifier: MIT
"""The fault bench as a table: what was injected, and what became of the verdicts.

`python -m bench.faults 5` tries five times the seeds. Exit code 1 if a verdict was wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from selftests.faults.carried import Judgement, Result, all_carried_out, trials
from selftests.faults.targets import lacking


def main(words: Sequence[str]) -> int:
    """Carry out every trial and show what came of it."""
    if lacking():
        print(f"the fault bench cannot run here: {lacking()}", file=sys.stderr)
        return 3
    began = time.monotonic()
    wanted = trials(int(words[0]) if words else 1)
    with all_carried_out(wanted) as futures:
        results = [futures[trial].result() for trial in wanted]
    for result in results:
        if result.judgement is not Judgement.RIGHT:
            print(result)
    _show(results, time.monotonic() - began)
    return 1 if any(result.judgement is Judgement.WRONG for result in results) else 0


def _show(results: Sequence[Result], seconds: float) -> None:
    table = Table(title=f"{len(results)} faults injected, {seconds:.0f} s")
    for heading in ("fault", "injected", "wrong verdicts", "results lost", "repeats", "bytes", "longest"):
        table.add_column(heading, justify="left" if heading == "fault" else "right")
    for name in dict.fromkeys(result.trial.fault.name for result in results):
        table.add_row(name, *_row([result for result in results if result.trial.fault.name == name]))
    table.add_section()
    table.add_row("all", *_row(results))
    Console(width=120).print(table)


def _row(results: Sequence[Result]) -> tuple[str, ...]:
    counts = [sum(result.judgement is wanted for result in results) for wanted in (Judgement.WRONG, Judgement.LOST)]
    lines = [result.record.line for result in results]
    sums = [sum(int(line[name]) for line in lines) for name in ("repeated", "received")]
    longest = max(float(result.record.seconds["total"]) for result in results)
    return (str(len(results)), *map(str, (*counts, *sums)), f"{longest:.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
