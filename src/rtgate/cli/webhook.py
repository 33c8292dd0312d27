# SPDX-License-Identifier: MIT
"""`rtgate webhook`: a service that starts the review of one commit when a member says `/rtgate run`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from rtgate.console.line import address
from rtgate.errors import ConfigError
from rtgate.files import exclusive_lock
from rtgate.forge import github, gitlab
from rtgate.forge.github_api import GitHubApi
from rtgate.forge.github_command import GitHubCommands, check_workflow
from rtgate.forge.gitlab_api import AUTHORITIES, GitLabApi
from rtgate.forge.gitlab_command import GitLabCommands
from rtgate.forge.hooks import github_hook, gitlab_hook
from rtgate.forge.run_command import CommandForge
from rtgate.http.failures import server_url
from rtgate.http.patience import Patience
from rtgate.http.secret import Token, take_token
from rtgate.report.notices import say
from rtgate.workflow.webhook import Journal, WebhookService

_SECRET = "RTGATE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_SECRET_FILE = "RTGATE_WEBHOOK_SECRET_FILE"  # noqa: S105
_WORKFLOW = "rtgate-run.yml"
_HOOKS = {"github": github_hook, "gitlab": gitlab_hook}
_TOKENS = {"github": (github.TOKEN, github.TOKEN_FILE), "gitlab": (gitlab.TOKEN, gitlab.TOKEN_FILE)}
DESCRIPTION = """\
Take the comments that GitLab or GitHub delivers, until interrupted. When a member says `/rtgate run` on a merge
request, start the pipeline that reviews its last commit, with a lab and its secrets. A commit that was pushed after the
comment is not started; `/rtgate run COMMIT` names one. Why nothing was started is answered in a comment.

It listens without TLS: put a reverse proxy before it. More: docs/how-to/review-unknown-code.md

RTGATE_WEBHOOK_SECRET_FILE names a file with the secret of the webhook. RTGATE_GITLAB_TOKEN_FILE or
RTGATE_GITHUB_TOKEN_FILE names one with the token that reads comments and starts pipelines. The same names without _FILE
hold secret and token themselves.

examples:
  rtgate webhook --forge gitlab --url https://gitlab.example.org --project rt/kernel --ref main -o webhook
  rtgate webhook --forge github --project rt/kernel --ref main --listen 127.0.0.1:9000 -o webhook
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--forge", choices=sorted(_HOOKS), required=True, help="who delivers")
    parser.add_argument("--project", action="append", required=True, metavar="NAME", help="its merge requests alone")
    parser.add_argument(
        "--ref", required=True, metavar="BRANCH", help="the protected branch whose CI file says what a review does"
    )
    parser.add_argument(
        "--url", default="", metavar="URL", help="of GitLab, or of GitHub's API (https://api.github.com)"
    )
    parser.add_argument(
        "--workflow",
        metavar="NAME",
        help=f"of .github/workflows, which GitHub is to start (default: {_WORKFLOW})",
    )
    parser.add_argument(
        "--listen", metavar="[HOST:]PORT", default="8620", help="where it listens (default: 127.0.0.1:8620)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="gets the file with what was answered"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command until it is interrupted."""
    listen = address(arguments.listen)
    secret = _require_token(_SECRET, _SECRET_FILE, "the secret of the webhook")
    token = _require_token(*_TOKENS[arguments.forge], f"a token for {arguments.forge}")
    forges = _forges(arguments, token)
    output: Path = arguments.output
    with exclusive_lock(output / "lock", str(output)):
        journal = Journal(output / "comments.json")
        WebhookService(forges, _HOOKS[arguments.forge], secret, journal, say).run(listen)
    return 0


def _require_token(name: str, file: str, what: str) -> Token:
    token = take_token(os.environ, name, file)
    if token is None:
        raise ConfigError(f"{file} is not set: name a file with {what} that only its owner can read")
    return token


def _forges(arguments: argparse.Namespace, token: Token) -> Mapping[str, CommandForge]:
    reference, patience = arguments.ref, Patience()
    if arguments.forge == "github":
        url = server_url(arguments.url or "https://api.github.com", "--url", "GitHub's API")
        workflow = check_workflow(arguments.workflow or _WORKFLOW)
        return {
            name: GitHubCommands(
                api=GitHubApi(url=url, repository=github.check_repository(name, "--project"), token=token),
                reference=reference,
                workflow=workflow,
                patience=patience,
                say=say,
            )
            for name in arguments.project
        }
    if arguments.workflow:
        raise ConfigError("--workflow is GitHub's: GitLab starts the pipeline of --ref; leave it out")
    url, authorities = server_url(arguments.url, "--url", gitlab.SERVER), os.environ.get(AUTHORITIES, "")
    return {
        name: GitLabCommands(
            api=GitLabApi(url=url, project=name, token=token, authorities=authorities, variable="--url"),
            reference=reference,
            patience=patience,
            say=say,
        )
        for name in arguments.project
    }
