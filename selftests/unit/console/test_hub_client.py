# SPDX-License-Identifier: MIT
"""What waits for a client of the hub that does not read."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from rtgate.console.hub_client import Client

_LIMIT = 1000


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60))
def test_half_the_limit_of_the_newest_always_waits(sizes: list[int]) -> None:
    """Pieces are as large as what the line gave at once, so dropping whole ones could leave nearly nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = Client(ours, "test", None, _LIMIT)
        said = b""
        for number, size in enumerate(sizes):
            said += bytes([number]) * size
            client.queue(said[-size:])
            waits = b"".join(client.waiting)
            assert client.waiting_size == len(waits) <= _LIMIT
            assert said.endswith(waits)
            assert len(waits) >= min(len(said), _LIMIT // 2)
            assert client.dropped + len(waits) == len(said)


def test_it_is_said_once_that_bytes_are_dropped() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = Client(ours, "test", None, _LIMIT)
        assert [client.queue(b"x" * 400) for _ in range(6)] == [False, False, True, False, False, False]
