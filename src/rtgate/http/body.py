# SPDX-License-Identifier: MIT
"""Reading the body of an answer by a deadline.

A timeout of requests is for each byte that comes: a server that sends one now and then would hold a call for ever.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from rtgate.durations import Deadline

_PART = 1 << 20  # bytes; a log of a long job over a slow line takes its time


def read_text(response: requests.Response, part_s: float, deadline: Deadline) -> str:
    """Return the body of an answer that was asked for with `stream`.

    Args:
        response: the answer.
        part_s: seconds that each MiB of it may take.
        deadline: for all of it.

    Raises:
        requests.Timeout: it takes longer.
        requests.RequestException: it ended too early, or cannot be decoded.
    """
    parts, body = response.iter_content(_PART), bytearray()
    allowance = Deadline.after(deadline.sooner(part_s))
    while part := _next_part(parts, response, allowance):
        if len(body) // _PART < (len(body) + len(part)) // _PART:
            allowance = Deadline.after(deadline.sooner(part_s))
        body += part
    try:
        return body.decode(response.encoding or "utf-8", "replace")
    except LookupError:  # an encoding that only the server knows
        return body.decode("utf-8", "replace")


def _next_part(parts: Iterator[bytes], response: requests.Response, allowance: Deadline) -> bytes:
    """Return the next bytes; nothing at the end. Raises as `read_text`."""
    with _cut_off(response, allowance) as overdue:
        try:
            part = next(parts, b"")
        except requests.RequestException:
            if not overdue.is_set():
                raise
            part = b""
    if overdue.is_set():
        raise requests.Timeout
    return part


@contextmanager
def _cut_off(response: requests.Response, deadline: Deadline) -> Iterator[threading.Event]:
    """Shut the connection down where the block takes longer, so that reading ends at once; the event says so."""
    overdue = threading.Event()
    try:
        connection = socket.socket(fileno=os.dup(response.raw.fileno()))
    except (OSError, ValueError, AttributeError):  # everything has come: nobody waits for more
        yield overdue
        return

    def cut() -> None:
        overdue.set()
        with contextlib.suppress(OSError):  # the server was first
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(deadline.remaining, cut)
    timer.daemon = True
    with connection:
        timer.start()
        try:
            yield overdue
        finally:
            timer.cancel()
            timer.join()
