# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.lava.client.access import LAB_TOKEN, LAB_URL, access, base

SECRET = "s3cr3t-0123456789"


def test_from_the_environment() -> None:
    found = access(None, {"RTGATE_LAVA_URL": "https://lava.example.org/", "RTGATE_LAVA_TOKEN": f"{SECRET}\n"})
    assert found.url == "https://lava.example.org"
    assert found.token is not None
    assert found.token.secret() == SECRET


def test_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "token").chmod(0o600)
    found = access("http://127.0.0.1:8000", {"RTGATE_LAVA_TOKEN_FILE": str(tmp_path / "token")})
    assert found.token is not None
    assert (found.token.secret(), found.token.source) == (SECRET, str(tmp_path / "token"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        access("http://127.0.0.1:8000", {"RTGATE_LAVA_TOKEN_FILE": str(tmp_path / "token")})


@pytest.mark.parametrize("content", ["", "two words", "line\nline", "\xff" * 10])
def test_no_message_shows_a_token_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="latin-1")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        access("http://127.0.0.1:8000", {"RTGATE_LAVA_TOKEN_FILE": str(tmp_path / "token")})
    assert not content or content not in str(caught.value)


def test_a_token_does_not_show(capsys: pytest.CaptureFixture[str]) -> None:
    found = access("http://h", {"RTGATE_LAVA_TOKEN": SECRET})
    print(found, repr(found), [found], f"{found.token}", f"{found.token!r}")
    assert SECRET not in capsys.readouterr().out


def test_an_identity_of_lavacli(tmp_path: Path) -> None:
    (tmp_path / "lavacli.yaml").write_text(
        f"default: {{uri: 'https://lava.example.org/RPC2', username: u, token: {SECRET}}}\nother: {{uri: 'http://o/'}}\n"
    )
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert access(None, environment).url == "https://lava.example.org"
    assert access("other", environment).token is None
    with pytest.raises(ConfigError, match=r"identity of lavacli\.yaml .there: default, other"):
        access("third", environment)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "lavacli.yaml cannot be read: ConfigError: mend it"),
        ("- list", "is not a file of lavacli's identities: mend it"),
        ("default: 5", "is not a file of lavacli's identities: mend it"),
        ("default: {uri: 'x', token: t}", "lavacli.yaml: identity default: the URL of the LAVA server is not one"),
        ("", "which LAVA server"),
    ],
)
def test_a_strange_lavacli_yaml_is_named_by_whoever_reads_it(
    tmp_path: Path, content: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgate.lava.client.access.LAB_TOKEN", tmp_path / "none")
    (tmp_path / "lavacli.yaml").write_text(content)
    variables = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match=message):
        access(None, variables)
    # Who names server and token needs nothing of it.
    assert access("https://lava.example.org", {**variables, "RTGATE_LAVA_TOKEN": SECRET}).token is not None


def test_an_identity_without_a_token_gets_that_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "lavacli.yaml").write_text("mine: {uri: 'https://lava.example.org/RPC2', username: u}\n")
    named = access("mine", {"XDG_CONFIG_HOME": str(tmp_path), "RTGATE_LAVA_TOKEN": SECRET})
    assert named.token is not None
    assert (named.url, named.token.source) == ("https://lava.example.org", "$RTGATE_LAVA_TOKEN")


def test_an_identity_without_a_token_gets_that_of_another_one_of_its_server(tmp_path: Path) -> None:
    text = f"mine: {{uri: 'https://lava.example.org'}}\nbot: {{uri: 'https://lava.example.org', token: {SECRET}}}\n"
    (tmp_path / "lavacli.yaml").write_text(text)
    for server in ("mine", "https://lava.example.org"):
        token = access(server, {"XDG_CONFIG_HOME": str(tmp_path)}).token
        assert token is not None
        assert token.secret() == SECRET


def test_the_wrong_uri_of_another_identity_is_passed_over(tmp_path: Path) -> None:
    entries = "{uri: lava.example.org, token: 0123456789}", "{uri: 'http://a:b@h', token: 0123456789}", "{}"
    text = "".join(f"x{number}: {entry}\n" for number, entry in enumerate(entries))
    (tmp_path / "lavacli.yaml").write_text(f"{text}mine: {{uri: 'https://lava.example.org', token: {SECRET}}}\n")
    for server in ("mine", "https://lava.example.org"):
        token = access(server, {"XDG_CONFIG_HOME": str(tmp_path)}).token
        assert token is not None
        assert token.secret() == SECRET


def test_a_damaged_lavacli_yaml_is_no_missing_token(tmp_path: Path) -> None:
    (tmp_path / "lavacli.yaml").write_text(f"default: {{token: {SECRET}")
    with pytest.raises(ConfigError, match="mend it") as caught:
        access("https://lava.example.org", {"XDG_CONFIG_HOME": str(tmp_path)})
    assert SECRET not in str(caught.value)


def test_the_lab_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    monkeypatch.setattr("rtgate.lava.client.access.LAB_TOKEN", tmp_path / "token")
    for found in (access(None, {}), access(LAB_URL, {})):
        assert found.url == LAB_URL
        assert found.token is not None
        assert found.token.secret() == SECRET
    assert access("http://elsewhere", {}).token is None


def test_the_lab_is_where_its_own_scripts_put_it() -> None:
    paths = (Path(__file__).parents[4] / "ci" / "lab" / "paths").read_text()
    assert f"STATE=${{RTGATE_LAB_STATE:-{LAB_TOKEN.parent}}} " in paths
    assert f"TOKEN=$STATE/{LAB_TOKEN.name} " in paths
    assert f"SERVER_PORT=${{RTGATE_LAB_PORT:-{LAB_URL.rpartition(':')[2]}}} " in paths


def test_nobody_said_which_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgate.lava.client.access.LAB_TOKEN", tmp_path / "none")
    with pytest.raises(ConfigError, match="which LAVA server"):
        access(None, {"HOME": os.devnull})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("http://h:8000/RPC2", "http://h:8000"),
        ("https://h/api/v0.2/", "https://h"),
        ("https://h/lava/api/", "https://h/lava"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_the_server_without_its_api(given: str, found: str) -> None:
    assert base(given) == found


@pytest.mark.parametrize("url", [f"http://user:{SECRET}@h/", "ftp://h", "http://", "http://h:port/", "h:8000"])
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        base(url)
    assert SECRET not in str(caught.value)
