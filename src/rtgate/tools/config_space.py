# SPDX-License-Identifier: MIT
"""The configuration space of a PCI function, from its raw bytes as /sys/bus/pci/devices/ADDRESS/config gives them.

Registers and fields are those of the PCI Express Base Specification 6.0, chapter 7, by the names and offsets of the
kernel's include/uapi/linux/pci_regs.h. Bytes may come from a broken device: chains of capabilities may loop or lead
nowhere, and a function that does not answer reads as all ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.errors import ParseError

_STATUS_CAPABILITIES = 0x10  # PCI_STATUS_CAP_LIST
_FIRST_CAPABILITY = 0x34  # PCI_CAPABILITY_LIST
_HEADER = 0x40  # bytes that every function has, and that nobody needs a privilege for
_EXPRESS = 0x10  # PCI_CAP_ID_EXP
BYTES = 256  # what a function has without the extended space, which some devices do not bear to be read whole
_EXPRESS_BYTES = 0x14  # to the end of Link Status


# Device/Port Type in the PCI Express Capabilities register (PCI_EXP_FLAGS_TYPE). What is integrated into the root
# complex has no link: an endpoint there, and an event collector.
_WITH_LINK = frozenset({0x0, 0x1, 0x4, 0x5, 0x6, 0x7, 0x8})
_WITHOUT_LINK = frozenset({0x9, 0xA})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEnd:
    """One end of a link: what it is capable of, and what it was trained to.

    Attributes:
        aspm: ASPM Control of the Link Control register: bit 0 is L0s, bit 1 is L1.
        generation, width: Current Link Speed and Negotiated Link Width; a width of 0 is a link that is down.
        most_generation, most_width: Max Link Speed and Maximum Link Width.
    """

    generation: int
    width: int
    most_generation: int
    most_width: int
    aspm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Express:
    """The PCI Express capability of a function.

    Attributes:
        mps: Max_Payload_Size in use, bytes.
        mrrs: Max_Read_Request_Size in use, bytes.
        link: None for a function that is integrated into the root complex.
    """

    mps: int
    mrrs: int
    link: LinkEnd | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSpace:
    """What was read of one function.

    Attributes:
        id: vendor:device, four hexadecimal digits each.
        express: None for conventional PCI.
    """

    id: str
    express: Express | None


def read(data: bytes) -> ConfigSpace | None:
    """Return what a configuration space says; None if the function does not answer (all ones).

    Raises:
        ParseError: too few bytes, or a chain of capabilities that loops or leads out of the space.
    """
    if len(data) < 4:
        raise ParseError(f"only {len(data)} bytes of a configuration space could be read")
    if set(data) == {0xFF} or data[:2] == b"\xff\xff":
        return None
    if len(data) < _HEADER:
        raise ParseError(f"only {len(data)} bytes of a configuration space could be read, {_HEADER} are its header")
    if len(data) < BYTES:
        raise ParseError(f"only {len(data)} bytes of a configuration space could be read: the rest takes root")
    return ConfigSpace(id=f"{_word(data, 0):04x}:{_word(data, 2):04x}", express=_express(data))


def _word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 2], "little")


def _dword(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def _capability(data: bytes, capability_id: int) -> int | None:
    """Return the offset of a capability; the lowest two bits of a pointer are reserved."""
    if not _word(data, 0x06) & _STATUS_CAPABILITIES:
        return None
    offset, offsets = data[_FIRST_CAPABILITY] & ~3, set[int]()
    while offset:
        if offset < _HEADER or offset in offsets:
            raise ParseError(
                f"its chain of capabilities {'loops' if offset in offsets else 'leads out'} at {offset:#x}"
            )
        offsets.add(offset)
        if data[offset] == capability_id:
            return offset
        offset = data[offset + 1] & ~3
    return None


def _express(data: bytes) -> Express | None:
    offset = _capability(data, _EXPRESS)
    if offset is None:
        return None
    if offset + _EXPRESS_BYTES > BYTES:
        raise ParseError(f"its PCI Express capability at {offset:#x} leads out of the space")
    kind = _word(data, offset + 0x02) >> 4 & 0xF
    if kind not in _WITH_LINK | _WITHOUT_LINK:
        raise ParseError(f"its PCI Express capability has the unknown port type {kind:#x}")
    control = _word(data, offset + 0x08)
    return Express(
        mps=_size(control >> 5, "Max_Payload_Size"),
        mrrs=_size(control >> 12, "Max_Read_Request_Size"),
        link=_link(data, offset) if kind in _WITH_LINK else None,
    )


def _size(field: int, name: str) -> int:
    """Return the bytes of a size, 128 times a power of two; 6 and 7 are reserved."""
    if field & 7 > 5:
        raise ParseError(f"its {name} has the reserved value {field & 7}")
    return 128 << (field & 7)


def _link(data: bytes, offset: int) -> LinkEnd:
    capability, control, status = _dword(data, offset + 0x0C), _word(data, offset + 0x10), _word(data, offset + 0x12)
    return LinkEnd(
        generation=status & 0xF,
        width=status >> 4 & 0x3F,
        most_generation=capability & 0xF,
        most_width=capability >> 4 & 0x3F,
        aspm=control & 3,
    )
