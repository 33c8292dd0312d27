# SPDX-License-Identifier: MIT
"""A merge request that a pipeline of the target branch is asked to review, at one commit.

Such a pipeline is started by `rtgate webhook`, or by hand with the inputs of `ci/gitlab/rtgate.yml`. GitLab's variables
then are those of the target branch: nothing that the merge request changes says what the job does.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.errors import ConfigError
from rtgate.forge.gitlab_api import GitLabApi
from rtgate.kernel.merge import COMMIT

EVENT_TYPE = "asked"
"""Stands in CI_MERGE_REQUEST_EVENT_TYPE, where GitLab has none."""
_NUMBER, _COMMIT = "RTGATE_MERGE_REQUEST", "RTGATE_COMMIT"


def asked_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job, with those that a pipeline of the merge request would have.

    Raises ConfigError: no commit is named.
    """
    number, commit = variables.get(_NUMBER, ""), variables.get(_COMMIT, "")
    if not number or variables.get("CI_MERGE_REQUEST_IID"):
        return dict(variables)
    if not COMMIT.fullmatch(commit):
        raise ConfigError(f"{_COMMIT} is {commit!r}: name the commit of !{number} that may run, with all its digits")
    return {
        **variables,
        "CI_COMMIT_SHA": commit,
        "CI_MERGE_REQUEST_IID": number,
        "CI_MERGE_REQUEST_PROJECT_ID": variables.get("CI_PROJECT_ID", ""),
        "CI_MERGE_REQUEST_PROJECT_URL": variables.get("CI_PROJECT_URL", ""),
        "CI_MERGE_REQUEST_EVENT_TYPE": EVENT_TYPE,
    }


def title_and_target(api: GitLabApi, number: int, commit: str) -> tuple[str, str]:
    """Return the title and the target branch of a merge request.

    Raises:
        ConfigError: it is not open, or never ended at that commit; or GitLab refuses.
        NotNow: GitLab does not answer, or asks to come later.
    """
    path = f"merge_requests/{number}"
    with api.session() as session:
        merge_request = session.get(path)
        heads = {version["head_commit_sha"] for version in session.pages(f"{path}/versions")}
    if merge_request["state"] != "opened":
        raise ConfigError(f"!{number} is {merge_request['state']}: there is nothing to review")
    if commit not in heads:
        raise ConfigError(f"!{number} never ended at {commit}: name a commit that was pushed to it as the last one")
    return str(merge_request["title"]), str(merge_request["target_branch"])
