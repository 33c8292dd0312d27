# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
import requests

from rtgate.errors import ConfigError
from rtgate.http import failures
from rtgate.http.patience import NotNow

URL = "https://forge.example.org"


def test_the_url_of_a_server() -> None:
    assert failures.server_url(f"{URL}/", "X", "a forge") == URL
    for text in ("forge.example.org", "https://", "ftp://forge.example.org", "https://[::1", "https://a:b@example.org"):
        with pytest.raises(ConfigError, match=r"^X is not the URL of a forge$"):
            failures.server_url(text, "X", "a forge")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (requests.exceptions.SSLError("self-signed"), r"certificate of .* is not accepted \(self-signed\).* by CA"),
        (requests.TooManyRedirects(), "redirects: X must name the server that answers itself"),
        (requests.exceptions.InvalidURL(), "X is .* which is not a URL"),
    ],
)
def test_errors_that_somebody_must_act_on(error: Exception, message: str) -> None:
    with pytest.raises(ConfigError, match=message), failures.errors(URL, "X", "CA"):
        raise error


@pytest.mark.parametrize(
    "error", [requests.ConnectionError(), requests.Timeout(), requests.exceptions.ChunkedEncodingError()]
)
def test_errors_that_pass(error: Exception) -> None:
    with pytest.raises(NotNow, match=f"{URL} does not answer"), failures.errors(URL, "X", "CA"):
        raise error


def test_a_file_of_authorities_that_does_not_exist() -> None:
    with (
        pytest.raises(ConfigError, match=rf"^{URL}: .* /nonexistent\.pem \(named by CA, or"),
        failures.errors(URL, "X", "CA"),
    ):
        requests.get(URL, verify="/nonexistent.pem", timeout=1)


@pytest.mark.parametrize(
    ("text", "expected"), [("7", 7.0), ("", 0.0), ("-1", 0.0), ("Wed, 25 Nov", 0.0), ("9" * 20, 0.0)]
)
def test_seconds(text: str, expected: float) -> None:
    assert failures.seconds(text) == expected


def test_what_a_server_said_is_one_short_line() -> None:
    assert failures.short_reason(b"a\n\xffb") == "a \N{REPLACEMENT CHARACTER}b"
    assert len(failures.short_reason("x" * 1000)) == 200
    assert failures.short_reason("") == "no reason given"


def test_every_error_of_requests_is_mapped() -> None:
    """Those that are somebody else's come first; all others are RequestException, which comes last."""
    errors = [one for one in vars(requests.exceptions).values() if isinstance(one, type) and issubclass(one, Exception)]
    own = [one for one in errors if one.__module__ == "requests.exceptions"]
    assert len(own) > 15
    assert not [one for one in own if not issubclass(one, requests.RequestException | Warning)]
