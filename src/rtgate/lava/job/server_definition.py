# SPDX-License-Identifier: MIT
"""A job's definition as its server returns it, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rtgate import strict_yaml
from rtgate.errors import ConfigError
from rtgate.lava.job.template import UNITS

MULTINODE = "lava-multinode"
_JOB = re.compile(r"[0-9]{1,18}")  # a number that LAVA's database can hold


@dataclass(frozen=True)
class Definition:
    """A definition. Its YAML is read once, and only if somebody asks: a list has a hundred jobs, most of others.

    Attributes:
        text: the YAML.
    """

    text: str

    @property
    def metadata(self) -> dict[str, str]:
        """The job's metadata."""
        entries = self._data.get("metadata")
        return {str(key): str(value) for key, value in entries.items()} if isinstance(entries, dict) else {}

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that a device must have to run it, by name; the server's own table has numbers."""
        tags = self._data.get("tags", self._part.get("tags"))
        return tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()

    @property
    def limit_s(self) -> int:
        """Seconds after which LAVA ends the job, its `timeouts.job`; 0 where that cannot be read."""
        timeouts = self._data.get("timeouts")
        limit = timeouts.get("job") if isinstance(timeouts, dict) else None
        if not isinstance(limit, dict) or not all(isinstance(number, int) for number in limit.values()):
            return 0
        return sum(limit.get(unit, 0) * length for unit, length in UNITS.items())

    @property
    def role(self) -> str:
        """The role of the board whose part of a job this is; empty for a job of one board."""
        return str(self._part.get("role", ""))

    def job_of(self, role: str) -> int:
        """Return the number of the job with a role, of those that LAVA made of one; 0 if there is none, or not yet."""
        roles = self._part.get("roles")
        numbers = [str(number) for number, other in roles.items() if other == role] if isinstance(roles, dict) else []
        return int(numbers[0]) if numbers and _JOB.fullmatch(numbers[0]) else 0

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        try:
            data = strict_yaml.data(self.text)
        except ConfigError:  # somebody else wrote it
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def _part(self) -> Mapping[str, Any]:
        """What LAVA put into a role's part of a definition; nothing for a job of one board.

        `role` and `tags` are its own; `roles`, by the number of the job, are there when it is scheduled.
        """
        protocols = self._data.get("protocols")
        protocol = protocols.get(MULTINODE) if isinstance(protocols, dict) else None
        return protocol if isinstance(protocol, dict) else {}
