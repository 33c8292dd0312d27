# SPDX-License-Identifier: MIT
"""A stand-in for a GitLab server: merge requests, their notes and pipelines by its REST API, with its own rules.

Where each rule comes from, by page of GitLab's documentation (docs.gitlab.com) or file of its source:

* Who asks: `PRIVATE-TOKEN`; a wrong or absent one is 401 (page `api/rest/authentication`). An expired token and one
  without the scope are answered in the form of OAuth (`lib/api/api_guard.rb`): 401 `invalid_token`, 403
  `insufficient_scope`. `read_api` reads only (page `user/profile/personal_access_tokens`, "scopes").
* Any personal token, of a project or group too, may ask for its own scopes (page `api/personal_access_tokens`, "self").
* `CI_JOB_TOKEN` reads notes and writes none (page `ci/jobs/ci_job_token`, "Job token access").
* Who may what (page `user/permissions`): a private project is 404 for those outside, Guests do not see its merge
  requests, Reporters and more write notes. A note is edited by its author and by Maintainers (page `user/discussions`,
  "Edit a comment"), a system note by nobody (`app/policies/note_policy.rb`).
* Pages: `per_page` is 20 and at most 100, with `Link` and `X-` headers (page `api/rest`, "Pagination"). Notes are
  sorted by `created_at`, latest first (page `api/notes`).
* Status codes 400, 404, 409 and the forms of their bodies: page `api/rest/troubleshooting`; `lib/api/helpers.rb`.
* 429 comes from two systems (page `administration/settings/user_and_ip_rate_limits`): Rack::Attack says `Retry later`
  as plain text, with `Retry-After` and `RateLimit-` headers; the limit for notes (page
  `administration/settings/rate_limit_on_notes_creation`) says it in JSON, with no header.
* A note has at most 1,000,000 characters and cannot be blank (page `administration/instance_limits`).
* Quick actions: a line that begins with `/` and a command, outside of code blocks (page `user/project/quick_actions`;
  `lib/gitlab/quick_actions/extractor.rb`: carriage returns are dropped first, and tildes are not a fence).
  A note of such lines alone is 202 and no note.
* Mentions: `@name`, `@all` (page `user/discussions`, "Mentions"), looked for in the text that a reader sees, so HTML
  entities do not hide them, and outside of code.

* Members with those of groups above (page `api/project_members`, "Retrieve a member ... including inherited"): 404 for
  others. A version of a merge request for each push (page `api/merge_requests`, "versions"), newest first.
* Pipelines (page `api/pipelines`, "Create a new pipeline"): 400 with the reason under `base` for a branch that is not
  there, and for inputs that its file does not declare. Only who may push or merge to a protected branch starts one
  there (page `ci/pipelines`, "Pipeline security on protected branches"): the same 400.
* A project is named by its number, or by its path with `%2F` (page `api/rest`, "Namespaced paths").

The stand-in takes for a quick action whatever looks like one; the real one knows its commands by name.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode

from selftests.stand_in import Headers, Response, StandIn, run

TOKEN = "glpat-stand-in-0123456789"
PROJECT, PATH = 42, "rt/kernel"
HEAD = "c0ffee" + "1" * 34
MERGE_REQUEST = 7
BOT, MAINTAINER, AUTHOR = 100, 101, 102  # users
GUEST, REPORTER, DEVELOPER, MAINTAIN = 10, 20, 30, 40  # roles
LIMIT = 1_000_000
_QUOTA = 7200


@dataclass
class Account:
    """A token and whose it is."""

    user: int = BOT
    scopes: tuple[str, ...] = ("api",)
    kind: str = "personal"  # or "job"
    expired: bool = False


@dataclass
class FakeNote:
    number: int
    author: int
    body: str
    system: bool = False
    at: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.number,
            "type": None,
            "body": self.body,
            "author": {"id": self.author, "username": f"user{self.author}", "state": "active"},
            "created_at": self.at or f"2026-11-25T12:00:00.{self.number:03}Z",
            "system": self.system,
            "noteable_id": 1000 + MERGE_REQUEST,
            "noteable_type": "MergeRequest",
            "noteable_iid": MERGE_REQUEST,
            "resolvable": False,
            "internal": False,
        }


@dataclass
class GitLabServer(StandIn):
    """The server's tables. It adds moods: `throttled`, 429 of Rack::Attack; `noted`, 429 of the limit for notes."""

    prefix: ClassVar[str] = "/api/v4/"
    name: ClassVar[str] = "GitLab"

    tokens: dict[str, Account] = field(default_factory=lambda: {TOKEN: Account()})
    roles: dict[int, int] = field(default_factory=lambda: {BOT: REPORTER, MAINTAINER: MAINTAIN, AUTHOR: REPORTER})
    notes: list[FakeNote] = field(default_factory=list)
    locked: bool = False  # the merge request takes no comments
    state: str = "opened"
    head: str = HEAD
    # What the merge request ended at, and since when; the oldest first.
    versions: list[tuple[str, str]] = field(default_factory=lambda: [(HEAD, "2026-11-25T11:00:00.000Z")])
    inactive: set[int] = field(default_factory=set)
    inputs: tuple[str, ...] = ("merge-request", "commit")  # that `.gitlab-ci.yml` of the branch `main` declares
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    quick_actions: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)

    def add(self, author: int, body: str, *, system: bool = False) -> FakeNote:
        """Add a note of somebody."""
        note = FakeNote(max((note.number for note in self.notes), default=0) + 1, author, body, system)
        self.notes.append(note)
        return note

    @property
    def troubles(self) -> Mapping[str, Response]:
        return _TROUBLE

    def common_headers(self) -> Headers:
        """Return the headers of every answer."""
        return {
            "RateLimit-Limit": str(_QUOTA),
            "RateLimit-Name": "throttle_authenticated_api",
            "RateLimit-Observed": str(len(self.requests)),
            "RateLimit-Remaining": str(_QUOTA - len(self.requests)),
        }

    def lose(self, path: str) -> None:
        """Let somebody delete the note that a path names."""
        self.notes = [note for note in self.notes if not path.endswith(f"/notes/{note.number}")]

    # --- answers: status, body, headers

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: Headers) -> Response:
        account = self._account(headers)
        if account is None:
            return _refusal(401)
        if account.expired:
            text = "Token is expired. You can either do re-authorization or token refresh."
            return 401, _oauth("invalid_token", text), {}
        if method == "GET" and path == "user":
            return self._user(account)
        if method == "GET" and path == "personal_access_tokens/self" and account.kind == "personal":
            return 200, {"id": 1, "name": "rtgate", "active": True, "scopes": list(account.scopes)}, {}
        match = re.fullmatch(r"projects/(\d+|[\w.-]+%2F[\w.-]+)/(.*)", path)
        if match is None:
            return 404, {"error": "404 Not Found"}, {}
        project = int(match[1]) if match[1].isdecimal() else PROJECT if unquote(match[1]) == PATH else 0
        return self._project(method, account, project, match[2], query, body)

    def _project(
        self, method: str, account: Account, project: int, path: str, query: dict[str, str], body: Any
    ) -> Response:
        match = re.fullmatch(r"merge_requests/(\d+)(?:/(notes|versions)(?:/(\d+))?)?", path)
        refusal = self._refusal(method, account, project, int(match[1]) if match else MERGE_REQUEST)
        if refusal or match is None:
            return refusal or self._other(method, account, path, body)
        if match[2] is None:
            fields = {"iid": MERGE_REQUEST, "title": "late @all", "state": self.state, "target_branch": "main"}
            return 200, {"id": 1000 + MERGE_REQUEST, "sha": self.head, **fields}, {}
        if match[2] == "versions":
            listed = [
                {"id": number, "head_commit_sha": head, "created_at": at, "state": "collected"}
                for number, (head, at) in enumerate(self.versions, 1)
            ]
            return 200, listed[::-1], {}
        return self._notes(method, account, match[3], query, body)

    def _other(self, method: str, account: Account, path: str, body: Any) -> Response:
        if (method, path) == ("POST", "pipeline"):
            return self._pipeline(account, body)
        match = re.fullmatch(r"members/all/(\d+)", path)
        if method != "GET" or match is None:
            return 404, {"error": "404 Not Found"}, {}
        user, role = int(match[1]), self.roles.get(int(match[1]), 0)
        if not role:
            return 404, {"message": "404 Not found"}, {}
        return 200, {"id": user, "access_level": role, "state": "blocked" if user in self.inactive else "active"}, {}

    def _pipeline(self, account: Account, body: Any) -> Response:
        reason = ""
        if self.roles[account.user] < MAINTAIN:
            reason = (
                "You do not have sufficient permission to run a pipeline on 'main'. Please select a different branch"
            )
        if body.get("ref") != "main":
            reason = "Reference not found"
        unknown = sorted({*body.get("inputs", {})} - {*self.inputs})
        if unknown:
            reason = f"Given inputs not defined in the `spec` section of the included configuration file: {unknown}"
        if reason:
            return 400, {"message": {"base": [reason]}}, {}
        self.pipelines.append(body)
        return 201, {"id": len(self.pipelines), "status": "created", "ref": "main"}, {}

    def _notes(self, method: str, account: Account, number: str | None, query: dict[str, str], body: Any) -> Response:
        if number is not None:
            return self._note(method, account, int(number), body)
        return self._list(query) if method == "GET" else self._create(account, body)

    def _user(self, account: Account) -> Response:
        if account.kind == "job":
            return _refusal(401)
        if not {"api", "read_api", "read_user"} & set(account.scopes):
            return _no_scope("read_user")
        return 200, {"id": account.user, "username": f"user{account.user}"}, {}

    def _account(self, headers: Headers) -> Account | None:
        kind, header = ("job", "job-token") if headers.get("job-token") else ("personal", "private-token")
        account = self.tokens.get(headers.get(header, ""))
        return account if account is not None and account.kind == kind else None

    def _refusal(self, method: str, account: Account, project: int, merge_request: int) -> Response | None:
        if account.kind == "job" and method != "GET":
            return _refusal(401)
        if "api" not in account.scopes and (method != "GET" or "read_api" not in account.scopes):
            return _no_scope("api")
        role = self.roles.get(account.user, 0)
        if project != PROJECT or not role:
            return 404, {"message": "404 Project Not Found"}, {}
        if merge_request != MERGE_REQUEST or role < REPORTER:
            return 404, {"message": "404 MergeRequest Not Found"}, {}
        if self.locked and method != "GET":
            return _refusal(403)
        return None

    def _note(self, method: str, account: Account, number: int, body: Any) -> Response:
        note = next((note for note in self.notes if note.number == number), None)
        if note is None:
            return 404, {"message": "404 Not found"}, {}
        if method == "GET":
            return 200, note.as_json(), {}
        if note.system or (note.author != account.user and self.roles[account.user] < MAINTAIN):
            return _refusal(403)
        return self._change(method, note, body)

    def _change(self, method: str, note: FakeNote, body: Any) -> Response:
        if method == "DELETE":
            self.notes.remove(note)
            return 204, None, {}
        if wrong := _wrong(body):
            return wrong
        self._act(body["body"])
        note.body = body["body"]
        return 200, note.as_json(), {}

    def _list(self, query: dict[str, str]) -> Response:
        notes = sorted(self.notes, key=lambda note: note.number, reverse=query.get("sort", "desc") == "desc")
        size = min(int(query.get("per_page", "20")), 100)
        page = int(query.get("page", "1"))
        pages = max(1, -(-len(notes) // size))
        headers = {
            "X-Page": str(page),
            "X-Per-Page": str(size),
            "X-Next-Page": str(page + 1) if page < pages else "",
            "X-Prev-Page": str(page - 1) if page > 1 else "",
            "X-Total": str(len(notes)),
            "X-Total-Pages": str(pages),
        }
        if page < pages:
            # The real one names its own host here, which a client behind a proxy cannot reach.
            more = urlencode({**query, "page": page + 1, "per_page": size})
            path = f"/api/v4/projects/{PROJECT}/merge_requests/{MERGE_REQUEST}/notes?{more}"
            headers["Link"] = f'<http://gitlab.invalid{path}>; rel="next"'
        return 200, [note.as_json() for note in notes[(page - 1) * size : page * size]], headers

    def _create(self, account: Account, body: Any) -> Response:
        if wrong := _wrong(body):
            return wrong
        text = body["body"]
        self._act(text)
        if quick_actions(text) and all(line.startswith("/") for line in text.strip().split("\n")):
            return 202, {"commands_changes": {}, "summary": ["Commands applied"]}, {}
        return 201, self.add(account.user, text).as_json(), {}

    def _act(self, text: str) -> None:
        self.quick_actions += quick_actions(text)
        self.mentions += mentions(text)


def quick_actions(text: str) -> list[str]:
    """Return the lines that GitLab would carry out."""
    lines, code = [], False
    for line in text.replace("\r", "").split("\n"):
        if line.startswith("```"):
            code = not code
        elif not code and re.match(r"/[A-Za-z]", line):
            lines.append(line)
    return lines


def mentions(text: str) -> list[str]:
    """Return the names that GitLab would tell."""
    text = re.sub(r"^(```+|~~~+).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)", "", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    seen = html.unescape(re.sub(r"<[A-Za-z/][^>]*>", " ", text))  # what stands in different elements does not join
    return re.findall(r"(?<!\w)@([A-Za-z0-9_.][\w.-]*)", seen, flags=re.ASCII)


def _wrong(body: Any) -> Response | None:
    text = body.get("body") if isinstance(body, dict) else None
    if text is None:
        return 400, {"error": "body is missing"}, {}
    if not text.strip():
        return 400, {"message": '400 Bad request - Note {:note=>["can\'t be blank"]}'}, {}
    if len(text) > LIMIT or "\0" in text:
        reason = "is too long (maximum is 1000000 characters)" if len(text) > LIMIT else "contains null bytes"
        return 400, {"message": f'400 Bad request - Note {{:note=>["{reason}"]}}'}, {}
    return None


def _refusal(status: int) -> Response:
    return status, {"message": {401: "401 Unauthorized", 403: "403 Forbidden"}[status]}, {}


def _oauth(error: str, description: str, **more: str) -> Any:
    return {"error": error, "error_description": description, **more}


def _no_scope(scope: str) -> Response:
    text = "The request requires higher privileges than provided by the access token."
    return 403, _oauth("insufficient_scope", text, scope=scope), {}


_RESET = {"Retry-After": "1", "RateLimit-Remaining": "0", "RateLimit-ResetTime": "Wed, 25 Nov 2026 13:00:00 GMT"}
_TROUBLE: dict[str, Response] = {
    "throttled": (429, "Retry later\n", _RESET),
    "noted": (429, {"message": {"error": "This endpoint has been requested too many times. Try again later."}}, {}),
    "409": (409, {"message": "409 Conflict"}, {}),
}


@contextmanager
def gitlab_server() -> Iterator[GitLabServer]:
    """Run a stand-in on any port."""
    server = GitLabServer()
    with run(server):
        yield server
