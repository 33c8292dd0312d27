# SPDX-License-Identifier: MIT
"""The pipeline that rtgate runs in, by the variables of GitLab and of GitHub."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence

_USER = ("GITLAB_USER_LOGIN", "GITHUB_ACTOR")
_ADDRESS = ("CI_PIPELINE_URL", "GITHUB_RUN_ID")
_ORIGIN = {
    "merge-request": ("CI_MERGE_REQUEST_IID",),
    "commit": ("CI_COMMIT_SHA", "GITHUB_SHA"),
    "branch": ("CI_COMMIT_REF_NAME", "GITHUB_REF_NAME"),
    "pipeline": ("CI_PIPELINE_ID", "GITHUB_RUN_ID"),
    "ci-job": ("CI_JOB_ID",),
}


def origin() -> dict[str, str]:
    """Return where a job comes from, by the keys of its metadata; empty outside a pipeline."""
    return {key: value for key, names in _ORIGIN.items() if (value := _first(names))}


def user() -> str:
    """Return who does this: the user of a pipeline with its address, or that of this machine."""
    name = _first(_USER)
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            name = f"user {os.getuid()}"
    address = _first(_ADDRESS)
    return f"{name} ({address})" if address else name


def _first(names: Sequence[str]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")
