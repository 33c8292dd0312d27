# SPDX-License-Identifier: MIT
"""Small kernels: a few functions, compiled and linked where a kernel's are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.kernel.vmlinux import Vmlinux

COMPILERS = {"arm64": "aarch64-linux-gnu-gcc", "x86_64": "gcc"}
_FLAGS = {"arm64": ("-mgeneral-regs-only",), "x86_64": ("-mcmodel=kernel", "-fcf-protection=none")}
_BASE = {"arm64": "0xffffffc080010000", "x86_64": "0xffffffff81000000"}


def linked(arch: str, directory: Path, name: str, *options: str, **sources: str) -> Path:
    """Compile each source as a file of its name and link them in this order; skip without a compiler."""
    compiler = shutil.which(COMPILERS[arch])
    if compiler is None:
        pytest.skip(f"no {COMPILERS[arch]}")
    place = directory / name
    place.mkdir()
    flags = ("-O2", "-ffreestanding", "-fno-pie", "-fno-asynchronous-unwind-tables", "-fno-stack-protector")
    objects = []
    for file, text in sources.items():
        (place / f"{file}.c").write_text(text)
        command = [compiler, *flags, *_FLAGS[arch], *options, "-c", f"{file}.c", "-o", f"{file}.o"]
        subprocess.run(command, cwd=place, check=True)
        objects.append(f"{file}.o")
    link = ["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", f"-Wl,-Ttext={_BASE[arch]}", "-Wl,-e,0"]
    subprocess.run([compiler, *link, *objects, "-o", "vmlinux"], cwd=place, check=True)
    return place / "vmlinux"


def kernel(arch: str, directory: Path, name: str, **sources: str) -> Vmlinux:
    return Vmlinux(linked(arch, directory, name, **sources))
