# SPDX-License-Identifier: MIT
"""How much does a comparison move for no reason, and does it see harm? Kernels for the answer, built and measured.

`python -m bench.comparisons build` builds every change of selftests/data/comparisons; `measure` boots each with the
same seeds, idle and where changes.yaml names it (`places`), and keeps what a judgement needs. Both go on where they
were stopped, and take names of changes. `--build BUILD` is for the places that changes.yaml has for another build
(`builds`), in a campaign of their own. Three things are kept below --work: kernels, records, and one copy of the
source, 1.5 GB, that all patches pass through.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path

from rich.console import Console
from rich.table import Table
from selftests.campaigns import rates
from selftests.campaigns.comparisons import (
    BUILD,
    EMULATOR,
    IDLE,
    UNPATCHED,
    Change,
    Place,
    all_campaigns,
    builds,
    campaign,
    campaign_name,
    changes,
    keep,
    of_build,
    places,
    records,
)
from selftests.campaigns.kernels import first_seeds, gate_profile

from bench import ROOT
from rtgate.errors import Interrupted, RtgateError
from rtgate.judge.compare import placebos
from rtgate.kernel.build import Listener, Options, build
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.patches import synchronise
from rtgate.kernel.source import Tree, default_tree, open_tree
from rtgate.kernel.source_copy import SourceCopy
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.target import qemu as emulator
from rtgate.target.virtual import VirtualBoard
from rtgate.tools.case_name import CaseName
from rtgate.tools.measurement import Histogram
from rtgate.tools.registry import TOOLS
from rtgate.workflow.harmless_boots import Boot, ChangedKernels
from rtgate.workflow.kernels import build_kernel, find_description

SEEDS = range(1, 13)
BEYOND = range(13, 25)  # idle, with Debian 12's QEMU: other phases, for the second look and for one that taught nothing
LAST = 36  # of a second look at those
_WHAT = "build: the kernels; measure: boot them; collect: only write the results anew; show: a table of the results"


def main(words: Sequence[str]) -> int:
    """Build or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "measure", "collect", "show"), help=_WHAT)
    parser.add_argument("names", nargs="*", metavar="NAME", help="changes, or `unpatched` (default: all)")
    own = sorted(set(builds().values()))
    parser.add_argument("--build", default=BUILD, choices=own, help="places of this build (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "comparisons", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="compilers, or boots, at the same time")
    parser.add_argument("--seeds", type=int, default=LAST, metavar="N", help="only seeds 1 to N (default: all)")
    only = "only there, as 'virt-arm64 latency/cyclictest:idle'; a campaign keeps what it has of other places"
    parser.add_argument("--place", action="append", type=_place, metavar="'BOARD CASE'", help=only)
    parser.add_argument("--results", type=Path, metavar="DIR", help="a campaign (default: of this root file system)")
    arguments = parser.parse_intermixed_args(words)
    known = changes()
    unknown = [name for name in arguments.names if name not in {*known, UNPATCHED}]
    if unknown:
        parser.error(f"no such change: {', '.join(unknown)}")
    # Nothing is compared without the unpatched kernel.
    there = {name for place, names in places().items() for name in names if builds()[place] == arguments.build}
    named = {UNPATCHED, *(arguments.names or there)}
    chosen = [name for name in (UNPATCHED, *known) if name in named]
    arguments.work = arguments.work.absolute()
    arguments.results = arguments.results and arguments.results.resolve()
    unbuilt = not _kernel(arguments, None).is_dir()
    if arguments.what in {"measure", "collect"} and unbuilt:
        parser.error(f"{arguments.work} has no unpatched kernel, which all others are compared with: build it first")
    steps = {"build": _build, "measure": _measure, "collect": _collect, "show": _show}
    return steps[arguments.what](arguments, known, chosen)


def _place(words: str) -> Place:
    board, _, case = words.partition(" ")
    if (board, case) not in places():
        raise argparse.ArgumentTypeError(f"{words!r} is none of: {', '.join(map(' '.join, places()))}")
    return board, case


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _build(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    tree, failed = default_tree(_say), []
    copy = SourceCopy(arguments.work / "linux", tree, _say)
    for number, name in enumerate(chosen, start=1):
        began = time.monotonic()
        try:
            _build_one(arguments, known.get(name), copy)
        except Interrupted:
            raise
        except RtgateError as error:
            failed.append(name)
            _say(f"{name}: {error}")
        _say(f"{number} of {len(chosen)}: {name}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _build_one(arguments: argparse.Namespace, change: Change | None, copy: SourceCopy) -> None:
    output = _kernels(arguments) / (change.name if change else UNPATCHED)
    options = Options(jobs=arguments.jobs, listener=Listener(notice=_say))
    if change is None:
        build_kernel(arguments.build, copy.source, output)
    elif change.elsewhere:
        description = find_description(arguments.build)
        _build_copy(arguments.work / "elsewhere", copy.source, description, output, options)
    elif change.kernel.is_built:
        description = change.kernel.description(find_description(arguments.build))
        build(description, copy.with_change(change.kernel), output, options)


def _build_copy(place: Path, tree: Tree, description: BuildDescription, output: Path, options: Options) -> None:
    """Build a copy of the source that rtgate does not own: then paths in the build are absolute."""
    copy = place / "linux"
    try:
        synchronise(tree.path, copy)
        build(description, open_tree(copy), output, options)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _jobs(build_name: str, chosen: Sequence[str], seeds: Sequence[int] = ()) -> list[Boot]:
    """Return boots of kernels of a build, place by place: those that a gate has at first, or these seeds."""
    return [
        Boot(kernel=name, board=board, case=_case(case), seed=seed)
        for (board, case), names in places().items()
        if builds()[board, case] == build_name
        for name in chosen
        if name in {UNPATCHED, *names}
        for seed in seeds or (SEEDS if build_name == BUILD else first_seeds(case))
    ]


def _open_jobs(results: Path) -> list[Boot]:
    """Return the boots that a gate would make of what its first look leaves open, of the unpatched kernel as well.

    A gate's own first look, and one at the seeds beyond it.
    """
    found: dict[Boot, None] = {}
    directories = {*all_campaigns(), results}
    beyond = (case for case in rates.case_boots(directories, BEYOND) if case.place == IDLE)
    for case in chain(rates.case_boots(directories), beyond):
        if case.campaign != campaign_name(results):
            continue
        board, name_of_case = case.place
        for name in rates.kernels_to_judge(case.place, case.first):
            last, boots = case.first[name].records[-1].seed or 0, len(case.first[name].records)
            if case.judge_first(name).is_open:
                pairs = product((UNPATCHED, name), range(last + 1, last + boots + 1))
                found |= {
                    Boot(kernel=one, board=board, case=_case(name_of_case), seed=seed): None for one, seed in pairs
                }
    return list(found)


def _changed_kernels(arguments: argparse.Namespace, known: dict[str, Change]) -> ChangedKernels:
    return ChangedKernels(
        kernels=_kernels(arguments),
        records=_records(arguments),
        changes={name: change.kernel for name, change in known.items()},
        profile=gate_profile,
    )


def _campaign(kernels: ChangedKernels, build_name: str) -> Path:
    """Return the campaign of the root file system and the QEMU that boots of a build have now."""
    boot = _jobs(build_name, [UNPATCHED])[0]
    arm = kernels.arm(boot)
    assert isinstance(arm.target, VirtualBoard)
    rootfs = arm.target.rootfs(plan(boot.case, arm, boot.seed)).content_sha256
    return campaign(rootfs, build_name, _emulator(kernels, build_name))


def _emulator(kernels: ChangedKernels, build_name: str) -> str:
    """Return the version of QEMU that boots of a build have now."""
    qemu = kernels.arm(_jobs(build_name, [UNPATCHED])[0]).board.qemu
    assert qemu is not None
    return placebos.version(emulator.version(qemu.binary))


def _requested_boots(arguments: argparse.Namespace, boots: Sequence[Boot]) -> list[Boot]:
    """Return the boots that the command line asks for."""
    return [one for one in boots if one.seed <= arguments.seeds and _is_asked_for(arguments, one.board, one.case.name)]


def _is_asked_for(arguments: argparse.Namespace, board: str, case: str) -> bool:
    return not arguments.place or (board, case) in arguments.place


def _measure(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    built = [name for name in chosen if _kernel(arguments, known.get(name)).is_dir()]
    missing = sorted(set(chosen) - set(built))
    if missing:
        _say(f"not built yet: {', '.join(missing)}")
    kernels = _changed_kernels(arguments, known)
    arguments.results = arguments.results or _campaign(kernels, arguments.build)
    beyond = _jobs(arguments.build, built, BEYOND) if _emulator(kernels, arguments.build) == EMULATOR else []
    idle = [one for one in beyond if (one.board, one.case.name) == IDLE]
    _boot(arguments, kernels, [*_jobs(arguments.build, built), *idle])
    _say("judging: what the first look leaves open gets twice as many boots, as in a gate")
    _boot(arguments, kernels, [one for one in _open_jobs(arguments.results) if one.kernel in built])
    return 0


def _boot(arguments: argparse.Namespace, kernels: ChangedKernels, boots: Sequence[Boot]) -> None:
    """Measure what was not measured yet."""
    wanted = [one for one in _requested_boots(arguments, boots) if kernels.find_record(one) is None]
    _say(f"{len(wanted)} boots of {len({one.kernel for one in wanted})} kernels")
    left = Counter(one.place for one in wanted)
    began = time.monotonic()
    for number, one in enumerate(kernels.measure(wanted, arguments.jobs), start=1):
        left[one.place] -= 1
        if not left[one.place]:
            _keep(arguments, kernels, one.kernel)
            passed = time.monotonic() - began
            ahead = passed * (len(wanted) - number) / number
            _say(f"{number} of {len(wanted)}, {ahead / 60:.0f} min left: {' '.join(one.place)}")


def _case(name: str) -> Case:
    named = CaseName.parse(name)
    return Case(suite=named.suite, tool=TOOLS[named.tool](), load=named.load)


def _kernels(arguments: argparse.Namespace) -> Path:
    return of_build(arguments.work / "kernels", arguments.build)


def _records(arguments: argparse.Namespace) -> Path:
    return of_build(arguments.work / "records", arguments.build)


def _kernel(arguments: argparse.Namespace, change: Change | None) -> Path:
    """Return where a change's kernel is: the unpatched one, if only words are added to its command line."""
    return _kernels(arguments) / (change.name if change and change.kernel.is_built else UNPATCHED)


def _collect(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    kernels = _changed_kernels(arguments, known)
    arguments.results = arguments.results or _campaign(kernels, arguments.build)
    for name in chosen:
        if _kernel(arguments, known.get(name)).is_dir():
            _keep(arguments, kernels, name)
    return 0


def _keep(arguments: argparse.Namespace, kernels: ChangedKernels, name: str) -> None:
    """Write what was measured of a kernel, as far as a boot today would give it again."""
    boots = _jobs(arguments.build, [name], range(1, LAST + 1))
    stored = (kernels.find_record(one) for one in boots if _is_asked_for(arguments, one.board, one.case.name))
    found = [records_file.as_json(one) for one in stored if one is not None]
    if found:
        keep(name, found, arguments.results, arguments.place or ())


def _show(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    """Print for each kernel and case what all its boots come to, and which kernel has the same data."""
    for directory in [arguments.results] if arguments.results else all_campaigns():
        _show_campaign(directory, arguments, known, chosen)
    return 0


def _show_campaign(
    directory: Path, arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]
) -> None:
    table = Table(
        *("kernel", "case", "boots", "mean", "99.9 %", "maxima", "failed", "same data as"),
        title=directory.name,
        title_justify="left",
        caption="virtual us: mean of the boots' means; of all wake-ups; median and largest of the boots' maxima",
    )
    same: dict[tuple[str, tuple[str, ...]], str] = {}
    for name in chosen:
        if not (directory / f"{name}.json.xz").exists():
            continue
        cases: dict[str, list[Record]] = {}
        for record in records(name, directory):
            if record.seed in SEEDS and _is_asked_for(arguments, record.board, record.case):
                cases.setdefault(f"{record.board} {record.case}", []).append(record)
        for case, boots in sorted(cases.items()):
            data = tuple(records_file.digest_source(record) for record in boots)
            first = same.setdefault((case, data), name)
            group = known[name].group if name in known else UNPATCHED
            table.add_row(
                name, case, str(len(boots)), *_figures(boots), "" if first == name else first, style=_STYLES[group]
            )
    Console(width=160 if not sys.stdout.isatty() else None).print(table)
    print(f"{len(same)} different sets of data")


_STYLES = {"placebos": "", "harmful": "red", UNPATCHED: "bold"}


def _figures(boots: Sequence[Record]) -> tuple[str, ...]:
    """Return mean, 99.9 % quantile, maxima, and how many boots came to nothing or found a failure."""
    numbers: dict[str, list[float]] = {}
    for record in boots:
        for measurement in record.measurements:
            if measurement.quantity is not None:
                numbers.setdefault(measurement.name.rpartition(".")[2], []).append(measurement.quantity.value)
    parts = [one.histogram for record in boots for one in record.measurements if one.histogram is not None]
    failed = sum(record.state != "measured" for record in boots) + sum(map(bool, numbers.get("failures", ())))
    unit = 1000 if parts else 1  # cyclictest counts virtual nanoseconds, the other tools microseconds
    mean = f"{statistics.fmean(numbers['avg']) / unit:.2f}" if "avg" in numbers else ""
    high = Histogram.merge(parts).quantile(0.999) if parts else None
    maxima = [value / unit for value in numbers.get("max", ())]
    return (
        mean,
        f"{high.value / unit:.1f}" if high else "",
        f"{statistics.median(maxima):.1f} {max(maxima):.1f}" if maxima else "",
        str(failed) if failed else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
