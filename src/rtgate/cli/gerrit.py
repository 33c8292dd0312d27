# SPDX-License-Identifier: MIT
"""`rtgate gerrit`: a service that reviews each new patch set in Gerrit once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from rtgate import durations, process
from rtgate.cli import review
from rtgate.forge.gerrit_server import GerritServer, access
from rtgate.kernel.merge import require_clone
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.workflow.gerrit_service import PATIENCE, GerritService, ServiceSettings, review_command
from rtgate.workflow.gerrit_stream import ssh_address

DESCRIPTION = """\
Follow a Gerrit server and review each new patch set once, one after the other, until interrupted. A patch set that a
newer one replaces is taken off the queue, or its review is ended without a vote. Work in progress is left alone.
After a break the service asks Gerrit for what it has missed. A comment with the line `/rtgate run` has a patch set
reviewed again. Each review is `rtgate review --forge gerrit`, which
writes the answer and votes. More: docs/how-to/gate-gerrit-changes.md

The server and rtgate's account there: RTGATE_GERRIT_URL, RTGATE_GERRIT_USER, and RTGATE_GERRIT_PASSWORD_FILE, a file
with the HTTP password that Gerrit made. The same account has the ssh key, and may stream events.

Whoever may push for review runs code on this machine: --query says whose changes are reviewed.

examples:
  rtgate gerrit --project rt/kernel --branch master --tree ~/linux -o /var/lib/rtgate/reviews
  rtgate gerrit --project rt/kernel --query uploaderin:kernel-team --tree ~/linux -o reviews -- --untrusted
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--project", action="append", required=True, metavar="NAME", help="review its changes; may be repeated"
    )
    parser.add_argument(
        "--branch",
        action="append",
        default=[],
        metavar="NAME",
        help="of this target branch alone, or of those that `^REGEX` matches; may be repeated",
    )
    parser.add_argument(
        "--query", default="", metavar="SEARCH", help="changes that Gerrit's search finds, with all below them"
    )
    parser.add_argument(
        "--since", default="3 d", metavar="TIME", help="leave alone what nobody touched since (default: %(default)s)"
    )
    parser.add_argument("--tree", type=Path, required=True, metavar="DIR", help="a clone of the kernel, for git fetch")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="a directory and a log for each patch set"
    )
    parser.add_argument(
        "--report-url", default="", metavar="URL", help="where a web server shows -o: each answer links to its report"
    )
    parser.add_argument("--url", default="", metavar="URL", help="of Gerrit (default: $RTGATE_GERRIT_URL)")
    parser.add_argument(
        "--ssh", default="", metavar="HOST[:PORT]", help="of its ssh server (default: the URL's, 29418)"
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="settings for ssh (default: the user's own)")
    parser.add_argument("options", nargs="*", metavar="OPTION", help="after `--`: for `rtgate review`")


def run(arguments: argparse.Namespace) -> int:
    """Run the command until it is interrupted."""
    process.require("git", "ssh")
    server = access(dict(os.environ), arguments.url)  # each review needs the password, too
    require_clone(arguments.tree)
    _check_review_options(arguments.options)
    service = GerritService(
        GerritServer(server, PATIENCE),
        ssh_address(arguments.ssh or _host(server.url), server.user, arguments.ssh_config),
        ServiceSettings(
            projects=tuple(arguments.project),
            branches=tuple(arguments.branch),
            query=arguments.query,
            since_s=durations.option("--since", arguments.since),
            output=arguments.output.resolve(),
            report_url=arguments.report_url,
            command=review_command(arguments.tree.resolve(), arguments.output.resolve(), arguments.options),
        ),
        lambda text: say(plain_text(text)),
    )
    service.run()
    return 0


def _check_review_options(options: Sequence[str]) -> None:
    """End as `rtgate review` does where it does not take the options: each review would, and count as one."""
    parser = argparse.ArgumentParser(prog="rtgate review", usage="rtgate gerrit [OPTION ...] [-- REVIEW-OPTION ...]")
    review.add_options(parser)
    parser.parse_args(options)


def _host(url: str) -> str:
    name = urlsplit(url).hostname or ""
    return f"[{name}]" if ":" in name else name
