# SPDX-License-Identifier: MIT
"""What boots and frames a real server's logs hold."""

from __future__ import annotations

from pathlib import Path

from rtgate.lava.results import boot_log, frames, log
from rtgate.lava.results.phases import boots

LOGS = Path(__file__).resolve().parents[2] / "data" / "lava"


def lines(name: str) -> tuple[log.LogLine, ...]:
    return log.parse((LOGS / f"2023.01-{name}.log").read_text(encoding="utf-8"))


def test_the_boot_is_told_from_the_test() -> None:
    (found,) = boots(lines("complete"))
    boot = boot_log.parse_boot_log(found)
    assert (boot.number, boot.attempts, found.kernel_began, found.has_booted, boot.faults) == (1, 1, True, True, ())
    assert boot.firmware == (
        "U-Boot 2023.01+dfsg-2+deb12u3 (Jun 22 2026 - 08:38:07 +0000)",
        "psci: PSCIv1.1 detected in firmware.",
    )
    assert "Starting kernel" in boot.console
    assert "rtgate1" not in boot.console


def test_a_panic_at_boot_is_seen_also_when_the_board_started_again() -> None:
    (boot,) = boots(lines("panic-cancelled"))
    assert (boot.has_booted, boot.kernel_began) == (False, True)
    assert {fault.kind.value for fault in boot_log.parse_boot_log(boot).faults} == {"panic"}


def test_a_boot_without_a_kernel_never_began() -> None:
    (boot,) = boots(lines("no-kernel-image"))
    assert (boot.has_booted, boot_log.parse_boot_log(boot).attempts, boot_log.parse_boot_log(boot).faults) == (
        False,
        0,
        (),
    )


def test_every_frame_arrived_and_the_board_printed_none() -> None:
    whole = lines("complete")
    ((_, units),) = frames.collect_frames(line.text for line in whole if line.level == "target").items()
    assert sorted(units) == ["1", "2", "3", "a", "z"]
    for unit in units.values():
        assert unit.data()
    assert frames.collect_frames(line.text for line in whole if line.level != "target") == {}
