# SPDX-License-Identifier: MIT
"""`rtgate sections`: where a kernel had interrupts or preemption off on a virtual-time board, and for how long."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from rtgate import files
from rtgate.cli import command_options
from rtgate.cli.handler_table import show_handlers
from rtgate.cli.stage_table import show_stages
from rtgate.errors import ConfigError, ParseError
from rtgate.explain.cache_models import MODELS
from rtgate.explain.explanation import gains
from rtgate.explain.lock_holds import RawLock
from rtgate.explain.misses import LEVELS
from rtgate.explain.section_changes import SiteChange, changes, sentence
from rtgate.explain.section_path import SectionPaths
from rtgate.explain.sections import BootSections, Section, Site, merge_boots
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.measure.profiles import seeds
from rtgate.records.bound import Bound
from rtgate.report.listing import show_listing
from rtgate.report.notices import note_output
from rtgate.report.text import plain_text
from rtgate.workflow.sections import SectionBoots, SectionsRequest, as_document

DESCRIPTION = """\
Boot a kernel on a virtual-time board, and list every place where it had interrupts or preemption off while a case was
measured: how often, and for how many instructions at the longest. All of them are seen, whether a wake-up met them or
not. With a baseline both kernels are listed side by side, the site that grew most first.

With --caches the misses of a CPU's caches are counted too, in sections and on wake-up paths. That is a model
beside the boot: nothing takes longer by it, and nothing is judged.

The boot is the one that is measured without it, bit by bit. What a section is, and what this cannot see:
docs/explanation/critical-sections.md.

examples:
  rtgate sections --board virt-arm64 --kernel build/mine --baseline build/virt-arm64-preempt_rt
  rtgate sections --board virt-arm64 --kernel build/mine --case latency/cyclictest:hackbench --seeds 1-4 -o all.json
  rtgate sections --board virt-arm64 --kernel build/mine --baseline build/virt-arm64-preempt_rt --caches cortex-a55
"""
_ROWS = 30
_LOCKS = 10
_FUNCTIONS = 12  # of a section, those of which the instructions differ most
_SITE = ("site", "kind", "context")
_MISSES = tuple(f"{level} misses" for level in LEVELS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--board", required=True, metavar="NAME", help="a virtual board of arm64 or x86-64")
    parser.add_argument("--kernel", type=Path, required=True, metavar="DIR", help="a kernel's build directory")
    parser.add_argument("--baseline", type=Path, metavar="DIR", help="the kernel to compare with, built already")
    parser.add_argument(
        "--case", default="latency/cyclictest:idle", metavar="CASE", help="SUITE/TOOL:LOAD (default: %(default)s)"
    )
    parser.add_argument("--seeds", default="1", metavar="A-B", help="boots of each kernel (default: %(default)s)")
    parser.add_argument(
        "--rows", type=command_options.positive, default=_ROWS, metavar="N", help="of the table (default: %(default)s)"
    )
    parser.add_argument(
        "--explain", action="store_true", help="boot both kernels again, and show what ran in the site that grew most"
    )
    parser.add_argument(
        "--caches",
        choices=MODELS,
        metavar="CPU",
        help=f"count misses of a CPU's caches: {', '.join(f'{name} ({model.cpu})' for name, model in MODELS.items())}",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all sections as JSON")
    command_options.profile(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    start = time.monotonic()
    request = SectionsRequest(
        board=arguments.board,
        kernels={
            "candidate": arguments.kernel,
            **({"baseline": arguments.baseline} if arguments.baseline else {}),
        },
        case=arguments.case,
        profile=arguments.profile,
        seeds=seeds(arguments.seeds),
        tell=lambda text: _tell(text, time.monotonic() - start),
        caches=MODELS.get(arguments.caches),
    )
    if arguments.explain and not arguments.baseline:
        raise ConfigError("--explain compares two kernels: --baseline DIR is missing")
    request.check()
    boots = SectionBoots.of(request)
    by_arm = {arm: merge_boots(own.values()) for arm, own in boots.follow().items()}
    try:
        _show(arguments, boots, by_arm)
    finally:  # also where a boot fails that --explain makes again
        if arguments.output:
            files.write_user_file(arguments.output, json.dumps(as_document(request, by_arm), indent=1) + "\n")
    _require_bounds(by_arm.values())
    return 0


def _show(arguments: argparse.Namespace, boots: SectionBoots, by_arm: Mapping[str, BootSections]) -> None:
    """Print what was followed; with --explain boot again for it. Raises as `SectionBoots.paths`."""
    if arguments.baseline:
        site_changes = changes(by_arm["baseline"].sections, by_arm["candidate"].sections)
        _show_compared(site_changes[: arguments.rows])
        _show_locks(by_arm["candidate"].locks, by_arm["baseline"].locks)
        show_handlers(by_arm["candidate"].handlers, by_arm["baseline"].handlers)
        _show_bounds([by_arm["baseline"].bound, by_arm["candidate"].bound])
        show_stages(by_arm)
        _show_wakeup_misses(by_arm)
        words = sentence(site_changes)
        if arguments.explain and site_changes[:1] and site_changes[0].growth > 0:
            paths = boots.paths(site_changes[0])
            if not paths.doubt:
                _show_functions(paths)
            words = f"{words}; {paths.sentence}"
        print(plain_text(words))
    else:
        _show_sections(changes((), by_arm["candidate"].sections)[: arguments.rows])
        _show_locks(by_arm["candidate"].locks)
        show_handlers(by_arm["candidate"].handlers)
        _show_bounds([by_arm["candidate"].bound])
        show_stages(by_arm)
        _show_wakeup_misses(by_arm)


def _tell(text: str, seconds: float) -> None:
    print(f"sections: {seconds:4.0f} s: {plain_text(text)}", file=sys.stderr, flush=True)
    note_output()


def _show_compared(site_changes: Sequence[SiteChange]) -> None:
    levels = _levels([change.candidate for change in site_changes])
    numbers = ("times", "longest, baseline", "candidate", "change", "virtual us", *levels)
    rows = (
        (
            *_site(change.site),
            f"{new.count:,}" if new else "-",
            f"{old.longest:,}" if old else f"({change.before:,})" if change.before else "-",
            f"{new.longest:,}" if new else "-",
            f"{change.growth:+,}",
            f"{change.growth * INSTRUCTION_NS / 1000:+.1f}",
            *_mean_misses(new, old, levels),
        )
        for change in site_changes
        for old, new in ((change.baseline, change.candidate),)
    )
    show_listing((*_SITE, *numbers), rows, right=numbers)


def _show_sections(site_changes: Sequence[SiteChange]) -> None:
    sections = [change.candidate for change in site_changes if change.candidate]
    levels = _levels(sections)
    numbers = ("times", "mean", "longest", "virtual us", *levels)
    rows = (
        (
            *_site(section.site),
            f"{section.count:,}",
            f"{section.total / section.count:,.0f}",
            f"{section.longest:,}",
            f"{section.longest * INSTRUCTION_NS / 1000:.1f}",
            *_mean_misses(section, None, levels),
        )
        for section in sections
    )
    show_listing((*_SITE, *numbers), rows, right=numbers)


def _levels(sections: Iterable[Section | None]) -> tuple[str, ...]:
    """Return the columns of misses: none if no caches were modelled."""
    modelled = any(section and section.misses for section in sections)
    return _MISSES if modelled else ()


def _mean_misses(section: Section | None, before: Section | None, levels: Sequence[str]) -> list[str]:
    """Return what was missed in a section of a site, on average, and by how much that changed."""
    if section is None or section.misses is None:
        return ["-"] * len(levels)
    means = [count / section.count for count in section.misses.total]
    if before is None or before.misses is None:
        return [f"{mean:.1f}" for mean in means]
    old = [count / before.count for count in before.misses.total]
    return [f"{mean:.1f} ({mean - was:+.1f})" for mean, was in zip(means, old, strict=True)]


def _show_wakeup_misses(by_arm: Mapping[str, BootSections]) -> None:
    """Print what wake-ups missed on their way, if caches were modelled."""
    by_name = {arm: boot.wakeup_misses for arm, boot in by_arm.items() if boot.wakeup_misses}
    rows: list[tuple[str, ...]] = []
    means: list[list[float]] = []
    for arm in sorted(by_name):
        misses = by_name[arm]
        means.append([total / misses.count for total in (misses.instructions, *misses.total)])
        rows.append((f"{arm}, mean of {misses.count:,}", *(f"{mean:,.1f}" for mean in means[-1])))
        rows.append((f"{arm}, most in one", "", *(f"{count:,}" for count in misses.most)))
    if not rows:
        return
    if len(means) == 2:
        rows.append(("change of the mean", *(f"{new - old:+,.1f}" for old, new in zip(*means, strict=True))))
    numbers = ("instructions", *_MISSES)
    if not any(boot.bound for boot in by_arm.values()):
        print()
    show_listing(("wake-up path", *numbers), rows, right=numbers)
    print()


def _show_locks(locks: Sequence[RawLock], baseline: Sequence[RawLock] = ()) -> None:
    """Print which raw spinlocks were held longest; with a baseline, how long it held them."""
    if not locks:
        return
    before = {str(lock): lock.longest for lock in baseline}
    numbers = ("times", "mean", *(("baseline",) if baseline else ()), "longest", "virtual us")
    rows = (
        (
            str(lock),
            lock.function if lock.name else "",
            f"{lock.count:,}",
            f"{lock.total / lock.count:,.0f}",
            *((f"{before[str(lock)]:,}" if str(lock) in before else "-",) if baseline else ()),
            f"{lock.longest:,}",
            f"{lock.longest * INSTRUCTION_NS / 1000:.1f}",
        )
        for lock in sorted(locks, key=lambda lock: -lock.longest)[:_LOCKS]
    )
    print()
    show_listing(("raw lock", "locked longest by", *numbers), rows, right=numbers)


def _site(site: Site) -> tuple[str, str, str]:
    place = str(site.begin) if site.begin.function == site.end.function else f"{site.begin} to {site.end}"
    return place, site.kind, f"{site.context}{', switch' if site.switches else ''}"


def _show_bounds(bounds: Sequence[Bound | None]) -> None:
    """Print what the longest possible wake-up of each kernel is made of."""
    known_bounds = [bound for bound in bounds if bound]
    if len(known_bounds) < len(bounds):
        return
    parts = [_parts(bound) for bound in known_bounds]
    names = ("baseline", "candidate")[-len(known_bounds) :]
    numbers = [f"{name}, {unit}" for name in names for unit in ("instructions", "virtual us")]
    rows = (
        (
            name,
            *chain(*((f"{count:,}", f"{count * INSTRUCTION_NS / 1000:.1f}") for count, _ in cells)),
            " -> ".join(dict.fromkeys(where for _, where in cells)),
        )
        for name, cells in ((name, [column[name] for column in parts]) for name in parts[-1])
    )
    print()
    show_listing(("bound of a wake-up", *numbers, "where"), rows, right=numbers)
    print()


def _require_bounds(boots: Iterable[BootSections]) -> None:
    """Check that no wake-up was longer than it can be. Raises ParseError."""
    for bound in (boot.bound for boot in boots):
        if bound and not bound.holds:
            raise ParseError(bound.mistake)


def _parts(bound: Bound) -> dict[str, tuple[int, str]]:
    """Return what a bound is made of, in words: instructions, and where."""
    return {
        "scheduler postponed": (bound.first.instructions, bound.first.place),
        "way into the scheduler": (bound.entry, ""),
        "switch of threads": (bound.switching.instructions, bound.switching.place),
        "return to the program": (bound.way, ""),
        "interrupts": (bound.interrupts, f"{bound.interrupt_count} of them"),
        "bound": (bound.instructions, f"seed {bound.seed}"),
        "longest wake-up measured": (bound.measured, f"seed {bound.seed}"),
    }


def _show_functions(paths: SectionPaths) -> None:
    numbers = ("baseline", "candidate", "change")
    old, new = paths.baseline.own, paths.candidate.own
    most = sorted(gains(old, new), key=lambda item: -abs(item[1]))[:_FUNCTIONS]
    rows = (
        (name, f"{old.get(name, 0):,.0f}", f"{new.get(name, 0):,.0f}", f"{gain:+,.0f}")
        for name, gain in sorted(most, key=lambda item: -item[1])
    )
    show_listing(("function", *numbers), rows, right=numbers)
