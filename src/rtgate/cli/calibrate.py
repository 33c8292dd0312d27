# SPDX-License-Identifier: MIT
"""`rtgate calibrate`: limits from past good runs, with proof of how often they would have cried wolf."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rtgate import files
from rtgate.board import boards
from rtgate.cli import command_options
from rtgate.cli.stored_boots import by_case, of_newest_environment, require_runs, run_names
from rtgate.errors import ConfigError
from rtgate.history import pairing, queries
from rtgate.history import screens as screening
from rtgate.history.database import History
from rtgate.history.queries import Boot
from rtgate.history.url import require_url
from rtgate.judge.applicable import options_of
from rtgate.judge.learn.proposing import Ask, Decision, GoodBoot, LimitProposal, propose_limits, ratchet
from rtgate.judge.learn.screening import ScreenProposal, propose_screen
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds
from rtgate.measure.profiles import profile
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.report.notices import say
from rtgate.tools.case_name import CaseName
from rtgate.workflow.verdicts import limits

DESCRIPTION = """\
Propose limits for a board from past boots of good kernels, as an entry for thresholds.yaml.

A limit on a worst case is the largest value of the past boots, or, while there are too few of them, a prediction
limit of the Gumbel law. Then the past is replayed: each session is left out once and judged by the limit of the others,
and the limit is widened until the share of false alarms meets the target. A session is a run; on virtual time it is a
kernel image, because seeds show phases of one kernel and not what a harmless change does. Boots count whose environment
and options are those of the boot that was stored last: where an older night was added last, name the runs. A limit
that the past cannot show (fewer than 10 sessions, or a share that may be more than twice the target) is printed as a
comment and must not gate.

For lab boards it also says at which level a screen against the history flags at most a tenth of the good sessions.
With 10 sessions the answer is stored in the history: gate and submit use that level when they screen a candidate.
"none" is stored, too, where every level flags more: it ends an older level.

Limits do not get looser by themselves: where thresholds.yaml has a tighter one, it stays, unless you name the runs that
need a looser one with --looser-because. So does one for a class of CPUs or for some kernels. The entry also has every
limit of its cases that no proposal replaces.

examples:
  rtgate calibrate --board rk3568-evb1 --history sqlite:///history.db
  rtgate calibrate --board rk3568-evb1 --case latency/cyclictest:idle --target 2% --boots 3 -o proposed.yaml
  rtgate calibrate --board rk3568-evb1 --looser-because night-12,night-17

exit codes: 0 the past shows every limit, 5 some it does not, or nothing could be proposed.
"""
_NOT_SHOWN = 5
_NOTES = 3  # more of them say that the tail is long, and each of them nothing


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.add_history_options(parser)
    parser.add_argument("--runs", metavar="RUN,...", type=run_names, help="only these runs")
    parser.add_argument(
        "--target", type=_share, default=0.01, metavar="SHARE", help="false alarms of a limit in a run (default: 1%%)"
    )
    parser.add_argument("--boots", type=_count, default=1, metavar="N", help="boots of a run (default: %(default)s)")
    parser.add_argument(
        "--margin", type=_margin, default=1.0, metavar="FACTOR", help="on top of limits on values (default: none)"
    )
    parser.add_argument(
        "--looser-because", type=run_names, default=(), metavar="RUN,...", help="runs that need a looser limit"
    )
    parser.add_argument("--thresholds", type=Path, metavar="FILE", help="limits to compare with, not thresholds.yaml")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    before = limits(arguments.thresholds)
    with History.open(require_url(arguments.history)) as history:
        cases = by_case(_good_boots(history, arguments))
        past = {case: _records(history, boots, virtual=board.virtual) for case, boots in cases.items()}
        for boots in past.values():
            _check_profile(boots[0].record)
        require_runs("--looser-because", arguments.looser_because, (boot.run for of in past.values() for boot in of))
        proposals = _proposals(arguments, past, before)
        _check_runs_needed(arguments.looser_because, proposals)
        # Virtual time has no screen. Levels are stored here, where nothing is refused any more.
        screens = {} if board.virtual else {case: _screen(history, boots) for case, boots in cases.items()}
    _write(arguments.output, _document(arguments, past, proposals, before, screens))
    _tell(proposals)
    return 0 if proposals and not any(proposal.problem for proposal, _ in proposals) else _NOT_SHOWN


def _proposals(
    arguments: argparse.Namespace, past: Mapping[str, Sequence[GoodBoot]], before: Thresholds
) -> list[tuple[LimitProposal, Decision]]:
    ask = Ask(target=arguments.target, boots=arguments.boots, margin=arguments.margin)
    return [
        (proposal, ratchet(proposal, old_limits, boots, arguments.looser_because))
        for case, boots in past.items()
        for proposal in propose_limits(boots, ask)
        for old_limits in [before.for_options(arguments.board, arguments.flavour, case, proposal.threshold.options)]
    ]


def _good_boots(history: History, arguments: argparse.Namespace) -> list[Boot]:
    """Return the good boots. Raises ConfigError when there are none, or none of a run that was named."""
    boot_filter = replace(command_options.boot_filter(arguments), runs=arguments.runs, usable=True)
    every = queries.find(history, boot_filter)
    for sentence in queries.left_out(history, replace(boot_filter, good_kernels=True)):
        say(sentence)
    good_boots = [boot for boot in every if boot.good_kernel]
    if not good_boots:
        hint = f"; {len(every)} are there of kernels that are not good: rtgate baseline promote"
        raise ConfigError(
            f"the history {history.name} has no valid boots of good kernels for {arguments.board}, "
            f"{arguments.flavour}, {arguments.case or 'any case'}{hint if every else ''}"
        )
    require_runs("--runs", arguments.runs or (), (boot.run for boot in good_boots))
    return good_boots


def _screen(history: History, boots: Sequence[Boot]) -> ScreenProposal:
    """Return the screen's level for a case, and store it; also none, which ends the use of an older one."""
    same = [boot for boot in boots if boot.comparable == boots[-1].comparable]
    pairs = pairing.pairs(same)
    records = queries.records(history, [boot for pair in pairs for boot in pair])
    screen = propose_screen(pairing.nights(pairs, records))
    if records:
        screening.keep(history, same, records[-1], screen, datetime.now(UTC))
    return screen


def _records(history: History, boots: Sequence[Boot], *, virtual: bool) -> tuple[GoodBoot, ...]:
    """Return the records of one case. On virtual time equal figures of one seed are one boot, however many images."""
    same = _of_newest_options(history, sorted(of_newest_environment(boots), key=lambda boot: (boot.run, boot.number)))
    good_boots: dict[object, GoodBoot] = {}
    for boot, record in same:
        key = (boot.seed, records_file.digest_source(record)) if virtual else boot.id
        good_boots.setdefault(key, GoodBoot(boot.run, boot.kernel if virtual else boot.run, record))
    if len(good_boots) < len(same):
        twice = len(same) - len(good_boots)
        say(f"{boots[0].case}: {twice} of {len(same)} boots are left out: another image gave the very same figures")
    return tuple(good_boots.values())


def _of_newest_options(history: History, boots: Sequence[Boot]) -> list[tuple[Boot, Record]]:
    """Return the boots of which the profile asked what it asked of the last stored one, and say how many are left out.

    All get the name of the last one's profile, as limits for these options name it.
    """
    rows = list(zip(boots, queries.records(history, boots), strict=True))
    _, newest = max(rows, key=lambda row: row[0].id)
    options = options_of(newest)
    same = [(boot, replace(record, profile=newest.profile)) for boot, record in rows if options_of(record) == options]
    if len(same) < len(rows):
        rest = len(rows) - len(same)
        what = f"{rest} of {len(rows)} boots are left out"
        say(f"{newest.case}: {what}: they were measured with other options than the boot stored last")
    return same


def _check_profile(record: Record) -> None:
    """Check that a limit for a record's options can name its profile, as only a profile can. Raises ConfigError."""
    options, case = options_of(record), CaseName.parse(record.case)
    if not options:
        return
    own = profile(record.profile, record.board)
    if own.has(case.suite, case.tool, case.load) and own.asks(case.tool, case.suite, case.load) == options:
        return
    text = ", ".join(f"{name} {value}" for name, value in options.items())
    raise ConfigError(
        f"{record.case} was measured with {text}, which the profile {record.profile} does not ask for, and a limit for "
        "options names a profile: put them into a profile of your site, measure with it, and calibrate again"
    )


def _check_runs_needed(runs: Sequence[str], proposals: Sequence[tuple[LimitProposal, Decision]]) -> None:
    breaking_runs = {run for _, decision in proposals for run in decision.breaking}
    idle = [name for name in runs if name not in breaking_runs]
    if idle:
        raise ConfigError(
            f"--looser-because: {', '.join(idle)} keeps every limit of thresholds.yaml, so it does not call for a "
            f"looser one (those that break one: {', '.join(sorted(breaking_runs)) or 'none'})"
        )


def _document(
    arguments: argparse.Namespace,
    past: Mapping[str, Sequence[GoodBoot]],
    proposals: Sequence[tuple[LimitProposal, Decision]],
    before: Thresholds,
    screens: Mapping[str, ScreenProposal],
) -> str:
    """Return the entry for thresholds.yaml: the proposed limits of each case, and those of `before` that stay."""
    boots = sum(map(len, past.values()))
    words = f"--target {arguments.target:g} --boots {arguments.boots}"
    lines = [
        "# SPDX-License-Identifier: MIT",
        "#",
        f"# Proposed by `rtgate calibrate --board {arguments.board} {words}` on {datetime.now(UTC):%Y-%m-%d} from",
        f"# {boots} boots of good kernels. What is commented out they cannot show: it must not gate.",
        f"{arguments.board}:",
        f"  {arguments.flavour}:",
    ]
    for case in past:
        own = [(proposal, decision) for proposal, decision in proposals if proposal.threshold.case == case]
        rest = _others(before.of(arguments.board, arguments.flavour, case), [decision for _, decision in own])
        proven = rest or any(decision.kept or not proposal.problem for proposal, decision in own)
        lines.append(f"    {case}:" if proven else f"    {case}: []")
        if case in screens:
            lines.append(f"      # {_screen_text(screens[case])}")
        for proposal, decision in own:
            lines += [f"      {line}" for line in _entry(proposal, decision)]
        lines += ["      # Stay as they are:"] if rest else []
        lines += [f"      {_line(limit)}" for limit in rest]
    return "\n".join(lines) + "\n"


def _others(limits: Sequence[Threshold], decisions: Sequence[Decision]) -> list[Threshold]:
    """Return the limits of a case that are there already and that no decision replaces or keeps itself."""
    return [
        limit
        for limit in limits
        if not any(limit == decision.threshold or limit in decision.replaced for decision in decisions)
    ]


def _screen_text(screen: ScreenProposal) -> str:
    tally = f"{screen.flagged} of {screen.sessions} held-out sessions flagged, at most {screen.upper:.2g} (95 %)"
    problem = f"; not shown: {screen.problem}" if screen.problem else ""
    return f"screen: level {screen.level:g}, {tally}{problem}" if screen.level else f"screen: none: {screen.problem}"


def _entry(proposal: LimitProposal, decision: Decision) -> Iterator[str]:
    for note in proposal.notes[:_NOTES]:
        yield f"# {proposal.threshold.measurement}: {note}: look at it before you use this limit"
    if len(proposal.notes) > _NOTES:
        yield f"# {proposal.threshold.measurement}: and {len(proposal.notes) - _NOTES} more"
    if decision.sentence:
        yield f"# {proposal.threshold.measurement}: {decision.sentence}"
    if proposal.problem:
        yield f"# not shown: {proposal.problem}"
        yield f"# {_line(proposal.threshold)}"
    if decision.kept or not proposal.problem:
        yield _line(decision.threshold)


def _line(limit: Threshold) -> str:
    return f"- {{{', '.join(_keys(limit))}}}"


def _keys(limit: Threshold) -> Iterator[str]:
    if limit.kind is LimitKind.FAULT:
        yield from ("kind: fault", f"fault: {limit.fault}", f"policy: {'fail' if limit.fails else 'report'}")
    else:
        yield from (f"measurement: {limit.measurement}", f"kind: {limit.kind.value}", *_level(limit), *_scope(limit))
    yield f"source: {json.dumps(limit.source)}"
    if limit.margin:
        yield f"margin: {json.dumps(limit.margin)}"


def _level(limit: Threshold) -> Iterator[str]:
    level = limit.limit or limit.over
    assert level is not None
    text = f"{level.value:.15g} {level.unit}"  # what was there must not get rounded
    if limit.kind is LimitKind.SHARE:
        yield from (f"over: {text}", f"limit: {limit.share:.15g}", f"confidence: {limit.confidence:.15g}")
    else:
        yield f"limit: {text}"


def _scope(limit: Threshold) -> Iterator[str]:
    kernels = str(limit.kernels) if limit.kernels.conditions else ""
    names = {"function": limit.function, "lock": limit.lock, "kernels": kernels}
    yield from (f"{key}: {name}" for key, name in {"class": limit.cpu_class, "profile": limit.profile}.items() if name)
    yield from (f"{key}: {json.dumps(name)}" for key, name in names.items() if name)


def _tell(proposals: Sequence[tuple[LimitProposal, Decision]]) -> None:
    """Say on standard error what came out, so that standard output can go into a file."""
    kept_decisions = [decision for _, decision in proposals if decision.kept]
    problems = sum(bool(proposal.problem) and not decision.kept for proposal, decision in proposals)
    text = (
        f"{len(proposals)} limits: {len(proposals) - len(kept_decisions) - problems} proposed, {problems} not shown, "
        f"{len(kept_decisions)} kept"
    )
    say(text)
    for _, decision in proposals:
        if decision.breaking and (decision.kept or decision.tighter):
            limit = decision.threshold
            say(f"kept {limit.case} {limit.measurement}: {decision.sentence}")


def _write(path: Path | None, text: str) -> None:
    if path is None:
        print(text, end="")
    else:
        files.write_user_file(path, text)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of false alarms (allowed: 1%, 0.01; less than 50%)")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of boots (allowed: 1 to 1000)")
    return int(text)


def _margin(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a margin (allowed: 1 to 10)")
    return value
