# SPDX-License-Identifier: MIT
"""Did each arm boot one kernel, the one that its records name, and did one QEMU boot them all?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from rtgate.board.boot import State
from rtgate.records.record import Record

_DIGESTS = ("image_sha256", "qemu_sha256")
_CERTAIN = ("SHA-256", "build id")
_NAMES = (*_CERTAIN, "release", "version")
"""What tells kernels apart, the surest first."""


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
    yield from _several_kernels([record for record in records if record.state != State.SKIPPED])


def _several_kernels(records: Sequence[Record]) -> Iterator[str]:
    """Yield that boots are of several kernels, with a boot of each; those that died, too, are judged as of one."""
    kernels = [(_kernel_names(record), record) for record in records]
    pairs = combinations(sorted({names for names, _ in kernels}), 2)
    places = [place for pair in pairs if (place := _difference(*pair)) is not None]
    if not places:
        return
    boots: dict[str, list[str]] = {}
    for names, record in kernels:
        if names[min(places)]:
            boots.setdefault(names[min(places)], []).append(record.boot)
    text = "; ".join(
        f"{name}: {of[0]}" + (f" and {len(of) - 1} more" if of[1:] else "") for name, of in sorted(boots.items())
    )
    yield f"{records[0].arm}: its boots are of {len(boots)} kernels ({_NAMES[min(places)]} {text})"


def _kernel_names(record: Record) -> tuple[str, ...]:
    """Return what a boot's kernel is known by, in the order of `_NAMES`; each is empty where nobody read it."""
    kernel, environment = record.kernel, record.environment
    build_id, version = environment.build_id or kernel.build_id, environment.kernel_version or kernel.version
    return (kernel.image_sha256[:12], build_id[:12], record.release, version)


def _difference(first: tuple[str, ...], second: tuple[str, ...]) -> int | None:
    """Return by which of their names two kernels differ; None if they may be one: a name counts where both have it."""
    for place, (mine, theirs) in enumerate(zip(first, second, strict=True)):
        if mine and theirs and mine != theirs:
            return place
        if mine and theirs and _NAMES[place] in _CERTAIN:
            return None
    return None


def _is_ours(record: Record) -> bool:
    """Return whether rtgate started a QEMU for the boot. What was skipped may have been so before anything booted."""
    started = record.virtual_time or bool(record.environment.emulator)
    return started and record.state != State.SKIPPED
