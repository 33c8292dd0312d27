# SPDX-License-Identifier: MIT
"""`rtgate review`: gate a merge request, and answer it where its author reads."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rtgate.cli import command_options
from rtgate.errors import ConfigError, InfrastructureError, Interrupted, RtgateError
from rtgate.forge.gerrit import Gerrit
from rtgate.forge.github import GitHub
from rtgate.forge.gitlab import GitLab
from rtgate.forge.mail import Mail
from rtgate.forge.merge_request import Answer, Forge, MergeRequest
from rtgate.history.url import history_url
from rtgate.report.notices import say, step
from rtgate.workflow.kernels import BUILDS
from rtgate.workflow.refusal import leave, refusal
from rtgate.workflow.report_directory import require_report_directory
from rtgate.workflow.review import ReviewRequest, review

_FORGES: dict[str, Callable[[Path], Forge]] = {
    "gerrit": lambda _: Gerrit.from_environment(say=say),
    "github": lambda tree: GitHub.from_environment(tree, say=say),
    "gitlab": lambda tree: GitLab.from_environment(tree, say=say),
}
_WORST_FIRST = (2, 1, 4, 3, 5, 0)  # exit codes: of several the first one counts
DESCRIPTION = """\
Gate a merge request: merge it into its target branch, build both kernels, screen them on virtual time, judge everything
together, and answer. What is measured says .rtgate/policy.yaml of the target branch; without one it is the board
virt-arm64. The merge request's own .rtgate/ does not count.

The report's directory gets index.html, junit.xml and verdict.json as from `rtgate gate`, and the answer as note.md and
note.txt.

examples:
  rtgate review --base origin/main --head HEAD        two commits of the clone in this directory
  rtgate review --tree ~/linux --base v6.12 --head my-branch -o review
  rtgate review --forge gitlab                        in a pipeline of GitLab (ci/gitlab/rtgate.yml)
  rtgate review --forge github                        in a workflow of GitHub (ci/github/rtgate.yml)
  rtgate review --forge gerrit --tree ~/linux         what Jenkins' Gerrit Trigger names; `rtgate gerrit` is a service
  rtgate review --tree ~/linux --base v6.12 --series v2.mbox -o review     the reply is review/reply.eml
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--tree", type=Path, default=Path(), metavar="DIR", help="the clone (default: this directory)")
    parser.add_argument(
        "--forge",
        choices=sorted(_FORGES),
        help="take the merge request from its pipeline's variables, and answer there",
    )
    parser.add_argument("--base", metavar="REF", help="the tip of the target branch")
    parser.add_argument("--head", metavar="REF", help="the last commit of what is proposed")
    parser.add_argument(
        "--series", type=Path, metavar="FILE", help="a mailbox with a series of patches, instead of --head"
    )
    parser.add_argument(
        "--untrusted", action="store_true", help="nobody has read this code: build it in confinement (needs bubblewrap)"
    )
    parser.add_argument(
        "--kernels", type=Path, default=BUILDS, metavar="DIR", help="gets built kernels (default: %(default)s)"
    )
    parser.add_argument(
        "--report-url",
        default="",
        metavar="URL",
        help="where people will find the report; with / at its end, its directory",
    )
    command_options.history(parser)
    command_options.report(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    forge = _forge(arguments)
    if forge is None:
        answer = review(_request(arguments, MergeRequest(base=arguments.base, head=arguments.head)))
        print(f"answer: {arguments.output.absolute() / 'note.md'}")
        return answer.exit_code
    return _review_and_publish(forge, arguments)


def _review_and_publish(forge: Forge, arguments: argparse.Namespace) -> int:
    """Review what a forge has, and publish. Why that was not possible is an answer, too, unless the forge is away."""
    merge_request = None
    try:
        merge_request = forge.merge_request()
        with step("fetching the commits"):
            forge.fetch(arguments.tree, merge_request)
    except InfrastructureError:
        raise
    except RtgateError as error:
        return _refuse(forge, error, merge_request, arguments.output.absolute())
    output = arguments.output.absolute()
    try:
        forge.check_access()
    except ConfigError as error:
        if note := leave(refusal(error, merge_request), output):
            say(f"the answer is in {note}")
        raise
    except InfrastructureError as error:
        say(f"{error}; the review begins all the same")
    try:
        answer = review(_request(arguments, merge_request))
    except Interrupted:
        raise
    except RtgateError as error:
        return _refuse(forge, error, merge_request, output)
    return _publish(forge, answer, f"the answer is in {output / 'note.md'}")


def _refuse(forge: Forge, error: RtgateError, merge_request: MergeRequest | None, output: Path) -> int:
    """Say why there was no review, leave that as a note, and publish it."""
    say(str(error))
    answer = refusal(error, merge_request)
    note = leave(answer, output)
    return _publish(forge, answer, f"the answer is in {note}" if note else "no file has the answer")


def _publish(forge: Forge, answer: Answer, otherwise: str) -> int:
    """Publish an answer; return the exit code, that of a failure to publish if that is worse."""
    try:
        with step("publishing the answer"):
            forge.publish(answer)
    except (ConfigError, InfrastructureError) as error:
        say(f"{error}; {otherwise}")
        return min(answer.exit_code, error.exit_code, key=_WORST_FIRST.index)
    return answer.exit_code


def _request(arguments: argparse.Namespace, merge_request: MergeRequest) -> ReviewRequest:
    return ReviewRequest(
        merge_request=merge_request,
        tree=arguments.tree.absolute(),
        output=arguments.output.absolute(),
        history=history_url(arguments.history),
        trusted=not arguments.untrusted,
        kernels=arguments.kernels.absolute(),
        report_url=arguments.report_url,
        votes=arguments.forge == "gerrit",
    )


def _forge(arguments: argparse.Namespace) -> Forge | None:
    """Return where the merge request comes from; None for commits that the command line names."""
    base, head, series = arguments.base, arguments.head, arguments.series
    if arguments.forge:
        if base or head or series:
            raise ConfigError(f"--forge {arguments.forge} says what is proposed: leave out --base, --head and --series")
        return _FORGES[arguments.forge](arguments.tree)
    if series and head:
        raise ConfigError("--series and --head both say what is proposed: name one of them")
    if series:
        require_report_directory(arguments.output)  # the reply goes there, also of what cannot be reviewed
        reply = arguments.output.absolute() / "reply.eml"
        return Mail(path=series, tree=arguments.tree, base=base or "", reply=reply)
    if not (base and head):
        raise ConfigError(
            "name the commits: --base (the tip of the target branch), and --head or --series (what is proposed); or "
            "the forge (--forge)"
        )
    return None
