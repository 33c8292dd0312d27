# SPDX-License-Identifier: MIT
"""The service `rtgate webhook` as a process of its own: deliveries over HTTP, a stand-in for the forge behind it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from selftests import github_server as gh
from selftests import gitlab_server as gl
from selftests.github_server import GitHubServer, github_server
from selftests.gitlab_server import GitLabServer, gitlab_server

from rtgate import files
from rtgate.cli.main import main
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.gitlab_api import GitLabApi
from rtgate.forge.gitlab_command import GitLabCommands
from rtgate.forge.run_command import Command
from rtgate.workflow import webhook
from rtgate.workflow.webhook import Journal, WebhookService

SECRET = "a-secret-of-the-hook"
PUSHED_LATER = "2026-11-25T12:00:01.000Z"
WAIT_S = 60.0
COMMAND = Command(project="rt/kernel", merge_request=7, comment=9, head="a" * 40)


@dataclass
class Service:
    """The service of one forge."""

    words: list[str]
    directory: Path
    child: subprocess.Popen[str] | None = None
    url: str = ""
    said: list[str] = field(default_factory=list)

    def start(self) -> None:
        own = {"RTGATE_WEBHOOK_SECRET": SECRET, "RTGATE_GITLAB_TOKEN": gl.TOKEN, "GITHUB_TOKEN": gh.TOKEN}
        words = ["webhook", *self.words, "--ref", "main", "--listen", "0", "-o", str(self.directory / "state")]
        argv = [sys.executable, "-m", "rtgate", *words]
        count = self.log.count("listening on")
        with (self.directory / "log").open("a") as log:
            self.child = subprocess.Popen(argv, stderr=log, env={**os.environ, **own}, text=True)
        self.until(lambda: self.log.count("listening on") > count)
        self.url = f"http://{self.log.rpartition('listening on ')[2].split()[0]}/"

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.child
        self.child.send_signal(number)
        return self.child.wait(WAIT_S)

    def note(self, number: int = 1, head: str = gl.HEAD, secret: str = SECRET) -> requests.Response:
        """Deliver a note as GitLab does."""
        said = {
            "project": {"path_with_namespace": gl.PATH},
            "user": {"id": gl.MAINTAINER, "username": "root"},  # a lie, if need be
            "object_attributes": {"id": number, "note": "/rtgate run", "noteable_type": "MergeRequest"},
            "merge_request": {"iid": gl.MERGE_REQUEST, "last_commit": {"id": head}},
        }
        headers = {"X-Gitlab-Token": secret, "X-Gitlab-Event": "Note Hook", "X-Gitlab-Event-UUID": os.urandom(8).hex()}
        return requests.post(self.url, json=said, headers=headers, timeout=10)

    def comment(self, number: int = 1, secret: str = SECRET) -> requests.Response:
        """Deliver a comment as GitHub does."""
        said = {
            "action": "created",
            "repository": {"full_name": gh.REPOSITORY},
            "issue": {"number": gh.PULL_REQUEST, "pull_request": {"url": "x"}},
            "comment": {"id": number, "body": "/rtgate run"},
        }
        body = json.dumps(said).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "issue_comment"}
        return requests.post(self.url, data=body, headers={**headers, "Content-Type": "application/json"}, timeout=10)


@pytest.fixture
def gitlab() -> Iterator[GitLabServer]:
    with gitlab_server() as server:
        server.roles[gl.BOT] = gl.MAINTAIN
        yield server


@contextmanager
def running(directory: Path, *words: str) -> Iterator[Service]:
    service = Service([*words], directory)
    try:
        service.start()
        yield service
    finally:
        if service.child:
            service.child.kill()
            service.child.wait()


@pytest.fixture
def service(gitlab: GitLabServer, tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path, "--forge", "gitlab", "--url", gitlab.url, "--project", gl.PATH) as made:
        yield made


def test_gitlab_from_the_note_to_the_pipeline(gitlab: GitLabServer, service: Service) -> None:
    gitlab.add(gl.MAINTAINER, "/rtgate run")  # note 1
    gitlab.add(gl.AUTHOR, "/rtgate run")  # note 2, of a reporter
    gitlab.add(gl.MAINTAINER, "/rtgate run")  # note 3, of which GitLab had another commit
    assert service.note(1).status_code == 202
    service.until(lambda: gitlab.pipelines)
    assert gitlab.pipelines == [{"ref": "main", "inputs": {"merge-request": "7", "commit": gl.HEAD}}]
    assert (service.note(1).status_code, service.note(1).text) == (200, "known already\n")  # with another delivery id
    assert service.note(1, secret="guess").status_code == 401
    assert (service.note(2).status_code, service.note(3, head="b" * 40).status_code) == (202, 202)
    service.until(lambda: len(gitlab.notes) == 5)
    gitlab.versions.append((gl.HEAD, PUSHED_LATER))
    gitlab.add(gl.MAINTAINER, "/rtgate run").at = "2026-11-25T12:00:00.500Z"  # note 6
    service.note(6)
    service.until(lambda: len(gitlab.notes) == 7)
    reasons = [one.body for one in gitlab.notes if one.author == gl.BOT]
    assert "only a member of the project, with the role Developer or more, may say it" in reasons[0]
    assert f"it ends at {gl.HEAD} by now, which was pushed after the comment" in reasons[1]
    assert f"{gl.HEAD} was not pushed before the comment was written" in reasons[2]
    assert len(gitlab.pipelines) == 1
    assert service.end() == 130
    assert gl.TOKEN not in service.log
    assert SECRET not in service.log
    service.start()  # what was answered is known after a restart
    assert service.note(1).text == "known already\n"


def test_a_service_that_is_killed_goes_on_where_it_was(gitlab: GitLabServer, service: Service) -> None:
    gitlab.add(gl.MAINTAINER, "/rtgate run")
    gitlab.away = lambda: True
    assert service.note(1).status_code == 202
    service.until(lambda: "trying again" in service.log)
    service.end(signal.SIGKILL)
    gitlab.away = lambda: False
    assert gitlab.pipelines == []
    service.start()
    service.until(lambda: gitlab.pipelines)
    assert len(gitlab.pipelines) == 1


def test_a_pipeline_that_the_forge_does_not_allow_is_told_where_it_was_asked(
    gitlab: GitLabServer, service: Service
) -> None:
    gitlab.roles[gl.BOT] = gl.DEVELOPER
    gitlab.add(gl.MAINTAINER, "/rtgate run")
    service.note(1)
    service.until(lambda: "nothing was started: say it again" in service.log)
    assert "the forge does not let rtgate start it" in gitlab.notes[-1].body
    assert "sufficient permission to run a pipeline on 'main'" in service.log


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with github_server() as server:
        server.tokens[gh.TOKEN].permissions += ("actions: write",)
        yield server


def test_github_from_the_comment_to_the_workflow(github: GitHubServer, tmp_path: Path) -> None:
    with running(tmp_path, "--forge", "github", "--url", github.url, "--project", gh.REPOSITORY) as service:
        github.add("linus", "/rtgate run")
        github.add("jane", "/rtgate run")
        assert (service.comment(1).status_code, service.comment(2).status_code) == (202, 202)
        service.until(lambda: len(github.comments) == 3)
        assert github.dispatches == [{"ref": "main", "inputs": {"pull-request": "7", "commit": gh.HEAD}}]
        assert "with the permission to write" in github.comments[2].body
        assert service.comment(1, secret="guess").status_code == 401
        assert service.end(signal.SIGINT) == 130


class _Broken:
    """A forge with a defect that nobody foresaw."""

    def comment(self, command: Command) -> None:
        raise TypeError(f"comment {command.comment}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_service_that_can_carry_out_nothing_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "comments.json")
    journal.take(COMMAND)
    service = webhook.WebhookService({"rt/kernel": _Broken()}, lambda *_: None, None, journal, lambda _: None)  # type: ignore[arg-type,dict-item]
    ended = list[BaseException]()

    def run() -> None:
        try:
            service.run(("127.0.0.1", 0))
        except InfrastructureError as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert f"take what waits first out of {journal.path}" in str(ended[0])
    assert Journal(journal.path).waiting == (COMMAND,)


def test_a_directory_that_cannot_be_made_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for name in ("RTGATE_WEBHOOK_SECRET", "RTGATE_GITLAB_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    words = ["--forge", "gitlab", "--url", "http://127.0.0.1:9", "--project", "rt/kernel", "--ref", "main"]
    assert main(["webhook", *words, "-o", str(tmp_path / "file" / "state")]) == 3
    assert f"{tmp_path}/file/state cannot be written" in capsys.readouterr().err


def test_a_workflow_is_github_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RTGATE_WEBHOOK_SECRET", "RTGATE_GITLAB_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    words = ["--forge", "gitlab", "--url", "http://127.0.0.1:9", "--project", "rt/kernel", "--ref", "main"]
    assert main(["webhook", *words, "--workflow", "x.yml", "-o", str(tmp_path)]) == 2
    assert "--workflow is GitHub's" in capsys.readouterr().err


def test_a_gitlab_with_a_private_authority_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message about a certificate that is not accepted says so."""
    apis: list[GitLabApi] = []

    class Ended(WebhookService):
        def run(self, _: tuple[str, int]) -> None:
            apis.extend(forge.api for forge in self.forges.values() if isinstance(forge, GitLabCommands))

    monkeypatch.setattr("rtgate.cli.webhook.WebhookService", Ended)
    for name in ("RTGATE_WEBHOOK_SECRET", "RTGATE_GITLAB_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("CI_SERVER_TLS_CA_FILE", "/etc/ours.pem")
    words = ["--forge", "gitlab", "--url", "https://127.0.0.1:9", "--project", "rt/kernel", "--ref", "main"]
    assert main(["webhook", *words, "-o", str(tmp_path)]) == 0
    assert [api.authorities for api in apis] == ["/etc/ours.pem"]


# --- the journal


def test_the_journal_knows_what_waits_and_what_ended(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "comments.json")
    assert journal.take(COMMAND) is True
    assert journal.take(COMMAND) is False
    assert Journal(journal.path).waiting == (COMMAND,)
    journal.end(COMMAND)
    assert Journal(journal.path).waiting == ()
    assert Journal(journal.path).take(COMMAND) is False


def test_a_journal_that_is_full_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_MOST_WAITING", 0)
    assert Journal(tmp_path / "comments.json").take(COMMAND) is None


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 9, "waiting": [], "ended": []}', '{"format": 1, "waiting": [{}]}', "[" * 100_000]
)
def test_a_damaged_journal(tmp_path: Path, text: str) -> None:
    (tmp_path / "comments.json").write_text(text)
    with pytest.raises(ConfigError, match=r"(damaged: |format 9, ).*: remove it; what waits in it must be said again"):
        Journal(tmp_path / "comments.json")


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    journal, said = Journal(tmp_path / "comments.json"), list[str]()
    monkeypatch.setattr(files, "write_text", full)
    service = webhook.WebhookService({"rt/kernel": None}, lambda *_: COMMAND, None, journal, said.append)  # type: ignore[arg-type,dict-item]
    assert service.receive({}, b"") == (503, "try again later")
    assert "No space left on device" in said[0]
    assert journal.waiting == ()
