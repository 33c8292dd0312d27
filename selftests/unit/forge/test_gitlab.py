# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path
from string import Template

import pytest
import yaml
from selftests.gitlab_server import BOT, MERGE_REQUEST, PROJECT, TOKEN, Account, GitLabServer
from selftests.unit.forge.conftest import HASTY, URL, Clone, commit, detached, git, merged

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.gitlab import GitLab
from rtgate.forge.merge_request import Answer, Forge, MergeRequest
from rtgate.forge.note_body import MARK

ANSWER = Answer(exit_code=1, markdown="**worse**: latency", text="worse: latency")


def forge(clone: Clone, variables: dict[str, str], said: list[str] | None = None) -> GitLab:
    words: list[str] = [] if said is None else said
    return GitLab.from_environment(clone.tree, say=words.append, variables=variables, patience=HASTY)


def test_it_is_a_forge(clone: Clone) -> None:
    """The type checker says so here, and that is what this function is for."""
    any_forge: Forge = forge(clone, detached(clone))
    assert any_forge.merge_request().name == "!7"


def test_a_detached_pipeline_has_the_change_and_no_target(clone: Clone) -> None:
    assert clone.git("for-each-ref", "--format=%(refname)") == "refs/pipelines/1"
    assert forge(clone, detached(clone)).merge_request() == MergeRequest(
        base=clone.commits["target"],
        head=clone.commits["change"],
        name="!7",
        title="sched: wake up later",
        url=f"{URL}/-/merge_requests/7",
        target="main",
        merged=False,
    )
    refs = clone.git("for-each-ref", "--format=%(refname) %(objectname)").split("\n")
    assert refs == [f"refs/pipelines/1 {clone.commits['change']}", f"refs/rtgate/target {clone.commits['target']}"]


def test_the_tip_of_the_target_is_the_one_of_now(clone: Clone) -> None:
    reviewed = forge(clone, detached(clone))
    reviewed.merge_request()
    git(clone.origin, "checkout", "-q", "main")
    git(clone.origin, "commit", "-q", "--amend", "-m", "rewritten")  # no descendant of what was fetched
    assert reviewed.merge_request().base == git(clone.origin, "rev-parse", "main")


@pytest.mark.parametrize("kind", ["merged_result", "merge_train"])
def test_the_result_of_merging(clone: Clone, kind: str) -> None:
    found = forge(clone, merged(clone, kind)).merge_request()
    assert (found.base, found.head, found.merged) == (clone.commits["target"], clone.commits["merge"], True)


def test_a_train_that_rebases_is_compared_with_what_the_train_was_and_not_with_its_first_parent(clone: Clone) -> None:
    """With the merge method "fast-forward" two commits of the merge request stand on the target."""
    variables = merged(clone, "merge_train")
    git(clone.origin, "checkout", "-qb", "train", "main")
    between, head = commit(clone.origin, "d"), commit(clone.origin, "e")
    clone.git("fetch", "-q", "origin", "refs/heads/train:refs/pipelines/3")
    found = forge(clone, {**variables, "CI_COMMIT_SHA": head}).merge_request()
    assert found.base == clone.commits["target"]
    assert between == clone.git("rev-parse", f"{head}^1")


def test_without_the_targets_commit_nothing_says_what_was_merged_into(clone: Clone) -> None:
    variables = {**merged(clone), "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": ""}
    with pytest.raises(ConfigError, match="CI_MERGE_REQUEST_TARGET_BRANCH_SHA is not set"):
        forge(clone, variables).merge_request()


def test_the_pipeline_of_a_fork_asks_the_project_of_the_merge_request(clone: Clone, tmp_path: Path) -> None:
    """`origin` is the fork there, and its `main` is whatever the author wants."""
    git(tmp_path, "clone", "-q", "--bare", str(clone.origin), "upstream.git")
    git(clone.origin, "checkout", "-q", "main")
    ours = commit(clone.origin, "weaker-limits")
    variables = {
        **detached(clone),
        "CI_PROJECT_ID": "43",
        "CI_MERGE_REQUEST_PROJECT_URL": f"file://{tmp_path}/upstream",
    }
    assert forge(clone, variables).merge_request().base == clone.commits["target"] != ours


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "CI_MERGE_REQUEST_IID",
            "",
            "CI_MERGE_REQUEST_IID is not set: `--forge gitlab` needs a job of a merge request",
        ),
        ("CI_MERGE_REQUEST_IID", "7/../8", "CI_MERGE_REQUEST_IID is '7/../8', not a number"),
        ("CI_MERGE_REQUEST_IID", "\N{SUPERSCRIPT TWO}", "not a number"),
        ("CI_MERGE_REQUEST_PROJECT_ID", "", "CI_MERGE_REQUEST_PROJECT_ID is not set"),
        ("CI_MERGE_REQUEST_EVENT_TYPE", "", "CI_MERGE_REQUEST_EVENT_TYPE is not set"),
        ("CI_MERGE_REQUEST_EVENT_TYPE", "x", r"is 'x' \(allowed: detached, merged_result, merge_train\)"),
        ("CI_COMMIT_SHA", "0" * 40, "has no commit '0+'; check the spelling"),
        ("CI_COMMIT_SHA", "--help", "has no commit '--help'"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "nowhere", "refs/heads/nowhere cannot be fetched from origin"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "x:refs/heads/y", "'x:refs/heads/y' is not the name of a branch"),
    ],
)
def test_variables_that_say_nothing(clone: Clone, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        forge(clone, {**detached(clone), name: text}).merge_request()


def test_a_commit_that_a_shallow_clone_lacks(clone: Clone) -> None:
    variables = merged(clone)
    variables["CI_MERGE_REQUEST_TARGET_BRANCH_SHA"] = "1" * 40
    (clone.tree / ".git/shallow").write_text(f"{clone.commits['fork']}\n")
    with pytest.raises(ConfigError, match=r"it is a shallow clone: give the job `variables: \{GIT_DEPTH: 0\}`"):
        forge(clone, variables).merge_request()


def test_the_environment_is_the_default(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {**detached(clone), "RTGATE_GITLAB_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, text)
    reviewed = GitLab.from_environment(clone.tree)
    assert reviewed.merge_request().target == "main"
    assert reviewed.token is not None
    assert TOKEN not in os.environ.values()  # the proposed kernel's Makefiles inherit what is left


# --- the token


def test_without_a_token_there_is_no_note_and_one_word_about_it(clone: Clone, server: GitLabServer) -> None:
    said: list[str] = []
    forge(clone, {**detached(clone), "CI_SERVER_URL": server.url, "CI_JOB_TOKEN": TOKEN}, said).publish(ANSWER)
    (text,) = said
    assert text == (
        "the merge request gets no note, which is note.md of the report: set RTGATE_GITLAB_TOKEN, or "
        "RTGATE_GITLAB_TOKEN_FILE with a file, to a project access token with the role Reporter and the scope api "
        "(CI_JOB_TOKEN may read notes and not write them)"
    )
    assert not server.requests


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (None, r"does not accept the token from \$RTGATE_GITLAB_TOKEN \("),
        (Account(expired=True), r"does not accept .*Token is expired\. .*: make a project access token with the role"),
        (Account(scopes=("read_repository",)), "lacks the scope api"),
        (Account(scopes=("read_api", "read_user")), r"lacks the scope api \(it has read_api, read_user\): make"),
    ],
)
def test_a_wrong_token_is_noticed_before_anything_is_built(
    clone: Clone, server: GitLabServer, account: Account | None, message: str
) -> None:
    server.tokens = {TOKEN: account} if account else {}
    asked = forge(clone, {**detached(clone), "CI_SERVER_URL": server.url, "RTGATE_GITLAB_TOKEN": TOKEN})
    with pytest.raises(ConfigError, match=message):
        asked.check_access()
    assert not any("notes" in request for request in server.requests)


def test_a_good_token_is_asked_for_once_and_no_token_never(clone: Clone, server: GitLabServer) -> None:
    variables = {**detached(clone), "CI_SERVER_URL": server.url}
    forge(clone, variables).check_access()
    assert server.requests == []
    forge(clone, {**variables, "RTGATE_GITLAB_TOKEN": TOKEN}).check_access()
    asked = [f"GET projects/{PROJECT}/merge_requests/{MERGE_REQUEST}", "GET personal_access_tokens/self"]
    assert server.requests == asked
    assert server.notes == []


@pytest.mark.parametrize("where", ["variable", "file"])
def test_a_token_writes_the_note(clone: Clone, server: GitLabServer, tmp_path: Path, where: str) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o666)  # as GitLab's runner writes it
    name, text = (
        ("RTGATE_GITLAB_TOKEN", TOKEN) if where == "variable" else ("RTGATE_GITLAB_TOKEN_FILE", tmp_path / "token")
    )
    forge(clone, {**detached(clone), "CI_SERVER_URL": f"{server.url}/", name: str(text)}).publish(ANSWER)
    assert [(note.author, note.body) for note in server.notes] == [
        (BOT, f"{MARK} <!-- pipeline 500 -->\n\n**worse**: latency")
    ]


def test_a_tokens_file_that_is_not_there(clone: Clone) -> None:
    with pytest.raises(ConfigError, match="RTGATE_GITLAB_TOKEN_FILE does not name a file that can be read"):
        forge(clone, {"RTGATE_GITLAB_TOKEN_FILE": "/nowhere/token"})


def test_no_representation_shows_the_token(clone: Clone) -> None:
    reviewed = forge(clone, {**detached(clone), "RTGATE_GITLAB_TOKEN": TOKEN, "CI_JOB_TOKEN": "job-token-0123456789"})
    assert "<token from $RTGATE_GITLAB_TOKEN>" in repr(reviewed)
    assert TOKEN not in repr(reviewed)
    assert "job-token" not in repr(reviewed)
    assert TOKEN not in reviewed.variables.values()


@pytest.mark.parametrize("url", ["gitlab.example.org", "https://", "ftp://gitlab.example.org", "https://[::1"])
def test_what_is_not_the_url_of_a_server(clone: Clone, url: str) -> None:
    with pytest.raises(ConfigError, match="CI_SERVER_URL is not the URL of a GitLab server"):
        forge(clone, {**detached(clone), "CI_SERVER_URL": url, "RTGATE_GITLAB_TOKEN": TOKEN}).publish(ANSWER)


def test_a_password_in_the_servers_url_is_not_shown(clone: Clone) -> None:
    variables = {**detached(clone), "CI_SERVER_URL": "https://jane:pa55word@gitlab.example.org"}
    with pytest.raises(ConfigError) as error:
        forge(clone, {**variables, "RTGATE_GITLAB_TOKEN": TOKEN}).publish(ANSWER)
    assert "pa55word" not in str(error.value)


# --- pipelines and outages


def test_an_earlier_pipeline_that_ends_later_leaves_the_note(clone: Clone, server: GitLabServer) -> None:
    said: list[str] = []
    variables = {**detached(clone), "CI_SERVER_URL": server.url, "RTGATE_GITLAB_TOKEN": TOKEN}
    forge(clone, {**variables, "CI_PIPELINE_ID": "501"}).publish(ANSWER)
    forge(clone, variables, said).publish(Answer(exit_code=0, markdown="good", text="good"))
    assert [note.body.split("\n")[-1] for note in server.notes] == ["**worse**: latency"]
    assert said == ["the note is of pipeline 501, which is later than this one (500), and stays"]
    forge(clone, {**variables, "CI_PIPELINE_ID": "502"}).publish(Answer(exit_code=0, markdown="good", text="good"))
    assert [note.body.split("\n")[-1] for note in server.notes] == ["good"]


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("rtgate.durations.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rtgate.http.patience.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_gitlab_that_is_away_for_two_minutes_is_waited_for(
    clone: Clone, server: GitLabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    variables = {**detached(clone), "CI_SERVER_URL": server.url, "RTGATE_GITLAB_TOKEN": TOKEN}
    reviewed = GitLab.from_environment(clone.tree, say=said.append, variables=variables)
    reviewed.publish(ANSWER)
    clock = Clock(monkeypatch)
    # It goes between the list of notes and the update.
    began = len(server.requests)
    server.away = lambda: len(server.requests) > began + 2 and clock.now < 1120
    reviewed.publish(Answer(exit_code=0, markdown="good", text="good"))
    assert 1120 <= clock.now < 1160
    assert [note.body.split("\n")[-1] for note in server.notes] == ["good"]
    assert said == [
        f"{server.url} answers HTTP 503 (<html>GitLab is not responding</html>); trying again, for 600 s at most",
        f"{server.url} answers again",
    ]


def test_patience_has_an_end(clone: Clone, server: GitLabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {**detached(clone), "CI_SERVER_URL": server.url, "RTGATE_GITLAB_TOKEN": TOKEN}
    clock = Clock(monkeypatch)
    server.away = lambda: True
    with pytest.raises(InfrastructureError, match=r"HTTP 503 .*; rtgate tries for 600 s"):
        GitLab.from_environment(clone.tree, variables=variables).publish(ANSWER)
    assert 1560 < clock.now <= 1600


def test_merge_requests_do_not_share_a_cache() -> None:
    """A job may upload any file under a key that it names: false boots would be everybody's."""
    root = Path(__file__).resolve().parents[3]
    inputs, template = yaml.safe_load_all((root / "ci/gitlab/rtgate.yml").read_text())
    cache = template["rtgate-review"]["cache"]
    assert cache["key"] == "$[[ inputs.cache-key ]]"
    assert "$CI_MERGE_REQUEST_IID" in inputs["spec"]["inputs"]["cache-key"]["default"]
    assert cache["unprotect"] is False


def test_all_reviews_of_a_merge_request_wait_for_each_other_and_a_lab_may_be_named() -> None:
    """GitLab expands variables of the job, and one that is not set to nothing (`where_variables_can_be_used`)."""
    root = Path(__file__).resolve().parents[3]
    inputs, template = yaml.safe_load_all((root / "ci/gitlab/rtgate.yml").read_text())
    jobs = [template[name] for name in ("rtgate-review", "rtgate-review-fork", "rtgate-review-asked")]
    assert {job["resource_group"] for job in jobs} == {"$[[ inputs.resource-group ]]"}
    default = Template(inputs["spec"]["inputs"]["resource-group"]["default"])
    assert jobs[2]["variables"]["RTGATE_MERGE_REQUEST"] == "$[[ inputs.merge-request ]]"
    own = default.substitute(CI_MERGE_REQUEST_IID="12", RTGATE_MERGE_REQUEST="")
    assert own == default.substitute(CI_MERGE_REQUEST_IID="", RTGATE_MERGE_REQUEST="12") == "rtgate-12"
