# SPDX-License-Identifier: MIT
"""Compiles our own programs for targets (`target/*/*.c`): static, stripped, and the same bytes from the same inputs.

Inputs are the sources, the headers beside them, the compiler and the C library that it links. `identity` names the
last two: what is made with others is another program.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import scratch

_TIMEOUT_S = 120.0

# Sections of unused functions go away, which halves a static program. A build id would be one more thing to explain.
COMPILE = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-g0", "-ffunction-sections", "-fdata-sections")
_LINK = ("-static", "-pthread", "-s", "-Wl,--gc-sections", "-Wl,--build-id=none")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler for one architecture.

    Attributes:
        version: the first line that it says of itself.
        libc_sha256: of the static C library that it links.
    """

    path: str
    version: str
    libc_sha256: str

    @property
    def identity(self) -> str:
        """What decides, beside the sources, which bytes come out."""
        return f"{self.version}, libc.a {self.libc_sha256[:12]}"


@functools.cache
def compiler(arch: str) -> Compiler:
    """Return the compiler for an architecture.

    Raises:
        InfrastructureError: there is none, or it has no static C library.
    """
    facts = ARCHES[arch]
    install = f"on Debian, apt install {' '.join(facts.packages)}"
    path = shutil.which(facts.compiler)
    if path is None and platform.machine() in facts.machines:
        path = shutil.which("gcc")
    if path is None:
        raise InfrastructureError(f"no C compiler for {arch}, which our own programs need: {install}")
    libc = Path(_run([path, "-print-file-name=libc.a"], "the C library").strip())
    if not libc.is_file():
        raise InfrastructureError(f"{path} has no static C library: {install}")
    version = _run([path, "--version"], "its version").split("\n", 1)[0]
    return Compiler(path, version, hashlib.sha256(libc.read_bytes()).hexdigest())


def inputs(sources: Sequence[Path]) -> tuple[Path, ...]:
    """Return all files that decide what comes out: the sources, and the headers beside them."""
    headers = {header for source in sources for header in source.parent.glob("*.h")}
    return (*sources, *sorted(headers))


def version(sources: Sequence[Path]) -> str:
    """Return what names a state of the sources; the program says it as its version."""
    digest = hashlib.sha256()
    for path in inputs(sources):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def build(sources: Sequence[Path], arch: str) -> bytes:
    """Return the program made from these C files.

    Raises:
        ConfigError: they do not compile; the message holds what the compiler says first.
        InfrastructureError: there is no compiler.
    """
    made_by = compiler(arch)
    with scratch(Path(tempfile.gettempdir()), "rtgate-program-") as work:
        out = work / "program"
        command = [made_by.path, *COMPILE, f'-DPROGRAM_VERSION="{version(sources)}"']
        try:
            # Names relative to where the compiler runs, so that no path of this machine gets into the program.
            place = Path(os.path.commonpath([source.parent for source in sources]))
            names = [str(source.relative_to(place)) for source in sources]
            _run([*command, *names, "-o", str(out), *_LINK], names[0], place)
        except _FailedError as error:
            raise ConfigError(f"{sources[0]} does not compile for {arch}: {error}") from error
        return out.read_bytes()


class _FailedError(InfrastructureError):
    """The compiler ran and said no."""


def _run(command: Sequence[str], about: str, place: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        child = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"the C compiler {command[0]} cannot be run ({about}): {error}") from error
    if child.returncode != 0:
        lines = [line for line in child.stderr.splitlines() if "error" in line] or child.stderr.splitlines()
        raise _FailedError(lines[0] if lines else f"exit code {child.returncode}")
    return child.stdout
