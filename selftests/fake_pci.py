# SPDX-License-Identifier: MIT
"""PCI functions that are directories: programs that take `--sysfs` find them as they find real ones.

The BAR is a file, so it is memory; what a file cannot imitate is a bus.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_NONE = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
IO, MEMORY, PREFETCHABLE = 0x40101, 0x40200, 0x14220C  # flags as the kernel prints them


@dataclass(frozen=True, slots=True)
class Function:
    """One function; its files may be changed at will."""

    path: Path

    def file(self, name: str) -> Path:
        return self.path / name

    def drive(self, driver: str) -> None:
        """Have a kernel driver on it."""
        place = self.path.parents[1] / "drivers" / driver
        place.mkdir(parents=True, exist_ok=True)
        (self.path / "driver").unlink(missing_ok=True)
        (self.path / "driver").symlink_to(place)

    def vanish(self) -> None:
        """Answer as a function that is not there: with ones."""
        (self.path / "config").write_bytes(b"\xff" * 64)


@dataclass(frozen=True, slots=True)
class Sysfs:
    """A directory in the form of sysfs."""

    path: Path

    def add(
        self, address: str, ids: str, bars: dict[int, tuple[int, int]] | None = None, kind: int = 0x050000
    ) -> Function:
        """Add a function with these ids (`1af4:1110`), BARs (size in bytes and flags, by number), and class."""
        path = self.path / "bus" / "pci" / "devices" / address
        path.mkdir(parents=True)
        vendor, device = (int(part, 16) for part in ids.split(":"))
        for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
            (path / name).write_text(f"0x{value:04x}\n")
        (path / "enable").write_text("0\n")
        (path / "driver_override").write_text("(null)\n")
        (path.parents[1] / "drivers_probe").touch()
        (path / "subsystem").symlink_to(path.parents[1])
        (path / "config").write_bytes(vendor.to_bytes(2, "little") + device.to_bytes(2, "little") + bytes(60))
        lines = [_NONE] * 7
        for number, (size, flags) in (bars or {}).items():
            start = 0x1000_0000 * (number + 1)
            lines[number] = f"0x{start:016x} 0x{start + size - 1:016x} 0x{flags:016x}"
            with (path / f"resource{number}").open("wb") as resource:
                resource.truncate(size)
        (path / "resource").write_text("\n".join(lines) + "\n")
        return Function(path)

    def group(self, number: int, *functions: Function) -> None:
        """Put functions into one IOMMU group."""
        devices = self.path / "kernel" / "iommu_groups" / str(number) / "devices"
        devices.mkdir(parents=True)
        for function in functions:
            (devices / function.path.name).symlink_to(function.path)
            (function.path / "iommu_group").symlink_to(devices.parent)
