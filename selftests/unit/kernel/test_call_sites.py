# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.call_sites import return_address

from .linked import kernel

# Written in assembler, so that nobody but the test says what stands behind a call.
SOURCE = """
asm(".text\\n"
    ".globl wakes, leaves, wake_up_process, other, behind\\n"
    ".type wakes, %function\\nwakes: CALL wake_up_process\\nCALL other\\nCALL wake_up_process\\n"
    "behind: CALL other\\nNOISE\\n"
    ".size wakes, . - wakes\\n"
    ".type leaves, %function\\nleaves: JUMP wake_up_process\\nCALL other\\n.size leaves, . - leaves\\n"
    ".type wake_up_process, %function\\nwake_up_process: ret\\n.size wake_up_process, . - wake_up_process\\n"
    ".type other, %function\\nother: ret\\n.size other, . - other\\n");
"""
# Bytes within an instruction that look like another call.
WORDS = {
    "arm64": {"CALL": "bl", "JUMP": "b", "NOISE": "nop"},
    "x86_64": {"CALL": "call", "JUMP": "jmp", "NOISE": "movabs $0xe8e8e8e8e8e8e8e8, %rax"},
}


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_the_address_behind_the_last_call_is_found(tmp_path: Path, arch: str) -> None:
    source = SOURCE
    for word, instruction in WORDS[arch].items():
        source = source.replace(word, instruction)
    linked = kernel(arch, tmp_path, "first", a=source)
    behind = linked.address_of("behind")
    assert behind is not None
    assert return_address(linked, "wakes", "wake_up_process") == behind
    assert return_address(linked, "leaves", "wake_up_process") is None  # it jumps there, and does not come back
    assert return_address(linked, "wakes", "absent") is None
    assert return_address(linked, "absent", "other") is None
