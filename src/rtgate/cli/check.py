# SPDX-License-Identifier: MIT
"""`rtgate check`: validate every YAML file that names resolve to."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rtgate import boards, profiles, site
from rtgate.errors import ConfigError
from rtgate.judge.placebos import load_placebos
from rtgate.judge.thresholds import load_thresholds
from rtgate.kernel import configuration
from rtgate.lava import template
from rtgate.target import rootfs_recipe
from rtgate.tools.registry import TOOLS

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
    mistakes = 0
    for path, read in _files():
        try:
            read(path)
        except ConfigError as error:
            mistakes += 1
            print(error)
        else:
            print(f"{path}: ok")
    return ConfigError.exit_code if mistakes else 0


def _files() -> list[tuple[Path, Callable[[Path], object]]]:
    found: list[tuple[Path, Callable[[Path], object]]] = []
    for layer in site.layers():
        for kind, read in (
            ("boards", boards.read),
            ("kernel-configs", configuration.load_description),
            ("target/rootfs", rootfs_recipe.read),
            (template.KIND, template.read),
        ):
            paths = sorted((layer.directory / kind).glob("*.yaml"))
            found += [(path, read) for path in paths if not path.name.endswith(".lock.yaml")]
    found += [(path, partial(profiles.read, tools=TOOLS)) for path in site.files("profiles.yaml")]
    found += [(path, _limits) for path in site.files("thresholds.yaml")]
    found += [(path, _placebos) for path in site.files("placebos.yaml")]
    return found


def _placebos(path: Path) -> object:
    return load_placebos([path], site.names("boards"))


def _limits(path: Path) -> object:
    return load_thresholds([path], {name: boards.board(name).virtual for name in site.names("boards")})
