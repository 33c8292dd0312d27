# SPDX-License-Identifier: MIT
from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from selftests.lava_server import TOKEN, LavaServer, lava_server

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http import client
from rtgate.http.client import AccessRefused, Http, NoAnswer, NotSent
from rtgate.http.patience import Patience
from rtgate.http.secret import Token

SECRET = "s3cr3t-0123456789"
HASTY = Patience(connect=2.0, answer=1.0, total=3.0, first=0.01, longest=0.05)


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's proxies or .netrc take part."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def server() -> Iterator[LavaServer]:
    """Any server will do; LAVA's stand-in has all the ways to be in trouble."""
    with lava_server() as running:
        yield running


def at(server: LavaServer, path: str) -> str:
    return f"{server.url}/api/v0.2/{path}"


def test_an_answer(server: LavaServer) -> None:
    reply = Http(patience=HASTY).once("GET", at(server, "system/version/"))
    assert (reply.status, reply.json("x")) == (200, {"version": "2023.01"})
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("trouble", ["500", "502", "503", "429"])
def test_a_server_in_trouble_is_asked_again(server: LavaServer, trouble: str) -> None:
    server.moods += [("GET", "version", trouble)] * 3
    assert Http(patience=HASTY).repeat("GET", at(server, "system/version/")).status == 200
    assert server.requests == ["GET system/version/"] * 4


def test_an_outage_is_told_once_and_so_is_its_end(server: LavaServer) -> None:
    said: list[str] = []
    asking = Http(patience=HASTY, notify=said.append)
    for _ in range(2):
        server.moods += [("GET", "version", "503")] * 3
        asking.repeat("GET", at(server, "system/version/"))
    assert len(said) == 4
    assert said[0].endswith("is in trouble: HTTP 503; trying again, for 3 s at most")
    assert said[1] == f"{server.url} answers again"
    assert said[:2] == said[2:]


def test_patience_has_an_end(server: LavaServer) -> None:
    server.moods += [("GET", "version", "503")] * 1000
    with pytest.raises(InfrastructureError, match=r"HTTP 503; rtgate tries for 3 s"):
        Http(patience=HASTY).repeat("GET", at(server, "system/version/"))


def test_nobody_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/"
        with pytest.raises(NotSent, match="Connection refused"):
            Http(patience=HASTY).once("GET", url)


def test_no_such_host() -> None:
    with pytest.raises(NotSent):
        Http(patience=HASTY).once("GET", "http://nowhere.invalid/")


@pytest.mark.parametrize("mood", ["lost", "unheard"])
def test_an_answer_that_got_lost(server: LavaServer, mood: str) -> None:
    server.moods = [("GET", "version", mood)]
    with pytest.raises(NoAnswer):
        Http(patience=HASTY).once("GET", at(server, "system/version/"))


def test_an_answer_that_takes_too_long(server: LavaServer) -> None:
    server.moods = [("GET", "version", "slow")]
    with pytest.raises(NoAnswer, match="no answer in 1 s"):
        Http(patience=HASTY).once("GET", at(server, "system/version/"))


def test_a_token_that_is_refused_is_not_shown(server: LavaServer) -> None:
    with pytest.raises(ConfigError, match=r"refused the token from \$X .HTTP 401: .*Invalid token") as caught:
        Http(Token(SECRET, "$X"), patience=HASTY).repeat("GET", at(server, "system/whoami/"))
    assert SECRET not in str(caught.value)
    assert len(server.requests) == 1


def test_a_user_and_a_password() -> None:
    assert client.basic("Aladdin", Token("open-sesame", "x")) == "Basic QWxhZGRpbjpvcGVuLXNlc2FtZQ=="


def test_a_password_that_is_refused_is_not_shown(server: LavaServer) -> None:
    asking = Http(Token(SECRET, "$X"), user="bot", patience=HASTY)
    with pytest.raises(AccessRefused, match=r"refused bot with the password from \$X .HTTP 401") as caught:
        asking.repeat("GET", at(server, "system/whoami/"))
    assert SECRET not in str(caught.value)
    assert caught.value.reply.status == 401


def test_no_token_at_all(server: LavaServer) -> None:
    with pytest.raises(ConfigError, match="refused a request without a token"):
        Http(patience=HASTY).repeat("GET", at(server, "system/whoami/"))


def test_netrc_does_not_take_the_place_of_the_token(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert Http(Token(TOKEN, "x"), patience=HASTY).once("GET", at(server, "system/whoami/")).status == 200


def test_a_redirect_is_no_answer(server: LavaServer) -> None:
    server.moods = [("POST", "jobs", "301")]
    with pytest.raises(ConfigError, match="sends us to"):
        Http(patience=HASTY).once("POST", at(server, "jobs/"), json={})


def test_a_page_of_a_proxy_is_no_json(server: LavaServer) -> None:
    server.moods = [("GET", "version", "page")]
    with pytest.raises(NoAnswer, match="not JSON, it begins with '<html>Welcome"):
        Http(patience=HASTY).once("GET", at(server, "system/version/")).json("the version")


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://[::1", "gopher://x/"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigError):
        Http(patience=HASTY).once("GET", url)


def test_a_file_of_authorities_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent.pem")
    with pytest.raises(
        ConfigError,
        match=r"^https://127\.0\.0\.1/x: .*CA certificate bundle.* /nonexistent\.pem \(named by REQUESTS_CA",
    ):
        Http(patience=HASTY).once("GET", "https://127.0.0.1/x?private=1")


def test_every_error_of_the_library_is_mapped() -> None:
    """`once` names those that are somebody else's; all others are RequestException, which comes last."""
    found = [one for one in vars(requests.exceptions).values() if isinstance(one, type) and issubclass(one, Exception)]
    own = [one for one in found if one.__module__ == "requests.exceptions"]
    assert len(own) > 15
    unmapped = [one for one in own if not issubclass(one, requests.exceptions.RequestException | Warning)]
    assert unmapped == []


def test_waits_grow_to_a_limit() -> None:
    waits = Patience(first=1.0, longest=4.0).waits()
    found = [next(waits) for _ in range(6)]
    for wait, middle in zip(found, (1, 2, 4, 4, 4, 4), strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
