# SPDX-License-Identifier: MIT
"""A stand-in server with one board, and a client that does not wait long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selftests.lava_server import TOKEN, LavaServer, lava_server

from rtgate.http.patience import Patience
from rtgate.http.secret import Token
from rtgate.lava.client.access import Access
from rtgate.lava.client.server import Lava

HASTY = Patience(connect=2.0, answer=1.0, total=3.0, first=0.01, longest=0.05)


@pytest.fixture(autouse=True)
def _no_identities(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's own lavacli.yaml, proxies or .netrc take part."""
    for name in ("RTGATE_LAVA_URL", "RTGATE_LAVA_TOKEN", "RTGATE_LAVA_TOKEN_FILE", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))


@pytest.fixture
def server() -> Iterator[LavaServer]:
    with lava_server() as running:
        running.device()
        yield running


@pytest.fixture
def lava(server: LavaServer) -> Lava:
    return Lava(Access(server.url, Token(TOKEN, "a test")), HASTY, settle_s=0.2)
