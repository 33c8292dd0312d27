# SPDX-License-Identifier: MIT
"""Jailhouse's source tree, and how a kernel gets the hypervisor, its driver, two cells and a demo inmate in its image.

Facts of Jailhouse 0.12 that this module depends on (Makefile, Kbuild, driver/main.c, tools/jailhouse.c):

* `make modules` with KDIR, a built kernel, makes all of it below the tree: the driver, the hypervisor, each
  `configs/ARCH/NAME.c` as `NAME.cell`, the demo inmates, and the program `jailhouse`.
* The driver asks Linux for the firmware `jailhouse.bin`.
* Branches with memguard want its interrupts in the configuration of the root cell. Their
  `include/jailhouse/cell-config.h` names it.

The image holds all of it as its first root filesystem, so a kernel and its hypervisor are one file, whatever boots it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import files, site
from rtgate.errors import BuildError, ConfigError
from rtgate.kernel import build_log, identity, tuxmake
from rtgate.kernel.patches import synchronise

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
# As the kernel's own default (usr/default_cpio_list): a root filesystem on a disk needs its console.
_HEAD = "dir /dev 0755 0 0\nnod /dev/console 0600 0 0 c 5 1\ndir /root 0700 0 0\n"
_DIRECTORIES = ("/usr", "/usr/lib", "/usr/lib/firmware", "/usr/lib/jailhouse", "/usr/sbin")


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """Jailhouse for one build.

    Attributes:
        path: its source.
        cells: the configurations of the root cell and of the inmate's, in C.
        start: the program that enables it.
    """

    path: Path
    identity: SourceIdentity
    cells: Mapping[str, Path]
    start: Path

    @property
    def fingerprint(self) -> str:
        """Changes with any file that goes into it."""
        ours = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (*self.cells.values(), self.start)]
        return " ".join((self.identity.fingerprint, *ours))


def named_tree(cells: Mapping[str, str], arch: str) -> Hypervisor | None:
    """Return the Jailhouse that RTGATE_JAILHOUSE names, with these cells, or None where it is not set; reads only.

    A cell is `target/jailhouse/NAME.c` of the site or of rtgate, or else `configs/ARCH/NAME.c` of Jailhouse's tree.

    Raises:
        ConfigError: what it names is something else, or nobody has a cell of this name.
        InfrastructureError: git fails on it.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named).expanduser().resolve()
    for name in ("hypervisor", "driver/main.c", _CELL_CONFIG, "VERSION"):
        if not (path / name).exists():
            raise ConfigError(f"{path} is not the source of Jailhouse: it has no {name} ({VARIABLE})")
    version = files.read_text(path / "VERSION", files.YAML_LIMIT).strip()
    found = {cell: _cell(name, path / "configs" / arch) for cell, name in cells.items()}
    return Hypervisor(path, identity.of_tree(path, version), found, site.find("target/jailhouse", "start"))


def _cell(name: str, configs: Path) -> Path:
    own = [path for _, path in site.matches("target/jailhouse", f"{name}.c")]
    for path in (*own, configs / f"{name}.c"):
        if path.is_file():
            return path
    known = sorted({*site.names("target/jailhouse", ".c"), *(path.stem for path in configs.glob("*.c"))})
    raise ConfigError(f"no cell {name!r} in target/jailhouse or in {configs} (there are: {', '.join(known)})")


def require(hypervisor: Hypervisor | None, build: str) -> None:
    """Raise ConfigError if a build with cells has no Jailhouse; to check its configuration takes none."""
    if hypervisor is None:
        raise ConfigError(
            f"{build} has a hypervisor: set {VARIABLE} to the source of a Jailhouse whose driver fits the kernel"
        )


def prepare(job: tuxmake.Job) -> None:
    """Let the kernel's build begin with a list of no files, where it has none yet."""
    path = job.build_directory / _LIST
    if not path.exists():
        path.write_text(_HEAD, encoding="utf-8")


def build(hypervisor: Hypervisor, job: tuxmake.Job) -> None:
    """Build Jailhouse against the kernel in a build directory, and list there what the kernel's image gets.

    Raises:
        BuildError: it does not compile, or made less than it should.
        InfrastructureError: the disk is full, or a tool is missing.
        Interrupted: Ctrl-C.
    """
    # Beside the build directory and always at the same place: paths may end up in what is made.
    copy = job.build_directory.with_name(f"{job.build_directory.name}.jailhouse")
    log = job.log_directory / "jailhouse.log"
    synchronise(hypervisor.path, copy)
    configs = copy / "configs" / job.arch
    _add_cells(hypervisor, configs, memguard="memguard" in (copy / _CELL_CONFIG).read_text(errors="replace"))
    shutil.copyfile(hypervisor.start, copy / "rtgate-start")
    if not tuxmake.make_beside(job, copy, {"KDIR": str(job.build_directory)}, log):
        raise build_log.failure(log, copy, title=str(hypervisor.path))
    lines = [_HEAD, *(f"dir {name} 0755 0 0\n" for name in _DIRECTORIES)]
    for name, (place, mode) in _contents(job.arch).items():
        if not (copy / place).is_file():
            raise BuildError(f"Jailhouse in {hypervisor.path} made no {place}", log)
        os.utime(copy / place, (0, 0))  # the archive has the times of files
        lines.append(f"file {name} ../{copy.name}/{place} {mode} 0 0\n")
    (job.build_directory / _LIST).write_text("".join(lines), encoding="utf-8")


def _add_cells(hypervisor: Hypervisor, configs: Path, *, memguard: bool) -> None:
    if not configs.is_dir():
        raise ConfigError(f"Jailhouse in {hypervisor.path} has no configs/{configs.name}: it is not for this board")
    for name, path in hypervisor.cells.items():
        head = "#define MEMGUARD\n" * memguard
        (configs / f"rtgate-{name}.c").write_text(head + path.read_text(encoding="utf-8"), encoding="utf-8")


def _contents(arch: str) -> Mapping[str, tuple[str, str]]:
    """Return what the image gets, by its name there: the place in Jailhouse's tree, and permissions."""
    library = "/usr/lib/jailhouse"
    return {
        "/usr/lib/firmware/jailhouse.bin": ("hypervisor/jailhouse.bin", "0644"),
        f"{library}/jailhouse.ko": ("driver/jailhouse.ko", "0644"),
        **{f"{library}/{name}.cell": (f"configs/{arch}/rtgate-{name}.cell", "0644") for name in CELLS},
        f"{library}/demo.bin": (f"inmates/demos/{arch}/{DEMOS[arch]}.bin", "0644"),
        "/usr/sbin/jailhouse": ("tools/jailhouse", "0755"),
        "/usr/sbin/jailhouse-start": ("rtgate-start", "0755"),
    }
