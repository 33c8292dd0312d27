# SPDX-License-Identifier: MIT
"""Boards: facts about one kind of hardware or virtual machine, from `boards/NAME.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.board import instrument, serial_console, storage, tuning
from rtgate.board import pcie as pcie_facts
from rtgate.board.families import consoles, dtbs
from rtgate.board.instrument import Instrument
from rtgate.board.serial_console import Console, Login, read_login
from rtgate.board.storage import Storage
from rtgate.board.tuning import DEFAULT, Tuning
from rtgate.errors import ConfigError, Location
from rtgate.strict_yaml import Mapping as Keys
from rtgate.strict_yaml import Value, load
from rtgate.units import mib

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FLAVOURS = ("preempt_rt", "xenomai", "jailhouse", "generic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Iommu:
    """The IOMMU of a virtual machine that has devices.

    Attributes:
        machine: what QEMU's -machine gets beside the board's; empty for nothing.
        arguments: QEMU's arguments before those of the devices, which QEMU wants behind their IOMMU.
    """

    machine: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Qemu:
    """The virtual machine of a virtual board.

    Attributes:
        shift: one instruction is 2**shift nanoseconds of virtual time (QEMU's -icount shift).
        devices: arguments by the name of a device that a boot may have; it gets those that its case asks for.
        iommu: what a boot with devices gets before them.
        drivers: the build that has drivers of the devices; empty if the board's own has them.
    """

    binary: str
    machine: str
    cpu: str
    shift: int
    arguments: tuple[str, ...]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    iommu: Iommu = field(default_factory=Iommu)
    drivers: str = ""

    @property
    def instruction_ns(self) -> int:
        """Nanoseconds of virtual time that one instruction takes."""
        return 1 << self.shift

    def machine_with(self, devices: Collection[str]) -> str:
        """Return QEMU's -machine for a boot with these devices."""
        return ",".join(filter(None, (self.machine, self.iommu.machine if devices else "")))

    def with_devices(self, devices: Collection[str]) -> tuple[str, ...]:
        """Return QEMU's arguments for these devices, in the order of the board's file; none without a device."""
        words = [argument for name, arguments in self.devices.items() if name in devices for argument in arguments]
        return (*self.iommu.arguments, *words) if devices else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """A setting that no document confirms, and what is known about it; whoever has the board must settle it."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lava:
    """How a lab's LAVA server boots the board.

    Attributes:
        device_type: LAVA's name for this kind of board; load addresses and boot loader settings live there.
        boot: the way of booting, an entry of `lava-jobs/`.
        consoles: the console device by kernel family, where they differ (`{bsp: ttyFIQ0, mainline: ttyS2}`).
        dtbs: the device tree by kernel family, below the kernel's `arch/ARCH/boot/dts`.
        prompt: what the shell prints when it is ready, as a regular expression.
        login: who logs in on the system that jobs boot; None where it asks for nobody, as rtgate's images.
        unconfirmed: what no document confirms.
    """

    device_type: str
    boot: str
    consoles: Mapping[str, str]
    dtbs: Mapping[str, str]
    prompt: str
    login: Login | None
    unconfirmed: tuple[Unconfirmed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """Why a validity check is not applicable on a board, and where its file says so."""

    reason: str
    location: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One board.

    Attributes:
        soc: the SoC, or `none` for a virtual machine.
        memory_mib: RAM in MiB.
        command_line: kernel arguments that every boot gets, the console apart.
        build: the build that `rtgate gate` makes when none is named; empty if its kernels come from elsewhere.
        rootfs: the root filesystem image that the board boots.
        scratch: a directory on a disk that loads may write to; empty for a RAM disk.
        tunings: by name; `default` is always there.
        cpu_classes: CPUs by the name of their kind, where a board has several kinds (`little`, `big`).
        not_applicable: by validity check, why it is not applicable on this board; whether there is such a check, says
            `validity.registry`.
        qemu: set for virtual boards only.
        cool_to: degrees Celsius that a board in a lab must have cooled down to before it measures.
        temperature_limit: degrees Celsius that no thermal zone may be above while it measures; None for no limit.
        firmware: regular expressions by what they pin; one of the strings of a boot must hold each (see `firmware`).
        lava: set for boards that labs have.
        nvme: storage that measurements may overwrite; None if there is none.
        instrument: what raises interrupts of the board from outside and times their answers; None if there is none.
        pcie: the PCI functions that are expected on it, by name; on a virtual board each has the name of a device,
            and is there only with it.
    """

    name: str
    path: Path
    description: str
    soc: str
    arch: str
    cpus: int
    memory_mib: int
    console: Console
    command_line: str
    build: str
    rootfs: str
    work_directory: str
    scratch: str
    tunings: dict[str, Tuning]
    cpu_classes: dict[str, tuple[int, ...]]
    not_applicable: Mapping[str, NotApplicable]
    qemu: Qemu | None
    cool_to: int | None = None
    temperature_limit: int | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    lava: Lava | None = None
    nvme: Storage | None = None
    instrument: Instrument | None = None
    pcie: Mapping[str, pcie_facts.Function] = field(default_factory=dict)

    def tuning(self, name: str) -> Tuning:
        """Return the tuning of this name. Raises ConfigError."""
        if name not in self.tunings:
            raise ConfigError(
                f"{self.path}: {self.name} has no tuning {name!r} (allowed: {', '.join(sorted(self.tunings))})"
            )
        return self.tunings[name]

    @property
    def virtual(self) -> bool:
        """Whether the board is a virtual machine, which can run on virtual time."""
        return self.qemu is not None


_REQUIRED = ("description", "soc", "arch", "cpus", "memory", "console")
_OPTIONAL = (
    *("build", "command_line", "rootfs", "work_directory", "scratch", "tunings", "cpu_classes", "not_applicable"),
    *("qemu", "lava", "cool_to", "temperature_limit", "firmware", "pcie", "nvme", "instrument"),
)


def board(name: str) -> Board:
    """Return the board of this name.

    Raises:
        ConfigError: there is none, or its file is wrong (path:line:column).
    """
    return read(site.find("boards", f"{name}.yaml"))


def read(path: Path) -> Board:
    """Read one board file. Raises ConfigError as `board`."""
    data = load(path).mapping(required=_REQUIRED, optional=_OPTIONAL)
    console, qemu = serial_console.read(data["console"]), _qemu(data)
    lava = _lava(data.get("lava"), console)
    return Board(
        name=path.name.removesuffix(".yaml"),
        path=path,
        description=data["description"].text(),
        soc=data["soc"].text(),
        arch=data["arch"].text(ARCHES),
        cpus=data["cpus"].integer(minimum=1, maximum=256),
        memory_mib=data["memory"].parse(mib),
        console=console,
        command_line=data.text("command_line", ""),
        build=_read_name(data.get("build"), "build", "kernel-configs"),
        rootfs=_read_name(data.get("rootfs"), "image", "target/rootfs") or "core",
        work_directory=data.text("work_directory", "/run/rtgate"),
        scratch=data.text("scratch", ""),
        tunings={DEFAULT.name: DEFAULT, **({} if "tunings" not in data else tuning.read(data["tunings"]))},
        cpu_classes=_cpu_classes(data.get("cpu_classes"), data["cpus"].integer()),
        not_applicable=_not_applicable(data),
        qemu=qemu,
        cool_to=data["cool_to"].integer(minimum=0, maximum=120) if "cool_to" in data else None,
        temperature_limit=_temperature_limit(data),
        firmware=_firmware(data.get("firmware")),
        lava=lava,
        pcie=_pcie(data.get("pcie"), qemu),
        nvme=storage.read(data["nvme"]) if "nvme" in data else None,
        instrument=_instrument(
            data.get("instrument"), {console.device, *(lava.consoles.values() if lava else ())}, qemu
        ),
    )


def _instrument(value: Value | None, consoles: set[str], qemu: Qemu | None) -> Instrument | None:
    return None if value is None else instrument.read(value, virtual=bool(qemu), consoles=consoles)


def _temperature_limit(data: Keys) -> int | None:
    if "temperature_limit" not in data:
        return None
    limit = data["temperature_limit"].integer(minimum=1, maximum=150)
    if "cool_to" in data and data["cool_to"].integer() >= limit:
        data["temperature_limit"].fail(f"{limit} is not above cool_to: the board would begin to measure too hot")
    return limit


def _firmware(value: Value | None) -> dict[str, str]:
    return {} if value is None else {name: _pattern(entry.value) for name, entry in value.entries().items()}


def _pattern(value: Value) -> str:
    """Return a regular expression."""
    try:
        re.compile(value.text())
    except re.error as error:
        value.fail(f"{value.text()!r} is not a regular expression: {error}")
    return value.text()


def _read_name(value: Value | None, what: str, kind: str) -> str:
    """Return a name that a kind of file has, empty without a value."""
    return "" if value is None else value.text(site.names(kind), what)


def _cpu_classes(value: Value | None, cpus: int) -> dict[str, tuple[int, ...]]:
    classes: dict[str, tuple[int, ...]] = {}
    for name, entry in ({} if value is None else value.entries()).items():
        classes[name] = tuning.cpus(tuning.cpu_list(entry.value))
        if max(classes[name]) >= cpus:
            entry.value.fail(f"CPU {max(classes[name])} is beyond the board's CPUs (allowed: 0 to {cpus - 1})")
    return classes


def _not_applicable(data: Keys) -> dict[str, NotApplicable]:
    entries = data["not_applicable"].entries() if "not_applicable" in data else {}
    return {
        name: NotApplicable(reason=entry.value.text(), location=entry.key.location) for name, entry in entries.items()
    }


def _qemu(data: Keys) -> Qemu | None:
    value = data.get("qemu")
    if value is None:
        return None
    keys = value.mapping(
        required=("binary", "machine", "cpu", "shift"), optional=("arguments", "devices", "iommu", "drivers")
    )
    return Qemu(
        binary=keys["binary"].text(),
        machine=keys["machine"].text(),
        cpu=keys["cpu"].text(),
        shift=keys["shift"].integer(minimum=0, maximum=10),
        arguments=keys.texts("arguments"),
        devices=_devices(keys.get("devices")),
        iommu=_iommu(keys.get("iommu")),
        drivers=_read_name(keys.get("drivers"), "build", "kernel-configs"),
    )


def _pcie(value: Value | None, qemu: Qemu | None) -> dict[str, pcie_facts.Function]:
    if value is None:
        return {}
    for name, entry in value.entries().items():
        if qemu is not None and name not in qemu.devices:
            names = ", ".join(qemu.devices) or "none"
            entry.key.fail(f"unknown device {name!r} (allowed: those of `qemu: devices`, {names})")
    return pcie_facts.read(value)


def _devices(value: Value | None) -> dict[str, tuple[str, ...]]:
    devices: dict[str, tuple[str, ...]] = {}
    for name, entry in ({} if value is None else value.entries()).items():
        pcie_facts.check_name(entry.key)
        devices[name] = tuple(item.text() for item in entry.value.items())
        if not devices[name]:
            entry.value.fail(f"{name} has no arguments (allowed: a list of QEMU's, for example [-device, edu])")
    return devices


def _iommu(value: Value | None) -> Iommu:
    if value is None:
        return Iommu()
    data = value.mapping(optional=("machine", "arguments"))
    return Iommu(machine=data.text("machine", ""), arguments=data.texts("arguments"))


def _lava(value: Value | None, console: Console) -> Lava | None:
    if value is None:
        return None
    data = value.mapping(
        required=("device_type", "boot"), optional=("consoles", "dtbs", "prompt", "login", "password", "unconfirmed")
    )
    # `re.escape` would also escape spaces and `#`, which only makes job definitions hard to read.
    pattern = re.sub(r"([][.^$*+?{}()|\\])", r"\\\1", console.prompt)
    prompt = _pattern(data["prompt"]) if "prompt" in data else pattern
    return Lava(
        device_type=_device_type(data["device_type"]),
        boot=_read_name(data["boot"], "way of booting", "lava-jobs"),
        consoles=consoles(data.get("consoles")),
        dtbs=dtbs(data.get("dtbs")),
        prompt=prompt,
        login=read_login(data),
        unconfirmed=_read_unconfirmed(data.get("unconfirmed")),
    )


def _device_type(value: Value) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", value.text()):
        value.fail(f"{value.text()!r} is not a name of a device type (allowed: letters, digits, '-', '_', '.')")
    return value.text()


def _read_unconfirmed(value: Value | None) -> tuple[Unconfirmed, ...]:
    if value is None:
        return ()
    items = [item.mapping(required=("what", "reason")) for item in value.items()]
    return tuple(Unconfirmed(what=item["what"].text(), reason=item["reason"].text()) for item in items)
