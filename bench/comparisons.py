# SPDX-License-Identifier: MIT
"""How much does a comparison move for no reason, and does it see harm? Kernels for the answer, built and measured.

`bench/comparisons.py build` builds every change of selftests/data/comparisons;
`bench/comparisons.py measure` boots each with the same seeds, idle and where changes.yaml names it (`places`), and
keeps what a judgement needs. Both go on where they were stopped, and take names of changes. `--build BUILD` is for
the places that changes.yaml has for another build (`builds`), in a campaign of their own. Three things are kept below
--work: kernels, records, and one copy of the source, 1.5 GB, that all patches pass through.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain, product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from selftests import rates  # noqa: E402
from selftests.comparisons import (  # noqa: E402
    BUILD,
    IDLE,
    UNPATCHED,
    Change,
    builds,
    campaign,
    campaigns,
    changes,
    keep,
    places,
    records,
)
from selftests.kernels import first_seeds, gate_profile  # noqa: E402

from rtgate.board.boards import Board  # noqa: E402
from rtgate.cli.build import build_kernel, find_description  # noqa: E402
from rtgate.errors import Interrupted, RtgateError  # noqa: E402
from rtgate.kernel.build import Listener, Options, build  # noqa: E402
from rtgate.kernel.configuration import BuildDescription  # noqa: E402
from rtgate.kernel.fragments import load_fragment  # noqa: E402
from rtgate.kernel.patches import apply  # noqa: E402
from rtgate.kernel.source import Tree, default_tree, open_tree  # noqa: E402
from rtgate.measure.case import Arm, Case, measure, plan  # noqa: E402
from rtgate.records import record as records_file  # noqa: E402
from rtgate.records.record import Record  # noqa: E402
from rtgate.target.virtual import VirtualBoard  # noqa: E402
from rtgate.tools.measurement import Histogram  # noqa: E402
from rtgate.tools.registry import TOOLS  # noqa: E402
from rtgate.workflow.arms import ArmRequest, make_arms  # noqa: E402

SEEDS = range(1, 13)
BEYOND = range(13, 25)  # idle: other phases, for the second look and for one that taught nothing
LAST = 36  # of a second look at those
_WHAT = "build: the kernels; measure: boot them; collect: only write the results anew; show: a table of the results"
_FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One boot that is to be measured."""

    kernel: str
    board: str
    case: str
    seed: int


def main(words: Sequence[str]) -> int:
    """Build or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "measure", "collect", "show"), help=_WHAT)
    parser.add_argument("names", nargs="*", metavar="NAME", help="changes, or `unpatched` (default: all)")
    own = sorted(set(builds().values()))
    parser.add_argument("--build", default=BUILD, choices=own, help="places of this build (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "comparisons", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="compilers, or boots, at the same time")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), metavar="N", help="only seeds 1 to N")
    parser.add_argument("--case", action="append", metavar="SUITE/TOOL:LOAD", help="only these cases")
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


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _build(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    tree, failed = default_tree(_say), []
    copy = _Copy(arguments.work / "linux", tree)
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


def _build_one(arguments: argparse.Namespace, change: Change | None, copy: _Copy) -> None:
    output = _kernels(arguments) / (change.name if change else UNPATCHED)
    options = Options(jobs=arguments.jobs, listener=Listener(notice=_say))
    if change is None:
        build_kernel(arguments.build, copy.source, output)
    elif change.elsewhere:
        description = find_description(arguments.build)
        _build_elsewhere(arguments.work / "elsewhere", copy.source, description, output, options)
    elif change.patches or change.fragment:
        build(_description(arguments.build, change), copy.patched(change.patches), output, options)


class _Copy:
    """The one copy of the source that all patches pass through.

    What `rtgate build --patches` does, but it writes only the files that two changes touch: to compare 80 000 files for
    each change would take longer than to compile what it changes.
    """

    def __init__(self, place: Path, source: Tree) -> None:
        self.source = source
        self._place = place
        self._touched = place.with_name(f"{place.name}.touched")

    def patched(self, patches: Sequence[Path]) -> Tree:
        """Return the copy with these patches and no others. Raises ConfigError if one does not apply."""
        if not self._place.is_dir():
            _say(f"copying {self.source.path}")
            _copy(self.source.path, self._place)
        self._restore()
        files = [name for patch in patches for name in _FILE.findall(patch.read_text(encoding="utf-8"))]
        self._touched.write_text("".join(f"{name}\n" for name in files), encoding="utf-8")
        for patch in patches:
            apply(patch, self._place)
        state = hashlib.sha256(self.source.identity.fingerprint.encode())
        for patch in patches:
            state.update(patch.read_bytes())
        identity = dataclasses.replace(self.source.identity, fingerprint=state.hexdigest())
        return dataclasses.replace(self.source, path=self._place, identity=identity, owned=True)

    def _restore(self) -> None:
        """Undo what the last change did."""
        if not self._touched.exists():
            return
        for name in self._touched.read_text(encoding="utf-8").splitlines():
            original = self.source.path / name
            if original.exists():
                shutil.copyfile(original, self._place / name)  # with a new time, so that it is compiled again
            else:
                (self._place / name).unlink(missing_ok=True)
        self._touched.unlink()


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rsync", "--archive", "--exclude=/rtgate-build-*", f"{source}/", f"{place}/"], check=True)


def _description(name: str, change: Change) -> BuildDescription:
    found = find_description(name)
    extra = load_fragment(change.fragment) if change.fragment else ()
    replaced = {option.symbol for option in extra}
    kept = tuple(option for option in found.options if option.symbol not in replaced)
    flavour = "generic" if any(option.line == "# CONFIG_PREEMPT_RT is not set" for option in extra) else found.flavour
    return dataclasses.replace(found, options=(*kept, *extra), flavour=flavour)


def _build_elsewhere(place: Path, tree: Tree, description: BuildDescription, output: Path, options: Options) -> None:
    """Build a copy of the source that rtgate does not own: then paths in the build are absolute."""
    copy = place / "linux"
    try:
        _copy(tree.path, copy)
        build(description, open_tree(copy), output, options)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _jobs(build_name: str, chosen: Sequence[str], seeds: Sequence[int] = ()) -> list[Job]:
    """Return boots of kernels of a build, place by place: those that a gate has at first, or these seeds."""
    return [
        Job(kernel=name, board=board, case=case, seed=seed)
        for (board, case), names in places().items()
        if builds()[board, case] == build_name
        for name in chosen
        if name in {UNPATCHED, *names}
        for seed in seeds or (SEEDS if build_name == BUILD else first_seeds(case))
    ]


def _open_jobs(results: Path) -> list[Job]:
    """Return the boots that a gate would make of what its first look leaves open, of the unpatched kernel as well.

    A gate's own first look, and one at the seeds beyond it.
    """
    found: dict[Job, None] = {}
    directories = {*campaigns(), results}
    beyond = (case for case in rates.looks(directories, BEYOND) if case.place == IDLE)
    for case in chain(rates.looks(directories), beyond):
        if case.campaign != results.name:
            continue
        board, name_of_case = case.place
        for name in rates.judged(case.place, case.first):
            last, boots = case.first[name].records[-1].seed or 0, len(case.first[name].records)
            if case.is_open(name):
                pairs = product((UNPATCHED, name), range(last + 1, last + boots + 1))
                found |= {Job(kernel=one, board=board, case=name_of_case, seed=seed): None for one, seed in pairs}
    return list(found)


def _campaign(arms: _Arms, build_name: str) -> Path:
    """Return the campaign of the root file system that boots of a build have now."""
    job = _jobs(build_name, [UNPATCHED])[0]
    arm = arms.arm(job)
    assert isinstance(arm.target, VirtualBoard)
    return campaign(arm.target.rootfs(plan(_case(job.case), arm, job.seed)).content_sha256, build_name)


def _asked(arguments: argparse.Namespace, jobs: Iterable[Job]) -> list[Job]:
    """Return the boots that the command line asks for."""
    most = arguments.seeds if arguments.seeds < len(SEEDS) else LAST
    return [job for job in jobs if job.seed <= most and (not arguments.case or job.case in arguments.case)]


def _measure(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    built = [name for name in chosen if _kernel(arguments, known.get(name)).is_dir()]
    missing = sorted(set(chosen) - set(built))
    if missing:
        _say(f"not built yet: {', '.join(missing)}")
    arms = _Arms(arguments, known)
    arguments.results = arguments.results or _campaign(arms, arguments.build)
    beyond = [job for job in _jobs(arguments.build, built, BEYOND) if (job.board, job.case) == IDLE]
    _boot(arguments, arms, [*_jobs(arguments.build, built), *beyond])
    _say("judging: what the first look leaves open gets twice as many boots, as in a gate")
    _boot(arguments, arms, [job for job in _open_jobs(arguments.results) if job.kernel in built])
    return 0


def _boot(arguments: argparse.Namespace, arms: _Arms, jobs: Sequence[Job]) -> None:
    """Measure what was not measured yet."""
    wanted = [job for job in _asked(arguments, jobs) if not _is_there(arguments, arms, job)]
    _say(f"{len(wanted)} boots of {len({job.kernel for job in wanted})} kernels")
    left: dict[tuple[str, str, str], int] = {}
    for job in wanted:
        left[job.kernel, job.board, job.case] = left.get((job.kernel, job.board, job.case), 0) + 1
    began = time.monotonic()
    for number, job in enumerate(_carried_out(arguments, arms, wanted), start=1):
        place = (job.kernel, job.board, job.case)
        left[place] -= 1
        if not left[place]:
            _keep(arguments, arms, job.kernel)
            passed = time.monotonic() - began
            ahead = passed * (len(wanted) - number) / number
            _say(f"{number} of {len(wanted)}, {ahead / 60:.0f} min left: {' '.join(place)}")


def _carried_out(arguments: argparse.Namespace, arms: _Arms, wanted: Sequence[Job]) -> Iterator[Job]:
    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        futures = [pool.submit(_one, arguments, arms, job) for job in wanted]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _one(arguments: argparse.Namespace, arms: _Arms, job: Job) -> Job:
    arm, case = arms.arm(job), _case(job.case)
    record, outcome = measure(case, arm, job.seed)
    records_file.write(record, outcome.files, outcome.console, _records(arguments) / job.kernel)
    return job


def _case(name: str) -> Case:
    suite, _, rest = name.partition("/")
    tool, _, load = rest.partition(":")
    return Case(suite=suite, tool=TOOLS[tool](), load=load)


class _Arms:
    """The kernels, ready to be measured."""

    def __init__(self, arguments: argparse.Namespace, known: dict[str, Change]) -> None:
        self._arguments = arguments
        self._known = known
        self._made: dict[tuple[str, str], Arm] = {}

    def arm(self, job: Job) -> Arm:
        """Return a kernel on a board."""
        key = (job.kernel, job.board)
        if key not in self._made:
            change = self._known.get(job.kernel)
            name = "candidate" if change else "baseline"
            kernels = {name: _kernel(self._arguments, change)}
            (arm,), _ = make_arms(ArmRequest(board=job.board, kernels=kernels, profile=gate_profile(job.case)))
            self._made[key] = _with_words(arm, change.command_line if change else "")
        return self._made[key]


def _kernels(arguments: argparse.Namespace) -> Path:
    return _own(arguments.work / "kernels", arguments.build)


def _records(arguments: argparse.Namespace) -> Path:
    return _own(arguments.work / "records", arguments.build)


def _own(place: Path, build_name: str) -> Path:
    return place if build_name == BUILD else place / build_name


def _kernel(arguments: argparse.Namespace, change: Change | None) -> Path:
    """Return where a change's kernel is: the unpatched one, if only words are added to its command line."""
    own = change is not None and (change.patches or change.fragment or change.elsewhere)
    return _kernels(arguments) / (change.name if own and change else UNPATCHED)


def _with_words(arm: Arm, words: str) -> Arm:
    if not words:
        return arm
    board: Board = dataclasses.replace(arm.board, command_line=f"{arm.board.command_line} {words}")
    assert isinstance(arm.target, VirtualBoard)
    return dataclasses.replace(arm, board=board, target=dataclasses.replace(arm.target, board=board))


def _is_there(arguments: argparse.Namespace, arms: _Arms, job: Job) -> bool:
    """Whether a boot was measured, of this very image, with this very root filesystem and command."""
    path = _path(arguments, arms, job)
    if not path.is_file():
        return False
    arm, stored = arms.arm(job), json.loads(path.read_text())
    wanted = plan(_case(job.case), arm, job.seed)
    assert isinstance(arm.target, VirtualBoard)
    this = (arm.kernel.image_sha256, arm.target.rootfs(wanted).content_sha256, [*wanted.argv])
    return (stored["kernel"]["image_sha256"], stored["machine"].get("rootfs"), stored["argv"]) == this


def _path(arguments: argparse.Namespace, arms: _Arms, job: Job) -> Path:
    place = records_file.Place(
        records=_records(arguments) / job.kernel, board=job.board, arm=arms.arm(job).name, case=job.case
    ).directory
    return place / f"{job.seed:03d}" / "record.json"


def _collect(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    arms = _Arms(arguments, known)
    arguments.results = arguments.results or _campaign(arms, arguments.build)
    for name in chosen:
        if _kernel(arguments, known.get(name)).is_dir():
            _keep(arguments, arms, name)
    return 0


def _keep(arguments: argparse.Namespace, arms: _Arms, kernel: str) -> None:
    """Write what was measured of a kernel, as far as a boot today would give it again."""
    jobs = _jobs(arguments.build, [kernel], range(1, LAST + 1))
    there = [job for job in jobs if _is_there(arguments, arms, job)]
    found = [json.loads(_path(arguments, arms, job).read_text()) for job in there]
    if found:
        keep(kernel, found, arguments.results)


def _show(arguments: argparse.Namespace, known: dict[str, Change], chosen: Sequence[str]) -> int:
    """Print for each kernel and case what all its boots come to, and which kernel has the same data."""
    for directory in [arguments.results] if arguments.results else campaigns():
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
            if record.seed in SEEDS and (not arguments.case or record.case in arguments.case):
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
    high = Histogram.merged(parts).quantile(0.999) if parts else None
    maxima = [value / unit for value in numbers.get("max", ())]
    return (
        mean,
        f"{high.value / unit:.1f}" if high else "",
        f"{statistics.median(maxima):.1f} {max(maxima):.1f}" if maxima else "",
        str(failed) if failed else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
