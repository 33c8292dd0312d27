# SPDX-License-Identifier: MIT
"""What a real server's log is read as."""

from __future__ import annotations

from pathlib import Path

from rtgate.lava import boot_log, frames, log

LINES = log.parse(
    (Path(__file__).resolve().parents[2] / "data" / "lava" / "2023.01-uboot-docker.yaml").read_text(encoding="utf-8")
)


def test_the_boot_is_told_from_the_test() -> None:
    (boot,) = boot_log.boots(LINES)
    assert (boot.number, boot.attempts, boot.starting, boot.tested, boot.faults) == (1, 1, True, True, ())
    assert boot.firmware == (
        "U-Boot 2023.01+dfsg-2+deb12u3 (Jun 22 2026 - 08:38:07 +0000)",
        "psci: PSCIv1.1 detected in firmware.",
    )
    assert "Starting kernel" in boot.console
    assert "rtgate1" not in boot.console


def test_every_frame_arrived() -> None:
    ((_, units),) = frames.collected(line.text for line in LINES if line.level == "target").items()
    assert sorted(units) == ["1", "2", "3", "a", "z"]
    for unit in units.values():
        assert unit.data()


def test_what_the_board_printed_beside_the_test_holds_no_frame_of_ours() -> None:
    assert frames.collected(line.text for line in LINES if line.level != "target") == {}
