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
    qemus = {digest[:12] for one in (*baseline, *candidate) if (digest := one.machine.get("qemu_sha256"))}
    several = [f"QEMU was replaced meanwhile (SHA-256 {', '.join(sorted(qemus))})"] if len(qemus) > 1 else []
    return (*_of_one_arm(baseline), *_of_one_arm(candidate), *several)


def _of_one_arm(records: Sequence[Record]) -> Iterator[str]:
    for one in records:
        lacking = [name for name in _DIGESTS if not one.machine.get(name)] if _is_ours(one) else []
        if lacking:
            yield f"{one.arm}, {one.boot}: record.json does not say what booted (`machine` has no {', '.join(lacking)})"
            return
        booted, named = one.machine.get("image_sha256", ""), one.kernel.image_sha256
        if booted and booted != named:
            yield f"{one.arm}, {one.boot}: the kernel that booted ({booted[:12]}) is not the record's ({named[:12]})"
            return
    images = {one.kernel.image_sha256[:12] for one in records if one.has_results and one.kernel.image_sha256}
    if len(images) > 1:
        yield f"{records[0].arm}: its boots are of {len(images)} kernels (SHA-256 {', '.join(sorted(images))})"


def _is_ours(one: Record) -> bool:
    """Return whether rtgate started a QEMU for the boot. What was skipped may have been so before anything booted."""
    started = one.virtual_time or bool(one.environment.emulator)
    return started and one.state != State.SKIPPED
