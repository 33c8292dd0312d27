# SPDX-License-Identifier: MIT
"""A LAVA server: what rtgate asks it, over its REST API (v0.2, in every LAVA since 2020).

What may be asked twice is asked until it is answered (`http.Patience`). A submission may not: before it is repeated,
the server is asked for jobs that carry its nonce.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtgate import strict_yaml
from rtgate.durations import Deadline
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import Http, NoAnswer, NotSent, Reply, nobody
from rtgate.http.patience import Patience
from rtgate.lava.client.access import Access
from rtgate.lava.job import multinode
from rtgate.lava.job.server_definition import Definition

FINISHED = "Finished"
QUEUED = frozenset({"Submitted", "Scheduling", "Scheduled"})
_ACTIVE = ("Submitted", "Scheduling", "Scheduled", "Running", "Canceling")
_MOST = 10_000  # entries of a list that nobody has limited
_SETTLE_S = 20.0  # after this a request whose answer got lost has been carried out, or never will be
_RECENT = 100  # jobs among which a submission is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its server describes it.

    Attributes:
        state: `Submitted Scheduling Scheduled Running Canceling Finished`.
        health: `Unknown Complete Incomplete Canceled`; Complete says that it ran, not that anything was good.
        device: the one it runs on, empty before.
        comment: why LAVA gave it up, where no log says so.
        submitted, started, ended: ISO 8601 by the server's clock, empty before.
    """

    number: int
    name: str
    state: str
    health: str
    submitter: str
    device_type: str
    device: str
    priority: str
    submitted: str
    started: str
    ended: str
    comment: str
    definition: Definition

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.state == FINISHED

    @property
    def queued(self) -> bool:
        """Whether it has not begun."""
        return self.state in QUEUED


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A board in the lab.

    Attributes:
        health: `Unknown Good Bad Looping Maintenance Retired`; of unknown health are new ones and those after a fault.
        online: whether its worker is there and takes jobs.
    """

    name: str
    device_type: str
    state: str
    health: str
    worker: str
    online: bool
    tags: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether it can run a job now or after those before."""
        return self.online and self.health in {"Good", "Unknown"}

    def has(self, tags: Collection[str]) -> bool:
        """Return whether it has all of these tags."""
        return set(tags) <= set(self.tags)


@dataclass(slots=True)
class Lava:
    """A server.

    Attributes:
        settle_s: seconds to look for a submission whose answer got lost.
        notify: is told when the server is away and when it is back.
    """

    access: Access
    patience: Patience = field(default_factory=Patience)
    settle_s: float = _SETTLE_S
    notify: Callable[[str], None] = nobody
    _http: Http = field(init=False)

    def __post_init__(self) -> None:
        self._http = Http(self.access.token, patience=self.patience, notify=self.notify)

    def version(self) -> tuple[int, int]:
        """Return year and month of the server's release."""
        release = self._get("system/version/").get("version", "")
        match = re.match(r"(\d{4})\.(\d{1,2})", str(release))
        if match is None:
            raise InfrastructureError(
                f"{self.access.url} says its version is {str(release)[:40]!r}: that is not LAVA's"
            )
        return int(match[1]), int(match[2])

    def whoami(self) -> str:
        """Return the name of our user; empty without a token. Raises ConfigError if the token is refused."""
        return str(self._get("system/whoami/").get("user", ""))

    def validate(self, definition: str) -> str:
        """Return what the server's schema has against a job, empty for nothing.

        LAVA answers 200 for an invalid job too; only its text tells.
        """
        body = {"definition": definition, "strict": True}
        reply = self._http.repeat("POST", self._url("jobs/validate/"), json=body, kind=dict)
        message = _message(reply)
        return "" if reply.status == 200 and message == "Job valid." else message

    def submit(self, definition: str, nonce: str) -> int:
        """Submit a job once, whatever happens to the answer, and return its number.

        The metadata of `definition` hold `nonce`, which no other job has.

        Raises:
            ConfigError: the server refuses the job.
            InfrastructureError: it has no device for it, or cannot be reached.
        """
        deadline, arrived = Deadline.after(self.patience.total), False
        for wait in self.patience.waits():
            problem: InfrastructureError | None = None
            number: int | None = None
            try:
                number = self._submit(definition)
            except NotSent as error:
                problem = error
            except NoAnswer as error:
                problem, arrived = error, True
                number = self._find_late_job(nonce)
            if number is not None:
                if arrived:
                    self._cancel_duplicates(number, nonce)
                return number
            if deadline.remaining <= wait:
                raise InfrastructureError(f"the job could not be submitted: {problem}") from problem
            time.sleep(wait)
        raise AssertionError  # waits() never ends

    def submit_once(self, definition: str) -> int:
        """Submit a job that has no nonce of ours: nobody could tell whether it arrived, so it is not repeated."""
        try:
            return self._submit(definition)
        except NoAnswer as error:
            raise InfrastructureError(f"{error}: the job may have been submitted, look at {self.access.url}") from error

    def _submit(self, definition: str) -> int:
        reply = self._http.once("POST", self._url("jobs/"), json={"definition": definition}, kind=dict)
        if reply.status == 201:
            # Of two boards in one job it is 12.0 and 12.1, and 12 is the job of the first role.
            return int(str(reply.value["job_ids"][0]).partition(".")[0])
        message = _message(reply)
        if "unavailable" in message or "not found" in message:
            raise InfrastructureError(f"{self.access.url} has no device for the job: {message}")
        raise ConfigError(f"{self.access.url} refuses the job: {message}")

    def _find_late_job(self, nonce: str) -> int | None:
        """Look for a job that may still be on its way into the server's table."""
        deadline = Deadline.after(self.settle_s)
        for wait in self.patience.waits():
            numbers = self.find(nonce)
            if numbers or deadline.expired:
                return min(numbers) if numbers else None
            time.sleep(deadline.sooner(wait))
        raise AssertionError

    def _cancel_duplicates(self, number: int, nonce: str) -> None:
        """Cancel what a submission that was repeated has made twice all the same."""
        for job_number in self.find(nonce):
            if job_number != number:
                self.cancel(job_number)

    def find(self, nonce: str) -> tuple[int, ...]:
        """Return the jobs that carry a nonce, of the latest hundred; of two boards in one job the root complex's."""
        return tuple(
            job.number
            for job in self.jobs(_RECENT)
            if nonce in job.definition.text and job.definition.role != multinode.ENDPOINT
        )

    def job(self, number: int) -> Job:
        """Return a job. Raises ConfigError: there is none of this number, or it is not for us to see."""
        return _job(self._get(f"jobs/{number}/", f"no job {number} on {self.access.url} (or it is not visible to us)"))

    def jobs(self, count: int, **filters: str) -> Iterator[Job]:
        """Yield the latest jobs, with filters such as `state` or `requested_device_type`."""
        yield from (_job(entry) for entry in self._list("jobs/", count, {"ordering": "-id", **filters}))

    def active_jobs(self) -> Iterator[Job]:
        """Yield every job that has not ended, the newest first."""
        yield from self.jobs(_MOST, state__in=",".join(_ACTIVE))

    def log(self, number: int, start: int = 0) -> str:
        """Return a job's log from a line on; empty while there is nothing new, which LAVA says by 404."""
        reply = self._http.repeat("GET", self._url(f"jobs/{number}/logs/"), params={"start": str(start)})
        if reply.status not in {200, 404}:
            raise InfrastructureError(f"the log of job {number} cannot be read: HTTP {reply.status}")
        return reply.text if reply.status == 200 else ""

    def cancel(self, number: int) -> None:
        """Cancel a job. In this API it is a GET; a job that has ended stays as it is."""
        reply = self._http.repeat("GET", self._url(f"jobs/{number}/cancel/"), kind=dict)
        if reply.status != 200:
            raise ConfigError(f"job {number} cannot be cancelled: {_message(reply)}")

    def knows(self, device_type: str) -> bool:
        """Return whether the server has a device type."""
        return self._http.repeat("GET", self._url(f"devicetypes/{device_type}/"), kind=dict).status == 200

    def health_check(self, device_type: str) -> str:
        """Return the definition of a device type's health check, empty without one (which LAVA answers with 400)."""
        reply = self._http.repeat("GET", self._url(f"devicetypes/{device_type}/health_check/"))
        return reply.text if reply.status == 200 else ""

    def devices(self, device_type: str = "") -> tuple[Device, ...]:
        """Return the devices of a type, or of all types, that are not retired."""
        tags = {entry["id"]: str(entry["name"]) for entry in self._list("tags/", 1000, {})}
        workers: dict[str, bool] = {}
        devices = []
        query = {"device_type": device_type} if device_type else {}
        for entry in self._list("devices/", _MOST, query):
            worker = str(entry.get("worker_host") or "")
            if worker and worker not in workers:
                workers[worker] = self._takes_jobs(worker)
            device_tags = tuple(tags.get(tag, str(tag)) for tag in entry.get("tags") or ())
            devices.append(_device(entry, online=workers.get(worker, False), tags=device_tags))
        return tuple(device for device in devices if device.health != "Retired")

    def dictionary(self, device: str) -> Mapping[str, Any]:
        """Return a device's dictionary as the server renders it. Raises ConfigError: it is broken, or hidden."""
        reply = self._http.repeat("GET", self._url(f"devices/{device}/dictionary/"), params={"render": "true"})
        if reply.status != 200:
            raise ConfigError(f"the dictionary of {device} cannot be read: {_message(reply)}")
        dictionary = strict_yaml.data(reply.text)
        return dictionary if isinstance(dictionary, dict) else {}

    def waiting(self, device_type: str) -> int:
        """Return how many jobs wait for a device of a type."""
        query = {"state": "Submitted", "requested_device_type": device_type, "limit": "1"}
        return int(self._get("jobs/", **query).get("count", 0))

    def _takes_jobs(self, worker: str) -> bool:
        entry = self._get(f"workers/{worker}/")
        return entry.get("state") == "Online" and entry.get("health") == "Active"

    def _list(self, path: str, count: int, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield entries page by page; `next` of the answer may name a host that only the server knows."""
        offset, size = 0, min(count, 100)
        while offset < count:
            page = self._get(path, limit=str(size), offset=str(offset), **query)
            entries = page.get("results", ())[: count - offset]
            yield from entries
            offset += len(entries)
            if not entries or not page.get("next"):
                return

    def _get(self, path: str, message: str = "", **query: str) -> dict[str, Any]:
        reply = self._http.repeat("GET", self._url(path), params=query, kind=dict)
        if reply.status == 404:
            raise ConfigError(message or f"{self.access.url} has no {path}: is that a LAVA server?")
        if reply.status != 200:
            raise ConfigError(f"{self.access.url} refuses {path}: {_message(reply)}")
        value: dict[str, Any] = reply.value
        return value

    def _url(self, path: str) -> str:
        return f"{self.access.url}/api/v0.2/{path}"


def _message(reply: Reply) -> str:
    """Return what LAVA says in an answer, in the several forms that its API has."""
    try:
        answer = reply.json("LAVA")
    except NoAnswer:
        return f"HTTP {reply.status}"
    if isinstance(answer, dict):
        message = answer.get("message") or answer.get("detail") or "; ".join(f"{key}: {answer[key]}" for key in answer)
        return " ".join(str(message).split())[:500]
    return f"HTTP {reply.status}: {str(answer)[:200]}"


def _job(entry: Mapping[str, Any]) -> Job:
    def text(name: str) -> str:
        return str(entry.get(name) or "")

    return Job(
        number=int(entry["id"]),
        name=text("description"),
        state=text("state"),
        health=text("health"),
        submitter=text("submitter"),
        device_type=text("requested_device_type"),
        device=text("actual_device"),
        priority=text("priority"),
        submitted=text("submit_time"),
        started=text("start_time"),
        ended=text("end_time"),
        comment=text("failure_comment"),
        definition=Definition(text("definition") or text("original_definition")),
    )


def _device(entry: Mapping[str, Any], *, online: bool, tags: tuple[str, ...]) -> Device:
    return Device(
        name=str(entry["hostname"]),
        device_type=str(entry.get("device_type") or ""),
        state=str(entry.get("state", "")),
        health=str(entry.get("health", "")),
        worker=str(entry.get("worker_host") or ""),
        online=online,
        tags=tags,
    )
