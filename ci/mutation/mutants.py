#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Change the judging code in small ways, and count which changes its unit tests notice.

Only tests of the module's package run, and of these only those of files that run the changed line. The same seed picks
the same mutants of the same sources.

Exit codes: 0 done, whatever survived; 2 wrong usage; 3 the tests fail without any change, or did not run with one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from changes import Mutant, modules_of, mutants, tests_of
from trials import Baseline, Outcome, measure, run

PACKAGES = ("rtgate.judge", "rtgate.records", "rtgate.console", "rtgate.validity")

Results = list[tuple[Mutant, Outcome]]


def of_package(tests: Path, chosen: Sequence[Mutant], jobs: int) -> Results:
    """Return what became of the mutants of one package. Raises SystemExit: its tests fail without a change."""
    with tempfile.TemporaryDirectory(prefix="rtgate-mutants-") as directory:
        known = measure(tests, Path(directory))
        if known is None:
            print(f"mutants: the tests of {tests.name} fail without any change: mend them first", file=sys.stderr)
            raise SystemExit(3)
        stems = (Path(directory) / str(number) for number in itertools.count())
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(_try_mutant, chosen, itertools.repeat(known), stems))


def _try_mutant(mutant: Mutant, known: Baseline, stem: Path) -> tuple[Mutant, Outcome]:
    outcome = run(mutant, known, stem)
    print(f"{outcome:<9} {mutant.module}:{mutant.line}", file=sys.stderr, flush=True)
    return mutant, outcome


def table(results: Iterable[tuple[Mutant, Outcome]]) -> str:
    """Return the counts of each module, and of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, outcome in results:
        for name in (mutant.module, "all"):
            counts[name][outcome] += 1
    everything = counts.pop("all", Counter())
    columns = ("killed", "survived", "timed out", "no test", "error")
    lines = [f"{'module':<44}{'mutants':>9}" + "".join(f"{column:>11}" for column in columns)]
    for name, row in [*sorted(counts.items()), ("all", everything)]:
        lines.append(f"{name:<44}{row.total():>9}" + "".join(f"{row[column]:>11}" for column in columns))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run mutants and print the table and the survivors."""
    parser = argparse.ArgumentParser(prog="ci/mutation/mutants.py", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODULE", help="package or module, e.g. rtgate.judge.limits")
    parser.add_argument("--mutants", type=int, default=100, metavar="N", help="how many (100)")
    parser.add_argument("--seed", type=int, default=1, help="which (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at once (one a processor)")
    options = parser.parse_args(arguments)
    try:
        modules = [module for name in options.names or PACKAGES for module in modules_of(name)]
    except ValueError as error:
        parser.error(str(error))
    packages: dict[Path, list[Mutant]] = defaultdict(list)
    for mutant in mutants(modules, options.mutants, options.seed):
        packages[tests_of(mutant.module)].append(mutant)
    results = [one for tests, chosen in packages.items() for one in of_package(tests, chosen, options.jobs)]
    for mutant, outcome in results:
        if outcome != "killed":
            print(f"\n{outcome}:\n{mutant.diff}")
    print(f"\n{table(results)}\nseed {options.seed}")
    return 3 if any(outcome == "error" for _, outcome in results) else 0


if __name__ == "__main__":
    # Hypothesis tries the same examples each time, and no library starts threads.
    os.environ |= {"RTGATE_CI_RUN": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    sys.exit(main(sys.argv[1:]))
