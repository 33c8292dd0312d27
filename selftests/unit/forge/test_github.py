# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from selftests.github_server import AUTHOR, BOT, PULL_REQUEST, REPOSITORY, TOKEN, App, GitHubServer, github_server
from selftests.unit.forge.conftest import HASTY, Clone

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.github import GitHub
from rtgate.forge.merge_request import Answer, Forge, MergeRequest
from rtgate.forge.note_body import MARK
from rtgate.report.note import About, note
from rtgate.report.note_markdown import as_markdown

ANSWER = Answer(exit_code=1, markdown="**worse**: latency\n", text="worse: latency\nmore\n")
URL = f"https://github.com/{REPOSITORY}"


@pytest.fixture
def github(clone: Clone) -> Iterator[GitHubServer]:
    with github_server() as running:
        running.head = clone.commits["change"]
        yield running


def event(clone: Clone, **changes: object) -> dict[str, object]:
    """Return the event of a pull request from a branch of the same repository."""
    home = {"id": 1, "full_name": REPOSITORY}
    return {
        "action": "synchronize",
        "number": PULL_REQUEST,
        "pull_request": {
            "number": PULL_REQUEST,
            "title": "sched: wake up later",
            "html_url": f"{URL}/pull/7",
            "base": {"ref": "main", "sha": clone.commits["fork"], "repo": home},
            "head": {"ref": "change", "sha": clone.commits["change"], "repo": home},
            **changes,
        },
    }


def fork(clone: Clone) -> dict[str, object]:
    return event(clone, head={"ref": "x", "sha": clone.commits["change"], "repo": {"id": 2, "full_name": "jane/linux"}})


def job(clone: Clone, said: dict[str, object] | None = None, checkout: str = "merge") -> dict[str, str]:
    """Return a job's variables; its clone has what actions/checkout brings for a branch of the origin."""
    clone.git("fetch", "-q", "--no-tags", "origin", f"refs/heads/{checkout}:refs/remotes/pull/7/merge")
    path = clone.tree.parent / "event.json"
    path.write_text(json.dumps(said or event(clone)))
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": clone.commits["merge"],
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": "https://api.github.com",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "500",
        "GITHUB_STEP_SUMMARY": str(clone.tree.parent / "summary.md"),
    }


def forge(clone: Clone, variables: dict[str, str], said: list[str] | None = None) -> GitHub:
    words: list[str] = [] if said is None else said
    return GitHub.from_environment(clone.tree, say=words.append, variables=variables, patience=HASTY)


def publish(
    clone: Clone, server: GitHubServer, answer: Answer = ANSWER, pull: dict[str, object] | None = None, **more: str
) -> list[str]:
    """Publish an answer, and return what is said."""
    said: list[str] = []
    forge(clone, {**job(clone, pull), "GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN, **more}, said).publish(
        answer
    )
    return said


def summary(clone: Clone) -> str:
    return (clone.tree.parent / "summary.md").read_text()


# --- what is reviewed


def test_githubs_own_merge_is_reviewed(clone: Clone) -> None:
    any_forge: Forge = forge(clone, job(clone))
    assert any_forge.merge_request() == MergeRequest(
        base=clone.commits["target"],
        head=clone.commits["merge"],
        name="#7",
        title="sched: wake up later",
        url=f"{URL}/pull/7",
        target="main",
        merged=True,
    )


def test_a_job_that_checks_out_the_last_commit_is_merged_by_rtgate(clone: Clone) -> None:
    found = forge(clone, job(clone, checkout="change")).merge_request()
    assert (found.base, found.head, found.merged) == (clone.commits["fork"], clone.commits["change"], False)


def test_a_merge_of_another_commit_is_not_taken(clone: Clone) -> None:
    later = event(clone, head={"ref": "change", "sha": clone.commits["target"], "repo": {"id": 1}})
    found = forge(clone, job(clone, later)).merge_request()
    assert (found.head, found.merged) == (clone.commits["target"], False)


def test_a_shallow_clone(clone: Clone) -> None:
    said = event(clone, head={"ref": "change", "sha": "1" * 40, "repo": None})
    (clone.tree / ".git/shallow").write_text(f"{clone.commits['fork']}\n")
    with pytest.raises(
        ConfigError, match=r"has no commit '1+'; it is a shallow clone: give actions/checkout `fetch-depth: 0`"
    ):
        forge(clone, job(clone, said)).merge_request()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("GITHUB_EVENT_NAME", "", "GITHUB_EVENT_NAME is not set: `--forge github` needs a job of GitHub Actions"),
        ("GITHUB_EVENT_NAME", "push", "GITHUB_EVENT_NAME is 'push': `--forge github` needs the event pull_request"),
        ("GITHUB_EVENT_NAME", "pull_request_target", "the repository's token and secrets: use the event pull_request"),
        ("GITHUB_EVENT_PATH", "/nowhere", "GITHUB_EVENT_PATH: /nowhere cannot be read"),
        ("GITHUB_SHA", "", "GITHUB_SHA is not set"),
    ],
)
def test_variables_that_say_nothing(clone: Clone, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        forge(clone, {**job(clone), name: text}).merge_request()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("GITHUB_REPOSITORY", "kernel/linux/../x", "GITHUB_REPOSITORY is 'kernel/linux/../x', not owner/name"),
        ("GITHUB_API_URL", "api.github.com", "GITHUB_API_URL is not the URL of GitHub's API"),
        ("GITHUB_API_URL", "https://jane:pa55word@example.org", "GITHUB_API_URL is not the URL of GitHub's API"),
        ("GITHUB_RUN_ID", "7/..", "GITHUB_RUN_ID is '7/..', not a number"),
        (
            "RTGATE_GITHUB_TOKEN_FILE",
            "/nowhere/token",
            "RTGATE_GITHUB_TOKEN_FILE does not name a file",
        ),
    ],
)
def test_variables_with_which_nothing_can_be_published(clone: Clone, name: str, text: str, message: str) -> None:
    token = {} if name == "RTGATE_GITHUB_TOKEN_FILE" else {"GITHUB_TOKEN": TOKEN}
    with pytest.raises(ConfigError, match=message):
        forge(clone, {**job(clone), **token, name: text}).publish(ANSWER)


# --- the answer


def test_the_answer_is_a_check_run_a_comment_and_the_jobs_summary(clone: Clone, github: GitHubServer) -> None:
    assert publish(clone, github) == []
    (check,) = github.checks
    assert check == {
        "name": "rtgate",
        "head_sha": clone.commits["change"],
        "status": "completed",
        "conclusion": "failure",
        "external_id": "500",
        "details_url": f"{URL}/actions/runs/500",
        "output": {"title": "worse: latency", "summary": f"{MARK}\n\n**worse**: latency\n"},
    }
    assert [(one.author, one.body) for one in github.comments] == [
        (BOT, f"{MARK} <!-- pipeline 500 -->\n\n**worse**: latency\n")
    ]
    assert summary(clone) == "**worse**: latency\n"


@pytest.mark.parametrize(
    ("code", "conclusion"),
    [
        (0, "success"),
        (1, "failure"),
        (2, "action_required"),
        (3, "action_required"),
        (4, "action_required"),
        (5, "neutral"),
    ],
)
def test_only_what_the_change_did_is_a_failure(clone: Clone, github: GitHubServer, code: int, conclusion: str) -> None:
    publish(clone, github, Answer(exit_code=code, markdown="x", text=""))
    assert [one["conclusion"] for one in github.checks] == [conclusion]
    assert github.checks[0]["output"]["title"] == f"exit code {code}"


def test_the_next_run_takes_the_comments_place_and_an_earlier_one_does_not(clone: Clone, github: GitHubServer) -> None:
    publish(clone, github, GITHUB_RUN_ID="501")
    said = publish(clone, github, Answer(exit_code=0, markdown="good", text="good"))
    assert [one.body.split("\n")[2] for one in github.comments] == ["**worse**: latency"]
    assert said == ["the comment is of run 501, which is later than this one (500), and stays"]
    publish(clone, github, Answer(exit_code=0, markdown="good", text="good"), GITHUB_RUN_ID="502")
    assert [one.body.split("\n")[2] for one in github.comments] == ["good"]


def test_a_pull_request_from_a_fork_gets_its_answer_from_the_job_alone(clone: Clone, github: GitHubServer) -> None:
    github.tokens = {TOKEN: App(permissions=("contents: read",))}
    said = publish(clone, github, pull=fork(clone))
    (text,) = said
    assert text.startswith("the pull request is from a fork, whose jobs only read: the answer is note.md of the report")
    assert github.requests == [f"POST repos/{REPOSITORY}/check-runs"]
    assert summary(clone) == "**worse**: latency\n"


def test_a_repository_may_let_forks_write(clone: Clone, github: GitHubServer) -> None:
    assert publish(clone, github, pull=fork(clone)) == []
    assert len(github.comments) == 1


def test_without_permissions_the_job_says_which(clone: Clone, github: GitHubServer) -> None:
    github.tokens = {TOKEN: App(permissions=("contents: read",))}
    check, comment = publish(clone, github)
    assert check.endswith(
        "does not let the token from $GITHUB_TOKEN do this (Resource not accessible by integration): there is no check "
        "run; give the job `permissions: {checks: write}`"
    )
    assert comment.endswith("there is no comment; give the job `permissions: {pull-requests: write}`")


def test_without_a_check_run_the_comment_is_that_of_the_job(clone: Clone, github: GitHubServer) -> None:
    publish(clone, github)
    github.tokens = {TOKEN: App(permissions=("pull-requests: write",))}
    publish(clone, github, Answer(exit_code=0, markdown="good", text="good"))
    assert [one.body.split("\n")[2] for one in github.comments] == ["good"]


def test_another_apps_token_keeps_to_its_own_comment(clone: Clone, github: GitHubServer) -> None:
    publish(clone, github)
    github.tokens["ghs_ofAnotherApp0123"] = App(slug="kernel-gate")
    for text in ("one", "two"):
        publish(clone, github, Answer(exit_code=0, markdown=text, text=""), GITHUB_TOKEN="ghs_ofAnotherApp0123")
    assert [(one.author, one.body.split("\n")[2]) for one in github.comments] == [
        (BOT, "**worse**: latency"),
        ("kernel-gate[bot]", "two"),
    ]


def test_without_a_token_nothing_is_asked(clone: Clone, github: GitHubServer) -> None:
    (text,) = publish(clone, github, GITHUB_TOKEN="")
    assert text.startswith(
        "nothing is written to the pull request: set GITHUB_TOKEN to `${{ github.token }}`; the answer"
    )
    assert not github.requests


def test_the_token_leaves_the_environment(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposed kernel's Makefiles inherit what is left."""
    for name, text in {**job(clone), "GITHUB_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, text)
    reviewed = GitHub.from_environment(clone.tree)
    assert reviewed.merge_request().target == "main"
    assert TOKEN not in os.environ.values()
    assert TOKEN not in repr(reviewed)
    assert reviewed.token is not None


def test_what_a_build_writes_to_the_event_does_not_count(clone: Clone, github: GitHubServer) -> None:
    variables = {**job(clone), "GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}
    reviewed = forge(clone, variables)
    job(clone, event(clone, number=8, head={"ref": "x", "sha": "6" * 40, "repo": {"id": 1}}))
    reviewed.publish(ANSWER)
    assert (len(github.checks), len(github.comments)) == (1, 1)


def test_a_check_run_whose_answer_gets_lost_is_made_again(clone: Clone, github: GitHubServer) -> None:
    """GitHub shows the last one of a name."""
    github.moods = [("POST", "check-runs", "lost")]
    publish(clone, github)
    assert [one["conclusion"] for one in github.checks] == ["failure", "failure"]
    assert len(github.comments) == 1


def test_a_token_from_a_file(clone: Clone, github: GitHubServer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    publish(clone, github, GITHUB_TOKEN="", RTGATE_GITHUB_TOKEN_FILE=str(path))
    assert len(github.comments) == 1


def test_a_summary_that_cannot_be_written(clone: Clone, github: GitHubServer) -> None:
    with pytest.raises(InfrastructureError, match="the job's summary /nowhere/x cannot be written: No such file"):
        publish(clone, github, GITHUB_STEP_SUMMARY="/nowhere/x")
    assert (len(github.checks), len(github.comments)) == (1, 1)


def test_the_summary_has_an_answer_that_github_does_not_take(clone: Clone, github: GitHubServer) -> None:
    with pytest.raises(ConfigError):
        publish(clone, github, GITHUB_TOKEN="ghs_wrong0123456789")
    assert "worse" in summary(clone)


def test_a_long_answer_is_cut_to_what_github_takes(clone: Clone, github: GitHubServer) -> None:
    publish(clone, github, Answer(exit_code=0, markdown="@é" * 40_000, text="x" * 300))
    for text in (github.checks[0]["output"]["summary"], github.comments[0].body):
        assert 65_500 < len(text.encode()) <= 65_535
        assert "**This note is cut: GitHub takes 65,535 bytes." in text
    assert len(github.checks[0]["output"]["title"]) == 200


# --- hostile texts


@pytest.mark.parametrize(
    "title",
    [
        "@jane @kernel/team please",
        "<img src=https://example.org/x.png> <script>alert(1)</script>",
        "![x](https://example.org/x.png) [click](https://example.org)",
        "`` ` `@jane` <!-- rtgate review --> ``\n\n@jane",
        "&commat;jane &#64;jane \x1b[2J\u202e",
    ],
)
def test_a_hostile_title_is_text(clone: Clone, github: GitHubServer, title: str) -> None:
    about = About(base="1" * 40, candidate="2" * 40, subject="", name="#7", title=title, target="`main` @jane")
    markdown = as_markdown(note(about, [], [], 0))
    publish(clone, github, Answer(exit_code=0, markdown=markdown, text=title))
    assert github.mentions == []
    for text in (github.checks[0]["output"]["summary"], github.comments[0].body, summary(clone)):
        page = MarkdownIt("gfm-like", {"linkify": False}).render(text.removeprefix(f"{MARK} <!-- pipeline 500 -->"))
        assert not [tag for tag in ("<img", "<script", "<a ", "<!-- rtgate review --> ") if tag in page]


def test_an_authors_comment_with_our_mark_stays(clone: Clone, github: GitHubServer) -> None:
    github.add(AUTHOR, f"{MARK} <!-- pipeline 999 -->\n\nall is good")
    publish(clone, github)
    assert [one.author for one in github.comments] == [AUTHOR, BOT]


# --- outages


def test_a_github_that_is_away_is_waited_for(clone: Clone, github: GitHubServer) -> None:
    github.away = lambda: len(github.requests) in {1, 3}
    said = publish(clone, github)
    assert [text.partition(" (")[0].partition(";")[0] for text in said] == [
        f"{github.url} answers HTTP 503",
        f"{github.url} answers again",
        f"{github.url} answers HTTP 503",
        f"{github.url} answers again",
    ]
    assert (len(github.checks), len(github.comments)) == (1, 1)


def test_patience_has_an_end(clone: Clone, github: GitHubServer) -> None:
    github.away = lambda: True
    with pytest.raises(InfrastructureError, match=r"HTTP 503 .*; rtgate tries for 3 s"):
        publish(clone, github)
    assert summary(clone)  # it is there in any case


def test_a_wrong_token_is_noticed_before_anything_is_built(clone: Clone, github: GitHubServer) -> None:
    variables = {**job(clone), "GITHUB_API_URL": github.url}
    forge(clone, variables).check_access()
    assert github.requests == []
    with pytest.raises(ConfigError, match=r"does not accept the token from \$GITHUB_TOKEN \(Bad credentials\)"):
        forge(clone, {**variables, "GITHUB_TOKEN": "ghs_wrong0123456789"}).check_access()
    forge(clone, {**variables, "GITHUB_TOKEN": TOKEN}).check_access()
    assert github.requests == 2 * [f"GET repos/{REPOSITORY}/commits/{clone.commits['change']}"]


def test_a_token_that_reads_nothing_may_write_all_the_same(clone: Clone, github: GitHubServer) -> None:
    github.tokens = {TOKEN: App(permissions=("checks: write",))}
    forge(clone, {**job(clone), "GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}).check_access()
    assert len(github.requests) == 1
