# SPDX-License-Identifier: MIT
"""For how many harmful changes does `rtgate explain` name the function to blame?

    .venv/bin/python -m bench.explain --kernels DIR [--only NAME ...] [--seeds 1-4] [-o FILE]

The changes are those of selftests/data/comparisons (`--changes`); `changes.yaml` says in which case each shows and
which function it put something into. DIR has the kernels that were built with them, each in a directory of the change's
name; `--baseline` is the kernel without any. A change without a kernel is left out, and counted as such. Each is
measured with the seeds, and its slowest boot is explained against the slowest one of the baseline.

Named: the function is the first that the explanation names. Listed: it is among those that it names.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench import ROOT
from rtgate.cli.explain import as_json
from rtgate.errors import RtgateError
from rtgate.explain.comparing import Side, compare
from rtgate.measure.case import Arm, Case, measure
from rtgate.measure.profiles import seeds
from rtgate.records.record import Record
from rtgate.strict_yaml import data
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import TOOLS
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import slowest_of


def main() -> int:
    """Run it; exit code 1 when fewer functions were named than `--least`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, required=True, action="append", metavar="DIR")
    parser.add_argument("--baseline", type=Path, default=Path("build/virt-arm64-preempt_rt"), metavar="DIR")
    parser.add_argument("--changes", type=Path, default=ROOT / "selftests" / "data" / "comparisons", metavar="DIR")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", default="1-4", metavar="A-B")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--least", type=int, default=0, metavar="N", help="how many must be named")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write everything as JSON lines")
    arguments = parser.parse_args()
    slowest: dict[str, Record] = {}
    named = tried = 0
    for name, change in harmful(arguments.changes / "changes.yaml").items():
        if (arguments.only and name not in arguments.only) or not change.get("function"):
            continue
        kernel = next((place / name for place in arguments.kernels if (place / name / "build.json").is_file()), None)
        if kernel is None:
            print(f"{name:26} no kernel", flush=True)
            continue
        tried += 1
        began = time.monotonic()
        try:
            result = explain_slowest(change, kernel, arguments, slowest)
        except RtgateError as error:
            result = {"sentence": f"{type(error).__name__}: {error}", "culprits": []}
        first = [culprit["function"] for culprit in result["culprits"]]
        wanted = change["function"]
        verdict = "named" if first[:1] == [wanted] else "listed" if wanted in first else "NOT NAMED"
        named += verdict == "named"
        print(f"{name:26} {wanted:30} {verdict:10} {result['sentence']} [{time.monotonic() - began:.0f} s]", flush=True)
        if arguments.output:
            with arguments.output.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"change": name, "wanted": wanted, "verdict": verdict, **result}) + "\n")
    print(f"named: {named} of {tried}")
    return 1 if named < arguments.least else 0


def harmful(path: Path) -> dict[str, dict[str, str]]:
    """Return the harmful changes by name, with their words."""
    changes: dict[str, dict[str, Any]] = data(path.read_text(encoding="utf-8"))["harmful"]
    return {name: {key: str(word) for key, word in change.items()} for name, change in changes.items()}


def explain_slowest(
    change: dict[str, str], kernel: Path, arguments: argparse.Namespace, slowest: dict[str, Record]
) -> dict[str, Any]:
    """Measure a change's case and explain its slowest boot."""
    name = CaseName.parse(change["case"])
    case = Case(suite=name.suite, tool=TOOLS[name.tool](), load=name.load)
    kernels = {"baseline": arguments.baseline, "candidate": kernel}
    request = ArmRequest(board=change["board"], kernels=kernels, profile=arguments.profile, console="virtual")
    stop = threading.Event()
    by_name = {arm.name: arm for arm in make_arms(request, stop)}
    chosen = seeds(arguments.seeds)
    key = f"{change['board']} {change['case']}"
    if key not in slowest:
        slowest[key] = _measured_slowest(case, by_name["baseline"], chosen)
    records = {"baseline": slowest[key], "candidate": _measured_slowest(case, by_name["candidate"], chosen)}
    sides = {
        name: Side(arm=by_name[name], directory=kernels[name], seed=int(record.seed or 0), record=record)
        for name, record in records.items()
    }
    made = compare(case, sides["candidate"], sides["baseline"], stop, lambda text: print(text, file=sys.stderr))
    return as_json(made)


def _measured_slowest(case: Case, arm: Arm, chosen: tuple[int, ...]) -> Record:
    """Return the record with the largest figure."""
    return slowest_of([measure(case, arm, seed)[0] for seed in chosen])


if __name__ == "__main__":
    sys.exit(main())
