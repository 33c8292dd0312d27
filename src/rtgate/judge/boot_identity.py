# SPDX-License-Identifier: MIT
"""Did each arm boot one kernel, the one that its records name, and did one QEMU boot them all?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtgate.board.boot import State
from rtgate.records.record import Record

_DIGESTS = ("image_sha256", "qemu_sha256")


def identity_conflicts(baseline: Sequence[Record], candidate: Sequence[Record]) -> tuple[str, ...]:
    """Return what the boots of an arm are not about, as sentences; empty where nothing speaks against them.

    A boot that rtgate made itself must say which image and which QEMU it was; a board says what it can.
    """
    qemus = {digest[:12] for record in (*baseline, *candidate) if (digest := record.machine.get("qemu_sha256"))}
    several = [f"QEMU was replaced meanwhile (SHA-256 {', '.join(sorted(qemus))})"] if len(qemus) > 1 else []
    return (*_of_one_arm(baseline), *_of_one_arm(candidate), *several)


def _of_one_arm(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        missing_names = [name for name in _DIGESTS if not record.machine.get(name)] if _is_ours(record) else []
        if missing_names:
            yield (
                f"{record.arm}, {record.boot}: record.json does not say what booted "
                f"(`machine` has no {', '.join(missing_names)})"
            )
            return
        boot_digest, record_digest = record.machine.get("image_sha256", ""), record.kernel.image_sha256
        if boot_digest and boot_digest != record_digest:
            yield (
                f"{record.arm}, {record.boot}: the kernel that booted ({boot_digest[:12]}) "
                f"is not the record's ({record_digest[:12]})"
            )
            return
    images = {
        record.kernel.image_sha256[:12] for record in records if record.has_results and record.kernel.image_sha256
    }
    if len(images) > 1:
        yield f"{records[0].arm}: its boots are of {len(images)} kernels (SHA-256 {', '.join(sorted(images))})"


def _is_ours(record: Record) -> bool:
    """Return whether rtgate started a QEMU for the boot. What was skipped may have been so before anything booted."""
    started = record.virtual_time or bool(record.environment.emulator)
    return started and record.state != State.SKIPPED
