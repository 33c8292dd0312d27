# SPDX-License-Identifier: MIT
"""Does the judging of critical sections find what it must, and nothing else? Kernels for the answer.

`python -m bench.sections` builds every change of selftests/data/sections/changes.yaml and gates it with `--sections`
against the kernel without it. It keeps both answers, that of the samples and that of the sections, and goes on where it
was stopped. Changes of the groups four-cpus, x86-64, other-loads and devices are followed alone. `--harmless DIR`
follows the harmless kernels instead that `python -m bench.comparisons build --work DIR` has built: what their samples
say is known. The load `messages` is in the site directory selftests/data/sections/site, which is used unless
RTGATE_SITE is set. For the loads of the profile paths set it to a copy with the placebos.yaml of `rtgate placebos learn
--profile paths`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from selftests.campaigns import comparisons
from selftests.campaigns.kernels import gate_profile

from bench import ROOT
from rtgate import strict_yaml
from rtgate.board.boards import board
from rtgate.errors import ConfigError, ParseError
from rtgate.explain.comparing import vmlinux
from rtgate.explain.sections import BootSections
from rtgate.files import write_text
from rtgate.kernel.harmless import UNPATCHED, KernelChange
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case
from rtgate.measure.profiles import seeds
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.longer_sections import CALL, SectionComparison
from rtgate.records.longer_sections import MEASUREMENT as SECTION
from rtgate.tools import loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import TOOLS
from rtgate.workflow.harmless_boots import Boot, ChangedKernels
from rtgate.workflow.section_tracing import altered_functions, compare_boots
from rtgate.workflow.sections import SectionBoots

DATA = ROOT / "selftests" / "data" / "sections"
BOARD = "virt-arm64"
ELSEWHERE = {
    "two-cpus": "virt-arm64-smp2",
    "four-cpus": "virt-arm64-smp4",
    "x86-64": "virt-x86_64",
    "other-loads": BOARD,
    "devices": BOARD,
}
"""Boards of groups that name changes of the others, and a case."""
DRIVERS = "devices"
"""The group whose kernels have drivers of the board's devices."""
FOLLOWED = ("four-cpus", "x86-64", "other-loads", DRIVERS)
"""Groups of which only the sections are compared: they are followed without being gated."""
_KEPT = 10  # sites that grew most
_LEFT_OUT: Mapping[str, Any] = dict.fromkeys(
    ("baseline_longest", "candidate_longest", "baseline_holds", "candidate_holds"), ()
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A change, and where it is measured."""

    directory: Path
    board: str
    case: CaseName
    build: str


def changes() -> dict[str, Measured]:
    """Return all changes by group and name: `planted/fork`, or `two-cpus/planted/ipi`."""
    groups = strict_yaml.load(DATA / "changes.yaml").mapping(("planted", "harmless", *ELSEWHERE))
    found = {}
    for group in ("planted", "harmless"):
        for name, load in groups[group].entries().items():
            case = CaseName(suite="latency", tool="cyclictest", load=load.value.text(loads.names()))
            found[f"{group}/{name}"] = Measured(
                directory=DATA / group / name, board=BOARD, case=case, build=board(BOARD).build
            )
    for group, on in ELSEWHERE.items():
        machine = board(on).qemu
        assert machine is not None
        kernel = machine.drivers if group == DRIVERS else board(on).build
        for name, entry in groups[group].entries().items():
            case = entry.value.parse(CaseName.parse)
            found[f"{group}/{name}"] = Measured(directory=DATA / name, board=on, case=case, build=kernel)
    return found


def rtgate(*words: object) -> int:
    """Run a command of rtgate; return its exit code."""
    return subprocess.run([sys.executable, "-m", "rtgate", *map(str, words)], cwd=ROOT, check=False).returncode


def build(work: Path, change: Measured, patches: Path | None) -> Path:
    """Return the kernel with a change, built if it is not there; all patches pass through one copy of the source."""
    kernel = kernels(work, change) / (_kernel(change) if patches else UNPATCHED)
    if not (kernel / "build.json").is_file():
        series = kernels(work, change).with_name("series")
        shutil.rmtree(series, ignore_errors=True)
        if patches:
            shutil.copytree(patches, series)
        words = ("--patches", series) if patches else ()
        if rtgate("build", change.build, *words, "-o", kernel) != 0:
            sys.exit(f"{kernel.name} cannot be built")
    return kernel


def kernels(work: Path, change: Measured) -> Path:
    """Return where kernels of its architecture are, those with drivers apart."""
    own = board(change.board)
    place = own.arch if change.build == own.build else f"{own.arch}-{DRIVERS}"
    return (work / place / "kernels").absolute()


def _kernel(change: Measured) -> str:
    return f"{change.directory.parent.name}-{change.directory.name}"


def measure(work: Path, name: str, change: Measured, seeds: str) -> dict[str, Any]:
    """Gate a change, and return what samples and sections say."""
    report = work / "reports" / name.replace("/", "-")
    arms = (
        *("--kernel", build(work, change, change.directory)),
        *("--baseline", build(work, change, None)),
    )
    select = ("-k", f"{change.case.tool} and {change.case.load}")
    profile = "paths" if change.case.load in {"disk", "network", "syscalls"} else "compare"
    how = ("--profile", profile, "--seeds", seeds, "--sections", "--no-explain", "--no-extend", *select)
    rtgate("gate", "--board", change.board, *arms, *how, "-o", report)
    verdicts = json.loads((report / "verdict.json").read_text())["verdicts"]
    (found,) = (report / "records").glob("*/candidate/*/sections.json")
    sections = json.loads(found.read_text()) | _LEFT_OUT
    said = [one for one in verdicts if one["measurement"] not in {SECTION, CALL, BOUND}]
    return {
        "case": str(change.case),
        "samples": {"status": min(said, key=_rank)["status"], "sentences": [one["sentence"] for one in said]},
        "sections": {**sections, "longer": sections["longer"][:_KEPT]},
    }


def follow(work: Path, change: Measured, seeds: Sequence[int]) -> dict[str, Any]:
    """Follow the boots of a change and of the kernel without it, and return how their sections differ."""
    for patches in (change.directory, None):
        build(work, change, patches)
    made = ChangedKernels(
        kernels=kernels(work, change),
        records=kernels(work, change).with_name("records"),
        changes={
            _kernel(change): KernelChange(name=_kernel(change), patches=tuple(sorted(change.directory.glob("*.patch"))))
        },
        profile=gate_profile,
    )
    measured = Case(suite=change.case.suite, tool=TOOLS[change.case.tool](), load=change.case.load)
    return Followed(kernels=made, board=change.board, case=measured, seeds=seeds).compare(_kernel(change))


def placebos() -> dict[str, comparisons.Change]:
    """Return the harmless changes of the sampling comparison's campaigns by name."""
    return {name: one for name, one in comparisons.changes().items() if one.group == "placebos"}


@dataclass(frozen=True, kw_only=True)
class Followed:
    """The harmless kernels of a directory, whose boots of one case are followed.

    Attributes:
        before: sections of the kernel without a change, by the functions whose calls were looked for.
    """

    kernels: ChangedKernels
    board: str
    case: Case
    seeds: Sequence[int]
    before: dict[frozenset[str], Mapping[int, BootSections]] = field(default_factory=dict)

    @classmethod
    def of(cls, work: Path, place: str, seeds: Sequence[int]) -> Followed:
        """Use what `bench/comparisons.py` has built, in a place such as `virt-arm64 latency/cyclictest:idle`."""
        board, _, case = place.partition(" ")
        named = CaseName.parse(case)
        kernel_build = comparisons.builds()[board, case]
        made = ChangedKernels(
            kernels=comparisons.of_build(work.absolute() / "kernels", kernel_build),
            records=comparisons.of_build(work.absolute() / "records", kernel_build),
            changes={name: one.kernel for name, one in placebos().items()},
            profile=gate_profile,
        )
        measured = Case(suite=named.suite, tool=TOOLS[named.tool](), load=named.load)
        return cls(kernels=made, board=board, case=measured, seeds=seeds)

    def compare(self, name: str) -> dict[str, Any]:
        """Follow a kernel's boots, and return how its sections differ."""
        arms = {"baseline": self._arm(UNPATCHED), "candidate": self._arm(name)}
        elfs = {
            arm: Vmlinux(vmlinux(self.kernels.directory(kernel)))
            for arm, kernel in (("baseline", UNPATCHED), ("candidate", name))
        }
        altered = altered_functions(elfs)
        follow = partial(self._follow, arms, elfs, altered)
        if altered not in self.before:
            self.before[altered] = follow("baseline")
        told = SectionComparison(
            baseline_image=arms["baseline"].kernel.image_sha256,
            candidate_image=arms["candidate"].kernel.image_sha256,
            seeds=tuple(self.seeds),
            boots_digest="",  # the kernels are judged as they were measured
            instruction_ns=8,
            cpus=arms["candidate"].board.cpus,
        )
        try:
            found = compare_boots(told, {"baseline": self.before[altered], "candidate": follow("candidate")}, altered)
        except (ConfigError, ParseError) as error:
            found = replace(told, why_not=str(error))
        kept = asdict(replace(found, longer=found.longer[:_KEPT])) | _LEFT_OUT
        return {"case": self.case.name, "altered": len(altered), "sections": kept}

    def _arm(self, kernel: str) -> Arm:
        return self.kernels.arm(Boot(kernel=kernel, board=self.board, case=self.case, seed=self.seeds[0]))

    def _follow(
        self, arms: Mapping[str, Arm], elfs: Mapping[str, Vmlinux], altered: frozenset[str], arm: str
    ) -> Mapping[int, BootSections]:
        boots = SectionBoots(
            case=self.case,
            seeds=self.seeds,
            arms={arm: arms[arm]},
            kernels=elfs,
            stop=self.kernels.stop,
            tell=lambda _: None,
            altered=altered,
        )
        return boots.follow()[arm]


def _rank(verdict: dict[str, Any]) -> int:
    return ("FAIL", "ERROR", "MISS", "DONE", "SKIP", "PASS").index(verdict["status"])


def main() -> None:
    """Build and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="planted/fork (default: all)")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "sections", help="default: %(default)s")
    parser.add_argument("--seeds", default="1-12", metavar="A-B", help="boots of each kernel (default: %(default)s)")
    parser.add_argument("--harmless", type=Path, metavar="DIR", help="follow these kernels")
    parser.add_argument("--place", default=f"{BOARD} latency/cyclictest:idle", help="where (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=DATA / "measured.json", help="default: %(default)s")
    arguments = parser.parse_args()
    os.environ.setdefault("RTGATE_SITE", str(DATA / "site"))
    results = json.loads(arguments.results.read_text()) if arguments.results.is_file() else {}
    for name, found in _placebos(arguments, results) if arguments.harmless else _changes(arguments, results):
        results[name] = found
        write_text(arguments.results, json.dumps(results, indent=1, sort_keys=True) + "\n")


def _changes(arguments: argparse.Namespace, known: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    every = changes()
    for name in arguments.names or every:
        if name in known:
            continue
        if name.partition("/")[0] in FOLLOWED:
            print(name, flush=True)
            yield name, follow(arguments.work, every[name], tuple(seeds(arguments.seeds)))
        else:
            yield name, measure(arguments.work, name, every[name], arguments.seeds)


def _placebos(arguments: argparse.Namespace, known: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    before: dict[frozenset[str], Mapping[int, BootSections]] = {}
    for name in arguments.names or placebos():
        # Each for itself: a kernel that cannot be followed ends all boots of its own.
        followed = Followed.of(arguments.harmless, arguments.place, tuple(seeds(arguments.seeds)))
        key = f"placebos/{name} {arguments.place}"
        if key not in known and followed.kernels.directory(name).is_dir():
            print(key, flush=True)
            yield key, replace(followed, before=before).compare(name)


if __name__ == "__main__":
    main()
