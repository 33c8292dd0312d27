# SPDX-License-Identifier: MIT
"""How often is a comparison on virtual time wrong? Real kernels, measured by bench/comparisons.py, judged here.

`python -m bench.rates` prints a table of each campaign (all kernels with one root file system): each placebo is judged
with what the *other* placebos showed in all campaigns, so that no kernel judges itself; each harmful kernel with what
all placebos showed. Two naive gates stand beside it. No boots. `--results DIR` takes one campaign, and may be repeated.
`--seeds A-B` judges other boots than a gate has: 1-8 fewer, 13-24 idle ones that taught nothing. `--learnt FILE` judges
all with what another placebos.yaml says, say one of an earlier campaign (`learn --results DIR -o FILE`).
`spikes` shows whether the largest boots of harmless kernels come in images, which the test of spikes rules out. `plans`
shows whether `rtgate plan --detect` says beforehand which figures of harmful kernels are found. `detection` shows how
often the change that a PASS names is found in slowed placebos. `learn` writes placebos.yaml from the same measurements.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from selftests.campaigns.clustering import clustering
from selftests.campaigns.comparisons import UNPATCHED, Place, all_campaigns, changes
from selftests.campaigns.detecting import FEWEST, sizes_named
from selftests.campaigns.kernels import Kernels, distinct, placebos_of
from selftests.campaigns.planning import plans
from selftests.campaigns.rates import GATE, MAXIMUM, NAIVE, case_boots, kernels_to_judge
from selftests.campaigns.teaching import placebos_yaml

from bench import ROOT
from rtgate import site
from rtgate.errors import ConfigError
from rtgate.judge.compare.boot_figures import boot_figures
from rtgate.judge.compare.placebos import PlaceboModel, Placebos, load_placebos
from rtgate.judge.distributions import share_bounds
from rtgate.judge.verdict import Kind
from rtgate.measure.profiles import seeds

_LEAST_FOUND = 0.7  # of slowed placebos, at a size that is named with nine of ten
_BASELINES = 2  # placebos that stand for the baseline beside the unpatched kernel
_GATED = 16  # placebos of each case of a gate; the others have eight


def _show(directories: Sequence[Path], chosen: Sequence[int], placebos: Placebos | None) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    known = changes()
    worst = cases = 0
    for case in case_boots(directories, chosen, placebos):
        place, kernels = case.place, case.first
        if len(kernels) == 1:  # the unpatched kernel alone has these seeds
            continue
        cases += 1
        title = f"{' '.join(place)}, {case.campaign}"
        if placebos is not None and not _placebo_model(place, kernels, placebos).figures:
            console.print(f"{title}: not judged: the file says nothing of this case with this command\n")
            worst = 1
            continue
        table = Table("kernel", "kind", "boots", "verdict", "what it says", title=title, title_justify="left")
        counts: Counter[str] = Counter()
        for name in kernels_to_judge(place, kernels):
            judged, group = case.judge(name), known[name].group
            counts[group] += 1
            counts[f"{group} failed"] += bool(judged.failures)
            counts[f"{group} found"] += known[name].shows in judged.shown
            counts[f"{group} looked at twice"] += judged.boots > len(kernels[name].records)
            counts[f"{group} open"] += judged.is_open
            lead = min(judged.verdicts, key=lambda one: (one.status.rank, one.kind is Kind.UNJUDGED))
            word = lead.kind.value if lead.kind is not Kind.UNJUDGED else "not judged"
            style = "red" if group == "harmful" else ""
            table.add_row(name, known[name].kind, str(judged.boots), word, lead.sentence, style=style)
        console.print(table)
        _summary(console, title, kernels, counts)
        worst = max(worst, counts["placebos failed"], counts["harmful"] - counts["harmful found"])
    if not cases:
        console.print("nothing was judged: no kernel was measured with these seeds")
    return 1 if worst or not cases else 0


def _placebo_model(place: Place, kernels: Kernels, placebos: Placebos) -> PlaceboModel:
    one = kernels[UNPATCHED].records[0]
    return placebos.model_for(dataclasses.replace(one, case=place[1]))


def _summary(console: Console, title: str, kernels: Kernels, counts: Mapping[str, int]) -> None:
    alarms, harmless = counts["placebos failed"], placebos_of(kernels)
    if harmless:
        own = distinct(kernels)
        _, bound = share_bounds(alarms, len(harmless), 0.95)
        _, safe = share_bounds(min(alarms, own), max(own, 1), 0.95)
        console.print(
            f"{title}: {alarms} of {len(harmless)} placebos alarmed: at most {bound:.1%} of such changes do "
            f"(95 %); they have {own} different sets of data beside the baseline's, which prove at most {safe:.1%}"
        )
        if all(MAXIMUM in boot_figures(boots.records[0]) for boots in (*harmless.values(), kernels[UNPATCHED])):
            for name, naive in NAIVE.items():
                count = sum(naive(boots, kernels[UNPATCHED]) for boots in harmless.values())
                console.print(f"  {name}: {count} of {len(harmless)} placebos alarmed")
        console.print(
            f"  {counts['placebos looked at twice']} of {len(harmless)} placebos were looked at twice, as the first "
            f"look left them open; {counts['placebos open']} are open in the end"
        )
    console.print(
        f"  harmful kernels that must show here: {counts['harmful found']} of {counts['harmful']} found by what they "
        f"change, {counts['harmful failed']} failed, "
        f"{counts['harmful looked at twice']} of them looked at twice\n"
    )


def main(words: Sequence[str]) -> int:
    """Print the table, or write placebos.yaml."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("show", "spikes", "plans", "detection", "learn"), default="show")
    parser.add_argument("--results", type=Path, action="append", metavar="DIR", help="a campaign (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "placebos.yaml", help="default: %(default)s")
    parser.add_argument("--seeds", metavar="A-B", help="judge these seeds (default: those of a gate)")
    parser.add_argument("--learnt", type=Path, metavar="FILE", help="judge with what this file says")
    arguments = parser.parse_args(words)
    for option in ("seeds", "learnt"):
        if getattr(arguments, option) is not None and arguments.what != "show":
            parser.error(f"--{option} is for show, not for {arguments.what}")
    directories = list(dict.fromkeys(path.resolve() for path in arguments.results or all_campaigns()))
    for path in directories:
        if not (path / f"{UNPATCHED}.json.xz").is_file():
            parser.error(f"{path} is not a campaign: it has no {UNPATCHED}.json.xz")
    if arguments.what == "learn":
        arguments.output.write_text(placebos_yaml(directories), encoding="utf-8")
        return 0
    shown = {"spikes": _spikes, "plans": _plans, "detection": _detection}.get(arguments.what)
    if shown:
        return shown(directories)
    try:
        placebos, chosen = _placebos(arguments.learnt), seeds(arguments.seeds) if arguments.seeds else ()
    except ConfigError as error:
        parser.error(str(error))
    if chosen and len(chosen) != 1 + chosen[-1] - chosen[0]:
        parser.error(f"--seeds: {arguments.seeds} leaves seeds out between the first and the last")
    return _show(directories, chosen, placebos)


def _placebos(path: Path | None) -> Placebos | None:
    """Return what a file says. Raises ConfigError."""
    return None if path is None else load_placebos([path], site.names("boards"))


def _plans(directories: Sequence[Path]) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    table = Table("campaign", "case", "kernel", "figure", "moved by", "planned to be found", "came out as")
    every = []
    for case in case_boots(directories):
        if len(placebos_of(case.first)) < _GATED:
            continue
        for one in plans(case.first, case.teachers):
            every.append(one)
            outcome = one.shift.outcome.value + (" by single boots" if one.shift.spiked and not one.shift.moved else "")
            moved = (one.shift.figure, f"x{one.ratio:.3f}", f"{one.power:.0%}", outcome)
            table.add_row(case.campaign, case.place[1], one.kernel, *moved, style="" if one.true else "red")
    console.print(table)
    found, true = sum(one.is_found for one in every), sum(one.true for one in every)
    beyond, single = sum(one.beyond for one in every), sum(one.shift.spiked and not one.shift.moved for one in every)
    console.print(
        f"{len(every)} figures moved, {found} found, {single} of these by single boots; of {true} the plan says on "
        f"which side of 50 % they are; of {beyond} it is enough to know whether they moved beyond what passes"
    )
    return 0


def _detection(directories: Sequence[Path]) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    table = Table("campaign", "case", "change", "named from", "by runs", "found in slowed placebos", "share")
    found = tried = 0
    shares: list[float] = []
    for case in case_boots(directories):
        harmless = placebos_of(case.first)
        if len(harmless) < FEWEST or case.place not in GATE:
            continue
        for one in sizes_named(case, (UNPATCHED, *list(harmless)[:_BASELINES])):
            found, tried = found + one.found, tried + one.tried
            size = "none" if one.size is None else f"+{100 * one.size:g} %"
            shares += [one.found / one.tried] if one.tried else []
            share = f"{one.found / one.tried:.1%}" if one.tried else ""
            counts = (str(one.runs), f"{one.found} of {one.tried}", share)
            table.add_row(case.campaign, case.place[1], one.change, size, *counts)
    console.print(table)
    console.print(f"{found} of {tried} slowed placebos were found at the size that another's run names")
    return 0 if all(share >= _LEAST_FOUND for share in shares) else 1


def _spikes(directories: Sequence[Path]) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    table = Table("campaign", "case", "figure", "images", "largest boots", "most of one image", "clustering", "p")
    for case in case_boots(directories):
        for one in clustering(case.first) if len(placebos_of(case.first)) > 4 else ():
            numbers = (str(one.images), str(one.largest), str(one.most), f"{one.ratio:.2f}", f"{one.p:.3f}")
            table.add_row(case.campaign, " ".join(case.place), one.figure, *numbers)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
