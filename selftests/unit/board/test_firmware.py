# SPDX-License-Identifier: MIT
from __future__ import annotations

from rtgate.board.firmware import before_kernel, unlike

CONSOLE = """\r
OpenSBI v1.1\r
   ____                    _____ ____ _____\r
Platform Name             : riscv-virtio,qemu\r
[    0.000000] Linux version 6.12.117 (rtgate@rtgate)\r
[    0.100000] OpenSBI is not said by firmware here\r
"""


def test_what_firmware_says_of_itself_comes_before_the_kernel() -> None:
    assert before_kernel({"OpenSBI": "."}, CONSOLE) == "OpenSBI v1.1"
    assert before_kernel({"OpenSBI": ".", "platform": "."}, CONSOLE).split("; ")[1].startswith("Platform Name")


def test_a_board_that_pins_nothing_asks_for_nothing() -> None:
    assert before_kernel({}, CONSOLE) == ""


def test_other_firmware_is_named() -> None:
    told = [before_kernel({"OpenSBI": "."}, CONSOLE)]
    assert unlike({"OpenSBI": r"^OpenSBI v1\.1$"}, told) == ""
    assert unlike({"OpenSBI": r"^OpenSBI v1\.6$"}, told).endswith("is 'OpenSBI v1.1'")
