# SPDX-License-Identifier: MIT
"""Does the judging of critical sections find what it must, and nothing else? Kernels for the answer.

`python -m bench.sections measure` measures every change of selftests/data/sections/changes.yaml against the kernel
without it, as that file says: gated with `--sections`, which keeps the verdicts on the samples and on the sections, or
followed alone. It goes on where it was stopped; changes that are named are measured again. Kernels of `placebos/` are
those that `python -m bench.comparisons build` has built. `compare` shows which answers differ from the tracked ones in
selftests/data/sections/measured.json, and `keep` takes them over there; both take names, too.

The load `messages` is in the site directory selftests/data/sections/site, which is used unless RTGATE_SITE is set. For
the loads of the profile paths set it to a copy with the placebos.yaml of `rtgate placebos learn --profile paths`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selftests.campaigns import comparisons, sections
from selftests.campaigns.kernels import gate_profile
from selftests.campaigns.sections import MEASURED, Change, How, comparison

from bench import ROOT
from rtgate.errors import ConfigError, ParseError
from rtgate.explain.comparing import vmlinux
from rtgate.explain.sections import BootSections
from rtgate.files import write_text
from rtgate.judge.compare.section_findings import grown_sections
from rtgate.kernel.differing import Differences
from rtgate.kernel.harmless import UNPATCHED
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case
from rtgate.measure.profiles import seeds
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.longer_sections import CALL, GROWN, SectionComparison
from rtgate.records.longer_sections import MEASUREMENT as SECTION
from rtgate.tools.registry import TOOLS
from rtgate.workflow.harmless_boots import Boot, ChangedKernels
from rtgate.workflow.section_tracing import compare_boots
from rtgate.workflow.sections import SectionBoots, kernel_differences

_JUDGED = {0, 1, 5}
"""Exit codes of a gate whose verdicts are of this measurement."""
_KEPT = 10  # sites that grew most, beside those that grew by what fails, and the one that grew most of all
_LEFT_OUT: dict[str, Any] = dict.fromkeys(
    ("baseline_longest", "candidate_longest", "baseline_holds", "candidate_holds"), ()
)


def rtgate(*words: object) -> int:
    """Run a command of rtgate; return its exit code."""
    return subprocess.run([sys.executable, "-m", "rtgate", *map(str, words)], cwd=ROOT, check=False).returncode


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """The kernels with changes and without, which are built if they are not there.

    Attributes:
        work: has kernels and records by build.
        campaigns: where `bench/comparisons.py` has built those of its own.
        before: sections of kernels without a change, by all that they depend on.
    """

    work: Path
    campaigns: Path
    before: dict[tuple[object, ...], Mapping[int, BootSections]] = field(default_factory=dict)

    def of(self, change: Change) -> ChangedKernels:
        """Return a change's kernel and the one without it, to be booted."""
        own = change.directory is not None
        return ChangedKernels(
            kernels=self._place(change) if own else comparisons.of_build(self.campaigns / "kernels", change.build),
            records=self.work / change.build / "records",
            changes={change.kernel.name: change.kernel},
            profile=gate_profile,
        )

    def _place(self, change: Change) -> Path:
        return self.work / change.build / "kernels"

    def build(self, change: Change) -> None:
        """Build what is missing. Exits: it cannot be built, or is another program's to build."""
        for name in (change.kernel.name, UNPATCHED):
            kernel = self.of(change).directory(name)
            if not (kernel / "build.json").is_file():
                if change.directory is None:
                    sys.exit(f"{kernel} is not built: run `python -m bench.comparisons build` first")
                self._build(change, kernel, change.directory if name != UNPATCHED else None)

    def _build(self, change: Change, kernel: Path, patches: Path | None) -> None:
        # All patches pass through one directory, so through one copy of the source.
        series = self._place(change).with_name("series")
        shutil.rmtree(series, ignore_errors=True)
        if patches:
            shutil.copytree(patches, series)
        if rtgate("build", change.build, *(("--patches", series) if patches else ()), "-o", kernel) != 0:
            sys.exit(f"{kernel.name} cannot be built")


def gate(kernels: Kernels, change: Change, boots: str) -> dict[str, Any]:
    """Gate a change, and return what samples and sections say, and the verdict on these. Exits: nothing was judged."""
    report = kernels.work / "reports" / change.name.replace("/", "-")
    built = kernels.of(change)
    arms = ("--kernel", built.directory(change.kernel.name), "--baseline", built.directory(UNPATCHED))
    select = ("-k", f"{change.case.tool} and {change.case.load}")
    profile = "paths" if change.case.load in {"disk", "network", "syscalls"} else "compare"
    how = ("--profile", profile, "--seeds", boots, "--sections", "--no-explain", "--no-extend", *select)
    code = rtgate("gate", "--board", change.board, *arms, *how, "-o", report)
    if code not in _JUDGED:
        sys.exit(f"{change.name}: the gate ended with exit code {code}")
    verdicts = json.loads((report / "verdict.json").read_text())["verdicts"]
    (found,) = (report / "records").glob("*/candidate/*/sections.json")
    said = [one for one in verdicts if one["measurement"] not in {SECTION, CALL, BOUND}]
    (judged,) = [one for one in verdicts if one["measurement"] in {SECTION, CALL}]
    compared = comparison({"sections": json.loads(found.read_text())})
    return {
        "case": str(change.case),
        "section_verdict": {"status": judged["status"], "sentence": judged["sentence"]},
        "samples": {"status": min(said, key=_rank)["status"], "sentences": [one["sentence"] for one in said]},
        "sections": stored(compared),
    }


def stored(compared: SectionComparison) -> dict[str, Any]:
    """Return what is kept of a comparison: of sections that are longer, those by functions that differ come first."""
    most = max((section.growth for section in compared.longer), default=0)
    least = min(most, GROWN)
    longer = (*compared.longer[:_KEPT], *(one for one in compared.longer[_KEPT:] if one.growth >= least))
    return asdict(replace(compared, longer=longer)) | _LEFT_OUT


def _rank(verdict: dict[str, Any]) -> int:
    return ("FAIL", "ERROR", "MISS", "DONE", "SKIP", "PASS").index(verdict["status"])


def follow(kernels: Kernels, change: Change, boots: str) -> dict[str, Any]:
    """Follow the boots of a change and of the kernel without it, and return how their sections differ."""
    built = kernels.of(change)
    case = Case(suite=change.case.suite, tool=TOOLS[change.case.tool](), load=change.case.load)
    chosen = seeds(boots)
    names = {"baseline": UNPATCHED, "candidate": change.kernel.name}
    arms = {
        arm: built.arm(Boot(kernel=name, board=change.board, case=case, seed=chosen[0])) for arm, name in names.items()
    }
    elfs = {arm: Vmlinux(vmlinux(built.directory(name))) for arm, name in names.items()}
    differences = kernel_differences(elfs)
    altered = differences.functions
    two = TwoKernels(case=case, seeds=chosen, arms=arms, elfs=elfs, differences=differences, kernels=built)
    key = (built.kernels, change.board, change.case, chosen, altered, tuple(differences.renames.items()))
    if key not in kernels.before:
        kernels.before[key] = two.follow("baseline")
    return {"case": case.name, "altered": len(altered), "sections": two.compare(kernels.before[key])}


@dataclass(frozen=True, kw_only=True)
class TwoKernels:
    """A kernel and the one without its change, whose boots of one case are followed."""

    case: Case
    seeds: Sequence[int]
    arms: Mapping[str, Arm]
    elfs: Mapping[str, Vmlinux]
    differences: Differences
    kernels: ChangedKernels

    def follow(self, arm: str) -> Mapping[int, BootSections]:
        """Return the sections of one kernel's boots."""
        boots = SectionBoots(
            case=self.case,
            seeds=self.seeds,
            arms={arm: self.arms[arm]},
            kernels=self.elfs,
            stop=self.kernels.stop,
            tell=lambda _: None,
            altered=self.differences.functions,
            differences=self.differences,
        )
        return boots.follow()[arm]

    def compare(self, before: Mapping[int, BootSections]) -> dict[str, Any]:
        """Return how sections differ from those of the kernel without the change, or why nobody can know."""
        planned = SectionComparison(
            baseline_image=self.arms["baseline"].kernel.image_sha256,
            candidate_image=self.arms["candidate"].kernel.image_sha256,
            seeds=tuple(self.seeds),
            boots_digest="",  # the kernels are judged as they were measured
            instruction_ns=8,
            cpus=self.arms["candidate"].board.cpus,
        )
        try:
            boots = {"baseline": before, "candidate": self.follow("candidate")}
            compared = compare_boots(planned, boots, self.differences.functions)
        except (ConfigError, ParseError) as error:
            compared = replace(planned, why_not=str(error))
        return stored(compared)


MEASURES: dict[How, Callable[[Kernels, Change, str], dict[str, Any]]] = {How.GATED: gate, How.FOLLOWED: follow}


def answer(document: Mapping[str, Any] | None) -> str:
    """Return in a few words what is stored of a change: of the samples, and of the sections."""
    if document is None:
        return "not measured"
    compared = comparison(document)
    growth = next(iter(grown_sections(compared)), None)
    longer = f"{growth.function or growth.section.begin}, +{growth.amount:,}" if growth else "nothing longer"
    return ", ".join(filter(None, (document.get("samples", {}).get("status"), compared.why_not or longer)))


def main(words: Sequence[str]) -> int:
    """Measure changes, or compare or keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "compare", "keep"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="changes, as planted/fork (default: all)")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "sections", help="default: %(default)s")
    parser.add_argument("--campaigns", type=Path, default=ROOT / "bench" / "comparisons", help="default: %(default)s")
    parser.add_argument("--seeds", metavar="A-B", help="boots of each kernel (default: those of changes.yaml)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="what was measured (default: WORK/measured.json)")
    arguments = parser.parse_intermixed_args(words)
    changes = sections.changes()
    if unknown := sorted({*arguments.names} - {*changes}):
        parser.error(f"no such change: {', '.join(unknown)}")
    results: Path = arguments.results or arguments.work / MEASURED.name
    measured = _read(results)
    if arguments.what == "measure":
        chosen = [changes[name] for name in arguments.names or changes if arguments.names or name not in measured]
        kernels = Kernels(work=arguments.work.absolute(), campaigns=arguments.campaigns.absolute())
        _measure(kernels, chosen, results, arguments.seeds)
        return 0
    if missing := sorted({*arguments.names} - {*measured}):
        parser.error(f"{results} has no {', '.join(missing)}: measure first")
    return _take(arguments.what, {name: measured[name] for name in arguments.names or measured})


def _read(path: Path) -> dict[str, Any]:
    documents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return documents


def _write(path: Path, documents: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(documents, indent=1, sort_keys=True) + "\n")


def _measure(kernels: Kernels, chosen: Sequence[Change], results: Path, boots: str | None) -> None:
    os.environ.setdefault("RTGATE_SITE", str(sections.SITE))
    documents = _read(results)
    for change in chosen:
        print(change.name, flush=True)
        kernels.build(change)
        documents[change.name] = MEASURES[change.how](kernels, change, boots or change.seeds)
        _write(results, documents)


def _take(what: str, measured: Mapping[str, Any]) -> int:
    """Keep answers as the tracked ones, or print how they differ; exit code 1 if one does."""
    tracked = _read(MEASURED)
    if what == "keep":
        _write(MEASURED, {**tracked, **measured})
        return 0
    pairs = {name: (answer(tracked.get(name)), answer(document)) for name, document in measured.items()}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name, (before, after) in differing.items():
        print(f"{name}: {before} -> {after}")
    print(f"{len(differing)} of {len(pairs)} answers differ from the tracked ones")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
