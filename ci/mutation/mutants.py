#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Change the judging code in small ways, and count which changes its unit tests notice.

Only tests of the module's package run, and of these only those of files that run the changed line. The same seed picks
the same mutants of the same sources.

Exit codes: 0 done, whatever survived; 2 wrong usage; 3 the tests fail without any change.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from changes import ROOT, Mutant, modules_of, mutants, tests_of
from trials import Baseline, Lines, Outcome, Prepared, child, from_the_start, outcomes, prepared

PACKAGES = ("rtgate.judge", "rtgate.records", "rtgate.console", "rtgate.validity")
# Loaded once and not by each mutant; nothing that pytest wants to rewrite.
_LIBRARIES = ("matplotlib", "msgspec", "numpy", "rich.console", "scipy.special", "yaml")

Results = list[tuple[Mutant, Outcome]]


def of_package(tests: Path, chosen: Sequence[Mutant], jobs: int, directory: Path) -> Results:
    """Return what became of the mutants of one package. Raises SystemExit: its tests fail without a change."""
    log, stored = directory / "log", directory / "stored"

    def work(session: Prepared, loaded: Lines) -> None:
        def measure() -> int:
            known = session.measure()
            stored.write_text(repr((known.seconds, known.tests)), encoding="utf-8")
            return int(bool(session.failures))

        if os.waitpid(child(directory / "baseline.log", measure), 0)[1]:
            os._exit(3)
        known = _read(stored)
        for file, lines in loaded.items():
            for line in lines:
                known.tests.setdefault(file, {}).setdefault(line, set()).add("")
        fit = [mutant for mutant in chosen if not known.at_load(mutant)]
        found = {}
        for mutant, outcome in outcomes(fit, known, directory / "mutant.log", jobs, session.mutate):
            found[chosen.index(mutant)] = outcome
            os.write(progress, _line(mutant, outcome or "unfit").encode())
        stored.write_text(repr((known.seconds, known.tests)), encoding="utf-8")
        (directory / "found").write_text(repr(found), encoding="utf-8")

    progress = os.dup(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child(log, lambda: prepared(tests, work)), 0)[1])
    if code:
        for path in (log, directory / "baseline.log"):
            print(path.read_text(encoding="utf-8") if path.exists() else "", file=sys.stderr)
        print(f"mutants: the tests of {tests.name} fail without any change: mend them first", file=sys.stderr)
        raise SystemExit(3)
    found = ast.literal_eval((directory / "found").read_text(encoding="utf-8"))
    certain = {number: outcome for number, outcome in found.items() if outcome not in {None, "survived"}}
    results: Results = [(chosen[number], outcome) for number, outcome in certain.items()]
    again = [mutant for number, mutant in enumerate(chosen) if number not in certain]
    for mutant, outcome in outcomes(again, _read(stored), directory / "mutant.log", jobs, from_the_start):
        results.append((mutant, outcome or "killed"))
        os.write(progress, _line(mutant, results[-1][1]).encode())
    return results


def _read(stored: Path) -> Baseline:
    return Baseline(*ast.literal_eval(stored.read_text(encoding="utf-8")))


def _line(mutant: Mutant, outcome: str) -> str:
    return f"{outcome:<9} {mutant.module}:{mutant.line}\n"


def table(results: Iterable[tuple[Mutant, Outcome]]) -> str:
    """Return the counts of each module, and of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, outcome in results:
        for name in (mutant.module, "all"):
            counts[name][outcome] += 1
    everything = counts.pop("all", Counter())
    columns = ("killed", "survived", "timed out", "no test")
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
    for library in _LIBRARIES:
        importlib.import_module(library)
    os.chdir(ROOT)
    results: Results = []
    for tests, chosen in packages.items():
        with tempfile.TemporaryDirectory(prefix="rtgate-mutants-") as directory:
            results += of_package(tests, chosen, options.jobs, Path(directory))
    for mutant, outcome in sorted(results, key=lambda one: (one[0].module, one[0].line)):
        if outcome != "killed":
            print(f"\n{outcome}:\n{mutant.diff}")
    print(f"\n{table(results)}\nseed {options.seed}")
    return 0


if __name__ == "__main__":
    # Hypothesis tries the same examples each time, tests' own bytecode is kept, and no library starts threads.
    os.environ |= {"RTGATE_CI_RUN": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.exit(main(sys.argv[1:]))
