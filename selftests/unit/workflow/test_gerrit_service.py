# SPDX-License-Identifier: MIT
"""What needs no server; the rest is in selftests/forge, before a real one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError, RtgateError
from rtgate.forge.gerrit_change import PatchSet
from rtgate.forge.gerrit_events import Event
from rtgate.forge.gerrit_server import Access, GerritServer
from rtgate.http.secret import Token
from rtgate.workflow.gerrit_queue import STARTS, Journal, ReviewQueue
from rtgate.workflow.gerrit_service import GerritService, Review, ServiceSettings, review_command
from rtgate.workflow.gerrit_stream import SshAddress, ssh_address


def settings(*projects: str, branches: tuple[str, ...] = (), query: str = "") -> ServiceSettings:
    return ServiceSettings(
        projects=projects, branches=branches, query=query, since_s=7200.0, output=Path("o"), command=("x",)
    )


def test_what_is_looked_for() -> None:
    search = settings("a", "b/c", branches=("main",), query="ownerin:team OR label:X").search()
    assert search == ('status:open -is:wip (project:"a" OR project:"b/c") (branch:"main") (ownerin:team OR label:X)')


def test_of_every_branch() -> None:
    assert settings("a").search() == 'status:open -is:wip (project:"a")'


@pytest.mark.parametrize("name", ['a" OR status:merged', "", "a\nb", "{x}"])
def test_a_name_that_would_be_more_than_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a project"):
        settings(name).search()


def test_the_command_of_a_review() -> None:
    argv = review_command(Path("tree"), Path("out"), ["--profile", "mr"])
    assert argv[1:8] == ("-P", "-m", "rtgate", "review", "--forge", "gerrit", "--tree")
    assert argv[8:] == ("tree", "--kernels", "out/kernels", "--profile", "mr")


def test_the_report_is_where_a_web_server_shows_it() -> None:
    one = PatchSet(project="a", branch="b", change=4711, number=3, revision="a" * 40)
    assert settings("a").review(one) == ("x", "-o", "o/4711-3")
    shown = replace(settings("a"), report_url="https://example.org/reviews/")
    assert shown.review(one)[1:3] == ("--report-url", "https://example.org/reviews/4711-3/")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("h", "h", 29418),
        ("h:22", "h", 22),
        ("[::1]:22", "::1", 22),
        ("[::1]", "::1", 29418),
    ],
)
def test_an_ssh_server(text: str, host: str, port: int) -> None:
    found = ssh_address(text, "bot")
    assert (found.host, found.port, found.user) == (host, port, "bot")


@pytest.mark.parametrize("text", ["", ":22", "h:", "h:x", "h:0", "h:70000", "-oProxyCommand=x", "h:²"])
def test_what_is_not_an_ssh_server(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        ssh_address(text, "bot")


def test_ssh_asks_nobody_and_takes_no_option_for_a_host() -> None:
    argv = SshAddress(host="h", user="bot", config=Path("c")).argv(["patchset-created"])
    assert argv[:3] == ["ssh", "-F", "c"]
    assert "BatchMode=yes" in argv
    assert argv[-6:] == ["--", "h", "gerrit", "stream-events", "-s", "patchset-created"]


ONE = PatchSet(project="a", branch="b", change=4711, number=3, revision="a" * 40)


def raise_full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def service_in(output: Path, said: list[str]) -> GerritService:
    account = Access(url="https://example.org", user="bot", password=Token("secret-of-tests", "a test"))
    made = GerritService(
        GerritServer(access=account),
        SshAddress(host="h", user="bot"),
        replace(settings("a"), output=output, command=("false",)),
        said.append,
    )
    made._queue = ReviewQueue(Journal(output / "reviewed.json"))
    return made


@pytest.mark.parametrize(
    ("code", "answered", "again"),
    [
        *((code, True, False) for code in range(6)),  # also a refusal (2) is read in Gerrit
        *((code, False, True) for code in range(6)),  # a FAIL (1) hides that Gerrit was away (3)
        (-9, True, True),
    ],
)
def test_a_review_that_left_no_answer_is_made_again(tmp_path: Path, code: int, answered: bool, again: bool) -> None:
    """Gerrit was away for longer than the review waits, or the disk was full: nobody has heard of it."""
    said: list[str] = []
    service = service_in(tmp_path, said)
    service._queue.journal.start(ONE)
    if answered:
        service.settings.answered(ONE).touch()
    service._note_end(ONE, code, ONE)
    assert service._queue.changes == ((4711,) if again else ())
    assert (f"exit code {code}), waits for another one" in said[0]) is again


def test_members_of_a_chain_name_the_log_of_its_tip(tmp_path: Path) -> None:
    said: list[str] = []
    service = service_in(tmp_path, said)
    below = replace(ONE, change=4710)
    service.settings.answered(ONE).touch()
    for member in (below, ONE):
        service._queue.journal.start(member)
        service._note_end(member, 0, ONE)
    log = f"review ended with exit code 0 (log: {tmp_path}/4711-3.log)"
    assert said == [f"change 4710, patch set 3: {log}", f"change 4711, patch set 3: {log}"]


def test_it_is_given_up_after_some_attempts(tmp_path: Path) -> None:
    said: list[str] = []
    service = service_in(tmp_path, said)
    for _ in range(STARTS):
        service._queue.journal.start(ONE)
    service._note_end(ONE, 3, ONE)
    assert said == ["change 4711, patch set 3: review left no answer (exit code 3) 3 times, given up"]


def test_it_is_not_given_up_because_a_newer_patch_set_waits(tmp_path: Path) -> None:
    said: list[str] = []
    service = service_in(tmp_path, said)
    service._queue.journal.start(ONE)
    service._queue.offer(replace(ONE, number=4))
    service._note_end(ONE, 3, ONE)
    assert said == ["change 4711, patch set 3: review left no answer (exit code 3), a newer patch set waits"]


def test_a_full_disk_is_nobody_s_mistake_and_costs_no_attempt(tmp_path: Path) -> None:
    service = service_in(tmp_path / "not-there", [])
    for _ in range(STARTS + 1):
        with pytest.raises(InfrastructureError, match=r"reviewed\.json cannot be written"):
            service._start((ONE,))
    assert service._queue.changes == (4711,)
    (tmp_path / "not-there").mkdir()
    review = service._start((ONE,))
    assert review.child.wait() == 1


def test_a_full_disk_costs_no_member_of_a_chain_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_in(tmp_path, [])
    service.settings = replace(service.settings, command=(sys.executable, "-c", "import time; time.sleep(60)"))
    chain = (replace(ONE, change=1), replace(ONE, change=2), ONE)
    for _ in range(STARTS):
        service._review = service._start(chain)
        with monkeypatch.context() as full:
            full.setattr(files, "write_text", raise_full)
            assert service._end_review("patch set 4 replaces it") == chain[:-1]
    assert all(service._queue.journal.open(member) for member in chain)


@pytest.mark.parametrize("kind", [InfrastructureError, ConfigError])
def test_a_patch_set_whose_chain_is_not_known_goes_on_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[RtgateError]
) -> None:
    """Gerrit is in trouble just then. It would be asked about every change later, but for those that are too old."""
    service = service_in(tmp_path, [])
    service._queue.offer(ONE)

    def related_changes(*_: object) -> None:
        raise kind("Gerrit does not answer")

    monkeypatch.setattr(GerritServer, "related_changes", related_changes)
    with pytest.raises(kind):
        service._begin_review()
    assert service._queue.changes == (ONE.change,)


def test_who_wants_a_review_again_while_it_runs_is_told_so(tmp_path: Path) -> None:
    said: list[str] = []
    service = service_in(tmp_path, said)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:  # ends with the block, whatever happens in it
        service._review = Review((ONE,), child)
        service._reopen(Event(kind="comment-added", project="a", change=4711, run_for="ann"))
    assert said == ["change 4711: ann wants it reviewed again, but its review runs"]
