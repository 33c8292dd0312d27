# SPDX-License-Identifier: MIT
from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selftests.unit.forge.conftest import HASTY, Clone, git

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge import target_branch


def fetch(clone: Clone, remote: str = "origin", branch: str = "main", said: list[str] | None = None) -> str:
    words: list[str] = [] if said is None else said
    return target_branch.fetch_tip(clone.tree, remote, branch, HASTY, words.append)


def test_the_branch_of_a_shallow_clone_arrives(clone: Clone, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=change", f"file://{clone.origin}", str(shallow))
    assert fetch(Clone(shallow, clone.origin, clone.commits)) == clone.commits["target"]


def test_a_branch_of_the_name_of_an_option(clone: Clone) -> None:
    git(clone.origin, "update-ref", "refs/heads/--upload-pack=x", clone.commits["fork"])
    assert fetch(clone, branch="--upload-pack=x") == clone.commits["fork"]


@pytest.mark.parametrize("branch", ["a b", "a..b", "*", "a:b", "", "a~1", "a.lock"])
def test_what_is_not_the_name_of_a_branch(clone: Clone, branch: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a branch"):
        fetch(clone, branch=branch)


def test_a_remote_that_is_not_there(clone: Clone) -> None:
    with pytest.raises(ConfigError, match=r"refs/heads/main cannot be fetched from nowhere: .* not appear to be a git"):
        fetch(clone, remote="nowhere")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_is_not_tried_again(clone: Clone, status: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()

    said: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        with pytest.raises(ConfigError, match=r"cannot be fetched from http://127\.0\.0\.1"):
            fetch(clone, remote=f"http://127.0.0.1:{http.server_address[1]}/x.git", said=said)
        http.shutdown()
    assert said == []


def test_a_server_that_is_away_is_tried_until_patience_ends_and_no_secret_is_said(clone: Clone) -> None:
    said: list[str] = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        remote = f"http://gitlab-ci-token:s3cr3t-0123@127.0.0.1:{probe.getsockname()[1]}/x.git"
        with pytest.raises(InfrastructureError, match=r"; rtgate tries for 3 s") as error:
            fetch(clone, remote=remote, said=said)
    assert len(said) == 1
    assert "trying again, for 3 s at most" in said[0]
    for text in (said[0], str(error.value)):
        assert "s3cr3t" not in text
        assert "http://127.0.0.1" in text
