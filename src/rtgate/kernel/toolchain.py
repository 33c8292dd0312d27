# SPDX-License-Identifier: MIT
"""What compiles and links a kernel: the GCC and binutils of its architecture, or Clang and LLVM's tools.

Kbuild takes the whole of LLVM with `LLVM=1` (Documentation/kbuild/llvm.rst): compiler, linker and binutils, for the
kernel and for the programs that its build runs.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from rtgate import process
from rtgate.arches import ARCHES

if TYPE_CHECKING:
    from collections.abc import Mapping


class Toolchain(StrEnum):
    """A toolchain, by tuxmake's name."""

    GCC = "gcc"
    CLANG = "clang"

    @property
    def variables(self) -> Mapping[str, str]:
        """What make is told of it."""
        return {"LLVM": "1"} if self is Toolchain.CLANG else {}

    @property
    def suffix(self) -> str:
        """What the names of its builds end with; empty for the usual one."""
        return "" if self is Toolchain.GCC else f"-{self}"

    @property
    def host_compiler(self) -> str:
        """The compiler of the programs that a build runs."""
        return str(self)

    def compiler(self, arch: str) -> str:
        """Return the program that compiles for an architecture."""
        return "clang" if self is Toolchain.CLANG else ARCHES[arch].compiler

    def linker(self, arch: str) -> str:
        """Return the program that links for an architecture."""
        return "ld.lld" if self is Toolchain.CLANG else f"{ARCHES[arch].gnu}-ld"

    def programs(self, arch: str) -> tuple[str, ...]:
        """Return the programs that must be installed; what comes in a package with one of them is not named."""
        own = (self.compiler(arch), self.host_compiler)
        return (*own, self.linker(arch), "llvm-objcopy") if self is Toolchain.CLANG else own

    def versions(self, arch: str) -> str:
        """Return the versions of what decides the compiled code.

        Raises:
            InfrastructureError: it is not installed.
        """
        programs = (self.compiler(arch), self.linker(arch))
        return ", ".join(process.output([name, "--version"]).split("\n")[0] for name in programs)


def compiler_of(toolchain: str) -> str:
    """Return the compiler with the first number of its version, as `aarch64-linux-gnu-gcc 12`; empty if unknown."""
    if clang := re.search(r"clang version (\d+)", toolchain):
        return f"clang {clang[1]}"
    words = toolchain.partition(",")[0].split()
    versions = [word for word in words if re.fullmatch(r"\d+(?:\.\d+)+", word)]
    return f"{words[0]} {versions[-1].partition('.')[0]}" if versions else ""
