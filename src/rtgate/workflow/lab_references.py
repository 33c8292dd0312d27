# SPDX-License-Identifier: MIT
"""What the files for a LAVA server refer to: device types (templates of Jinja) and health checks (job definitions).

A name that neither rtgate nor the site has may be LAVA's own. Of those only the bases are known here; what a lab's
server really has `rtgate lab-check` asks it.
"""

from __future__ import annotations

import re
from pathlib import Path

from rtgate import files, site, strict_yaml
from rtgate.errors import ConfigError, Location
from rtgate.strict_yaml import Value
from rtgate.workflow.references import DEVICE_TYPES

_BLOCKS = ("block", "if", "for", "macro", "filter", "call", "raw")
_STATEMENT = re.compile(
    r"""\{%[-+]?\s*(?P<word>[a-z]+)(?:\s+(?P<quoted>['"])(?P<name>[^'"]*)(?P=quoted))?"""
    r"""(?P<rest>(?:(?!%\}|\{%).)*)(?P<end>%\})?""",
    re.DOTALL,
)
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_REFERENCES = ("extends", "include", "import", "from")
# Bases that LAVA's server has, 2023.01 to 2026.01 (etc/dispatcher-config/device-types of its sources).
_LAVA_BASES = (
    *("base", "base-barebox", "base-depthcharge", "base-edk2", "base-fastboot"),
    *("base-grub", "base-nxp-mcu", "base-qdl", "base-uboot"),
)
_BOARD = re.compile(r"\brtgate\s+(?:board-health|in-job)\b[^|;\n]*?--board[ =](\S+)")


def device_type(path: Path) -> None:
    """Check a LAVA device type: its blocks are closed, and the templates that it extends or includes are there.

    Raises ConfigError.
    """
    try:
        text = files.read_text(path, files.YAML_LIMIT)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    blocks: list[tuple[str, Location]] = []
    for match in _STATEMENT.finditer(text):
        word = match["word"]
        place = _place(path, text, match.start())
        if match["end"] is None:
            raise ConfigError(f"this {{% {word} is not closed: end it with %}}", place)
        if word in _REFERENCES:
            _check_template(match["name"], optional="ignore missing" in match["rest"], place=place)
        elif word in _BLOCKS:
            blocks.append((word, place))
        elif word.startswith("end") and (not blocks or f"end{blocks.pop()[0]}" != word):
            raise ConfigError(f"{word} closes nothing that is open here", place)
    if blocks:
        raise ConfigError(f"{blocks[-1][0]} is not closed (end{blocks[-1][0]} is missing)", blocks[-1][1])


def _place(path: Path, text: str, at: int) -> Location:
    return Location(path, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _check_template(name: str | None, *, optional: bool, place: Location) -> None:
    """Raise ConfigError for a template that nobody has; of LAVA's own device types nothing is known here."""
    types = site.names(DEVICE_TYPES, ".jinja2")
    if name is None or optional:
        return  # an expression, or one that may be missing
    stem = name.removesuffix(".jinja2")
    if stem == name:
        raise ConfigError(f"{name!r} is not the name of a template: write {name}.jinja2", place)
    if stem.startswith("base") and stem not in (*types, *_LAVA_BASES):
        bases = ", ".join((*(base for base in types if base.startswith("base")), *_LAVA_BASES))
        raise ConfigError(f"unknown base {name!r} (allowed: {bases}, each with .jinja2)", place)


def health_check(path: Path) -> None:
    """Check a health check: it is named after its device type, and that and its boards are there.

    Raises ConfigError.
    """
    top = strict_yaml.load(path)
    entries = top.entries()
    types = site.names(DEVICE_TYPES, ".jinja2")
    if "device_type" not in entries:
        top.fail("missing key 'device_type': print a health check with `rtgate lab-check --health-check BOARD`")
    value = entries["device_type"].value
    if value.text() not in types:
        value.fail(f"unknown device type {value.text()!r} (allowed: those of {DEVICE_TYPES}/: {', '.join(types)})")
    if value.text() != path.stem:
        value.fail(f"LAVA takes this file for the health check of {path.stem}: name it {value.text()}.yaml")
    _boards(top)


def _boards(value: Value) -> None:
    """Check the boards that the commands of a job name."""
    board_names = site.names("boards")

    def check(scalar: Value) -> str:
        for name in _BOARD.findall(str(scalar.node.value)):
            if name.strip("'\"") not in board_names:
                scalar.fail(f"unknown board {name!r} (allowed: {', '.join(board_names)})")
        return ""

    value.plain_data(check)
