# SPDX-License-Identifier: MIT
"""The service `rtgate webhook`: starts the review of code that nobody knew, once a member has allowed one commit of it.

A delivery is taken at once and looked into afterwards: the forge may be away, and it waits ten seconds for an answer.
What was taken is on disk before that answer, so a service that is killed goes on where it was.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.hooks import BadDelivery, Hook
from rtgate.forge.run_command import Command, CommandForge, obstacle
from rtgate.http.receiver import Receiver
from rtgate.http.secret import Token
from rtgate.records.codec import decode
from rtgate.records.document import read_document

FORMAT = 1
# Delivered again after it was forgotten, a comment allows what it allowed: a commit that was there before it.
_KEEP = 10_000
_MOST_WAITING = 1000
_REMEDY = "it says which comments were answered: remove it; what waits in it must be said again"
_END_S = 5.0  # for a request that is on its way


@dataclass(slots=True)
class Journal:
    """The commands that were taken: each is carried out once, whoever delivers it again. Any thread may use it.

    Killed between the start of a pipeline and the word of it here, it starts a second one, which does no harm.

    Raises ConfigError: the file is damaged.
    """

    path: Path
    _waiting: dict[str, Command] = field(default_factory=dict)
    _ended: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._waiting, self._ended = read_document(self.path, _parse, _REMEDY, supported=FORMAT) or ({}, [])

    @property
    def waiting(self) -> tuple[Command, ...]:
        """What was taken and is not done, the oldest first."""
        with self._lock:
            return tuple(self._waiting.values())

    def take(self, command: Command) -> bool | None:
        """Take a command; return False if it was taken before, None if too many wait. Raises OSError."""
        with self._lock:
            if command.key in self._waiting or command.key in self._ended:
                return False
            if len(self._waiting) >= _MOST_WAITING:
                return None
            self._write({**self._waiting, command.key: command}, self._ended)
            return True

    def end(self, command: Command) -> None:
        """Note that a command is done with, whatever came of it. Raises OSError."""
        with self._lock:
            commands = {key: entry for key, entry in self._waiting.items() if key != command.key}
            self._write(commands, [*self._ended, command.key][-_KEEP:])

    def _write(self, commands: dict[str, Command], keys: list[str]) -> None:
        document = {"format": FORMAT, "waiting": [asdict(command) for command in commands.values()], "ended": keys}
        files.write_text(self.path, json.dumps(document) + "\n")
        self._waiting, self._ended = commands, keys


def _parse(document: Mapping[str, Any]) -> tuple[dict[str, Command], list[str]]:
    commands = [decode(entry, Command) for entry in document["waiting"]]
    return {command.key: command for command in commands}, [str(key) for key in document["ended"]]


@dataclass(slots=True)
class WebhookService:
    """The service.

    Attributes:
        forges: by project; deliveries of others are refused.
        hook: reads a delivery.
        secret: that the forge signs with, or sends.
        journal: what was taken.
        say: is told what happens, in one line each.
    """

    forges: Mapping[str, CommandForge]
    hook: Hook
    secret: Token
    journal: Journal
    say: Callable[[str], None]
    _queue: queue.SimpleQueue[Command | None] = field(default_factory=queue.SimpleQueue)

    def run(self, address: tuple[str, int]) -> None:
        """Serve until interrupted. What waits then is carried out after the next start.

        Raises:
            ConfigError: the address cannot be had.
            InfrastructureError: a command cannot be carried out, by a defect; the service takes no more that would wait
                for ever.
        """
        for command in self.journal.waiting:
            self._queue.put(command)
        with Receiver(address, self.receive) as receiver:
            host, port = str(receiver.server_address[0]), receiver.server_port
            self.say(f"listening on {host}:{port} for {', '.join(self.forges)}")
            worker = threading.Thread(target=self._work_for, args=(receiver,), name="commands", daemon=True)
            worker.start()
            try:
                receiver.serve_forever()
            finally:
                self._queue.put(None)
                worker.join(_END_S)
        raise InfrastructureError(
            "the service has ended by a defect of rtgate, which is said above: report it, take what waits first out of "
            f"{self.journal.path}, and start it again"
        )

    def _work_for(self, receiver: Receiver) -> None:
        try:
            self.work()
        finally:
            receiver.shutdown()

    def receive(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Return the answer to a delivery: its status and one line."""
        try:
            command = self.hook(headers, body, self.secret)
        except BadDelivery as error:
            self.say(f"a delivery was refused: {error}")
            return error.status, str(error)
        if command is None:
            return 200, "nothing to do"
        if command.project not in self.forges:
            return 404, "this service does not know that project: see --project"
        return self._take(command)

    def _take(self, command: Command) -> tuple[int, str]:
        try:
            is_new = self.journal.take(command)
        except OSError as error:
            self.say(f"{self.journal.path} cannot be written: {error.strerror}")
            return 503, "try again later"
        if is_new is None:
            return 503, "too many comments wait: try again later"
        if not is_new:
            return 200, "known already"
        self._queue.put(command)
        return 202, "taken"

    def work(self) -> None:
        """Carry out what was taken, one after the other, until told to end."""
        while (command := self._queue.get()) is not None:
            where = f"{command.project}, {command.merge_request}, comment {command.comment}"
            try:
                self.say(f"{where}: {self._carry_out(command)}")
            except (ConfigError, InfrastructureError) as error:
                self.say(f"{where}: {error}; nothing was started: say it again")
            self._end(command)

    def _end(self, command: Command) -> None:
        try:
            self.journal.end(command)
        except OSError as error:
            self.say(f"{self.journal.path} cannot be written: {error.strerror}; the next start does this again")

    def _carry_out(self, command: Command) -> str:
        """Carry out a command, and return what came of it. Raises ConfigError, InfrastructureError."""
        forge = self.forges[command.project]
        comment = forge.comment(command)
        if comment is None:
            return "the comment is gone"
        if not forge.may_run(comment.author):
            return self._refuse(forge, command, f"only {forge.role}, may say it")
        proposal = forge.proposal(command)
        reason = obstacle(command, comment, proposal)
        if reason:
            return self._refuse(forge, command, reason)
        try:
            forge.start(command, proposal.head)
        except ConfigError:
            self._refuse(forge, command, "the forge does not let rtgate start it; the log of its service says why")
            raise
        return f"started {proposal.head}, which user {comment.author} allows"

    def _refuse(self, forge: CommandForge, command: Command, reason: str) -> str:
        forge.refuse(command, f"`/rtgate run` started nothing: {reason}.")
        return f"refused: {reason}"
