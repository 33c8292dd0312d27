# SPDX-License-Identifier: MIT
"""A patch set of a change in Gerrit, as the variables of Jenkins' Gerrit Trigger name it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.errors import ConfigError
from rtgate.kernel.merge import COMMIT

CHAIN = "RTGATE_GERRIT_CHAIN"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_TITLE = 500  # characters; git has no limit, and the title is one line of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSet:
    """A patch set. Whoever pushed it wrote its title.

    Attributes:
        change, number: of the change, and of the patch set within it.
        revision: its commit.
        title: the commit's first line, without control characters.
    """

    project: str
    branch: str
    change: int
    number: int
    revision: str
    title: str = ""

    @property
    def name(self) -> str:
        """As people name it."""
        return f"change {self.change}, patch set {self.number}"

    @property
    def ref(self) -> str:
        """What it can be fetched by."""
        return f"refs/changes/{self.change % 100:02}/{self.change}/{self.number}"

    @property
    def branch_ref(self) -> str:
        """The target branch, in full."""
        return self.branch if self.branch.startswith("refs/") else f"refs/heads/{self.branch}"

    def variables(self) -> dict[str, str]:
        """Return the variables from which `patch_set` makes it again."""
        return {
            "GERRIT_PROJECT": self.project,
            "GERRIT_BRANCH": self.branch,
            "GERRIT_CHANGE_NUMBER": str(self.change),
            "GERRIT_PATCHSET_NUMBER": str(self.number),
            "GERRIT_PATCHSET_REVISION": self.revision,
            "GERRIT_CHANGE_SUBJECT": self.title,
        }


def chain_variable(members: Sequence[PatchSet]) -> str:
    """Return a relation chain as `chain_of` reads it: `CHANGE/PATCH SET/COMMIT` of each, the first one first."""
    return " ".join(f"{member.change}/{member.number}/{member.revision}" for member in members)


def chain_of(variables: Mapping[str, str], tip: PatchSet) -> tuple[PatchSet, ...]:
    """Return the patch sets that are answered with the last one, `tip`, which is among them. Raises ConfigError."""
    text = variables.get(CHAIN, "")
    members = []
    for word in text.split():
        change, _, rest = word.partition("/")
        number, _, revision = rest.partition("/")
        if not (_NUMBER.fullmatch(change) and _NUMBER.fullmatch(number) and COMMIT.fullmatch(revision)):
            raise ConfigError(f"{CHAIN} has {word[:60]!r}, not CHANGE/PATCH SET/COMMIT: leave it to `rtgate gerrit`")
        members.append(replace(tip, change=int(change), number=int(number), revision=revision))
    if members and members[-1] != tip:
        raise ConfigError(f"{CHAIN} does not end with {tip.name}: leave it to `rtgate gerrit`")
    return tuple(members) or (tip,)


def patch_set(variables: Mapping[str, str]) -> PatchSet:
    """Return the patch set that variables name.

    Raises:
        ConfigError: one is missing, or it is not what its name says.
    """
    return PatchSet(
        project=_value(variables, "GERRIT_PROJECT"),
        branch=_value(variables, "GERRIT_BRANCH"),
        change=int(_value(variables, "GERRIT_CHANGE_NUMBER", _NUMBER)),
        number=int(_value(variables, "GERRIT_PATCHSET_NUMBER", _NUMBER)),
        revision=_value(variables, "GERRIT_PATCHSET_REVISION", COMMIT),
        title=first_line(variables.get("GERRIT_CHANGE_SUBJECT", "")),
    )


def _value(variables: Mapping[str, str], name: str, form: re.Pattern[str] | None = None) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise ConfigError(f"{name} is not set: run this from Jenkins' Gerrit Trigger or from `rtgate gerrit`")
    if form is not None and not form.fullmatch(value):
        raise ConfigError(f"{name}={value[:60]!r} is not what Gerrit sets it to")
    if _CONTROLS.search(value):
        raise ConfigError(f"{name} holds control characters")
    return value


def first_line(text: str) -> str:
    """Return a text's first line without what moves a cursor, turns the direction of text, or ends a C string."""
    first = text.replace("\r", "\n").strip("\n").partition("\n")[0]
    return _CONTROLS.sub("\ufffd", first)[:_TITLE]
