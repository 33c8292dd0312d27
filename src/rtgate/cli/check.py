# SPDX-License-Identifier: MIT
"""`rtgate check`: validate every YAML file that names resolve to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from rtgate import site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job import template
from rtgate.units import plural
from rtgate.workflow import lab_references, policy, references, waivers

DESCRIPTION = """\
Validate all boards, builds, fragments, patch series, images, job templates, device types, health checks, profiles and
limits: of the site, of the kernel repository, and the shipped ones. Every name in them must lead to something.
Tools and loads of the site, of the kernel repository and of installed packages are imported.
Every mistake is printed as path:line:column with what is allowed, last, with their number; exit code 2 if there is one.
"""
_READERS: Mapping[str, Callable[[Path], object]] = {
    "boards/*.yaml": references.board,
    "kernel-configs/*.yaml": references.build,
    "kernel-configs/sources.lock.yaml": references.source,
    "kernel-configs/fragments/*.config": references.fragment,
    "kernel-configs/patches/*/series": references.series,
    "target/rootfs/*.yaml": references.recipe,
    f"{template.KIND}/*.yaml": template.read,
    f"{references.DEVICE_TYPES}/*.jinja2": lab_references.device_type,
    f"{template.KIND}/health-checks/*.yaml": lab_references.health_check,
}
_AT_THE_TOP: Mapping[str, Callable[[Path], object]] = {
    "profiles.yaml": references.profile_file,
    "thresholds.yaml": references.limits,
    "placebos.yaml": references.placebos,
    policy.FILE: policy.read,
    waivers.FILE: references.waiver_file,
}


def add_options(_: argparse.ArgumentParser) -> None:
    """The command has none."""


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    mistakes: dict[str, str] = {}  # by message: a wrong board is met again where limits name it
    unchecked: list[str] = []
    for place, check in _checks():
        try:
            check()
        except ConfigError as error:
            mistakes.setdefault(str(error), str(error.location.path) if error.location else place)
        except InfrastructureError as error:  # this machine is too busy; what else is wrong must not be lost
            unchecked.append(f"{place}: not checked: {error}")
        else:
            print(f"{place}: ok")
    for message in (*unchecked, *mistakes):
        print(message)
    if not mistakes:
        return InfrastructureError.exit_code if unchecked else 0
    wrong = len(set(mistakes.values()))
    print(f"{plural(len(mistakes), 'error')} in {plural(wrong, 'file')}")
    return ConfigError.exit_code


def _checks() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield everything that is validated: its place, and what raises ConfigError if it is wrong."""
    for path, reader in files():
        yield str(path), partial(reader, path)
    try:
        extensions = references.outside()
    except ConfigError:
        yield "tools and loads", references.outside
    else:
        for extension in extensions:
            yield extension.place, partial(references.extension, extension)


def files() -> list[tuple[Path, Callable[[Path], object]]]:
    """Return every file that is validated, each with what reads it."""
    readers: list[tuple[Path, Callable[[Path], object]]] = []
    for layer in site.layers():
        for pattern, reader in _READERS.items():
            paths = sorted(layer.directory.glob(pattern))
            readers += [(path, reader) for path in paths if "*" not in pattern or not path.name.endswith(".lock.yaml")]
    for name, reader in _AT_THE_TOP.items():
        readers += [(path, reader) for path in site.files(name)]
    return readers
