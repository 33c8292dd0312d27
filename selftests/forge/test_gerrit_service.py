# SPDX-License-Identifier: MIT
"""The service before a real Gerrit server; reviews are a stand-in's, and their votes are real."""

from __future__ import annotations

import base64
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.forge.gerrit_server import NO_LABEL, PASSWORDS, PROJECT, Author, GerritServer
from selftests.forge.service import Service

from rtgate.workflow import gerrit_service

pytestmark = pytest.mark.xdist_group("gerrit")  # one server

_OTHER_SIGNAL = pytest.mark.long("the same with another signal; SIGTERM is in make test, and SIGKILL in another test")


@pytest.fixture
def branch(gerrit: GerritServer) -> str:
    """Return a branch of this test alone, so that no other test's changes are reviewed."""
    name = f"branch-{uuid.uuid4().hex[:8]}"
    gerrit.make_branch(name)
    return name


@pytest.fixture
def author(gerrit: GerritServer, tmp_path: Path, branch: str) -> Author:
    return Author(gerrit, tmp_path / "clone", PROJECT, branch)


@pytest.fixture
def service(gerrit: GerritServer, tmp_path: Path, branch: str) -> Iterator[Service]:
    made = Service(gerrit, tmp_path, branch)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def patient(service: Service) -> Service:
    """Return a service that waits for the changes of a series as long as any."""
    service.series_s = gerrit_service._SERIES_S
    return service


def test_each_patch_set_is_reviewed_once(gerrit: GerritServer, author: Author, service: Service) -> None:
    author.commit("pushed before the service was there")
    before = author.push()
    service.start()
    service.until_review(f"begins {before}-1")
    author.commit("pushed while a review runs")
    after = author.push()
    service.until_log(f"change {after}, patch set 1: waits for its review")
    assert service.reviews == [f"begins {before}-1"]
    service.let(f"{before}-1", 0)
    service.until_review(f"begins {after}-1")
    # Lab trouble is an answer too: it is not tried over and over.
    service.let(f"{after}-1", 3)
    service.until_log(f"change {after}, patch set 1: review ended with exit code 3")
    assert (gerrit.votes(before), gerrit.votes(after)) == ({"bot": 1}, {})
    assert [len(gerrit.messages(change)) for change in (before, after)] == [1, 1]

    assert service.end(signal.SIGKILL) == -signal.SIGKILL
    service.start()
    service.until_log("following", 2)
    identity = author.commit("pushed after the service was killed")
    last = author.push()
    service.until_review(f"begins {last}-1")
    service.let(f"{last}-1", 1)
    service.until_log(f"change {last}, patch set 1: review ended with exit code 1")
    author.commit("another patch set", identity, amend=True)
    author.push()
    service.until_review(f"begins {last}-2")
    assert service.end() == 130
    begun = [line for line in service.reviews if line.startswith("begins")]
    assert begun == [f"begins {name}" for name in (f"{before}-1", f"{after}-1", f"{last}-1", f"{last}-2")]


def test_a_comment_has_a_patch_set_reviewed_again(gerrit: GerritServer, author: Author, service: Service) -> None:
    service.start()
    service.until_log("following")
    author.commit("measured while the lab was away")
    change = author.push()
    service.until_review(f"begins {change}-1")
    service.let(f"{change}-1", 3)
    service.until_log(f"change {change}, patch set 1: review ended with exit code 3")
    service.let(f"{change}-1", 0)
    place = f"changes/{change}/revisions/current/review"
    # rtgate's own messages hold what a kernel printed: they are no words of rtgate's account.
    gerrit.ask("POST", place, {"message": "/rtgate run"}, user="bot")
    # As a change's page sends a reply.
    reply = {"comments": {"/PATCHSET_LEVEL": [{"message": "The lab is back.\n/rtgate run", "unresolved": False}]}}
    gerrit.ask("POST", place, reply, user="reader")
    service.until_log(f"change {change}: reader wants it reviewed again")
    service.until_log(f"change {change}, patch set 1: review ended with exit code 0")
    assert gerrit.votes(change) == {"bot": 1}
    assert _begun(service) == [f"begins {change}-1"] * 2
    assert service.log.count("wants it reviewed again") == 1


def test_a_patch_set_that_is_replaced_gets_no_vote(gerrit: GerritServer, author: Author, service: Service) -> None:
    service.start()
    service.until_log("following")
    identity = author.commit("first patch set")
    change = author.push()
    service.until_review(f"begins {change}-1")
    author.commit("second patch set", identity, amend=True)
    author.push()
    service.until_review(f"begins {change}-2")
    assert service.reviews == [f"begins {change}-1", f"ended {change}-1", f"begins {change}-2"]
    service.let(f"{change}-2", 1)
    service.until_log(f"change {change}, patch set 2: review ended with exit code 1")
    assert [one["_revision_number"] for one in gerrit.messages(change)] == [2]
    assert gerrit.votes(change) == {"bot": -1}
    assert service.end() == 130


def test_of_a_queue_only_the_newest_patch_sets_are_reviewed(
    gerrit: GerritServer, author: Author, service: Service
) -> None:
    service.start()
    author.commit("runs")
    first = author.push()
    service.until_review(f"begins {first}-1")
    identity = author.commit("waits")
    waiting = author.push()
    service.until_log(f"change {waiting}, patch set 1: waits")
    author.commit("waits, corrected", identity, amend=True)
    author.push()
    service.until_log(f"change {waiting}, patch set 2: waits")
    author.commit("is abandoned")
    given_up = author.push()
    service.until_log(f"change {given_up}, patch set 1: waits")
    gerrit.ask("POST", f"changes/{given_up}/abandon", {}, user="author")
    service.until_log(f"change {given_up}: taken off the queue")
    service.let(f"{first}-1", 0)
    service.until_review(f"begins {waiting}-2")
    service.let(f"{waiting}-2", 0)
    service.until_log(f"change {waiting}, patch set 2: review ended")
    begun = [line for line in service.reviews if line.startswith("begins")]
    assert begun == [f"begins {first}-1", f"begins {waiting}-2"]


def test_work_in_progress_is_left_alone(gerrit: GerritServer, author: Author, service: Service) -> None:
    service.start()
    service.until_log("following")
    author.commit("not ready")
    change = author.push("wip")
    author.git("checkout", "--quiet", "--detach", "HEAD~")
    author.commit("ready")
    other = author.push()
    service.until_review(f"begins {other}-1")
    service.let(f"{other}-1", 0)
    service.until_log(f"change {other}, patch set 1: review ended")
    assert service.reviews == [f"begins {other}-1", f"published {other}-1"]
    gerrit.ask("POST", f"changes/{change}/ready", {}, user="author")
    service.until_review(f"begins {change}-1")


def test_a_search_says_whose_changes_are_reviewed(gerrit: GerritServer, author: Author, service: Service) -> None:
    service.query = "label:Code-Review>=1 OR owner:nobody"
    service.start()
    service.until_log("following")
    author.commit("not trusted yet")
    change = author.push()
    author.git("checkout", "--quiet", "--detach", "HEAD~")
    author.commit("trusted at once")
    other = author.push()
    for number in (other, change):
        assert f"begins {number}-1" not in service.reviews
        gerrit.ask("POST", f"changes/{number}/revisions/current/review", {"labels": {"Code-Review": 1}}, user="reader")
        service.until_review(f"begins {number}-1")
        service.let(f"{number}-1", 0)


def test_a_change_on_one_that_does_not_match_is_left_alone(
    gerrit: GerritServer, author: Author, service: Service
) -> None:
    """A vote that Gerrit copies to a rebase is none for the new parent."""
    service.query = "label:Code-Review>=1"
    service.start()
    service.until_log("following")
    identity = author.commit("read by somebody")
    change = author.push()
    vote = {"labels": {"Code-Review": 1}}
    gerrit.ask("POST", f"changes/{change}/revisions/current/review", vote, user="reader")
    service.until_review(f"begins {change}-1")
    service.let(f"{change}-1", 0)
    service.until_log(f"change {change}, patch set 1: review ended")

    author.git("checkout", "--quiet", "--detach", "HEAD~")
    author.commit("nobody has read this")
    below = author.push()
    author.commit("read by somebody", identity)
    author.push()
    gerrit.ask("POST", f"changes/{change}/revisions/current/review", vote, user="reader")
    service.until_log(f"change {change}, patch set 2: is left alone: change {below} below it does not match --query")
    assert not [line for line in service.reviews if line.startswith((f"begins {change}-2", f"begins {below}"))]

    gerrit.ask("POST", f"changes/{below}/revisions/current/review", vote, user="reader")
    service.until_review(f"begins {change}-2")
    service.let(f"{change}-2", 0)
    service.until_log(f"change {change}, patch set 2: review ended")
    assert {"bot": 1} == gerrit.votes(below)


@pytest.mark.long(
    "the server starts twice more, a minute; that the service is killed, and what it missed, is in make test"
)
def test_a_server_that_is_killed_costs_nothing(gerrit: GerritServer, author: Author, service: Service) -> None:
    """The service is stopped while changes are pushed, so that it hears of none of them by an event."""
    service.start()
    author.commit("reviewed while the server is away")
    first = author.push()
    service.until_review(f"begins {first}-1")
    identity = author.commit("replaced while nobody listens")
    second = author.push()
    service.until_log(f"change {second}, patch set 1: waits")
    service.send(signal.SIGSTOP)
    gerrit.stop(signal.SIGKILL)
    service.let(f"{first}-1", 1)
    gerrit.start()
    author.commit("replaces it", identity, amend=True)
    author.push()
    author.commit("pushed while nobody listens")
    third = author.push()
    service.send(signal.SIGCONT)
    service.until_log("connecting again")
    for name in (f"{second}-2", f"{third}-1"):  # in either order: who pushes again goes to the end
        service.let(name, 0)
    for name in (f"{second}-2", f"{third}-1"):
        service.until_log(f"change {name.replace('-', ', patch set ')}: review ended with exit code 0")
    assert [gerrit.votes(change) for change in (first, second, third)] == [{"bot": -1}, {"bot": 1}, {"bot": 1}]
    assert [len(gerrit.messages(change)) for change in (first, second, third)] == [1, 1, 1]
    assert [one["_revision_number"] for one in gerrit.messages(second)] == [2]

    # Away while the service works: it tries again and again, and goes on.
    gerrit.stop()
    service.until_log("does not answer", 2)
    gerrit.start()
    author.commit("pushed when the server is back")
    last = author.push()
    service.until_review(f"begins {last}-1")
    assert service.end() == 130


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(one, marks=_OTHER_SIGNAL) for one in (signal.SIGINT, signal.SIGKILL))]
)
def test_a_service_that_ends_leaves_nothing_behind(
    gerrit: GerritServer, author: Author, service: Service, number: signal.Signals
) -> None:
    service.start()
    author.commit("reviewed when the service ends")
    change = author.push()
    service.until_review(f"begins {change}-1")
    assert len(service.leftover_processes()) >= 3  # the service, ssh, the review
    secret = PASSWORDS["bot"]
    for pid in service.leftover_processes():
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        assert secret not in argv
        assert base64.b64encode(f"bot:{secret}".encode()).decode() not in argv
    assert service.end(number) == (-number if number == signal.SIGKILL else 130)
    service.until_review(f"ended {change}-1")
    assert gerrit.messages(change) == []

    service.start()
    service.until(lambda: service.reviews.count(f"begins {change}-1") == 2, "the review begins once more")
    service.let(f"{change}-1", 0)
    service.until_log(f"change {change}, patch set 1: review ended with exit code 0")
    assert service.end() == 130
    assert gerrit.votes(change) == {"bot": 1}
    assert secret not in service.log
    assert "Traceback" not in service.log


def test_two_services_do_not_share_a_directory(
    gerrit: GerritServer, tmp_path: Path, branch: str, service: Service
) -> None:
    service.start()
    service.until_log("following")
    other = Service(gerrit, tmp_path, branch)
    other.start()
    other.until_log("is in use by another rtgate")
    other.close()


def test_a_key_that_gerrit_does_not_know(gerrit: GerritServer, service: Service) -> None:
    text = gerrit.ssh_config.read_text()
    gerrit.ssh_config.write_text(text.replace("IdentityFile", "PubkeyAuthentication no\n\tIdentityFile"))
    try:
        service.start()
        service.until_log("ConfigError: ssh to bot@127.0.0.1")
    finally:
        gerrit.ssh_config.write_text(text)
    assert "Permission denied" in service.log


@pytest.mark.parametrize(
    ("project", "branch", "said"),
    [
        ("rt/kernal", "main", "has no project rt/kernal, or bot may not read it"),
        ("rt/kernel", "no-such", "rt/kernel has no branch no-such, or bot may not read it"),
    ],
)
def test_a_name_that_gerrit_does_not_have_is_said_at_once(
    service: Service, project: str, branch: str, said: str
) -> None:
    service.project, service.branch = project, branch
    service.start()
    service.until_log("ConfigError: ")
    assert said in service.log
    assert "following" not in service.log


def _begun(service: Service) -> list[str]:
    return [line for line in service.reviews if line.startswith("begins")]


def test_a_relation_chain_is_reviewed_once_and_the_guilty_change_is_voted_down(
    gerrit: GerritServer, author: Author, patient: Service
) -> None:
    service = patient
    service.start()
    service.until_log("following")
    for title in ("first", "second is late", "third", "fourth"):
        author.commit(title)
    numbers = author.push_series()
    tip = numbers[-1]
    service.until_review(f"begins {tip}-1")
    service.let(f"{tip}-1", 1, guilty=1)
    service.until_log(f"change {tip}, patch set 1: review ended with exit code 1")
    assert [gerrit.votes(number) for number in numbers] == [{"bot": 1}, {"bot": -1}, {}, {}]
    told = [message["message"] for number in numbers for message in gerrit.messages(number)]
    assert len(told) == 4
    assert "This is the first change of the relation chain that fails: what the bisection found" in told[1]
    assert f"Measured with change {tip}, the last of its relation chain" in told[2]
    assert f"fails at change {numbers[1]}, patch set 1, below this change" in told[3]

    # The author mends it: all but the first one are new patch sets, and the chain is reviewed without it.
    author.git("reset", "--quiet", "--hard", "HEAD~3")
    for title, number in (("second is not late", 1), ("third", 2), ("fourth", 3)):
        author.commit(title, str(gerrit.ask("GET", f"changes/{numbers[number]}")["change_id"]))
    author.push()
    service.until_review(f"begins {tip}-2")
    service.let(f"{tip}-2", 0)
    service.until_log(f"change {tip}, patch set 2: review ended with exit code 0")
    assert [gerrit.votes(number) for number in numbers] == [{"bot": 1}] * 4
    assert len(gerrit.messages(numbers[0])) == 1
    assert _begun(service) == [f"begins {tip}-1", f"begins {tip}-2"]
    assert service.end() == 130


def test_a_chain_whose_tip_is_abandoned_is_reviewed_without_it(
    gerrit: GerritServer, author: Author, patient: Service
) -> None:
    service = patient
    service.start()
    service.until_log("following")
    author.commit("stays")
    author.commit("is abandoned")
    low, tip = author.push_series()
    service.until_review(f"begins {tip}-1")
    gerrit.ask("POST", f"changes/{tip}/abandon", {}, user="author")
    service.until_review(f"begins {low}-1")
    service.let(f"{low}-1", 0)
    service.until_log(f"change {low}, patch set 1: review ended with exit code 0")
    assert (gerrit.votes(low), gerrit.votes(tip)) == ({"bot": 1}, {})
    assert service.reviews[:3] == [f"begins {tip}-1", f"ended {tip}-1", f"begins {low}-1"]


def test_other_repositories_of_a_topic_are_named(
    gerrit: GerritServer, author: Author, service: Service, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    other = Author(gerrit, tmp_path / "other", NO_LABEL)
    other.commit("the boot loader's part")
    sibling = other.push(f"topic={topic}")
    author.commit("the kernel's part")
    change = author.push(f"topic={topic}")
    service.start()
    service.until_review(f"begins {change}-1")
    service.let(f"{change}-1", 0)
    service.until_log(f"change {change}, patch set 1: review ended with exit code 0")
    [message] = gerrit.messages(change)
    assert (
        f"changes in other repositories, which were not built or measured: change {sibling} ({NO_LABEL})."
        in " ".join(message["message"].split())
    )
    assert gerrit.votes(change) == {"bot": 1}
    assert gerrit.messages(sibling) == []
