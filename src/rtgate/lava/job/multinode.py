# SPDX-License-Identifier: MIT
"""One job for two boards: LAVA's MultiNode, with a root complex that is measured and the endpoint on its PCIe cable.

The endpoint boots first and is set up, since the root complex looks for it only while it boots. Then the endpoint
measures its own cases while the root complex waits, and the root complex measures while the endpoint waits: neither
disturbs the other. At the end the endpoint says that it is still there. The boards tell each other by LAVA's messages
(`lava-send`, `lava-wait`); while one waits, LAVA reads nothing of its console.

LAVA makes a job of its own for each role, with the part of the definition that names the role. Sources: LAVA 2023.01,
`doc/v2/multinode.rst`, `lava_scheduler_app/utils.py` (split_multinode_yaml), `lava_dispatcher/action.py`
(call_protocols).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rtgate import strict_yaml
from rtgate.errors import ConfigError
from rtgate.lava.job import definition, template
from rtgate.lava.job.definition import JobRequest, lava_of
from rtgate.lava.job.server_definition import MULTINODE
from rtgate.lava.job.template import Template

_TABLES = ("actions", "connections")
ROOT_COMPLEX, ENDPOINT = "root-complex", "endpoint"

_READY = "rtgate-endpoint-ready"  # it is set up: the root complex may boot
_UP = "rtgate-root-complex-up"  # it has booted: the endpoint may measure
_IDLE = "rtgate-endpoint-idle"  # it has measured: the root complex may
_END = "rtgate-root-complex-end"  # it has measured: the endpoint may end
_THERE = "rtgate-endpoint-there"  # it was there to the end: what the root complex measured counts
_SET_UP_S = 300  # what a set-up may take
_SCRIPT = "/tmp/rtgate-set-up"  # noqa: S108 - in the RAM of a board that this job alone has
_FAILURE = "infra: the endpoint could not be set up: its log says at which line of the set-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint's part of a job.

    Attributes:
        request: what it boots and measures, once, by LAVA's shell on the board itself (transport `board`).
        set_up: a shell script that makes an endpoint of the board, as its kernel's documentation says.
    """

    request: JobRequest
    set_up: str


def render(root_complex: JobRequest, endpoint: Endpoint) -> str:
    """Return the definition of a job for both boards as YAML. Raises ConfigError as `definition.render`."""
    if len(root_complex.arms) > 1:
        raise ConfigError("a job with an endpoint measures one kernel: leave the baseline out")
    wait_s = template.find(lava_of(endpoint.request.board).boot).seconds() + _SET_UP_S
    first = definition.data(_root_complex(root_complex))
    second = definition.data(_endpoint(endpoint, root_complex, wait_s))
    _hold_boot(first, template.find(lava_of(root_complex.board).boot), wait_s)
    _, _, action = first["actions"][:3]  # deploy, boot, and the test that waits for what the endpoint measures
    action["test"]["timeout"] = {"seconds": root_complex.test_s + endpoint.request.test_s}
    timeouts = _timeouts(first, second, wait_s)
    roles = {ROOT_COMPLEX: first, ENDPOINT: second}
    return strict_yaml.dump(
        {
            "job_name": first["job_name"],
            "priority": first["priority"],
            "visibility": first["visibility"],
            "timeouts": timeouts,
            "protocols": {
                MULTINODE: {
                    "timeout": dict(timeouts["job"]),
                    "roles": {role: _role(part) for role, part in roles.items()},
                }
            },
            "metadata": {**second["metadata"], **first["metadata"]},
            "actions": [*_actions(second, ENDPOINT), *_actions(first, ROOT_COMPLEX)],
        }
    )


def unanswered(texts: Iterable[str]) -> bool:
    """Return whether a root complex was waiting for its endpoint when its log ended."""
    waits = False
    for text in texts:
        if f"<LAVA_WAIT {_IDLE}>" in text or f"<LAVA_WAIT {_THERE}>" in text:
            waits = True
        elif "<LAVA_WAIT_COMPLETE" in text:
            waits = False
    return waits


def _root_complex(request: JobRequest) -> JobRequest:
    """Return the request with what the test of its first boot and of its last one begin with."""
    opening: list[tuple[str, ...]] = [()] * len(request.boots)
    opening[0] = (f"lava-send {_UP}", f"lava-wait {_IDLE}")
    # A trap, so that the endpoint does not wait for a test that broke off.
    opening[-1] = (f"trap 'lava-send {_END}; lava-wait {_THERE}' EXIT", *opening[-1])
    return replace(request, opening=tuple(opening))


def _endpoint(endpoint: Endpoint, root_complex: JobRequest, wait_s: int) -> JobRequest:
    """Return the endpoint's request: set up, measure when the root complex is up, and stay until it has measured."""
    request = endpoint.request
    payload = base64.encodebytes(endpoint.set_up.encode()).decode().strip()
    set_up = (
        f"base64 -d >{_SCRIPT} <<'RTGATE_SET_UP'\n{payload}\nRTGATE_SET_UP",
        f'sh -ex {_SCRIPT} || lava-test-raise "{_FAILURE}"',
        f"lava-send {_READY} ready=yes",
    )
    measure = (f"lava-wait {_UP}", *request.steps[0], f"lava-send {_IDLE}")
    stay = (f"lava-wait {_END}", f"lava-send {_THERE}")
    way = template.find(lava_of(root_complex.board).boot)
    other_s = len(root_complex.boots) * (way.seconds() + root_complex.test_s)
    return replace(
        request,
        test_s=_SET_UP_S + request.test_s + wait_s + other_s,
        steps=((*set_up, *measure, *stay),),
    )


def _hold_boot(data: dict[str, Any], way: Template, wait_s: int) -> None:
    """Let the first deploy wait for the endpoint: what comes before a boot is the only place that can."""
    deploy = data["actions"][0]["deploy"]
    deploy["protocols"] = {
        MULTINODE: [
            {
                "action": f"{deploy['to']}-deploy",
                "request": "lava-wait",
                "messageID": _READY,
                "message": {"ready": "$ready"},  # LAVA refuses a message that brings no value
                "timeout": {"seconds": wait_s},
            }
        ]
    }
    deploy["timeout"] = {"seconds": way.seconds() + wait_s}


def _role(data: Mapping[str, Any]) -> dict[str, object]:
    """Return a role's device. If its job breaks, LAVA ends the other one, too."""
    device = {key: data[key] for key in ("device_type", "tags", "context") if key in data}
    return {**device, "count": 1, "essential": True}


def _actions(data: Mapping[str, Any], name: str) -> list[dict[str, object]]:
    return [{kind: {"role": [name], **block} for kind, block in action.items()} for action in data["actions"]]


def _longer(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time limits by name, of two of one name the longer one."""
    return {
        name: max((table[name] for table in (first, second) if name in table), key=lambda limit: timedelta(**limit))
        for name in {**first, **second}
    }


def _timeouts(first: Mapping[str, Any], second: Mapping[str, Any], wait_s: int) -> dict[str, Any]:
    """Return the time limits of both, of each the longer one: LAVA has one table for all roles."""
    mine, theirs = first["timeouts"], second["timeouts"]
    limits: dict[str, Any] = {}
    for name in {**theirs, **mine}:
        if name in _TABLES:
            limits[name] = _longer(mine.get(name, {}), theirs.get(name, {}))
        else:
            limits |= _longer(*({name: own[name]} if name in own else {} for own in (mine, theirs)))
    shell = limits.get("connections", {}).get("lava-docker-test-shell")
    if shell:
        limits["connections"] = {**limits["connections"], "lava-multinode-docker-test-shell": dict(shell)}
    minutes = max(first["timeouts"]["job"]["minutes"] + -(-wait_s // 60), second["timeouts"]["job"]["minutes"])
    return {**limits, "job": {"minutes": minutes}}
