# SPDX-License-Identifier: MIT
"""`rtgate baseline`: which kernels the history counts as good, and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rtgate.cli import command_options
from rtgate.history.baselines import KernelOnBoard, Promotion, kernels_on_boards, short
from rtgate.history.database import History
from rtgate.history.url import require_url
from rtgate.report.listing import show_listing
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.workflow import baselines

DESCRIPTION = """\
Say which kernels are good. Noise, limits, and what a comparison on boards takes from the history are measured with
boots of good kernels alone; a kernel is good on the board where its run ended with PASS. Verdicts of another board of
the run say nothing of it: where nothing was judged the kernel does not become good.

  promote DIR   make the kernel of a judged run good: the candidate, or the only one. DIR is the report of a gate or a
                job, or a soak, whose records are in the history. Refused unless its verdict is PASS, its files are as
                they were judged, and neither the kernel nor what it was compared with was revoked.
  revoke KERNEL a kernel that turned out to be bad, on every board and for ever. Its boots stay in the history and are
                not used any more. It prints what rests on them.
  show          the good kernels and the revoked ones, with boots, runs, and who said so why.

A new lab has no limits, so no verdict can be PASS: promote --unjudged REASON makes a kernel good that is known to be
good otherwise. DIR may then be the name of a run in the history, too. A verdict FAIL is refused all the same.

examples:
  rtgate baseline promote night --history sqlite:///history.db
  rtgate baseline promote night --unjudged "vendor's release 2.1, a year in the field"
  rtgate baseline revoke 3f9a2b71c0de --reason "loses wake-ups, see issue 812"
  rtgate baseline show --board rk3568-evb1

exit codes: 0 done; promote: that of the run's verdict if it is refused for it, 1 a kernel was revoked, 4 files changed
"""
_FEW = 3  # runs that are named; --json has all


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="show|promote|revoke", required=True)
    show_action = actions.add_parser("show", help="show good and revoked kernels")
    show_action.add_argument("--board", metavar="NAME", help="only of this board")
    show_action.add_argument("--json", action="store_true", help="print them as JSON, with all runs and cases")
    promote_action = actions.add_parser("promote", help="make the kernel of a judged run good")
    promote_action.add_argument("run", metavar="DIR|RUN", help="the directory of a report; with --unjudged also a run")
    promote_action.add_argument(
        "--unjudged", default="", metavar="REASON", help="why it is good although nothing says so"
    )
    revoke_action = actions.add_parser("revoke", help="a kernel turned out to be bad")
    revoke_action.add_argument(
        "kernel", metavar="KERNEL", help="8 digits or more of its image's SHA-256, or of its commit"
    )
    revoke_action.add_argument("--reason", required=True, metavar="TEXT", help="why; `show` prints it")
    for action in (show_action, promote_action, revoke_action):
        command_options.history(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with History.open(require_url(arguments.history)) as history:
        return _ACTIONS[arguments.action](history, arguments)


def _show(history: History, arguments: argparse.Namespace) -> int:
    kernels = kernels_on_boards(history, arguments.board)
    if arguments.json:
        print(json.dumps([asdict(kernel) for kernel in kernels], indent=1))
    elif kernels:
        show_listing(("board", "kernel", "good", "boots", "valid", "cases", "runs"), map(_row, kernels))
    else:
        print("no kernel was promoted or revoked: rtgate baseline promote DIR")
    return 0


def _promote(history: History, arguments: argparse.Namespace) -> int:
    result = baselines.promote(history, arguments.run, arguments.unjudged)
    if result.refusal:
        say(f"not promoted: {result.refusal}")
        return result.exit_code
    for promotion in result.kernels:
        because = f": {_because(promotion)}" if promotion in result.new else " already"
        print(plain_text(f"{short(promotion.kernel)} is good on {promotion.board}{because}"))
    for sentence in result.left_out:
        say(f"not promoted on {sentence}")
    return 0


def _revoke(history: History, arguments: argparse.Namespace) -> int:
    effect = baselines.revoke(history, arguments.kernel, arguments.reason)
    kernels = ", ".join(map(short, effect.kernels)) or "nothing new"
    print(plain_text(f"revoked: {kernels}; boots in the history that are not used any more: {effect.boots}"))
    for sentence in effect.uses:
        print(plain_text(f"  {sentence}"))
    return 0


_ACTIONS = {"show": _show, "promote": _promote, "revoke": _revoke}


def _row(kernel: KernelOnBoard) -> tuple[object, ...]:
    return (
        _lines([kernel.board, *kernel.devices]),
        _lines([f"{short(kernel.kernel)} {kernel.release}", kernel.source]),
        _lines(_standing(kernel)),
        kernel.boots,
        kernel.valid,
        len(kernel.cases),
        _lines(_newest(kernel.runs)),
    )


def _standing(kernel: KernelOnBoard) -> Iterator[str]:
    if kernel.revocation:
        yield f"REVOKED {kernel.revocation.revoked_at} by {kernel.revocation.revoked_by}: {kernel.revocation.reason}"
    if kernel.promotion:
        since = "until then good, since" if kernel.revocation else "yes, since"
        yield f"{since} {kernel.promotion.promoted_at} by {kernel.promotion.promoted_by}: {_because(kernel.promotion)}"


def _because(promotion: Promotion) -> str:
    if not promotion.unjudged:
        return f"{promotion.verdict} of run {promotion.run}"
    verdict = f" (verdict {promotion.verdict})" if promotion.verdict else ""
    return f"UNJUDGED{verdict}, run {promotion.run}: {promotion.unjudged}"


def _newest(runs: Sequence[str]) -> list[str]:
    more = len(runs) - _FEW
    return [*runs[-_FEW:], *([f"and {more} before"] if more > 0 else [])]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
