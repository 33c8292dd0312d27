# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.errors import ConfigError
from rtgate.lava.job.urls import directory_url, file_url, storage_url, suffix


@pytest.mark.parametrize(
    "url", ["https://h/Image", "file:///srv/Image", "scp://u@h/Image", "https://h/r.cpio.gz?inline=false"]
)
def test_urls_that_are_given(url: str) -> None:
    assert file_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://u:secret@h/x",
        "https://token@h/x",
        "http://h/a b",
        "http://h/\n",
        "http://[",
        "http://h/",
        "ftp://h/x",
        "scp://-oProxyCommand=x@h/x",
        "scp://u:secret@h/x",
        "javascript:1",
        "http://h/\x1b[m",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        file_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["private_token", "job_token", "access-token", "PASSWORD", "client_secret"])
def test_a_url_with_a_secret_in_its_query_never_gets_into_a_job(key: str) -> None:
    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        file_url(f"https://h/Image?x=1&{key}=hidden")
    assert "hidden" not in str(caught.value)
    assert file_url("https://h/Image?X-Amz-Signature=1").endswith("=1")


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "h/x", "https://u:hidden@h/x", "https://h/x?sig=hidden", "https://h/x#hidden", "https:///x"]
)
def test_what_is_no_storage(url: str) -> None:
    with pytest.raises(ConfigError, match="--put") as caught:
        storage_url(url, "--put", "RTGATE_PUT_TOKEN")
    assert "hidden" not in str(caught.value)
    assert storage_url("https://h/x", "--put", "RTGATE_PUT_TOKEN") == "https://h/x"


def test_a_query_is_no_part_of_a_suffix() -> None:
    assert suffix("https://h/rootfs.cpio.gz?inline=false") == "gz"


def test_a_directory_needs_no_file_name_and_has_no_query() -> None:
    assert directory_url("https://h/builds/4711/") == "https://h/builds/4711/"
    with pytest.raises(ConfigError, match="no query"):
        directory_url("https://h/builds?x=1")
