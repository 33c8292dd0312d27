# SPDX-License-Identifier: MIT
"""Jailhouse's source tree, and how a kernel gets the hypervisor, its driver, two cells and a demo inmate in its image.

Facts of Jailhouse 0.12 that this module depends on (Makefile, Kbuild, driver/main.c, tools/jailhouse.c):

* `make modules` with KDIR, a built kernel, makes all of it below the tree: the driver, the hypervisor, each
  `configs/ARCH/NAME.c` as `NAME.cell`, the demo inmates, and the program `jailhouse`.
* The driver asks Linux for the firmware `jailhouse.bin`.
* `include/jailhouse/config.h` has the user's options, and git ignores it.
* Branches with memguard want its interrupts in the configuration of the root cell. Their
  `include/jailhouse/cell-config.h` names it.

The image holds all of it as its first root filesystem, so a kernel and its hypervisor are one file, whatever boots it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import site
from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.kernel import build_log, identity, tuxmake
from rtgate.kernel.patches import synchronise
from rtgate.kernel.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rtgate.kernel.identity import SourceIdentity

VARIABLE = "RTGATE_JAILHOUSE"
FLAVOUR = "jailhouse"
CELLS = ("root", "inmate")
DEMOS = {"arm64": "gic-demo"}
"""The demo inmate of each architecture for which this is built."""
_LIST = "jailhouse.list"  # what CONFIG_INITRAMFS_SOURCE of the fragment `jailhouse` names
_CELL_CONFIG = "include/jailhouse/cell-config.h"
_OPTIONS = "include/jailhouse/config.h"
_START = "rtgate-start"
# As the kernel's own default (usr/default_cpio_list): a root filesystem on a disk needs its console.
_HEAD = "dir /dev 0755 0 0\nnod /dev/console 0600 0 0 c 5 1\ndir /root 0700 0 0\n"
_DIRECTORIES = ("/usr", "/usr/lib", "/usr/lib/firmware", "/usr/lib/jailhouse", "/usr/sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """Jailhouse for one build, as it was when the build began.

    Attributes:
        path: its source.
        added: what the copy that is built gets beside the source's own files, by name: two cells, and the program that
            enables them.
        fingerprint: changes with any file that goes into it.
    """

    path: Path
    identity: SourceIdentity
    added: Mapping[str, bytes]
    fingerprint: str


def named_tree(cells: Mapping[str, str], arch: str) -> Hypervisor | None:
    """Return the Jailhouse that RTGATE_JAILHOUSE names, with these cells, or None where it is not set; reads only.

    A cell is `target/jailhouse/NAME.c` of the site or of rtgate, or else `configs/ARCH/NAME.c` of Jailhouse's tree.

    Raises:
        ConfigError: what it names is something else, or nobody has a cell of this name.
        InfrastructureError: git fails on it, or a file cannot be read.
    """
    directory = os.environ.get(VARIABLE)
    if not directory:
        return None
    path = Path(os.path.expanduser(directory)).resolve()  # noqa: PTH111 - leaves a user whom nobody knows as it is
    for name in ("hypervisor", "driver/main.c", _CELL_CONFIG, "VERSION", f"configs/{arch}"):
        if not (path / name).exists():
            raise ConfigError(f"{path} is not the source of Jailhouse for {arch}: it has no {name} ({VARIABLE})")
    try:
        version = (path / "VERSION").read_bytes().decode("ascii", "replace").strip()
        additions = _added(path, cells, arch)
    except OSError as error:
        raise InfrastructureError(f"Jailhouse in {path} cannot be read: {error}") from error
    source = identity.of_tree(path, version)
    digests = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in additions.items()]
    return Hypervisor(path=path, identity=source, added=additions, fingerprint=" ".join((source.fingerprint, *digests)))


def _added(path: Path, cells: Mapping[str, str], arch: str) -> dict[str, bytes]:
    configs = f"configs/{arch}"
    head = b"#define MEMGUARD\n" if b"memguard" in (path / _CELL_CONFIG).read_bytes() else b""
    additions = {
        _cell(cell, arch): head + _configuration(name, path / configs).read_bytes() for cell, name in cells.items()
    }
    additions[_START] = site.find("target/jailhouse", "start").read_bytes()
    if (path / _OPTIONS).is_file():
        additions[_OPTIONS] = (path / _OPTIONS).read_bytes()
    return additions


def _cell(cell: str, arch: str) -> str:
    return f"configs/{arch}/rtgate-{cell}.c"


def _configuration(name: str, configs: Path) -> Path:
    own = [path for _, path in site.matches("target/jailhouse", f"{name}.c")]
    for path in (*own, configs / f"{name}.c"):
        if path.is_file():
            return path
    names = sorted({*site.names("target/jailhouse", ".c"), *(path.stem for path in configs.glob("*.c"))})
    raise ConfigError(f"no cell {name!r} in target/jailhouse or in {configs} (there are: {', '.join(names)})")


def require(hypervisor: Hypervisor | None, build: str, toolchain: Toolchain) -> None:
    """Raise ConfigError if a build with cells has no Jailhouse, or Clang; to check its configuration takes neither."""
    if toolchain is not Toolchain.GCC:
        raise ConfigError(f"{build}: Jailhouse is built with gcc: leave --toolchain out")
    if hypervisor is None:
        raise ConfigError(
            f"{build} has a hypervisor: set {VARIABLE} to the source of a Jailhouse whose driver fits the kernel"
        )


def prepare(hypervisor: Hypervisor, job: tuxmake.Job) -> None:
    """Copy Jailhouse's tree before the kernel is made, and give that a list of no files where it has no other.

    Raises:
        InfrastructureError: the copy cannot be written.
    """
    copy = _copy(job)
    try:
        synchronise(hypervisor.path, copy)
        for name, content in hypervisor.added.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(content)
        path = job.build_directory / _LIST
        if not path.exists() or not all((copy / place).is_file() for place, _ in _contents(job.arch).values()):
            path.write_text(_HEAD, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"Jailhouse cannot be copied to {copy}: {error}") from error


def build(hypervisor: Hypervisor, job: tuxmake.Job) -> None:
    """Build the copy against the kernel in a build directory, and list there what the kernel's image gets.

    Raises:
        BuildError: it does not compile, or made less than it should.
        InfrastructureError: the disk is full, or a tool is missing.
        Interrupted: Ctrl-C.
    """
    copy, log = _copy(job), job.log_directory / "jailhouse.log"
    if not tuxmake.make_project(job, copy, log):
        raise build_log.failure(log, copy, title=str(hypervisor.path))
    lines = [_HEAD, *(f"dir {name} 0755 0 0\n" for name in _DIRECTORIES)]
    try:
        for name, (place, mode) in _contents(job.arch).items():
            if not (copy / place).is_file():
                raise BuildError(f"Jailhouse in {hypervisor.path} made no {place}", log)
            os.utime(copy / place, (0, 0))  # the archive has the times of files
            lines.append(f"file {name} ../{copy.name}/{place} {mode} 0 0\n")
        (job.build_directory / _LIST).write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{job.build_directory / _LIST} cannot be written: {error}") from error


def _copy(job: tuxmake.Job) -> Path:
    """Return where Jailhouse is built: beside the kernel's build directory."""
    return job.build_directory.with_name(f"{job.build_directory.name}.jailhouse")


def _contents(arch: str) -> Mapping[str, tuple[str, str]]:
    """Return what the image gets, by its name there: the place in Jailhouse's tree, and permissions."""
    library = "/usr/lib/jailhouse"
    return {
        "/usr/lib/firmware/jailhouse.bin": ("hypervisor/jailhouse.bin", "0644"),
        f"{library}/jailhouse.ko": ("driver/jailhouse.ko", "0644"),
        **{f"{library}/{cell}.cell": (f"{_cell(cell, arch).removesuffix('.c')}.cell", "0644") for cell in CELLS},
        f"{library}/demo.bin": (f"inmates/demos/{arch}/{DEMOS[arch]}.bin", "0644"),
        "/usr/sbin/jailhouse": ("tools/jailhouse", "0755"),
        "/usr/sbin/jailhouse-start": (_START, "0755"),
    }
