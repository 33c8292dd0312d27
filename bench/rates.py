# SPDX-License-Identifier: MIT
"""How often is a comparison on virtual time wrong? Real kernels, measured by bench/comparisons.py, judged here.

`bench/rates.py` prints the table: each placebo is judged with what the *other* placebos showed, so that no kernel
judges itself; each harmful kernel with what all placebos showed. Two naive gates stand beside it. No boots. `--seeds N`
judges the first N of the twelve boots of each case, instead of as many as a gate has. `--learnt FILE` judges with what
another placebos.yaml says, say one learnt from boots with an earlier root file system.
`bench/rates.py spikes` shows whether the largest boots of harmless kernels come in images, which the test of spikes
rules out. `bench/rates.py plans` shows whether `rtgate plan --detect` says beforehand which figures of harmful kernels
are found. `bench/rates.py learn` writes placebos.yaml from the same measurements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from selftests.comparisons import MEASURED, UNPATCHED, changes  # noqa: E402
from selftests.planning import plans  # noqa: E402
from selftests.rates import (  # noqa: E402
    MAXIMUM,
    NAIVE,
    Boots,
    Place,
    clustering,
    distinct,
    measured,
    placebos_of,
    placebos_yaml,
    verdicts,
)

from rtgate import site  # noqa: E402
from rtgate.judge.boot_figures import boot_figures  # noqa: E402
from rtgate.judge.limits import interval  # noqa: E402
from rtgate.judge.placebos import Placebos, load_placebos  # noqa: E402
from rtgate.judge.verdict import Kind, Status  # noqa: E402

_GATED = 16  # placebos of each case of a gate; the others have eight


def _show(directory: Path, seeds: int | None, placebos: Placebos | None) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    known = changes()
    worst = 0
    for place, kernels in measured(directory, seeds).items():
        harmless = placebos_of(kernels)
        table = Table("kernel", "kind", "boots", "verdict", "what it says", title=" ".join(place), title_justify="left")
        alarms, found, harmful = 0, 0, 0
        for name in kernels:
            if name == UNPATCHED:
                continue
            said = verdicts(place, kernels, name, placebos)
            bad = [one for one in said if one.status is Status.FAIL]
            is_harmful = known[name].group == "harmful"
            if is_harmful and (known[name].board, known[name].case) != place:
                continue  # it need not show here
            if not is_harmful and name not in harmless:
                continue
            alarms += bool(bad) and not is_harmful
            found += bool(bad) and is_harmful
            harmful += is_harmful
            lead = min(said, key=lambda one: (one.status.rank, one.kind is Kind.UNJUDGED))
            word = lead.kind.value if lead.kind is not Kind.UNJUDGED else "not judged"
            style = "red" if is_harmful else ""
            table.add_row(name, known[name].kind, str(len(kernels[name].records)), word, lead.sentence, style=style)
        console.print(table)
        _summary(console, place, kernels, (alarms, found, harmful))
        worst = max(worst, alarms, harmful - found)
    return 1 if worst else 0


def _summary(console: Console, place: Place, kernels: Mapping[str, Boots], counts: tuple[int, int, int]) -> None:
    alarms, found, harmful = counts
    harmless = placebos_of(kernels)
    if harmless:
        own = distinct(kernels)
        _, bound = interval(alarms, len(harmless), 0.95)
        _, safe = interval(min(alarms, own), max(own, 1), 0.95)
        console.print(
            f"{' '.join(place)}: {alarms} of {len(harmless)} placebos alarmed: at most {bound:.1%} of such changes do "
            f"(95 %); they have {own} different sets of data beside the baseline's, which prove at most {safe:.1%}"
        )
        if all(MAXIMUM in boot_figures(boots.records[0]) for boots in (*harmless.values(), kernels[UNPATCHED])):
            for name, naive in NAIVE.items():
                count = sum(naive(boots, kernels[UNPATCHED]) for boots in harmless.values())
                console.print(f"  {name}: {count} of {len(harmless)} placebos alarmed")
    console.print(f"  harmful kernels that must show here: {found} of {harmful} found\n")


def main(words: Sequence[str]) -> int:
    """Print the table, or write placebos.yaml."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("show", "spikes", "plans", "learn"), default="show")
    parser.add_argument("--results", type=Path, default=MEASURED, help="default: %(default)s")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "placebos.yaml", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, metavar="N", help="judge seeds 1 to N (default: those of a gate)")
    parser.add_argument("--learnt", type=Path, metavar="FILE", help="judge with what this file says")
    arguments = parser.parse_args(words)
    for option in ("seeds", "learnt"):
        if getattr(arguments, option) and arguments.what != "show":
            parser.error(f"--{option} is for show, not for {arguments.what}")
    if arguments.what == "learn":
        arguments.output.write_text(placebos_yaml(arguments.results), encoding="utf-8")
        return 0
    shown = {"spikes": _spikes, "plans": _plans}.get(arguments.what)
    return shown(arguments.results) if shown else _show(arguments.results, arguments.seeds, _placebos(arguments.learnt))


def _placebos(path: Path | None) -> Placebos | None:
    """Return what a file says. Raises ConfigError."""
    return None if path is None else load_placebos([path], site.names("boards"))


def _plans(directory: Path) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    table = Table("case", "kernel", "figure", "moved by", "planned to be found", "came out as")
    every = []
    for (_, case), kernels in measured(directory).items():
        if len(placebos_of(kernels)) < _GATED:
            continue
        for one in plans(kernels):
            every.append(one)
            outcome = one.shift.outcome.value + (" by single boots" if one.shift.by_spikes else "")
            told = (case, one.kernel, one.shift.figure, f"x{one.ratio:.3f}", f"{one.power:.0%}", outcome)
            table.add_row(*told, style="" if one.true else "red")
    console.print(table)
    found, true = sum(one.found for one in every), sum(one.true for one in every)
    beyond, single = sum(one.beyond for one in every), sum(one.shift.by_spikes for one in every)
    console.print(
        f"{len(every)} figures moved, {found} found, {single} of these by single boots; of {true} the plan says on "
        f"which side of 50 % they are; of {beyond} it is enough to know whether they moved beyond what passes"
    )
    return 0


def _spikes(directory: Path) -> int:
    console = Console(width=170 if not sys.stdout.isatty() else None)
    table = Table("case", "figure", "images", "largest boots", "most of one image", "clustering", "p")
    for place, kernels in measured(directory).items():
        for one in clustering(kernels) if len(placebos_of(kernels)) > 4 else ():
            numbers = (str(one.images), str(one.largest), str(one.most), f"{one.ratio:.2f}", f"{one.p:.3f}")
            table.add_row(" ".join(place), one.figure, *numbers)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
