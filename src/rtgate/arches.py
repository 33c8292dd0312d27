# SPDX-License-Identifier: MIT
"""What differs between the architectures that rtgate builds for and boots: one row each, names and numbers only.

Code for an architecture stands beside its subject, in a table by the same names: how its instructions are compared
(`kernel.alignment`), how QEMU shows its clock (`target.virtual_clock`), what ends a program of it (`rootfs.elf`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """One architecture.

    Attributes:
        kbuild: what Linux's make and tuxmake call it (`ARCH=`).
        directory: its directory below `arch/` in a kernel tree.
        image: the kernel image in `arch/*/boot/`.
        magic: what tells its images, by the boot protocols in the kernel's Documentation/arch: an offset in the file,
            and the bytes there.
        steps: about how many files a shipped build compiles.
        gnu: GNU's name of the target, with which the names of cross compilers begin.
        machines: what `uname -m` says on such a computer.
        packages: Debian's cross compiler, and the C library that it links.
        debian: Debian's name of the architecture.
        elf: the number of its processor in ELF files (`e_machine`).
        qemu: what QEMU's program for it is called behind `qemu-system-`.
        qemu_package: the Debian package with that program.
        code: whether rtgate reads its instructions, which traces, critical sections and changed functions need.
    """

    kbuild: str
    directory: str
    image: str
    magic: tuple[int, bytes]
    steps: int
    gnu: str
    machines: tuple[str, ...]
    packages: tuple[str, str]
    debian: str
    elf: int
    qemu: str
    qemu_package: str
    code: bool = True

    @property
    def compiler(self) -> str:
        """The name of its cross compiler."""
        return f"{self.gnu}-gcc"

    @property
    def qemu_program(self) -> str:
        """The name of QEMU's program."""
        return f"qemu-system-{self.qemu}"


ARCHES: Mapping[str, Arch] = MappingProxyType(
    {
        "arm64": Arch(
            kbuild="arm64",
            directory="arm64",
            image="Image",
            magic=(56, b"ARM\x64"),
            steps=1330,
            gnu="aarch64-linux-gnu",
            machines=("aarch64", "arm64"),
            packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
            debian="arm64",
            elf=183,
            qemu="aarch64",
            qemu_package="qemu-system-arm",
        ),
        "x86_64": Arch(
            kbuild="x86_64",
            directory="x86",
            image="bzImage",
            magic=(0x202, b"HdrS"),
            steps=1610,
            gnu="x86_64-linux-gnu",
            machines=("x86_64",),
            packages=("gcc-x86-64-linux-gnu", "libc6-dev"),
            debian="amd64",
            elf=62,
            qemu="x86_64",
            qemu_package="qemu-system-x86",
        ),
        "riscv64": Arch(
            kbuild="riscv",
            directory="riscv",
            image="Image",
            magic=(56, b"RSC\x05"),
            steps=1340,
            gnu="riscv64-linux-gnu",
            machines=("riscv64",),
            packages=("gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross"),
            debian="riscv64",
            elf=243,
            qemu="riscv64",
            qemu_package="qemu-system-misc",
            code=False,
        ),
    }
)
"""The architectures by their names in boards, builds and records."""
