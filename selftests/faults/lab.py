# SPDX-License-Identifier: MIT
"""A board as a job finds it in a lab: booted, its console behind a TCP port that many may share."""

from __future__ import annotations

import random
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from selftests.faults.targets import Machine, Stage, Target

from rtgate.errors import TransportError


@dataclass(frozen=True, slots=True)
class Lab:
    """A console behind a port.

    Attributes:
        printed: all that the board printed.
    """

    port: int
    printed: bytearray

    @property
    def environment(self) -> dict[str, str]:
        """What LAVA tells those who run in its docker test action."""
        return {"LAVA_CONNECTION_COMMAND": f"telnet 127.0.0.1 {self.port}", "LAVA_JOB_ID": "4711"}


@contextmanager
def lab(target: Target, seed: int = 1) -> Iterator[Lab]:
    """Start a board and its console; it lives until the block is left."""
    over = threading.Event()
    with Stage.make() as stage, socket.create_server(("127.0.0.1", 0)) as server:
        board = stage.start(target, random.Random(seed))
        assert isinstance(board, Machine)
        found = Lab(server.getsockname()[1], bytearray())
        thread = threading.Thread(target=_serve, args=(board, server, over, found.printed))
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
            board.close()


def _serve(board: Machine, server: socket.socket, over: threading.Event, printed: bytearray) -> None:
    """Pass on what comes, to everybody who is there."""
    clients: list[socket.socket] = []
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while not over.is_set():
            try:
                data = board.read()
            except TransportError:
                data = b""
            printed += data
            for client in clients:
                with suppress(OSError):
                    client.sendall(data)
            for key, _ in selector.select(0):
                if key.fileobj is server:
                    clients.append(server.accept()[0])
                    selector.register(clients[-1], selectors.EVENT_READ)
                    continue
                client = clients[[one.fileno() for one in clients].index(key.fd)]
                try:
                    typed = client.recv(65536)
                except OSError:
                    typed = b""
                if typed:
                    board.write(typed)
                else:
                    selector.unregister(client)
                    clients.remove(client)
                    client.close()
    for client in clients:
        client.close()
