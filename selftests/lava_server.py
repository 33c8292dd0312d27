# SPDX-License-Identifier: MIT
"""A stand-in for a LAVA server: its REST API as rtgate uses it, with the rules of the real one, and its moods.

The rules are those of LAVA 2023.01 (`lava_rest_app`, and seen on a server): an invalid job is answered with 200, a GET
cancels, a log without news is a 404, tags of devices are numbers, a job's states follow one another.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from selftests.stand_in import Headers, Response, StandIn, run

from rtgate import strict_yaml
from rtgate.errors import ConfigError

TOKEN = "stand-in-token-0123456789"
BOARD = "one-cpu"
SITE_BOARD = """\
description: a board of a lab that the captured target fits
soc: none
arch: arm64
cpus: 1
memory: 512 MiB
console: {device: ttyS0, baud: 115200}
lava:
  device_type: one-cpu
  boot: uboot-ramdisk
  unconfirmed:
    - {what: load addresses, reason: nobody has this board}
"""
_REQUIRED = ("job_name", "timeouts", "visibility", "actions")
_OF_ONE_BOARD = ("device_type", "environment", "context", "tags")
_ROLE = {"device_type", "count", "context", "tags", "environment", "essential", "timeout"}


@dataclass
class Story:
    """What becomes of a job: its log in parts, one for each time that somebody asks for the job while it runs."""

    log: list[str] = field(default_factory=list)
    health: str = "Complete"
    device: str = "board-01"
    queued: int = 1  # times that somebody asks before it runs
    endless: bool = False  # it runs until somebody cancels it
    comment: str = ""


@dataclass
class FakeJob:
    number: int
    definition: str
    story: Story
    state: str = "Submitted"
    health: str = "Unknown"
    asked: int = 0
    log: str = ""

    def step(self) -> None:
        """Go on a little, as time would."""
        self.asked += 1
        if self.state == "Canceling":
            self.state, self.health = "Finished", "Canceled"
        elif self.state == "Submitted" and self.asked > self.story.queued:
            self.state = "Running"
        elif self.state == "Running":
            if self.story.log:
                self.log += self.story.log.pop(0)
            elif not self.story.endless:
                self.state, self.health = "Finished", self.story.health

    def as_json(self) -> dict[str, Any]:
        data = strict_yaml.data(self.definition)
        return {
            "id": self.number,
            "submitter": "gate",
            "description": data["job_name"],
            "requested_device_type": data["device_type"],
            "tags": [],
            "actual_device": self.story.device if self.state not in {"Submitted", "Scheduled"} else None,
            "submit_time": "2026-11-21T12:00:00.000000Z",
            "start_time": None,
            "end_time": None,
            "state": self.state,
            "health": self.health,
            "priority": 50,
            "definition": self.definition,
            "failure_comment": self.story.comment if self.state == "Finished" else None,
        }


@dataclass
class LavaServer(StandIn):
    """The server's tables."""

    prefix: ClassVar[str] = "/api/v0.2/"
    name: ClassVar[str] = "LAVA"

    version: str = "2023.01"
    types: dict[str, str] = field(default_factory=lambda: {"board": ""})  # health check by device type
    devices: list[dict[str, Any]] = field(default_factory=list)
    dictionaries: dict[str, str] = field(default_factory=dict)  # rendered, by device
    tags: dict[int, str] = field(default_factory=dict)
    workers: dict[str, tuple[str, str]] = field(default_factory=lambda: {"worker1": ("Online", "Active")})
    stories: deque[Story] = field(default_factory=deque)
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    mine: bool = True  # jobs are the token's own: it may cancel them

    def device(self, name: str = "board-01", *tags: int, health: str = "Good", state: str = "Idle") -> None:
        """Add a device of type `board`."""
        self.devices.append(
            {
                "hostname": name,
                "device_type": "board",
                "tags": list(tags),
                "state": state,
                "health": health,
                "worker_host": "worker1",
            }
        )

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: Headers) -> Response:
        token = headers.get("authorization", "").removeprefix("Token ")
        status, found = self._answer(method, path, query, body or {}, token)
        return status, found, {"Content-Type": "application/yaml"} if isinstance(found, str) else {}

    # --- answers: status and body

    def _answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any], token: str) -> Any:
        known = token in self.tokens
        if token and not known:
            return 401, {"detail": "Invalid token."}
        for wanted, pattern, name in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and wanted == method:
                if name in {"submit", "cancel", "whoami"} and not known:
                    return 401, {"detail": "Authentication credentials were not provided."}
                return getattr(self, f"_{name}")(query, body, *match.groups())
            if match and wanted == "GET" and method == "POST" and name == "cancel":
                return 405, {"detail": 'Method "POST" not allowed.'}
        return 404, {"detail": "Not found."}

    def _version(self, _query: Any, _body: Any) -> Any:
        return 200, {"version": self.version}

    def _whoami(self, _query: Any, _body: Any) -> Any:
        return 200, {"user": "gate"}

    def _validate(self, _query: Any, body: dict[str, Any]) -> Any:
        if not body.get("definition"):
            return 400, {"definition": "Test job definition is required."}
        wrong = self._wrong(body["definition"])
        return 200, {"message": f"Job invalid: {wrong}" if wrong else "Job valid."}

    def _wrong(self, definition: str) -> str:
        try:
            data = strict_yaml.data(definition)
        except ConfigError as error:
            return str(error)
        missing = [name for name in _REQUIRED if name not in data]
        if missing:
            return f"required key not provided @ data[{missing[0]!r}]"
        roles = _roles(data)
        if not roles:
            return "" if "device_type" in data else '"device_type" or multinode should be defined'
        return _wrong_roles(data, roles)

    def _submit(self, _query: Any, body: dict[str, Any]) -> Any:
        definition = body.get("definition", "")
        if wrong := self._wrong(definition):
            return 400, {"message": f"Problem with submitted job data: {wrong}"}
        first = len(self.jobs) + 1
        parts = split(strict_yaml.data(definition), first)
        if any(part["device_type"] not in self.types for part in parts):
            return 400, {"message": "Specified device or device type not found."}
        for number, part in enumerate(parts, first):
            story = self.stories.popleft() if self.stories else Story()
            self.jobs[number] = FakeJob(number, definition if len(parts) == 1 else strict_yaml.dump(part), story)
        numbers = [first] if len(parts) == 1 else [f"{first}.{place}" for place in range(len(parts))]
        return 201, {"message": "job(s) successfully submitted", "job_ids": numbers}

    def _list(self, query: dict[str, str], _body: Any) -> Any:
        found = sorted((job.as_json() for job in self.jobs.values()), key=lambda job: -job["id"])
        for name in ("state", "requested_device_type"):
            found = [job for job in found if name not in query or job[name] == query[name]]
        if "state__in" in query:
            found = [job for job in found if job["state"] in query["state__in"].split(",")]
        return _page(found, query)

    def _job(self, _query: Any, _body: Any, number: str) -> Any:
        job = self.jobs.get(int(number))
        if job is None:
            return 404, {"detail": "Not found."}
        job.step()
        return 200, job.as_json()

    def _logs(self, query: dict[str, str], _body: Any, number: str) -> Any:
        job = self.jobs.get(int(number))
        lines = job.log.splitlines(keepends=True)[int(query.get("start", "0")) :] if job else []
        return (200, "".join(lines)) if lines else (404, {"detail": "Not found."})

    def _cancel(self, _query: Any, _body: Any, number: str) -> Any:
        for job in self._group(int(number)):
            if self.mine and job.state != "Finished":
                job.state = "Canceling"
        return 200, {"message": "Job cancel signal sent."}

    def _group(self, number: int) -> list[FakeJob]:
        """Return the jobs of all roles of a job: who cancels one cancels them all."""
        protocol = strict_yaml.data(self.jobs[number].definition).get("protocols", {}).get("lava-multinode", {})
        return [self.jobs[int(one)] for one in protocol.get("roles", {str(number): ""})]

    def _type(self, _query: Any, _body: Any, name: str) -> Any:
        return (200, {"name": name}) if name in self.types else (404, {"detail": "Not found."})

    def _health_check(self, _query: Any, _body: Any, name: str) -> Any:
        text = self.types.get(name, "")
        return (200, text) if text else (400, {"detail": f"Device-type '{name}' health check was not found."})

    def _devices(self, query: dict[str, str], _body: Any) -> Any:
        wanted = query.get("device_type")
        return _page([one for one in self.devices if wanted in {None, one["device_type"]}], query)

    def _dictionary(self, query: dict[str, str], _body: Any, name: str) -> Any:
        if name not in self.dictionaries:
            return 400, {"detail": f"Device '{name}' does not have a configuration"}
        return 200, self.dictionaries[name] if query.get("render") else "{% extends 'x.jinja2' %}"

    def _tags(self, query: dict[str, str], _body: Any) -> Any:
        return _page([{"id": number, "name": name} for number, name in self.tags.items()], query)

    def _worker(self, _query: Any, _body: Any, name: str) -> Any:
        state, health = self.workers[name]
        return 200, {"hostname": name, "state": state, "health": health}


def _roles(data: dict[str, Any]) -> dict[str, Any]:
    roles = data.get("protocols", {}).get("lava-multinode", {}).get("roles", {})
    assert isinstance(roles, dict)
    return roles


def _wrong_roles(data: dict[str, Any], roles: dict[str, Any]) -> str:
    """Return what is wrong with a job of several boards (`lava_common/schemas/__init__.py` of 2023.01)."""
    for name in _OF_ONE_BOARD:
        if name in data:
            return f'"{name}" should not be used with multinode'
    for role in roles.values():
        if extra := set(role) - _ROLE:
            return f"extra keys not allowed @ data['protocols']['lava-multinode']['roles']: {extra}"
    blocks = [block for action in data["actions"] for block in action.values()]
    if not all(isinstance(block.get("role"), list) and set(block["role"]) <= set(roles) for block in blocks):
        return "Every action of a multinode job should have roles"
    return ""


def split(data: dict[str, Any], first: int) -> list[dict[str, Any]]:
    """Return the parts of a job, one for each role, as `split_multinode_yaml` and the scheduler of 2023.01 make them.

    `first` is the number of the first part's job.
    """
    roles = _roles(data)
    if not roles:
        return [data]
    numbers = {str(number): name for number, name in enumerate(roles, first)}
    parts = []
    for place, (name, role) in enumerate(roles.items()):
        kept = {key: value for key, value in data.items() if key not in {"protocols", "actions"}}
        actions = [
            {kind: {**block, "role": name}}
            for action in data["actions"]
            for kind, block in action.items()
            if name in block["role"]
        ]
        more = {key: role[key] for key in role if key not in {"device_type", "context", "count"}}
        group = {"target_group": "g", "group_size": len(roles), "role": name, "sub_id": place}
        protocol = {**data["protocols"]["lava-multinode"], **group, **more, "roles": numbers}
        own = {key: role[key] for key in ("device_type", "context") if key in role}
        parts.append({**kept, **own, "protocols": {"lava-multinode": protocol}, "actions": actions})
    return parts


_ROUTES = (
    ("GET", "system/version/", "version"),
    ("GET", "system/whoami/", "whoami"),
    ("POST", "jobs/validate/", "validate"),
    ("POST", "jobs/", "submit"),
    ("GET", "jobs/", "list"),
    ("GET", r"jobs/(\d+)/", "job"),
    ("GET", r"jobs/(\d+)/logs/", "logs"),
    ("GET", r"jobs/(\d+)/cancel/", "cancel"),
    ("GET", r"devicetypes/([\w.-]+)/", "type"),
    ("GET", r"devicetypes/([\w.-]+)/health_check/", "health_check"),
    ("GET", "devices/", "devices"),
    ("GET", r"devices/([\w.-]+)/dictionary/", "dictionary"),
    ("GET", "tags/", "tags"),
    ("GET", r"workers/([\w.-]+)/", "worker"),
)


def _page(entries: list[Any], query: dict[str, str]) -> Any:
    start, size = int(query.get("offset", "0")), int(query.get("limit", "50"))
    # The real one names its own host here, which a client behind a proxy cannot reach.
    more = "http://lava.invalid/next" if start + size < len(entries) else None
    return 200, {"count": len(entries), "next": more, "results": entries[start : start + size]}


@contextmanager
def lava_server() -> Iterator[LavaServer]:
    """Run a stand-in on any port."""
    server = LavaServer()
    with run(server):
        yield server
