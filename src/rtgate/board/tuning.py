# SPDX-License-Identifier: MIT
"""Tunings: named sets of settings of a board that are applied before measuring and read back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgate import site

if TYPE_CHECKING:
    from rtgate.strict_yaml import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A setting of the target that is written before measuring, read back at start and end, and put back after.

    Attributes:
        path: the file below /proc or /sys; a pattern of the shell means every file that it matches.
        value: what is written.
        reads: what the file must then hold somewhere, as a regular expression; the whole value if empty.
    """

    path: str
    value: str
    reads: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """One tuning of a board.

    Attributes:
        command_line: kernel arguments; only boards whose boots rtgate starts can be given them.
        cpus: the CPUs that the tool measures on, like `2-3`; empty for all.
        writes: files below /proc and /sys.
        priorities: SCHED_FIFO priority by the start of the names of the kernel's threads, like `irq/`.
        build: the build whose kernel has what the kernel arguments need; empty if the board's own has it.
    """

    name: str
    description: str
    command_line: str = ""
    cpus: str = ""
    writes: tuple[Write, ...] = ()
    priorities: tuple[tuple[str, int], ...] = ()
    build: str = ""

    @property
    def irq_affinity(self) -> str:
        """The CPUs of all interrupts that can be moved; empty if they stay where they are."""
        return next((write.value for write in self.writes if write.path == _INTERRUPTS), "")


DEFAULT = Tuning(name="default", description="as the board boots")
_CPUS = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*")
_INTERRUPTS = "/proc/irq/*/smp_affinity_list"
_OPTIONAL = (
    *("command_line", "cpus", "irq_affinity", "cpu_governor", "memory_governor", "idle_states", "rt_runtime_us"),
    *("priorities", "build"),
)


def read(value: Value) -> dict[str, Tuning]:
    """Read the tunings of a board's file, by name. Raises ConfigError."""
    return {name: _tuning(name, entry.value) for name, entry in value.entries().items()}


def cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list in the kernel's own notation, like `0,2-3`."""
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        numbers += range(int(low), int(high or low) + 1)
    return tuple(numbers)


def is_cpu_list(text: str) -> bool:
    """Return whether a text is a list of CPUs that `cpus` reads, and not an empty one."""
    return bool(_CPUS.fullmatch(text) and cpus(text))


def _tuning(name: str, value: Value) -> Tuning:
    data = value.mapping(required=("description",), optional=_OPTIONAL)
    lists = {key: cpu_list(data[key]) for key in ("cpus", "irq_affinity") if key in data}
    writes = []
    if "irq_affinity" in lists:
        mask = _mask(lists["irq_affinity"])
        writes.append(Write(path="/proc/irq/default_smp_affinity", value=mask, reads=f"^[0,]*{mask}$"))
        # Interrupts of one CPU's own refuse to be moved; `isolation` tells those that came where they should not.
        writes.append(Write(path=_INTERRUPTS, value=lists["irq_affinity"], reads="."))
    if "cpu_governor" in data:
        governor = data["cpu_governor"].text()
        writes.append(Write(path="/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", value=governor))
    if "memory_governor" in data:
        writes.append(Write(path="/sys/class/devfreq/*/governor", value=data["memory_governor"].text()))
    if "idle_states" in data:
        writes.append(_idle_states(data["idle_states"]))
    if "rt_runtime_us" in data:
        runtime = data["rt_runtime_us"].integer(minimum=-1, maximum=1_000_000)
        writes.append(Write(path="/proc/sys/kernel/sched_rt_runtime_us", value=str(runtime)))
    return Tuning(
        name=name,
        description=data["description"].text(),
        command_line=data.text("command_line", ""),
        cpus=lists.get("cpus", ""),
        writes=tuple(writes),
        priorities=_priorities(data.get("priorities")),
        build=data["build"].text(site.names("kernel-configs"), "build") if "build" in data else "",
    )


def _idle_states(value: Value) -> Write:
    """Return what disables every idle state but the first, in which a CPU only waits for an interrupt."""
    if value.scalar_text() != "off":
        value.fail(f"unknown value {value.scalar_text()!r} (allowed: off)")
    return Write(path="/sys/devices/system/cpu/cpu*/cpuidle/state[1-9]*/disable", value="1")


def cpu_list(value: Value) -> str:
    """Read a list of CPUs. Raises ConfigError."""
    text = value.word()
    if not is_cpu_list(text):
        value.fail(f"{text!r} is not a list of CPUs (allowed: 0, 0-3, 0,2-3)")
    return text


def _mask(text: str) -> str:
    """Return a mask as the kernel prints it: groups of 32 bits with commas between (lib/bitmap-str.c)."""
    mask = f"{sum(1 << cpu for cpu in cpus(text)):x}"
    first = len(mask) % 8 or 8
    return ",".join([mask[:first], *(mask[start : start + 8] for start in range(first, len(mask), 8))])


def _priorities(value: Value | None) -> tuple[tuple[str, int], ...]:
    if value is None:
        return ()
    return tuple((name, entry.value.integer(minimum=1, maximum=99)) for name, entry in value.entries().items())
