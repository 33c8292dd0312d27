# SPDX-License-Identifier: MIT
"""Kernel modules outside the tree: built against a build's own kernel, with its toolchain, and checked to be of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.kernel import artefacts, build_log, publish, tuxmake
from rtgate.kernel.build import in_place
from rtgate.kernel.configuration import read_config
from rtgate.kernel.elf import DamagedElfError, open_elf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rtgate.kernel.configuration import BuildDescription
    from rtgate.kernel.source import Tree
    from rtgate.kernel.work import Options, Work

_SUFFIXES = (".c", ".h", ".S", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module that was built.

    Attributes:
        info: what `modinfo` tells: `license`, `vermagic`, `description`, `depends`.
    """

    path: Path
    info: Mapping[str, str]


def build_modules(
    description: BuildDescription, tree: Tree, sources: Path, output: Path, options: Options
) -> tuple[Module, ...]:
    """Build the modules of a directory, and their kernel first if it is not built.

    Args:
        description: the kernel's build.
        tree: its source.
        sources: has `Kbuild` and the sources; only read.
        output: gets the modules and `modules.json`; former ones are replaced.
        options: jobs, patches and listener of the kernel's build.

    Raises:
        BuildError: a module does not compile, needs a symbol that the kernel does not export, or is of another kernel.
        ConfigError: the kernel takes no modules, or a directory is not what it should be.
        InfrastructureError: the disk is full, a tool is missing, or the build is in use.
        Interrupted: Ctrl-C.
    """
    output = output.absolute()
    if not (sources / "Kbuild").is_file():
        raise ConfigError(f"{sources} holds no modules: it has no file Kbuild")
    publish.check_output(output, "modules.json", "modules")
    with in_place(description, tree, options) as work:
        if read_config(work.job.build_directory / ".config").get("MODULES") != "y":
            raise ConfigError(f"{description.name} takes no modules: its kernel is built without CONFIG_MODULES")
        options.listener.notice(f"building modules of {sources} for Linux {tree.version}")
        try:
            return _build(work, sources, output)
        except OSError as error:
            raise InfrastructureError(f"modules cannot be written: {error}") from error


def _build(work: Work, sources: Path, output: Path) -> tuple[Module, ...]:
    # Beside the build directory and always at the same place: paths may end up in the modules.
    place = work.job.build_directory.with_name(f"{work.job.build_directory.name}.modules")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    source_files = [path for path in sorted(sources.iterdir()) if path.is_file() and path.suffix in _SUFFIXES]
    for path in source_files:
        shutil.copyfile(path, place / path.name)
    log = work.job.log_directory / "modules.log"
    if not tuxmake.make_external(work.job, place, log):
        raise build_log.failure(log, place)
    modules = sorted(place.glob("*.ko"))
    if not modules:
        raise BuildError(f"{sources / 'Kbuild'} made no module", log)
    release = (work.job.build_directory / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    for path in modules:
        _check_kernel(path, release)
    return _publish(work, {path.name: artefacts.sha256(path) for path in source_files}, modules, output)


def _check_kernel(path: Path, release: str) -> None:
    magic = information(path).get("vermagic", "")
    if magic.split(" ")[0] != release:
        raise BuildError(f"{path.name} is a module of {magic or 'no kernel'!r}, not of {release}")


def information(path: Path) -> dict[str, str]:
    """Return what a module says of itself, the `NAME=VALUE` of its section `.modinfo` (include/linux/moduleparam.h).

    Of a name that is there several times, as `parm`, the first. A file that is not a module says nothing.
    """
    try:
        with open_elf(path, "not a module") as elf:
            section = elf.get_section_by_name(".modinfo")
            entries = section.data().split(b"\0") if section else []
    except DamagedElfError:
        return {}
    info: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.decode("utf-8", errors="replace").partition("=")
        if equals:
            info.setdefault(name, value)
    return info


def _publish(work: Work, sources: Mapping[str, str], modules: list[Path], output: Path) -> tuple[Module, ...]:
    with publish.replacement(output) as new:
        for path in modules:
            shutil.copyfile(path, new / path.name)
        description = {
            "format": 1,
            "name": work.description.name,
            "arch": work.description.arch,
            "kernel": work.inputs,
            "toolchain": work.toolchain_versions,
            "sources": dict(sources),
            "modules": {path.name: {"sha256": artefacts.sha256(path), **information(path)} for path in modules},
        }
        (new / "modules.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return tuple(Module(path=output / path.name, info=information(output / path.name)) for path in modules)
