# SPDX-License-Identifier: MIT
"""Configuration spaces made to order, register by register (offsets of include/uapi/linux/pci_regs.h)."""

from __future__ import annotations

import struct

EXPRESS_AT = 0x80


def space(
    identity: str = "144d:a808",
    *,
    port: int | None = 0,
    link: tuple[int, int] = (3, 4),
    most: tuple[int, int] = (3, 4),
    aspm: int = 0,
    sizes: tuple[int, int, int] = (1, 2, 1),
) -> bytes:
    """Return 256 bytes of a function.

    Args:
        identity: vendor:device.
        port: Device/Port Type; None for conventional PCI.
        link, most: generation and width, trained and possible.
        sizes: fields of payload in use, payload supported, read request.
    """
    data = bytearray(256)
    vendor, device = (int(part, 16) for part in identity.split(":"))
    struct.pack_into("<HH", data, 0, vendor, device)
    struct.pack_into("<H", data, 0x06, 0x0010)  # Status: there is a chain of capabilities
    data[0x34] = 0x40
    data[0x40:0x42] = b"\x01\x50"  # power management
    data[0x50:0x52] = bytes((0x05, 0 if port is None else EXPRESS_AT))  # MSI
    if port is not None:
        payload, supported, request = sizes
        struct.pack_into("<BBH", data, EXPRESS_AT, 0x10, 0, 2 | port << 4)
        struct.pack_into("<IH", data, EXPRESS_AT + 0x04, supported, payload << 5 | request << 12)
        struct.pack_into("<I", data, EXPRESS_AT + 0x0C, most[0] | most[1] << 4)
        struct.pack_into("<HH", data, EXPRESS_AT + 0x10, aspm, link[0] | link[1] << 4 | 0x2000)
    return bytes(data)


def dump(data: bytes) -> str:
    """Return bytes as `od -A n -v -t x1` prints them."""
    rows = (data[start : start + 16] for start in range(0, len(data), 16))
    return "".join("".join(f" {byte:02x}" for byte in row) + "\n" for row in rows)
