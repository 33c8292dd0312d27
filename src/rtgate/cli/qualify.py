# SPDX-License-Identifier: MIT
"""`rtgate qualify`: the noise of a board and the smallest change that it shows, by boots of one good kernel."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rtgate.board import boards
from rtgate.board.boot import TimeBase
from rtgate.cli import command_options
from rtgate.cli.stored_boots import of_newest_environment, require_runs, run_names
from rtgate.errors import ConfigError
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.qualifying import examine, keep, keep_unqualified
from rtgate.history.queries import Boot, BootFilter
from rtgate.history.url import require_url
from rtgate.judge.learn.proposing import Ask, GoodBoot, propose_limits
from rtgate.judge.learn.qualification import CaseStanding
from rtgate.measure.raw_output import read_verified
from rtgate.records.record import Record
from rtgate.report.listing import show_listing
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.workflow import archive

DESCRIPTION = """\
Measure a board's noise and its smallest detectable change, from boots of one good kernel: the noise between boots, the
smallest change that 12 pairs of boots would show, limits to begin with. The answer is stored for the board's device;
comparisons on a device that is not qualified are DONE, not proven.

Have a lab boot the board (`rtgate submit --boots 24`) and name the records. On an attached console nothing reboots it:
N "boots" are N measurements of one boot, which hide the noise between boots.

A case is qualified with 10 pairs of boots, at most 5 % of its boots invalid (one that died or never measured counts),
no lasting change of level in between, and noise low enough that 12 pairs show what must not be missed.

Boots that you name (--records, --runs) are taken for those of a good kernel. Without a name it is all boots
of kernels that `rtgate baseline promote` made good. Boots of a revoked kernel never count.

examples:
  rtgate qualify --board rk3568-evb1 --records night/records   measured already, by a lab
  rtgate qualify --board rk3568-evb1 --runs night-1,night-2    in the history already

exit codes: 0 every case is qualified, 5 some are not.
"""
_UNQUALIFIED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.add_history_options(parser)
    parser.add_argument("--runs", metavar="RUN,...", type=run_names, help="only these runs of the history")
    parser.add_argument("--records", type=Path, metavar="DIR", help="add these records of one good kernel first")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    boards.board(arguments.board)
    url = require_url(arguments.history)
    if arguments.runs:
        _check_runs(url, arguments)
    stored = _store(url, arguments.records) if arguments.records is not None else ()
    with History.open(url) as history:
        return _examine(history, arguments, stored)


def _check_runs(url: str, arguments: argparse.Namespace) -> None:
    """Refuse a run that is not stored, before anything is. Raises ConfigError."""
    with History.open(url) as history:
        boots = queries.find(history, _filter(arguments, arguments.runs))
    require_runs("--runs", arguments.runs, (boot.run for boot in boots))


def _filter(arguments: argparse.Namespace, runs: Sequence[str] | None) -> BootFilter:
    # Runs that somebody names are of a kernel that is taken for good; what nobody names, only of one that was promoted.
    return replace(command_options.boot_filter(arguments), runs=runs, good_kernels=runs is None, revoked=False)


def _store(url: str, directory: Path) -> tuple[Boot, ...]:
    """Store records and return their boots, which may have been there already, in a run of another name."""
    records = read_verified(directory)
    if not records:
        raise ConfigError(f"{directory} holds no records")
    archive.store_now(url, records, archive.run_name(directory, records))
    with History.open(url) as history:
        return queries.of_records(history, records)


def _examine(history: History, arguments: argparse.Namespace, stored: Sequence[Boot]) -> int:
    named_runs = arguments.runs or ()
    boot_filter = _filter(arguments, sorted({*named_runs, *(boot.run for boot in stored)}) or None)
    for sentence in queries.left_out(history, boot_filter):
        say(sentence)
    by_case: dict[tuple[str, str], list[Boot]] = {}
    ids = {boot.id for boot in stored}
    for boot in queries.find(history, boot_filter):
        if ids and boot.run not in named_runs and boot.id not in ids:
            continue  # of another kernel that was measured in the same run
        by_case.setdefault((boot.case, boot.device), []).append(boot)
    if not by_case:
        raise ConfigError(
            f"the history {history.name} has no boots of good kernels of {arguments.board} (rtgate history list)"
        )
    standings: list[tuple[str, CaseStanding]] = []
    limits: list[tuple[str, str, str]] = []
    silent: list[str] = []
    now = datetime.now(UTC)
    for (case, device), boots in sorted(by_case.items()):
        name = f"{case} ({device})" if device else case
        same = _comparable_boots(boots, named=boot_filter.runs is not None)
        examination = _examine_case(history, same or boots, now)
        if examination is None or not examination[1].noise:
            silent.append(plain_text(f"{name}: NOT qualified: {_silence(boots)}"))
            continue
        like, standing = examination
        standings.append((name, standing))
        if like.environment.time == TimeBase.REAL:  # on the clock of a busy machine a limit would be that machine's
            limits += _limits(name, history, [boot for boot in same if boot.usable])
    if standings:
        _show(standings, limits)
    for line in silent:
        print(line)
    return 0 if not silent and all(standing.qualified for _, standing in standings) else _UNQUALIFIED


def _examine_case(history: History, boots: Sequence[Boot], now: datetime) -> tuple[Record, CaseStanding] | None:
    """Return what boots say of their case, with one of their records, and store it; None if none of them was good.

    That is stored, too: what an older night said holds no more. Raises ConfigError for boots on virtual time.
    """
    examination = examine(history, boots)
    like = examination[0] if examination else queries.records(history, boots[-1:])[0]
    if like.virtual_time:
        raise ConfigError(
            f"{like.board} counts instructions: its boots repeat bit by bit and differ by phase alone, so it "
            "needs no qualification (rtgate calibrate learns limits from kernels that differ harmlessly)"
        )
    if examination is None:
        keep_unqualified(history, like, _silence(boots), now)
        return None
    keep(history, boots, *examination, now)
    return examination


def _comparable_boots(boots: Sequence[Boot], *, named: bool) -> list[Boot]:
    """Return the good boots of the newest environment, and those that were not good: their environment may be why.

    They are of the same profile: reviews measure for another time, in another environment. Of a history whose runs
    nobody named, only what was not good since such boots began counts: an older board is another one.
    """
    good = [boot for boot in boots if boot.usable]
    if not good:
        return []
    comparable = good[-1].comparable
    start = min(boot.stored_at for boot in boots if boot.comparable == comparable)
    same = set(of_newest_environment(good))
    profiles = {boot.profile for boot in same}
    bad = (boot for boot in boots if not boot.usable and boot.profile in profiles)
    counted = same | {boot for boot in bad if named or boot.stored_at >= start}
    return [boot for boot in boots if boot in counted]


def _silence(boots: Sequence[Boot]) -> str:
    """Return why nothing can be said of a case on a device."""
    bad = [boot for boot in boots if not boot.usable]
    why = next((boot.why_invalid or f"{boot.faults} kernel faults" for boot in bad), "")
    pairs = "too few to make a pair of boots" if len(boots) - len(bad) < 2 else "without a figure that is compared"
    return f"of {len(boots)} boots {len(bad)} were not good, {pairs}" + (f" (first: {why})" if why else "")


def _limits(name: str, history: History, boots: Sequence[Boot]) -> list[tuple[str, str, str]]:
    """Return limits to begin with: case, device and measurement, limit, and whether it is proven."""
    past = [
        GoodBoot(boot.run, boot.run, record)
        for boot, record in zip(boots, queries.records(history, boots), strict=True)
    ]
    proposals = propose_limits(past, Ask())
    return [
        (f"{name} {proposal.threshold.measurement}", _text(proposal), proposal.problem or "proven")
        for proposal in proposals
    ]


def _text(proposal: Any) -> str:
    limit = proposal.threshold
    return str(limit.limit) if limit.limit is not None else f"{limit.share:g} over {limit.over}"


def _show(standings: Sequence[tuple[str, CaseStanding]], limits: Sequence[tuple[str, str, str]]) -> None:
    show_listing(
        ("case", "metric", "pairs", "noise between boots", "12 pairs show", "must not be missed"),
        (
            (
                *(name, noise.metric, noise.pairs, f"{100 * noise.boot_sd:.1f} %"),
                *(f"x{noise.smallest:.3f}", f"x{noise.wanted:.2f}"),
            )
            for name, standing in standings
            for noise in standing.noise
        ),
    )
    if limits:
        print()
        show_listing(("limits to begin with (rtgate calibrate writes them)", "limit", ""), limits)
    for name, standing in standings:
        verdict = "qualified" if standing.qualified else f"NOT qualified: {'; '.join(standing.problems)}"
        print(f"{name}: {verdict} ({standing.boots} boots, {standing.invalid} invalid)")
