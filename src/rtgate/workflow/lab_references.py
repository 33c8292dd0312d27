# SPDX-License-Identifier: MIT
"""What the files for a LAVA server refer to: device types (templates of Jinja) and health checks (job definitions).

A name that neither rtgate nor the site has may be LAVA's own. Of those only the bases are known here; what a lab's
server really has `rtgate lab-check` asks it.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, TemplateSyntaxError, nodes

from rtgate import files, site, strict_yaml
from rtgate.errors import ConfigError, Location
from rtgate.strict_yaml import Value
from rtgate.workflow.references import DEVICE_TYPES

# Bases that LAVA's server has, 2023.01 to 2026.01 (etc/dispatcher-config/device-types of its sources).
_LAVA_BASES = (
    *("base", "base-barebox", "base-depthcharge", "base-edk2", "base-fastboot"),
    *("base-grub", "base-nxp-mcu", "base-qdl", "base-uboot"),
)
_BOARD = re.compile(r"\brtgate\s+(?:board-health|in-job)\b[^|;\n]*?--board[ =](\S+)")


def device_type(path: Path) -> None:
    """Check a LAVA device type: it is a template of Jinja, and the templates that it extends or includes are there.

    Raises ConfigError.
    """
    try:
        text = files.read_text(path, files.YAML_LIMIT)
        tree = Environment(autoescape=False).parse(text)  # noqa: S701
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except TemplateSyntaxError as error:
        raise ConfigError(str(error.message), Location(path, error.lineno, 1)) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: it is nested too deeply") from error
    for node in tree.find_all(nodes.Stmt):
        if not isinstance(node, nodes.Extends | nodes.Include | nodes.Import | nodes.FromImport):
            continue
        optional = isinstance(node, nodes.Include) and node.ignore_missing
        if isinstance(node.template, nodes.Const) and not optional:  # other names are known when it is filled in
            name = str(node.template.value)
            column = text.split("\n")[node.lineno - 1].find(name) + 1 or 1
            _check_template(name, Location(path, node.lineno, column))


def _check_template(name: str, place: Location) -> None:
    """Raise ConfigError for a template that nobody has; of LAVA's own device types nothing is known here."""
    types = site.names(DEVICE_TYPES, ".jinja2")
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
