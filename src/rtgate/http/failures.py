# SPDX-License-Identifier: MIT
"""What a server's failure means: whose mistake it is, and whether the same request may succeed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests

from rtgate.errors import ConfigError
from rtgate.http.patience import NotNow

_LATER = {408, 425, 429}
_LONGEST_REASON = 200


def server_url(text: str, variable: str, server: str) -> str:
    """Return a server's URL without a slash at its end.

    Args:
        text: the URL.
        variable: that it comes from.
        server: which is to be there, with an example: `a GitLab server (expected https://gitlab.example.org)`.

    Raises:
        ConfigError: it is something else, or has a password.
    """
    try:
        parts = urlsplit(text)
        wrong = parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password
    except ValueError:
        wrong = True
    if wrong:
        raise ConfigError(f"{variable} is not the URL of {server}")
    return text.rstrip("/")


@contextmanager
def errors(url: str, variable: str, authorities: str) -> Iterator[None]:
    """Turn the errors of requests into ours.

    Args:
        url: of the server.
        variable: that names it.
        authorities: the variable that names a file with the certificates to trust.

    Raises:
        ConfigError: the URL or the certificate is wrong, or the server redirects.
        NotNow: it does not answer.
    """
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise ConfigError(
            f"the certificate of {url} is not accepted ({innermost(error)}): name the file of its authority by "
            f"{authorities}"
        ) from None
    except requests.TooManyRedirects:
        raise ConfigError(f"{url} redirects: {variable} must name the server that answers itself") from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise ConfigError(f"{variable} is {url!r}, which is not a URL") from None
    except requests.RequestException as error:
        raise NotNow(f"{url} does not answer ({innermost(error)})") from None
    except OSError as error:  # one of requests' own: a file of certificates that does not exist
        raise ConfigError(f"{url}: {error} (named by {authorities}, or by REQUESTS_CA_BUNDLE)") from None


def is_passing(status: int) -> bool:
    """Return whether an answer's status is one of those that pass by themselves.

    501 does not: a server that does not know the method will not learn it.
    """
    return status in _LATER or (status >= 500 and status != 501)


def seconds(text: str) -> float:
    """Return the seconds that a header says, `Retry-After` for one; 0 where it says something else."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0.0


def short_reason(text: object) -> str:
    """Return what a server said, which may be bytes, a mapping or a page."""
    message = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(message.split())[:_LONGEST_REASON] or "no reason given"


def innermost(error: Exception) -> str:
    """Return the innermost reason: requests wraps layers of libraries in each other."""
    inner: Any = error
    for _ in range(6):
        deeper = getattr(inner, "reason", None) or next(
            (cause for cause in inner.args if isinstance(cause, Exception)), None
        )
        if not isinstance(deeper, Exception):
            break
        inner = deeper
    return short_reason(str(inner).rsplit(": ", 1)[-1] or type(inner).__name__)
