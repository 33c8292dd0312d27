# SPDX-License-Identifier: MIT
"""What a measurement was made with, and which differences make two of them incomparable."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rtgate.board.boot import TimeBase

# Kernel, configuration and flavour are what a comparison compares; the rest must be equal.
# What CPUs run at in one moment is not a setting, and never quite the same.
COMPARED = frozenset(
    {
        *("kernel_release", "kernel_version", "build_id", "config_sha256", "flavour"),
        *("irq_affinity", "mitigations", "frequency"),
    }
)

# What the kernel decides by its configuration, where a tuning or a lab does not: two configurations may give two.
_CONFIGURED = frozenset({"clocksource", "rt_runtime_us", "isolated", "nohz_full", "governors", "idle_states"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment of one record: text as the target or the host said it, empty if it said nothing.

    Attributes:
        kernel_version: `uname -v`.
        build_id: the running kernel's GNU build id, read from /sys/kernel/notes; not on virtual time.
        config_sha256: SHA-256 of the running kernel's configuration, read from /proc/config.gz.
        instruction_ns: nanoseconds of virtual time per instruction, on virtual time.
        model: the machine as its device tree names it.
        governors, idle_states: the different ones of all CPUs.
        idle_disabled: idle states that CPUs may not enter, with those CPUs.
        frequency, frequency_min, frequency_max: of CPUs, in kHz: the different ones of all, as read after measuring
            (`scaling_cur_freq`), and the least and the most that the governor may choose.
        mitigations: of CPU vulnerabilities, by name.
        irq_affinity: CPUs by interrupt number.
        firmware: versions that firmware and boot loader told while the board booted, where somebody saw that.
        device: which of a lab's boards of this kind.
        storage: the disk that was measured on, what was made on it, and fio's I/O engine.
    """

    board: str = ""
    soc: str = ""
    arch: str = ""
    time: TimeBase = TimeBase.UNKNOWN
    cpus: str = ""
    cpu_model: str = ""
    memory_mib: str = ""
    instruction_ns: str = ""
    emulator: str = ""
    machine: str = ""
    rootfs: str = ""
    tools: str = ""
    flavour: str = ""
    kernel_release: str = ""
    kernel_version: str = ""
    build_id: str = ""
    config_sha256: str = ""
    command_line: str = ""
    tuning: str = ""
    clocksource: str = ""
    rt_runtime_us: str = ""
    isolated: str = ""
    nohz_full: str = ""
    online: str = ""
    model: str = ""
    governors: str = ""
    idle_states: str = ""
    idle_disabled: str = ""
    frequency: str = ""
    frequency_min: str = ""
    frequency_max: str = ""
    mitigations: str = ""
    irq_affinity: str = ""
    firmware: str = ""
    device: str = ""
    storage: str = ""

    def as_mapping(self) -> dict[str, str]:
        """Return all fields by name."""
        return {name: str(getattr(self, name)) for name in _NAMES}

    def comparable_fields(self, other: Environment) -> frozenset[str]:
        """Return the fields in which the two may differ and be compared all the same.

        Of two configurations these are what a configuration decides, too. A difference with one configuration is the
        lab's. Two machines by name are two, but a kernel may not tell the name.
        """
        if self.config_sha256 == other.config_sha256:
            return COMPARED
        return COMPARED | _CONFIGURED | (frozenset() if self.model and other.model else {"model"})

    def incomparable(self, other: Environment) -> tuple[str, ...]:
        """Return the differences that forbid a comparison, as sentences; empty when the two may be compared."""
        return self._differing(other, frozenset(_NAMES) - self.comparable_fields(other))

    def configuration_differences(self, other: Environment) -> tuple[str, ...]:
        """Return the differences that two configurations may have made, as sentences: a comparison reports them."""
        return self._differing(other, self.comparable_fields(other) - COMPARED)

    def _differing(self, other: Environment, names: frozenset[str]) -> tuple[str, ...]:
        mine, theirs = self.as_mapping(), other.as_mapping()
        return tuple(
            f"{name}: {mine[name] or 'unknown'!r} against {theirs[name] or 'unknown'!r}"
            for name in mine
            if name in names and mine[name] != theirs[name]
        )


_NAMES = tuple(field.name for field in fields(Environment))
