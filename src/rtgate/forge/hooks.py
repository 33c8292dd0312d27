# SPDX-License-Identifier: MIT
"""What forges deliver when somebody writes a comment: who sent it, and whether it is a command to rtgate.

* GitLab (page `user/project/integrations/webhooks`): the header `X-Gitlab-Token` is the secret itself.
* GitHub (page `webhooks/using-webhooks/validating-webhook-deliveries`): `X-Hub-Signature-256` is the HMAC of the body.

A delivery says where to look, and nothing more: who wrote the comment, when, and what it says, its API tells.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from rtgate.forge.run_command import Command, is_for_us
from rtgate.http.secret import Token
from rtgate.kernel.merge import COMMIT

_MOST = 2**63  # numbers of databases


class BadDelivery(Exception):  # noqa: N818 - whose mistake it is nobody knows
    """A request that no forge of ours has sent, or that cannot be read; `status` is the answer's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Hook = Callable[[Mapping[str, str], bytes, Token], Command | None]
"""Takes headers by names in lower case, the body and the secret. Returns None for what is none of our business."""


def gitlab_hook(headers: Mapping[str, str], body: bytes, secret: Token) -> Command | None:
    """Return the command that a delivery of GitLab is about. Raises BadDelivery."""
    if not _secrets_equal(headers.get("x-gitlab-token", ""), secret.secret()):
        raise BadDelivery(401, "X-Gitlab-Token is not the secret of this service")
    if headers.get("x-gitlab-event") != "Note Hook":
        return None
    return _read(_gitlab_command, body)


def github_hook(headers: Mapping[str, str], body: bytes, secret: Token) -> Command | None:
    """Return the command that a delivery of GitHub is about. Raises BadDelivery."""
    signature = hmac.new(secret.secret().encode(), body, hashlib.sha256).hexdigest()
    if not _secrets_equal(headers.get("x-hub-signature-256", ""), f"sha256={signature}"):
        raise BadDelivery(401, "X-Hub-Signature-256 is not that of the secret of this service")
    if headers.get("x-github-event") != "issue_comment":
        return None
    return _read(_github_command, body)


def _secrets_equal(header: str, secret: str) -> bool:
    """Compare in a time that says nothing about what is equal."""
    return hmac.compare_digest(header.encode("utf-8", "surrogateescape"), secret.encode())


def _read(command: Callable[[Any], Command | None], body: bytes) -> Command | None:
    try:
        return command(json.loads(body))
    except (ValueError, RecursionError):
        raise BadDelivery(400, "the body is not JSON, or not that of such an event") from None
    except (KeyError, TypeError, AttributeError):
        raise BadDelivery(400, "the body is not that of such an event") from None


def _gitlab_command(payload: Any) -> Command | None:
    note = payload["object_attributes"]
    if note["noteable_type"] != "MergeRequest" or note.get("system") or note.get("action", "create") != "create":
        return None
    if not is_for_us(note["note"]):
        return None
    last = payload["merge_request"].get("last_commit") or {}
    return Command(
        project=_text(payload["project"]["path_with_namespace"]),
        merge_request=_number(payload["merge_request"]["iid"]),
        comment=_number(note["id"]),
        head=_head(last.get("id")),
    )


def _github_command(payload: Any) -> Command | None:
    if (
        payload["action"] != "created"
        or not payload["issue"].get("pull_request")
        or not is_for_us(payload["comment"]["body"])
    ):
        return None
    return Command(
        project=_text(payload["repository"]["full_name"]),
        merge_request=_number(payload["issue"]["number"]),
        comment=_number(payload["comment"]["id"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _MOST:
        raise TypeError
    return value


def _head(value: object) -> str:
    """Return the commit that a delivery names; empty if it names none."""
    if value is None:
        return ""
    if not isinstance(value, str) or not COMMIT.fullmatch(value):
        raise TypeError
    return value
