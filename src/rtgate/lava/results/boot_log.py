# SPDX-License-Identifier: MIT
"""LAVA's own boot of a board, read from the job's log: pytest starts after it and never sees it.

What firmware ran, and what the kernel complained of while it booted, belong into every record of that boot. LAVA itself
ends a job for a panic only; warnings and oopses of a boot it merely lists, and a boot that it repeated
(`failure_retry`) leaves a job that is Complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rtgate.board.firmware import SEPARATOR
from rtgate.console.faults import BOOT_LOADERS, Fault, scan
from rtgate.lava.results.phases import Boot
from rtgate.lava.results.plain_text import plain_line
from rtgate.measure import observations
from rtgate.records.record import Record

_LONGEST = 4_000_000  # characters of one boot that are looked at: a kernel that prints for ever fills a log
_MOST_STRINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BootLog:
    """What one boot of a job told before its test, all its attempts together, and after it.

    Attributes:
        number: which boot of the job, from 1.
        attempts: how often a kernel started; 0 when none did.
        firmware: versions that firmware and boot loader told, in the order of their first appearance.
        faults: what kernels complained of before the test, in any attempt.
        console: what the board printed before the test.
        late: what the kernel complained of at the end, as far as LAVA read that only after the test.
    """

    number: int
    attempts: int
    firmware: tuple[str, ...]
    faults: tuple[Fault, ...]
    console: str
    late: tuple[Fault, ...] = ()


# What a version reads like, where it is printed. Times of builds are part of a version; times of a run are not.
_FIRMWARE = tuple(
    re.compile(pattern)
    for pattern in (
        r"^DDR (?:V\d[\w.]* [0-9a-f]{6,}|Version V?\d[\w.]*).*",  # Rockchip's DDR binaries
        *(f"{start}{rest}" for start, rest in BOOT_LOADERS),
        r"^(?:INFO|NOTICE): {1,4}BL(?:1|2|31|32|33): (?:v\d|Built : ).*",  # Trusted Firmware-A
        r"^(?:I/TC: )?OP-TEE version: .*",
        # Rockchip's real-time BL31: how it has set up caches.
        r"(?i)\bl3 cache partition cfg-[0-9a-f]{4}\b",
        r"^INFO: {1,4}cache_write_streaming_cfg:.*",
        r"^(?:\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? )?(?:efi: EFI v\S+ by .*|DMI: .*\bBIOS\b.*|psci: PSCIv\S+ detected.*)",
    )
)
_STAMP = re.compile(r"^\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ")
_KERNEL = re.compile(r"^(?:\[ *0\.\d{6}\](?:\[ *[TC]\d+\])? )?Linux version \d+\.\d+")


def parse_boot_log(boot: Boot) -> BootLog:
    """Return what a boot told."""
    console = boot.booting[:_LONGEST]
    lines = console.split("\n")
    return BootLog(
        number=boot.number,
        attempts=sum(_KERNEL.match(line) is not None for line in lines),
        firmware=firmware(lines),
        faults=scan(console),
        console=console,
        late=scan("\n".join(line.text for line in boot.late)[:_LONGEST]),
    )


def firmware(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the versions that firmware and boot loaders told, each once, as text that may be printed."""
    versions: dict[str, None] = {}
    for line in lines:
        for pattern in _FIRMWARE:
            match = pattern.search(line[:400])
            if match:
                versions.setdefault(plain_line(_STAMP.sub("", match[0])).strip()[:200])
    return tuple(versions)[:_MOST_STRINGS]


def merge_boot(record: Record, boot: BootLog, device: str) -> Record:
    """Return a record with what LAVA saw of its boot, made on this device of the lab."""
    environment = replace(record.environment, firmware=SEPARATOR.join(boot.firmware), device=plain_line(device))
    return replace(
        record,
        environment=environment,
        faults=observations.with_boot(record.faults, boot.faults),
        machine={**record.machine, "boot_attempts": str(boot.attempts)},
    )
