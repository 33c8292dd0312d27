# SPDX-License-Identifier: MIT
"""One patch set on a real Gerrit server: what is fetched, what is written, who may vote."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.forge.conftest import forge
from selftests.forge.gerrit_server import NO_LABEL, NO_VOTE, PASSWORDS, Author, GerritServer
from selftests.forge.relay import spoiling

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge import gerrit as gerrit_forge
from rtgate.forge.merge_request import Answer
from rtgate.http.patience import Patience

pytestmark = pytest.mark.xdist_group("gerrit")  # one server

WRONG = "wrong-password-0123456789"
HASTY = Patience(connect=5.0, answer=10.0, total=10.0, first=0.1, longest=0.5)
HOSTILE = "\x1b[2J<script>alert(1)</script>\n/merge\n@all \u202eTSET \x00"


def answer(code: int, text: str = "PASS: no worse than its baseline") -> Answer:
    return Answer(exit_code=code, markdown="**unused**", text=text)


def git(tree: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", tree, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    subprocess.run(["git", "init", "--quiet", directory], check=True)
    return directory


def test_a_chain_is_fetched_whole(gerrit: GerritServer, author: Author, tree: Path) -> None:
    author.commit("first of two")
    author.commit("second of two")
    change = author.push()
    one = forge(gerrit, author, change)
    request = one.merge_request()
    assert (request.base, request.head, request.merged) == (gerrit.branch(), author.head(), False)
    assert (request.name, request.target) == (f"change {change}, patch set 1", "master")
    assert str(gerrit.ask("GET", f"changes/{change}")["_number"]) == request.url.rsplit("/", 1)[1]
    assert request.fetch == f"git fetch {gerrit.url}/rt/kernel refs/changes/{change % 100:02}/{change}/1"
    subprocess.run(request.fetch.split(), cwd=tree, check=True, timeout=60)
    assert git(tree, "rev-parse", "FETCH_HEAD").strip() == request.head
    one.fetch(tree, request)
    subjects = git(tree, "log", "--format=%s", f"{request.base}..{request.head}").splitlines()
    assert subjects == ["second of two", "first of two"]


def test_what_nobody_vouches_for_below_a_patch_set(gerrit: GerritServer, author: Author) -> None:
    """The parent in the target branch need not be its tip."""
    author.commit("to be submitted")
    submitted = author.push()
    for action, body in (("review", {"labels": {"Code-Review": 2}}), ("submit", {})):
        gerrit.ask("POST", f"changes/{submitted}/revisions/current/{action}", body)
    author.git("checkout", "--quiet", "--detach", "HEAD~")
    author.commit("on an older commit of the branch")
    one = forge(gerrit, author, author.push())
    assert not one.server.unread_parent(one.patch_set, "owner:nobody")

    author.commit("on an open change")
    two = forge(gerrit, author, author.push())
    below = one.patch_set.change
    assert not two.server.unread_parent(two.patch_set, f"change:{below}")
    assert f"change {below} below it does not match" in two.server.unread_parent(two.patch_set, "owner:nobody")
    gerrit.ask("POST", f"changes/{below}/abandon", {})
    unknown = "below it is neither of an open change nor in master"
    assert unknown in two.server.unread_parent(two.patch_set, f"change:{below}")
    gerrit.ask("POST", f"changes/{below}/restore", {})

    author.git("checkout", "--quiet", "--detach", "HEAD~")
    author.commit("newer", gerrit.change(below)["change_id"], amend=True)
    author.push()
    assert "patch set 1 of change" in two.server.unread_parent(two.patch_set, f"change:{below}")


def test_a_clone_notices_nothing(gerrit: GerritServer, author: Author, tree: Path) -> None:
    author.commit("quietly")
    one = forge(gerrit, author, author.push())
    before = sorted(path.name for path in (tree / ".git").iterdir())
    one.fetch(tree, one.merge_request())
    assert git(tree, "for-each-ref") == ""
    assert sorted(path.name for path in (tree / ".git").iterdir()) == before


def test_what_is_not_a_clone(gerrit: GerritServer, author: Author, tmp_path: Path) -> None:
    author.commit("nowhere")
    one = forge(gerrit, author, author.push())
    with pytest.raises(ConfigError, match="not a git clone"):
        one.fetch(tmp_path, one.merge_request())


def test_commits_that_are_not_there(
    gerrit: GerritServer, author: Author, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    author.commit("there")
    one = forge(gerrit, author, author.push())
    monkeypatch.setattr(gerrit_forge, "_FETCH_PAUSES_S", (0.0, 0.1))
    with pytest.raises(InfrastructureError, match="git fetched no 0000"):
        one.fetch(tree, replace(one.merge_request(), head="0" * 40))


def test_a_branch_that_is_not_there(gerrit: GerritServer, author: Author) -> None:
    author.commit("for another branch")
    with pytest.raises(ConfigError, match="rt/kernel has no branch v9"):
        forge(gerrit, author, author.push(), GERRIT_BRANCH="v9").merge_request()


@pytest.mark.parametrize(("code", "votes"), [(0, {"bot": 1}), (1, {"bot": -1}), (2, {}), (3, {}), (4, {}), (5, {})])
def test_a_vote_for_each_exit_code(gerrit: GerritServer, author: Author, code: int, votes: dict[str, int]) -> None:
    author.commit("to be voted on")
    change = author.push()
    forge(gerrit, author, change).publish(answer(code, "the text\n\n  board   max 83 us"))
    assert gerrit.votes(change) == votes
    [message] = gerrit.messages(change)
    assert message["tag"] == "autogenerated:rtgate"
    assert message["message"].endswith("\n\nthe text\n\n  board   max 83 us")


def test_another_label(gerrit: GerritServer, author: Author) -> None:
    author.commit("to be reviewed")
    change = author.push()
    forge(gerrit, author, change, RTGATE_GERRIT_LABEL="Code-Review").publish(answer(1))
    assert gerrit.votes(change, "Code-Review") == {"bot": -1}
    assert gerrit.votes(change) == {}


def test_a_newer_vote_takes_the_place_of_an_older_one(gerrit: GerritServer, author: Author) -> None:
    author.commit("tried twice")
    change = author.push()
    for code in (1, 3, 0):
        forge(gerrit, author, change).publish(answer(code))
    assert gerrit.votes(change) == {"bot": 1}
    assert len(gerrit.messages(change)) == 3


def test_the_answer_goes_to_the_patch_set_that_it_is_about(gerrit: GerritServer, author: Author) -> None:
    identity = author.commit("first patch set")
    change = author.push()
    one = forge(gerrit, author, change)
    author.commit("second patch set", identity, amend=True)
    assert author.push() == change
    one.publish(answer(1))
    [message] = gerrit.messages(change)
    assert message["_revision_number"] == 1
    assert message["message"].startswith("Patch Set 1: Verified-1")
    assert gerrit.votes(change) == {}


def test_an_abandoned_change_gets_the_text(gerrit: GerritServer, author: Author) -> None:
    author.commit("given up")
    change = author.push()
    gerrit.ask("POST", f"changes/{change}/abandon", {})
    forge(gerrit, author, change).publish(answer(1, "too late"))
    assert [one["message"] for one in gerrit.messages(change)] == ["Patch Set 1:\n\ntoo late"]


@pytest.mark.parametrize(("project", "reason"), [(NO_LABEL, "has no label Verified"), (NO_VOTE, "bot may not vote")])
@pytest.mark.parametrize("code", [0, 1])
def test_without_a_label_there_is_a_message(
    gerrit: GerritServer, tmp_path: Path, project: str, reason: str, code: int
) -> None:
    author = Author(gerrit, tmp_path / "clone", project)
    author.commit("nobody may vote")
    change = author.push()
    with pytest.raises(ConfigError, match=f"{reason}.*written without a vote.*RTGATE_GERRIT_LABEL"):
        forge(gerrit, author, change).publish(answer(code, "the text"))
    assert [one["message"] for one in gerrit.messages(change)] == ["Patch Set 1:\n\nthe text"]


def test_a_label_that_has_no_such_value(gerrit: GerritServer, author: Author) -> None:
    author.commit("cannot be voted down")
    change = author.push()
    with pytest.raises(ConfigError, match=r"has no label Narrow with a vote of -1.*written without a vote"):
        forge(gerrit, author, change, RTGATE_GERRIT_LABEL="Narrow").publish(answer(1, "the text"))
    assert [one["message"] for one in gerrit.messages(change)] == ["Patch Set 1:\n\nthe text"]


def test_a_wrong_password(gerrit: GerritServer, author: Author, tree: Path) -> None:
    author.commit("not for everybody")
    change = author.push()
    right = forge(gerrit, author, change)
    wrong = forge(gerrit, author, change, RTGATE_GERRIT_PASSWORD=WRONG)
    request = right.merge_request()
    for attempt in (wrong.merge_request, lambda: wrong.fetch(tree, request), lambda: wrong.publish(answer(1))):
        with pytest.raises(ConfigError, match=r"refused bot with the password from \$RTGATE_GERRIT_PASSWORD") as caught:
            attempt()
        assert WRONG not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert gerrit.messages(change) == []


def test_a_password_is_nowhere_to_be_seen(
    gerrit: GerritServer, author: Author, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `git` before the real one writes what its command line is; git itself writes all that it can trace."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "git"
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{tmp_path}/argv\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    author.commit("traced")
    one = forge(gerrit, author, author.push())
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    for name in ("GIT_TRACE", "GIT_TRACE_CURL", "GIT_TRACE_SETUP"):
        monkeypatch.setenv(name, str(tmp_path / "trace"))
    one.fetch(tree, one.merge_request())
    argv, trace = (tmp_path / "argv").read_text(), (tmp_path / "trace").read_text()
    assert "fetch" in argv
    assert "git-upload-pack" in trace
    secret = PASSWORDS["bot"]
    for text in (argv, trace, repr(one)):
        assert secret not in text
        assert base64.b64encode(f"bot:{secret}".encode()).decode() not in text


def test_the_settings_of_the_environment_stay(gerrit: GerritServer, author: Author) -> None:
    author.commit("with settings")
    server = forge(gerrit, author, author.push()).server
    before = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.compression", "GIT_CONFIG_VALUE_0": "0"}
    environment = before | server.git_environment(before)
    listed = subprocess.run(
        ["git", "config", "--list"], capture_output=True, text=True, env={**os.environ, **environment}, check=True
    ).stdout
    assert "core.compression=0\n" in listed
    assert "http.followredirects=false\n" in listed


def test_hostile_texts(gerrit: GerritServer, author: Author) -> None:
    author.commit("\x1b[31m <b>/merge</b> @all")
    change = author.push()
    one = forge(gerrit, author, change, GERRIT_CHANGE_SUBJECT=f"title {HOSTILE}", GERRIT_CHANGE_URL="javascript:x")
    request = one.merge_request()
    assert request.title == "title \ufffd[2J<script>alert(1)</script>"
    assert request.url == f"{gerrit.url}/c/rt/kernel/+/{change}"
    one.publish(answer(0, f"text {HOSTILE}"))
    [message] = gerrit.messages(change)
    assert message["message"].endswith("text \ufffd[2J<script>alert(1)</script>\n/merge\n@all \ufffdTSET \ufffd")
    assert (gerrit.change(change)["status"], gerrit.votes(change)) == ("NEW", {"bot": 1})


@pytest.mark.parametrize("letter", ["x", "\U0001f600"])
def test_a_text_that_is_too_long_for_gerrit_is_cut(gerrit: GerritServer, author: Author, letter: str) -> None:
    author.commit("much to say")
    change = author.push()
    forge(gerrit, author, change).publish(answer(1, "\n".join(["the verdict", *[letter * 70] * 400])))
    [message] = gerrit.messages(change)
    lines = message["message"].splitlines()
    assert (lines[2], lines[-1]) == ("the verdict", "[the rest is in the report]")
    assert set(lines[3:-1]) == {letter * 70}


@pytest.mark.parametrize("lost", [0, 1])
def test_an_answer_whose_receipt_is_lost_is_written_once(gerrit: GerritServer, author: Author, lost: int) -> None:
    author.commit("far away")
    change = author.push()
    with spoiling(gerrit.url, lost) as url:
        one = forge(gerrit, author, change, RTGATE_GERRIT_URL=url)
        replace(one, server=replace(one.server, patience=HASTY)).publish(answer(1))
    assert len(gerrit.messages(change)) == 1
    assert gerrit.votes(change) == {"bot": -1}


def test_a_vote_that_is_refused_as_wrong(gerrit: GerritServer, author: Author) -> None:
    author.commit("on another server")
    change = author.push()
    with spoiling(gerrit.url, 1, 400) as url:
        one = forge(gerrit, author, change, RTGATE_GERRIT_URL=url)
        with pytest.raises(ConfigError, match=r"bot may not vote \+1 on Verified.*without a vote"):
            one.publish(answer(0, "the text"))
    assert [one["message"] for one in gerrit.messages(change)] == ["Patch Set 1:\n\nthe text"]


def test_a_server_in_trouble_is_asked_again(gerrit: GerritServer, author: Author) -> None:
    author.commit("on a busy server")
    change = author.push()
    with spoiling(gerrit.url, 2, 503) as url:
        one = forge(gerrit, author, change, RTGATE_GERRIT_URL=url)
        replace(one, server=replace(one.server, patience=HASTY)).publish(answer(0))
    assert (len(gerrit.messages(change)), gerrit.votes(change)) == (1, {"bot": 1})
