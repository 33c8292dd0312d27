# SPDX-License-Identifier: MIT
"""Kernel versions, and ranges of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass

_VERSION = re.compile(r"(?P<version>\d{1,3})\.(?P<patchlevel>\d{1,4})(?:\.(?P<sublevel>\d{1,4}))?")
_RELEASE = re.compile(rf"{_VERSION.pattern}(?!\d)")
_CONDITION = re.compile(r"(?P<operator>>=|<)\s*(?P<version>\S+)")
_OPERATORS = {">=": operator.ge, "<": operator.lt}


@dataclass(frozen=True, slots=True, order=True)
class KernelVersion:
    """A version as the top Makefile has it; release candidates count as the version they lead to."""

    version: int
    patchlevel: int
    sublevel: int = 0

    @classmethod
    def parse(cls, text: str) -> KernelVersion:
        """Read `6.13` or `6.12.117`.

        Raises:
            ValueError: it is not a version.
        """
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a kernel version (6.13 or 6.12.117)")
        return cls(int(match["version"]), int(match["patchlevel"]), int(match["sublevel"] or 0))

    @classmethod
    def of_release(cls, release: str) -> KernelVersion | None:
        """Return the version of a release (`uname -r`) such as `6.12.117-rt1`; None where it has none."""
        match = _RELEASE.match(release)
        return cls.parse(match[0]) if match else None

    def __str__(self) -> str:
        return f"{self.version}.{self.patchlevel}.{self.sublevel}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions that fulfil every condition. There is no `<=`: whether 6.12.117 is `<= 6.12` would be a riddle."""

    conditions: tuple[tuple[str, KernelVersion], ...] = ()

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read `>= 6.13` or `>= 6.1 and < 6.13`.

        Raises:
            ValueError: it is not a range, or one that no version is in.
        """
        conditions = []
        for part in text.split(" and "):
            match = _CONDITION.fullmatch(part.strip())
            if match is None:
                raise ValueError(
                    f"{part.strip()!r} is not a condition (allowed: >= VERSION, < VERSION, joined by 'and')"
                )
            conditions.append((match["operator"], KernelVersion.parse(match["version"])))
        version_range = cls(tuple(conditions))
        lowest = max((version for name, version in conditions if name == ">="), default=KernelVersion(0, 0))
        if lowest not in version_range:
            raise ValueError(f"no version is in the range {text.strip()!r}")
        return version_range

    def __contains__(self, version: KernelVersion) -> bool:
        return all(_OPERATORS[name](version, bound) for name, bound in self.conditions)

    def covers(self, releases: Iterable[str]) -> bool:
        """Return whether the kernels of some boots are all in the range; one whose version is not known is in none.

        A boot that died before it said its release, which is empty then, has that of the others.
        """
        if not self.conditions:
            return True
        versions = [KernelVersion.of_release(release) for release in set(releases) if release]
        return bool(versions) and all(version is not None and version in self for version in versions)

    def __str__(self) -> str:
        return " and ".join(f"{name} {version}" for name, version in self.conditions)
