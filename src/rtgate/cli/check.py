# SPDX-License-Identifier: MIT
"""`rtgate check`: validate every YAML file that names resolve to."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rtgate import site, strict_yaml
from rtgate.board import boards
from rtgate.errors import ConfigError, Location
from rtgate.judge.compare.placebos import load_placebos
from rtgate.judge.thresholds import load_thresholds
from rtgate.kernel import configuration
from rtgate.lava.job import template
from rtgate.measure import profiles
from rtgate.rootfs import recipe
from rtgate.tools.registry import TOOLS

_DEVICE_TYPES = f"{template.KIND}/device-types"
_BLOCKS = ("block", "if", "for", "macro", "filter", "call", "raw")
_STATEMENT = re.compile(r"""\{%[-+]?\s*(?P<word>[a-z]+)(?:\s+['"](?P<base>[^'"]+)['"])?""")

_DESCRIPTION = """\
Validate all boards, builds, images, job templates, profiles and limits: of the site, of the kernel repository, and the
shipped ones.
Every mistake is printed as path:line:column with what is allowed; exit code 2 if there is one.
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    commands.add_parser("check", description=_DESCRIPTION)


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    mistakes: dict[str, Path] = {}  # by message: a wrong board is met again where limits name it
    for path, read in _files():
        try:
            read(path)
        except ConfigError as error:
            mistakes.setdefault(str(error), error.location.path if error.location else path)
        else:
            print(f"{path}: ok")
    for message in mistakes:
        print(message)
    if not mistakes:
        return 0
    files = len(set(mistakes.values()))
    print(f"{_counted(len(mistakes), 'error')} in {_counted(files, 'file')}")
    return ConfigError.exit_code


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _files() -> list[tuple[Path, Callable[[Path], object]]]:
    found: list[tuple[Path, Callable[[Path], object]]] = []
    for layer in site.layers():
        for kind, read in (
            ("boards", _board),
            ("kernel-configs", configuration.load_description),
            ("target/rootfs", recipe.read),
            (template.KIND, template.read),
        ):
            paths = sorted((layer.directory / kind).glob("*.yaml"))
            found += [(path, read) for path in paths if not path.name.endswith(".lock.yaml")]
        types = sorted((layer.directory / _DEVICE_TYPES).glob("*.jinja2"))
        found += [(path, _device_type) for path in types]
    found += [(path, partial(profiles.read, tools=TOOLS)) for path in site.files("profiles.yaml")]
    found += [(path, _limits) for path in site.files("thresholds.yaml")]
    found += [(path, _placebos) for path in site.files("placebos.yaml")]
    return found


def _board(path: Path) -> object:
    """Read a board, and resolve what only the other files tell: its device type, and who builds its device tree."""
    board = boards.read(path)
    if board.lava is None:
        return board
    data = strict_yaml.load(path).entries()
    lava = data["lava"].value.entries()
    known = site.names(_DEVICE_TYPES, ".jinja2")
    if board.lava.device_type not in known:
        lava["device_type"].value.fail(
            f"unknown device type {board.lava.device_type!r} "
            f"(allowed: those of {_DEVICE_TYPES}/ of rtgate and of the site: {', '.join(known)})"
        )
    if board.build and board.lava.dtbs:
        build = configuration.load_description(site.find("kernel-configs", f"{board.build}.yaml"))
        if "dtbs" not in build.targets:
            lava["dtbs"].value.fail(f"{build.path} builds no device tree: add `dtbs` to its `targets`")
    return board


def _device_type(path: Path) -> object:
    """Look at a LAVA device type: a template whose blocks are closed, and whose base is there if it is rtgate's."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    opened: list[tuple[str, Location]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _STATEMENT.finditer(line):
            place = Location(path, number, match.start() + 1)
            if match["base"] and match["base"].startswith("base-rtgate"):
                site_names = site.names(_DEVICE_TYPES, ".jinja2")
                if match["base"].removesuffix(".jinja2") not in site_names:
                    raise ConfigError(f"unknown base {match['base']!r} (allowed: {', '.join(site_names)})", place)
            if match["word"] in _BLOCKS:
                opened.append((match["word"], place))
            elif match["word"].startswith("end") and (not opened or f"end{opened.pop()[0]}" != match["word"]):
                raise ConfigError(f"{match['word']} closes nothing that is open here", place)
    if opened:
        raise ConfigError(f"{opened[-1][0]} is not closed (end{opened[-1][0]} is missing)", opened[-1][1])
    return text


def _placebos(path: Path) -> object:
    return load_placebos([path], site.names("boards"))


def _limits(path: Path) -> object:
    return load_thresholds([path], {name: boards.board(name).virtual for name in site.names("boards")})
