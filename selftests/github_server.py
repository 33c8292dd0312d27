# SPDX-License-Identifier: MIT
"""A stand-in for GitHub's REST API: check runs, comments, workflows of a pull request, with the rules of the real one.

Where each rule comes from, by page of GitHub's documentation (docs.github.com) or by report:

* Who asks: `Authorization: Bearer`; a wrong or expired token is 401 `Bad credentials`, and a repository that a token
  does not see is 404 (page `rest/authentication/authenticating-to-the-rest-api`). A request without `User-Agent` is 403
  (page `rest/using-the-rest-api/getting-started-with-the-rest-api`).
* A job's token is an installation access token of the app `github-actions`, for its own repository alone (page
  `actions/concepts/security/github_token`). What its permissions do not allow is 403 `Resource not accessible by
  integration`; a fork's has none that write (page `actions/reference/workflows-and-actions/
  events-that-trigger-workflows`, "Workflows in forked repositories"). The same answers `GET /user` (actions/
  create-github-app-token, issue 258).
* Check runs (page `rest/checks/runs`): only apps create them, with `checks: write`. `name` and `head_sha` are required,
  `conclusion` with `status: completed`; `output` has `title` and `summary`. The summary has at most 65535 bytes, where
  the page says characters (github/docs, issue 35252). The answer names the app.
* Comments (page `rest/issues/comments`): `issues: write` or `pull-requests: write`; sorted by ascending number. Whoever
  may write edits and deletes those of others. A locked conversation is 403. 65536 characters.
* Pages: `per_page` is 30 and at most 100, with `Link` (page
  `rest/using-the-rest-api/using-pagination-in-the-rest-api`).
* Limits (page `rest/using-the-rest-api/rate-limits-for-the-rest-api`): 403 or 429. The primary one has
  `x-ratelimit-remaining: 0` and the time of its end; a secondary one may have `retry-after`, or nothing.
* Permissions (page `rest/collaborators/collaborators`): `permission` is `admin`, `write`, `read` or `none`; of somebody
  unknown 404.
* What happened to a branch (page `rest/repos/repos`, "List repository activities"), newest first; of a repository that
  the token does not see 404.
* `workflow_dispatch` (page `rest/actions/workflows`): `actions: write`; 404 for a workflow that is not on the default
  branch, 422 for inputs that it does not declare; 204.
* Mentions: `@name` and `@owner/team`, outside of code (page `get-started/writing-on-github`, "Basic writing and
  formatting syntax").
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from selftests.gitlab_server import mentions
from selftests.stand_in import Headers, Response, StandIn, run

TOKEN = "ghs_standIn0123456789"
REPOSITORY = "kernel/linux"
FORK = "jane/linux"
PULL_REQUEST = 7
HEAD = "5" * 40
BOT, AUTHOR = "github-actions[bot]", "jane"
LIMIT, SUMMARY_LIMIT = 65_536, 65_535
_CONCLUSIONS = {"action_required", "cancelled", "failure", "neutral", "skipped", "success", "timed_out"}


@dataclass
class App:
    """A token and the app it belongs to; a person's has no app."""

    slug: str = "github-actions"
    permissions: tuple[str, ...] = ("contents: read", "checks: write", "pull-requests: write")


@dataclass
class FakeComment:
    number: int
    author: str
    body: str
    at: str = "2026-11-25T12:00:00Z"

    def as_json(self) -> dict[str, Any]:
        kind = "Bot" if self.author.endswith("[bot]") else "User"
        user = None if self.author == "ghost" else {"login": self.author, "id": 1000, "type": kind}
        issue = f"http://api.github.invalid/repos/{REPOSITORY}/issues/{PULL_REQUEST}"
        return {"id": self.number, "body": self.body, "user": user, "created_at": self.at, "issue_url": issue}


@dataclass
class GitHubServer(StandIn):
    """The server's tables.

    It adds moods: `primary`, whose limit ends in a second; `secondary`, with `Retry-After: 1`; `silent`, a secondary
    limit that says no time.
    """

    head: str = HEAD
    older: tuple[str, ...] = ()  # commits at which the pull request ended before
    tokens: dict[str, App] = field(default_factory=lambda: {TOKEN: App()})
    comments: list[FakeComment] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    locked: bool = False
    state: str = "open"
    # What the branch of the pull request ended at, and since when; the oldest first.
    pushes: list[tuple[str, str]] = field(default_factory=lambda: [(HEAD, "2026-11-25T11:00:00Z")])
    source: str | None = FORK
    private: bool = False  # whether the fork is
    writers: dict[str, str] = field(default_factory=lambda: {"linus": "admin", "greg": "write", "reader": "read"})
    dispatches: list[dict[str, Any]] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)

    name = "GitHub"

    def add(self, author: str, body: str) -> FakeComment:
        """Add a comment of somebody."""
        comment = FakeComment(max((one.number for one in self.comments), default=0) + 1, author, body)
        self.comments.append(comment)
        return comment

    @property
    def troubles(self) -> Mapping[str, Response]:
        secondary = {
            "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        }
        over = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 1)}
        return {
            "primary": (403, {"message": "API rate limit exceeded for installation."}, over),
            "secondary": (429, secondary, {"Retry-After": "1"}),
            "silent": (403, secondary, {}),
        }

    def common_headers(self) -> Headers:
        reset = str(int(time.time()) + 3600)
        return {"x-ratelimit-limit": "1000", "x-ratelimit-remaining": "900", "x-ratelimit-reset": reset}

    def lose(self, path: str) -> None:
        self.comments = [one for one in self.comments if not path.endswith(f"/comments/{one.number}")]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: Headers) -> Response:
        if not headers.get("user-agent"):
            return (
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
                {},
            )
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        app = self.tokens.get(secret) if scheme == "Bearer" else None
        if app is None:
            return 401, {"message": "Bad credentials", "status": "401"}, {}
        if path == "user":
            return _not_accessible()
        if path == f"repos/{FORK}/activity" and not self.private:
            return self._activity(query)
        if not path.startswith(f"repos/{REPOSITORY}/"):
            return _not_found()
        return self._repository(method, path.removeprefix(f"repos/{REPOSITORY}/"), query, body, app)

    def _repository(self, method: str, path: str, query: dict[str, str], body: Any, app: App) -> Response:
        if (method, path) == ("POST", "check-runs"):
            return self._check(body, app)
        if method == "GET" and (read := self._read(path, app)):
            return read
        if match := re.fullmatch(r"collaborators/([\w-]+)/permission", path):
            known = self.writers.get(match[1])
            return (200, {"permission": known, "role_name": known}, {}) if known else _not_found()
        if match := re.fullmatch(r"actions/workflows/([\w.-]+)/dispatches", path):
            return self._dispatch(match[1], body, app)
        if path == f"issues/{PULL_REQUEST}/comments":
            return self._list(query) if method == "GET" else self._create(body, app)
        match = re.fullmatch(r"issues/comments/(\d+)", path)
        return self._change(method, int(match[1]), body, app) if match else _not_found()

    def _read(self, path: str, app: App) -> Response | None:
        if path == f"pulls/{PULL_REQUEST}":
            return self._pull()
        if path.startswith("commits/"):
            return (200, {"sha": path[8:]}, {}) if "contents: read" in app.permissions else _not_accessible()
        return None

    def _pull(self) -> Response:
        home = {"id": 1, "full_name": REPOSITORY}
        fork = None if self.source is None else {"id": 2, "full_name": self.source}
        said = {
            "number": PULL_REQUEST,
            "state": self.state,
            "title": "late @all",
            "html_url": f"https://github.com/{REPOSITORY}/pull/{PULL_REQUEST}",
            "base": {"ref": "main", "sha": "0" * 40, "repo": home},
            "head": {"ref": "change", "sha": self.head, "repo": fork},
        }
        return 200, said, {}

    def _activity(self, query: dict[str, str]) -> Response:
        if query.get("ref") != "refs/heads/change":
            return 200, [], {}
        listed = [{"after": head, "timestamp": at, "ref": "refs/heads/change"} for head, at in self.pushes]
        return 200, listed[::-1][: int(query["per_page"])], {}

    def _dispatch(self, workflow: str, body: Any, app: App) -> Response:
        if "actions: write" not in app.permissions:
            return _not_accessible()
        if workflow != "rtgate-run.yml":
            return _not_found()
        if body.get("ref") != "main" or {*body["inputs"]} != {"pull-request", "commit"}:
            return 422, {"message": "Unexpected inputs provided, or No ref found", "status": "422"}, {}
        self.dispatches.append(body)
        return 204, None, {}

    def _check(self, body: Any, app: App) -> Response:
        if not app.slug:
            return 403, {"message": "You must authenticate via a GitHub App."}, {}
        if "checks: write" not in app.permissions:
            return _not_accessible()
        if wrong := self._wrong(body):
            return _invalid("CheckRun", wrong)
        self.checks.append(body)
        self.mentions += mentions(body["output"]["summary"])
        return 201, {"id": len(self.checks), "app": {"id": 15368, "slug": app.slug}, **body}, {}

    def _wrong(self, body: Any) -> str:
        output = body.get("output", {})
        if not body.get("name") or body.get("head_sha") not in {self.head, *self.older}:
            return "name or head_sha wasn't supplied, or there is no such commit"
        if body.get("status") != "completed" or body.get("conclusion") not in _CONCLUSIONS:
            return "status or conclusion is invalid"
        if not (output.get("title") and output.get("summary")):
            return "output lacks title or summary"
        if len(output["summary"].encode()) > SUMMARY_LIMIT:
            return f"summary exceeds a maximum bytesize of {SUMMARY_LIMIT}"
        return ""

    def _refusal(self, body: Any, app: App) -> Response | None:
        if app.slug and not {"issues: write", "pull-requests: write"} & set(app.permissions):
            return _not_accessible()
        if self.locked:
            return 403, {"message": "Unable to create comment because issue is locked.", "status": "403"}, {}
        if body is not None and len(body["body"]) > LIMIT:
            return _invalid("IssueComment", f"body is too long (maximum is {LIMIT} characters)")
        self.mentions += mentions(body["body"]) if body else []
        return None

    def _create(self, body: Any, app: App) -> Response:
        refusal = self._refusal(body, app)
        return refusal or (201, self.add(f"{app.slug}[bot]", body["body"]).as_json(), {})

    def _change(self, method: str, number: int, body: Any, app: App) -> Response:
        if refusal := self._refusal(body, app):
            return refusal
        comment = next((one for one in self.comments if one.number == number), None)
        if comment is None:
            return _not_found()
        if method == "GET":
            return 200, comment.as_json(), {}
        if method == "DELETE":
            self.comments.remove(comment)
            return 204, None, {}
        comment.body = body["body"]
        return 200, comment.as_json(), {}

    def _list(self, query: dict[str, str]) -> Response:
        size, page = min(int(query.get("per_page", "30")), 100), int(query.get("page", "1"))
        headers = {}
        if page * size < len(self.comments):
            # The real one names its own host, which a client behind a proxy cannot reach.
            more = urlencode({**query, "page": page + 1})
            url = f"http://api.github.invalid/repositories/1/issues/{PULL_REQUEST}/comments?{more}"
            headers["Link"] = f'<{url}>; rel="next", <{url}>; rel="last"'
        return 200, [one.as_json() for one in self.comments[(page - 1) * size : page * size]], headers


def _not_accessible() -> Response:
    return 403, {"message": "Resource not accessible by integration", "status": "403"}, {}


def _not_found() -> Response:
    return 404, {"message": "Not Found", "status": "404"}, {}


def _invalid(resource: str, message: str) -> Response:
    return 422, {"message": "Validation Failed", "errors": [{"resource": resource, "message": message}]}, {}


@contextmanager
def github_server() -> Iterator[GitHubServer]:
    """Run a stand-in on any port."""
    server = GitHubServer()
    with run(server):
        yield server
