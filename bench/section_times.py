# SPDX-License-Identifier: MIT
"""How long critical sections take: boots that are followed, kernels that are compared, and gates with and without them.

`python -m bench.section_times` measures all parts, `python -m bench.section_times gates plain-gates` these two. A gate
compares two commits of the pinned kernel with one load; one C file differs. It builds both kernels, in trees where all
but this file was compiled before. No boot and no section comes from a cache. The program is the `rtgate` of PATH, so
`plain-gates` also measures another version (docs/results/times.md). Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench import ROOT
from bench.bench import BOARD, BUILD, REPEATS, VIRTUAL
from bench.figures import Figure, figure, show
from bench.kernel_repository import KernelRepository
from bench.review_cases import HARMLESS
from rtgate.explain.boot_sections import trace_sections
from rtgate.explain.replay import Replay
from rtgate.explain.sections import BootSections
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.kernel.build import Options
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.records.longer_sections import SectionComparison
from rtgate.target.boot_cache import VARIABLE
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.kernels import build_commit, build_kernel
from rtgate.workflow.section_tracing import compare_boots
from rtgate.workflow.sections import SectionBoots, SectionsRequest, kernel_differences

LOADS = ("idle", "hackbench")
BOOTS = range(1, 13)
GATE_GOAL_S, COMPARISON_GOAL_S = 360, 2
_JUDGED = {0, 1, 5}  # exit codes of a gate that measured and judged


@dataclass(frozen=True, slots=True)
class Commits:
    """A kernel tree whose branches `base` and `candidate` differ in one C file, in a function that sections call."""

    repository: KernelRepository
    work: Path

    @classmethod
    def at(cls, work: Path) -> Commits:
        """Return the tree below a directory; a minute if it is new."""
        repository = KernelRepository.at(work / "linux")
        (file,) = HARMLESS
        repository.branch("base", "base", {file: lambda text: f"{text}\nint rtgate_bench;\n"})
        repository.branch("candidate", "candidate", HARMLESS, base="base")
        return cls(repository, work)

    def kernels(self) -> dict[str, Path]:
        """Build both kernels and return their directories by arm."""
        place = self.work / "build"
        return {
            "baseline": self._build("base", "base", place),
            "candidate": self._build("candidate", "candidate", place),
        }

    def build_source(self) -> None:
        """Build the source that both begin with where a gate builds them: it compiles what differs from that."""
        for label in ("base", "candidate"):
            # In a new place: where this build exists already, the label's tree would be left as it is.
            with tempfile.TemporaryDirectory(prefix="source-", dir=self.work) as place:
                self._build("main", label, Path(place))

    def _build(self, branch: str, label: str, place: Path) -> Path:
        return build_commit(BUILD, self.repository.path, branch, label, Options(), place)


def followed_boots(_work: Path) -> Iterator[Figure]:
    """Take the CPU time of boots of 2 s whose critical sections are followed, as a multiple of plain ones."""
    for board in VIRTUAL:
        build = f"{board}-preempt_rt"
        kernel = build_kernel(build, None, ROOT / "build" / build).directory
        (arm,) = make_arms(ArmRequest(board=board, kernels={"candidate": kernel}, profile="smoke"))
        case = Case(suite="latency", tool=Cyclictest(), load="idle")
        elf, factors = Vmlinux(kernel / "vmlinux"), []
        for seed in range(1, REPEATS + 1):
            began = _cpu_seconds()
            measure(case, arm, seed)
            plain = _cpu_seconds() - began
            trace_sections(Replay(case=case, arm=arm, seed=seed, kernel=elf))
            factors.append((_cpu_seconds() - began - plain) / plain)
        name = f"a boot with its critical sections followed, of a plain one, {board}, idle"
        yield figure(name, factors, 2.5, "times")


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def comparison(work: Path) -> Iterator[Figure]:
    """Time what a gate does with the sections of 12 and 12 boots, after they were followed."""
    request = SectionsRequest(
        board=BOARD,
        kernels=Commits.at(work).kernels(),
        case="latency/cyclictest:idle",
        profile="compare",
        seeds=BOOTS,
        tell=lambda text: print(text, flush=True),
    )
    boots = SectionBoots.of(request)
    boots = replace(boots, altered=kernel_differences(boots.kernels).functions)
    planned = SectionComparison(
        baseline_image="baseline",
        candidate_image="candidate",
        seeds=tuple(BOOTS),
        boots_digest="",  # nothing judges them
        instruction_ns=INSTRUCTION_NS,
        cpus=1,
    )
    yield time_comparison(planned, boots.follow(), boots.altered)


def time_comparison(
    planned: SectionComparison, boots: Mapping[str, Mapping[int, BootSections]], altered: frozenset[str]
) -> Figure:
    """Time the comparison of boots. Exits: no section has a call of an altered function, so there is less to do."""
    values = []
    for _ in range(REPEATS):
        began = time.monotonic()
        outcome = compare_boots(planned, boots, altered)
        values.append(time.monotonic() - began)
    calls = (section.calls for own in boots.values() for boot in own.values() for section in boot.sections)
    if not any(calls):
        sys.exit("no altered function was called in a section: another change has to be compared")
    counts = " + ".join(str(len(own)) for own in boots.values())
    return figure(f"sections of {counts} boots compared, {outcome.sites} sites", values, COMPARISON_GOAL_S)


def gates(goal: float | None, words: Sequence[str], work: Path) -> Iterator[Figure]:
    """Time a gate with each load."""
    commits = Commits.at(work)
    for load in LOADS:
        commits.build_source()
        yield time_gate(commits, load, goal, words)


def time_gate(commits: Commits, load: str, goal: float | None, words: Sequence[str]) -> Figure:
    """Time a gate of both commits. Exits: it did not judge."""
    program = shutil.which("rtgate") or str(ROOT / ".venv/bin/rtgate")
    of = ("--tree", str(commits.repository.path), "--base", "base", "--candidate", "candidate")
    with tempfile.TemporaryDirectory(prefix="gate-", dir=commits.work) as name:
        argv = [program, "gate", "--board", BOARD, *of, "-k", f"cyclictest and {load}", *words, "-o", f"{name}/report"]
        began = time.monotonic()
        code = subprocess.run(argv, cwd=name, env={**os.environ, VARIABLE: "no"}, check=False).returncode
        seconds = time.monotonic() - began
        if code not in _JUDGED:
            sys.exit(f"the gate ended with exit code {code}: {' '.join(argv)}")
        builds = [
            json.loads(path.read_text(encoding="utf-8"))["seconds"] for path in Path(name).glob("build/*/build.json")
        ]
        boots = len(list(Path(name, "report", "records").rglob("record.json")))
    title = " ".join(("gate of two commits", *words))
    return figure(f"{title}, {load}: {boots} boots, {sum(builds):.0f} s of it builds", [seconds], goal)


PARTS: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "followed-boots": followed_boots,
    "comparison": comparison,
    "gates": partial(gates, GATE_GOAL_S, ("--sections",)),
    "plain-gates": partial(gates, None, ()),
}


def main(words: Sequence[str]) -> None:
    """Measure all parts, or those that are named, and show them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parts = parser.parse_args(words).parts or list(PARTS)
    if unknown := sorted({*parts} - {*PARTS}):
        parser.error(f"no such part: {', '.join(unknown)}")
    os.environ[VARIABLE] = "no"  # what a boot takes, not what reading it again does
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        show([one for part in parts for one in PARTS[part](Path(name))])


if __name__ == "__main__":
    main(sys.argv[1:])
