# SPDX-License-Identifier: MIT
"""Parts of the plugin as a library of the host, for tests without QEMU."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

EXPLAIN = Path(__file__).resolve().parents[3] / "src" / "rtgate" / "explain"
GUEST = """
#include <string.h>
#include "guest.h"
#include "machine.h"
bool machine_arm64;
uint64_t words[1 << 12]; /* of the guest's memory, from address 0 on */
uint64_t guest_stack(const struct guest_cpu *cpu) { return cpu->registers[31]; }
bool guest_read(uint64_t address, void *into, uint64_t size)
{
	if (address + size > sizeof(words))
		return false;
	memcpy(into, (char *)words + address, size);
	return true;
}
"""
"""A guest whose memory and registers a test writes; register 31 is the stack pointer."""


class Cpu(ctypes.Structure):
    """`struct guest_cpu`."""

    _fields_ = (("registers", ctypes.POINTER(ctypes.c_uint64)), ("mask", ctypes.c_void_p))


def plugin_parts(directory: Path, *names: str, host: str = "") -> ctypes.CDLL:
    """Return these parts, with `base` and what a host program has in place of the others."""
    (directory / "host.c").write_text(host)
    sources = [*(EXPLAIN / f"{name}.c" for name in (*names, "base")), directory / "host.c"]
    command = ("cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{EXPLAIN}", "-o")
    subprocess.run([*command, directory / "parts.so", *sources], check=True)
    return ctypes.CDLL(str(directory / "parts.so"))
