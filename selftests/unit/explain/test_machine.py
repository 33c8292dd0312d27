# SPDX-License-Identifier: MIT
"""What instructions do, by the plugin's own code."""

from __future__ import annotations

import ctypes

import pytest

from .plugin_parts import plugin_parts

HOST = """
#include "machine.h"
bool calls(const uint8_t *bytes, size_t size)
{
	return machine_effect(bytes, size).calls;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = plugin_parts(tmp_path_factory.mktemp("machine"), "machine", host=HOST)
    made.calls.restype = ctypes.c_bool
    made.calls.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return made


@pytest.mark.parametrize(
    ("arm64", "instruction", "calls"),
    [
        (True, "d63f0040", True),  # blr x2
        (True, "d63f03c0", True),  # blr x30
        (True, "d61f0200", False),  # br x16
        (True, "d65f03c0", False),  # ret
        (True, "97ffff00", False),  # bl
        (False, "ffd0", True),  # call *%rax
        (False, "41ffd3", True),  # call *%r11
        (False, "ff13", True),  # call *(%rbx)
        (False, "ff9080aa0100", True),  # call *0x1aa80(%rax)
        (False, "41ff5568", True),  # call *0x68(%r13)
        (False, "ffe0", False),  # jmp *%rax
        (False, "ff33", False),  # push (%rbx)
        (False, "e812345678", False),  # call
        (False, "c3", False),  # ret
    ],
)
def test_calls_by_address_are_known(library: ctypes.CDLL, *, arm64: bool, instruction: str, calls: bool) -> None:
    ctypes.c_bool.in_dll(library, "machine_arm64").value = arm64
    data = bytes.fromhex(instruction)
    assert library.calls((data[::-1] if arm64 else data).ljust(16, b"\0"), len(data)) is calls
