# SPDX-License-Identifier: MIT
"""The service `rtgate gerrit`: reviews each new patch set once, one after the other.

Events only say that something happened: Gerrit is asked what holds now. It is also asked about everything at the start,
after each break and every few minutes, so an event that got lost does no harm.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import exclusive_lock
from rtgate.forge.gerrit import ANSWERED
from rtgate.forge.gerrit_chain import chain
from rtgate.forge.gerrit_change import CHAIN, PatchSet, chain_variable
from rtgate.forge.gerrit_events import DROPPED, KINDS, QUERY_KINDS, Event
from rtgate.forge.gerrit_server import URL, GerritServer
from rtgate.http.patience import Patience
from rtgate.process import die_with_parent
from rtgate.workflow.gerrit_queue import STARTS, Journal, ReviewQueue
from rtgate.workflow.gerrit_stream import EventStream, SshAddress

# The service asks again by itself.
PATIENCE = Patience(connect=10.0, answer=60.0, total=20.0)
KERNELS = "kernels"
_TICK_S = 0.5
# ssh does not say when Gerrit began to send events: what was pushed in between is found by asking once more.
_SETTLE_S = 10.0
# Gerrit tells of the changes of a series one by one, and for a moment knows nothing of those above the first.
_SERIES_S = 5.0
_LISTING_S = 300.0
_STEADY_S = 60.0  # a connection that held so long was a good one: the next wait is short again
# `rtgate review` cancels its jobs in the lab when it is told to end.
_END_S = 120.0
_ENDS = range(6)  # exit codes of rtgate; an interrupted one has others


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What is reviewed, and how.

    Attributes:
        projects: whose changes; branches: of these branches, of all if empty.
        query: what a change and all below it must meet besides, in the words of Gerrit's search; empty for nothing.
        since_s: changes that nobody has touched for so long are left alone until somebody does.
        output: gets a directory and a log for each patch set, and the service's own file.
        report_url: where a web server shows `output`; empty for nowhere.
        command: reviews the patch set that the environment names; `-o DIR` and `--report-url` are added.
    """

    projects: tuple[str, ...]
    branches: tuple[str, ...] = ()
    query: str = ""
    since_s: float
    output: Path
    report_url: str = ""
    command: tuple[str, ...]

    def review(self, patch_set: PatchSet) -> tuple[str, ...]:
        """Return the command line of a patch set's review."""
        report = self.log(patch_set).with_suffix("")
        options = ("--report-url", f"{self.report_url.rstrip('/')}/{report.name}/") if self.report_url else ()
        return (*self.command, *options, "-o", str(report))

    def log(self, patch_set: PatchSet) -> Path:
        """Return the file of what a review says; its report is in the directory of that name without `.log`."""
        return self.output / f"{patch_set.change}-{patch_set.number}.log"

    def answered(self, patch_set: PatchSet) -> Path:
        """Return the file that a review leaves when its answer is in Gerrit."""
        return self.log(patch_set).with_suffix(".answered")

    def search(self) -> str:
        """Return the search for open changes that are ready for review. Raises ConfigError."""
        parts = ["status:open", "-is:wip", _either("project", self.projects), _either("branch", self.branches)]
        return " ".join([*filter(None, parts), *([f"({self.query})"] if self.query else [])])


def _either(operator: str, names: Sequence[str]) -> str:
    for name in names:
        if not name or any(letter in name for letter in '"{}\\') or not name.isprintable():
            raise ConfigError(f"{name!r} is not the name of a {operator} in Gerrit")
    alternatives = " OR ".join(f'{operator}:"{name}"' for name in names)
    return f"({alternatives})" if names else ""


def review_command(tree: Path, output: Path, options: Sequence[str]) -> tuple[str, ...]:
    """Return the command line of `rtgate review` for one patch set, with more options of its own.

    All patch sets share the directory of kernels: most have a baseline in common.
    """
    command = (sys.executable, "-P", "-m", "rtgate", "review", "--forge", "gerrit", "--tree", str(tree))
    return (*command, "--kernels", str(output / KERNELS), *options)


@dataclass(slots=True)
class Review:
    """The review that runs: a child process in a session of its own, which a terminal's Ctrl-C does not reach.

    Attributes:
        chain: the patch sets that are answered, the first one first; the last one is measured.
    """

    chain: tuple[PatchSet, ...]
    child: subprocess.Popen[bytes]

    @classmethod
    def start(cls, chain: tuple[PatchSet, ...], settings: ServiceSettings, url: str) -> Review:
        """Start a review; what it says is in a log beside its directory. Raises InfrastructureError: it cannot be."""
        patch_set = chain[-1]
        answered = settings.answered(patch_set)
        own = {**patch_set.variables(), CHAIN: chain_variable(chain), URL: url, ANSWERED: str(answered)}
        try:
            answered.unlink(missing_ok=True)
            with settings.log(patch_set).open("ab") as log:
                child = subprocess.Popen(
                    die_with_parent(settings.review(patch_set), "TERM"),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **own},
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"{patch_set.name}: its review cannot be started: {error}") from error
        return cls(chain, child)

    @property
    def patch_set(self) -> PatchSet:
        """The one that is measured."""
        return self.chain[-1]

    def covers(self, patch_set: PatchSet) -> bool:
        """Return whether it answers this patch set, or a newer one of its change."""
        return any(member.change == patch_set.change and member.number >= patch_set.number for member in self.chain)

    def end(self) -> None:
        """End it: SIGTERM, and SIGKILL for all of its session if that takes too long or the user insists."""
        self.child.terminate()
        try:
            self.child.wait(_END_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()


@dataclass(slots=True)
class GerritService:
    """The service.

    Attributes:
        say: is told what happens, in one line each.
        waits: yields how long to wait before each new connection, in seconds.
    """

    server: GerritServer
    ssh: SshAddress
    settings: ServiceSettings
    say: Callable[[str], None]
    waits: Callable[[], Iterator[float]] = Patience(first=1.0, longest=60.0).waits
    _queue: ReviewQueue = field(init=False)
    _review: Review | None = None
    _worked: bool = False
    _ask_at: float = 0.0
    _begin_at: float = 0.0
    _left: dict[int, tuple[PatchSet, str]] = field(default_factory=dict)

    def run(self) -> None:
        """Review patch sets until interrupted; then no review, no connection and no lock stays behind.

        Raises:
            ConfigError: Gerrit refuses us at the first attempt, or a file of the service is damaged.
            InfrastructureError: another service uses the same directory.
        """
        self.settings.search()
        with exclusive_lock(self.settings.output / "lock", str(self.settings.output)):
            self._queue = ReviewQueue(Journal(self.settings.output / "reviewed.json"))
            try:
                self._follow_for_ever()
            finally:
                if self._review is not None:
                    self._end_review("the service ends")

    def _follow_for_ever(self) -> None:
        waits = self.waits()
        while True:
            start = time.monotonic()
            reason = self._follow()
            if time.monotonic() - start > _STEADY_S:
                waits = self.waits()
            wait = next(waits)
            self.say(f"{reason}; connecting again in {wait:.0f} s")
            self._pause(wait)

    def _follow(self) -> str:
        """Follow the events of one connection, and return why it ended. Raises ConfigError if the first one fails."""
        kinds = (*KINDS, *QUERY_KINDS) if self.settings.query else KINDS
        with EventStream(self.ssh.argv(kinds)) as stream:
            try:
                if not self._worked:
                    self._require_names()
                self._ask_all()
                self._ask_at = time.monotonic() + _SETTLE_S
                self.say(f"following {self.server.access.url}")
                while stream.open:
                    events = stream.read(_TICK_S)
                    self._look_after_review()  # first: of one that has just ended another may be asked for
                    self._notice(events)
                    if stream.open:
                        self._begin_review()
            except (InfrastructureError, ConfigError) as error:
                if isinstance(error, ConfigError) and not self._worked:
                    raise
                return str(error)
            if stream.refused and not self._worked:
                raise ConfigError(f"ssh to {self.ssh.user}@{self.ssh.host}:{self.ssh.port}: {stream.reason}")
            return stream.reason

    def _require_names(self) -> None:
        """Check names, but for patterns (`^`): of a wrong one no event would ever come. Raises ConfigError."""
        user, projects = self.server.access.user, self.settings.projects
        for project in projects:
            if not self.server.has(project):
                raise ConfigError(f"{self.server.access.url} has no project {project}, or {user} may not read it")
        for branch in self.settings.branches:
            if not branch.startswith("^") and not any(self.server.has(project, branch) for project in projects):
                raise ConfigError(
                    f"{self.server.access.url}: {', '.join(projects)} has no branch {branch}, or {user} may not read it"
                )

    def _notice(self, events: Sequence[Event]) -> None:
        """Ask Gerrit about what happened, or about everything when it is time to."""
        mine = [event for event in events if event.project in self.settings.projects]
        for event in mine:
            self._reopen(event)
        # What is said of a change may be what one above it waits for.
        for change in dict.fromkeys([*(event.change for event in mine), *(self._left if mine else ())]):
            self._ask(change)
        if any(event.kind == DROPPED for event in events) or time.monotonic() >= self._ask_at:
            self._worked = True  # the connection held until now
            self._ask_all()

    def _reopen(self, event: Event) -> None:
        """Have a patch set reviewed again for whom it is asked; what it prints may be in an answer of ours."""
        if event.run_for in {"", self.server.access.user}:
            return
        if self._review is not None and event.change in {member.change for member in self._review.chain}:
            self.say(f"change {event.change}: {event.run_for} wants it reviewed again, but its review runs")
        elif self._queue.journal.reopen(event.change):
            self.say(f"change {event.change}: {event.run_for} wants it reviewed again")

    def _ask_all(self) -> None:
        """Take every change that is open, and look after those that wait or run."""
        self._ask_at = time.monotonic() + _LISTING_S
        age = f"-age:{max(1, round(self.settings.since_s / 60))}m"
        patch_sets = list(self.server.patch_sets(f"{self.settings.search()} {age}"))
        for patch_set in patch_sets:
            self._offer(patch_set)
        review_changes = (self._review.patch_set.change,) if self._review else ()
        for change in {*review_changes, *self._queue.changes} - {patch_set.change for patch_set in patch_sets}:
            self._ask(change)

    def _ask(self, change: int) -> None:
        patch_sets = list(self.server.patch_sets(f"{self.settings.search()} change:{change}"))
        for patch_set in patch_sets:
            self._offer(patch_set)
        if not patch_sets:
            self._withdraw(change)

    def _offer(self, patch_set: PatchSet) -> None:
        if self._review and self._review.covers(patch_set):
            return
        below: tuple[PatchSet, ...] = ()
        if self._review and self._review.patch_set.change == patch_set.change:
            below = self._end_review(f"patch set {patch_set.number} replaces it")
        first = not self._queue.changes
        if self._queue.wants(patch_set) and self._vouched(patch_set) and self._queue.offer(patch_set):
            self.say(f"{patch_set.name}: waits for its review")
            self._begin_at = time.monotonic() + _SERIES_S if first else self._begin_at
        for member in below:
            self._ask(member.change)

    def _vouched(self, patch_set: PatchSet) -> bool:
        """Return whether the query holds for all that is built with a patch set; say once if it does not."""
        if not self.settings.query:
            return True
        why = self.server.unread_parent(patch_set, self.settings.query)
        last_refusal = self._left.pop(patch_set.change, None)
        if why:
            self._left[patch_set.change] = (patch_set, why)
            if last_refusal != (patch_set, why):
                self.say(f"{patch_set.name}: is left alone: {why}")
        return not why

    def _withdraw(self, change: int) -> None:
        self._left.pop(change, None)
        if self._review and self._review.patch_set.change == change:
            for patch_set in self._end_review("it is not open any more, or not ready for review"):
                self._ask(patch_set.change)
        if self._queue.withdraw(change):
            self.say(f"change {change}: taken off the queue, it is not open any more or not ready for review")

    def _pause(self, seconds: float) -> None:
        """Wait while Gerrit is away: what runs may go on, and nothing new begins."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            self._look_after_review()
            time.sleep(min(_TICK_S, rest))

    def _look_after_review(self) -> None:
        if self._review is not None and (code := self._review.child.poll()) is not None:
            review, self._review = self._review, None
            for patch_set in review.chain:
                self._note_end(patch_set, code, review.patch_set)

    def _begin_review(self) -> None:
        """Start the next review, unless one runs."""
        if self._review is not None or time.monotonic() < self._begin_at:
            return
        with self._queue.next() as patch_set:
            members = self._chain(patch_set) if patch_set else ()
        for member in members:
            self._queue.withdraw(member.change)
        if members:
            below = ", ".join(str(member.change) for member in members[:-1])
            self.say(f"{members[-1].name}: review begins{f', with those below it: {below}' if below else ''}")
            self._review = self._start(members)

    def _start(self, members: tuple[PatchSet, ...]) -> Review:
        """Start a review; one that cannot be, as on a full disk, does not count. Raises InfrastructureError."""
        starts: list[PatchSet] = []
        try:
            for member in members:
                starts.append(member)
                self._queue.journal.start(member)
            return Review.start(members, self.settings, self.server.access.url)
        except InfrastructureError:
            for member in starts:
                with contextlib.suppress(InfrastructureError):  # the journal knows it all the same
                    self._queue.journal.undo(member)
            for member in members:
                self._queue.offer(member)
            raise

    def _chain(self, patch_set: PatchSet) -> tuple[PatchSet, ...]:
        """Return what is reviewed with a patch set; nothing where a newer one has come meanwhile."""
        links = self.server.related_changes(patch_set)
        for link in links:  # a series is pushed at once, and its events come one by one
            if link.newest and link.change != patch_set.change and link.change not in self._queue.changes:
                self._ask(link.change)
        if any(link.change == patch_set.change and not link.newest for link in links):
            self._ask(patch_set.change)
            return ()
        members = chain(links, patch_set, self._queue.waiting)
        return members if self._vouched(members[-1]) else ()

    def _has_answered(self, code: int | None, tip: PatchSet) -> bool:
        # Not by the code alone: a FAIL hides that Gerrit was away, and that nobody has read it.
        return code in _ENDS and self.settings.answered(tip).exists()

    def _note_end(self, patch_set: PatchSet, code: int, tip: PatchSet) -> None:
        """What is in Gerrit is an end, also that a lab failed; what was killed, or could not answer, is tried again."""
        if self._has_answered(code, tip):
            try:
                self._queue.journal.end(patch_set)
            except InfrastructureError as error:
                self.say(str(error))  # it is in memory, and on disk with the next word
            self.say(f"{patch_set.name}: review ended with exit code {code} (log: {self.settings.log(tip)})")
            return
        what = f"review {'left no answer' if code in _ENDS else 'was interrupted'} (exit code {code})"
        if self._queue.offer(patch_set):
            what += ", waits for another one"
        else:
            what += ", a newer patch set waits" if self._queue.journal.open(patch_set) else f" {STARTS} times, given up"
        self.say(f"{patch_set.name}: {what}")

    def _end_review(self, reason: str) -> tuple[PatchSet, ...]:
        """End the review that runs, without a vote, as if it had not begun; return the patch sets below it."""
        assert self._review
        review, self._review = self._review, None
        self.say(f"{review.patch_set.name}: review is ended: {reason}")
        review.end()
        is_over = self._has_answered(review.child.returncode, review.patch_set)  # it came to its end meanwhile
        note = self._queue.journal.end if is_over else self._queue.journal.undo
        for patch_set in review.chain:
            try:
                note(patch_set)
            except InfrastructureError as error:
                self.say(str(error))  # it is in memory, and on disk with the next word
        return () if is_over else review.chain[:-1]
