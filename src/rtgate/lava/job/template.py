# SPDX-License-Identifier: MIT
"""Templates of jobs, one per way of booting: `lava-jobs/NAME.yaml`.

YAML in which a text may hold `{{ name }}`. A template is read first and filled afterwards, value by value: what is
filled in cannot change its structure. A name that nobody knows is an error with its place; a file that this job does
not have is left out with everything about it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import site
from rtgate.strict_yaml import load

if TYPE_CHECKING:
    from rtgate.strict_yaml import Mapping as Keys
    from rtgate.strict_yaml import Value

KIND = "lava-jobs"
BESIDE_KERNEL = ("ramdisk", "dtb", "modules", "nfsroot")
FILES = ("kernel", *BESIDE_KERNEL)  # what a job may boot, and what `definition.Files` has
_PLACEHOLDER = re.compile(r"\{\{ *([a-z_]+) *\}\}")
_BRACES = re.compile(r"\{\{[^}]*\}*|\{%[^}]*\}?|\}\}")  # what looks like one
UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
# ACTION_TIMEOUT in lava_common/constants.py of 2023.01 and 2026.10: an action that has it takes that of what it is in.
_UNSET_S = 30


_ABSENT = object()  # stands for a placeholder that has no value in this job, until it is left out


@dataclass(frozen=True, slots=True)
class Template:
    """One way of booting.

    Attributes:
        required: files (`kernel`, `ramdisk`, ...) without which it cannot boot.
        optional: files that it can use.
        root: where the root filesystem lies while measuring, `ram` or `nfs` or `disk`.
    """

    name: str
    path: Path
    required: tuple[str, ...]
    optional: tuple[str, ...]
    root: str
    _deploy: Value
    _boot: Value
    _timeouts: Value | None

    @property
    def why_no_test_shell(self) -> str:
        """Why LAVA's test shell, by which the transport `board` measures, never gets on the board; empty if it does."""
        if self.root != "disk" or "transfer_overlay" in self._boot.entries():
            return ""
        return "LAVA cannot add its test shell to this root filesystem: measure by docker"

    def deploy(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the deploy action. Raises ConfigError for a name that is not among `values`."""
        return _fill_block(self._deploy, values)

    def boot(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the boot action. Raises ConfigError as `deploy`."""
        return _fill_block(self._boot, values)

    def timeouts(self) -> dict[str, object]:
        """Return what the job's `timeouts` hold beside the whole job's limit: usual ones where the file has none."""
        own = {} if self._timeouts is None else _fill_block(self._timeouts, {})
        parts = own.pop("actions", {})
        assert isinstance(parts, dict)
        return {
            "action": _fill_block(self._deploy.entries()["timeout"].value, {}),
            "actions": {"power-off": {"seconds": 30}, **parts},
            "connection": {"minutes": 2},
            **own,
        }

    def seconds(self) -> int:
        """Return how many seconds one deploy and one boot may take together."""
        return sum(seconds(block.entries()["timeout"].value) for block in (self._deploy, self._boot))


def find(name: str) -> Template:
    """Return the template of this name. Raises ConfigError when there is none, or it is wrong."""
    return read(site.find(KIND, f"{name}.yaml"))


def read(path: Path) -> Template:
    """Read one template. Raises ConfigError."""
    data = load(path).mapping(required=("description", "files", "root", "deploy", "boot"), optional=("timeouts",))
    files = data["files"].mapping(required=("required",), optional=("optional",))
    names = {key: tuple(item.text(FILES) for item in files[key].items()) for key in files}
    for block in (data["deploy"], data["boot"]):
        if "timeout" not in block.entries():
            block.fail("missing key 'timeout': every action of a job has its own limit")
    data["description"].text()
    if "timeouts" in data:
        _check_tables(data["timeouts"])
    template = Template(
        name=path.name.removesuffix(".yaml"),
        path=path,
        required=names["required"],
        optional=names.get("optional", ()),
        root=data["root"].text(("ram", "nfs", "disk")),
        _deploy=data["deploy"],
        _boot=data["boot"],
        _timeouts=data.get("timeouts"),
    )
    values: dict[str, object] = dict.fromkeys(placeholders((*template.required, *template.optional)), "x")
    template.deploy(values)
    template.boot(values)
    template.timeouts()
    template.seconds()
    _check_files(files, data["deploy"], data["boot"])
    for block in (data["deploy"], data["boot"], *([data["timeouts"]] if "timeouts" in data else [])):
        _check_timeouts(block, inside=block is data.get("timeouts"))
    return template


def _check_files(files: Keys, *blocks: Value) -> None:
    """Check that a job uses every file that it takes. Raises ConfigError."""
    names: set[str] = set()

    def note(value: Value) -> str:
        names.update(_PLACEHOLDER.findall(value.text()))
        return ""

    for block in blocks:
        block.plain_data(note)
    for key in files:
        for item in files[key].items():
            if item.text() not in names:
                name = item.text()
                item.fail(f"no action uses the file {name!r}: write {{{{ {name} }}}} where it goes, or remove it")


def _check_timeouts(block: Value, *, inside: bool) -> None:
    """Check every time limit within an action: `timeout`, and what is below `timeouts`. Raises ConfigError."""
    if not block.is_mapping:
        return
    entries = block.entries()
    for name, entry in entries.items():
        if name == "timeouts":
            _check_parts(entry.value)
        elif name == "timeout" or (inside and name not in {"actions", "connections"}):
            seconds(entry.value)
        else:
            _check_timeouts(entry.value, inside=inside)


def _check_tables(timeouts: Value) -> None:
    """Check that a job's timeouts are a mapping, and those by action and by connection too. Raises ConfigError."""
    for name, entry in timeouts.entries().items():
        if name in {"actions", "connections"}:
            entry.value.entries()


def _check_parts(block: Value) -> None:
    """Check the time limits of an action's parts. Raises ConfigError."""
    for entry in block.entries().values():
        if seconds(entry.value) == _UNSET_S:
            entry.value.fail(
                "LAVA takes 30 s of a part as not set, and gives it the limit of the action: write 29 or 31"
            )


def placeholders(files: Collection[str]) -> tuple[str, ...]:
    """Return the names that a template may use: its files, their compressions, whether LAVA adds its overlay."""
    return (*files, *(f"{name}_compression" for name in files), "overlay")


def seconds(value: Value) -> int:
    """Return a LAVA timeout, as `{minutes: 5}`, in seconds. Raises ConfigError."""
    entries = value.mapping(optional=tuple(UNITS))
    if len(entries.entries) != 1:
        value.fail(f"a timeout has one unit (allowed: {', '.join(UNITS)})")
    unit, number = next(iter(entries.entries.items()))
    return number.integer(minimum=1, maximum=100_000) * UNITS[unit]


def _fill_block(block: Value, values: Mapping[str, object]) -> dict[str, object]:
    fields = _present(block.plain_data(lambda value: _fill(value, values)))
    assert isinstance(fields, dict)
    return fields


def _present(data: object) -> object:
    """Return data without what is absent; a mapping whose `url` is absent is absent itself."""
    if isinstance(data, list):
        return [item for item in map(_present, data) if item is not _ABSENT]
    if not isinstance(data, dict):
        return data
    if data.get("url") is _ABSENT:
        return _ABSENT
    entries = {name: _present(value) for name, value in data.items()}
    return {name: value for name, value in entries.items() if value is not _ABSENT}


def _fill(value: Value, values: Mapping[str, object]) -> object:
    """Return a text with its placeholders filled in; a value of its own type where it is a placeholder and no more."""
    text = value.text()
    names = _PLACEHOLDER.findall(text)
    for name in names:
        if name not in values:
            value.fail(f"unknown placeholder {name!r} (allowed: {', '.join(sorted(values)) or 'none'})")
        if values[name] is None:
            return _ABSENT
    if braces := _BRACES.search(_PLACEHOLDER.sub("", text)):
        value.fail(
            f"{braces[0]!r} is not a placeholder (allowed: {{{{ NAME }}}}, {', '.join(sorted(values)) or 'none'})"
        )
    if names and _PLACEHOLDER.fullmatch(text):
        return values[names[0]]
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)
