# SPDX-License-Identifier: MIT
"""PCI Express functions that a board is expected to have: facts of its file, which links and tools are held against."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtgate.strict_yaml import Value

ALL = "all"  # stands for every device or function of a board
ASPM = ("off", "l0s", "l1", "l0s l1")  # by the value of ASPM Control in the Link Control register
COUNTED = ("port", "function", "both")

_GENERATIONS = 6
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_SIZES = tuple(128 << power for power in range(6))  # Max_Payload_Size and Max_Read_Request_Size
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One expected function. What is None or empty is not judged.

    Attributes:
        address: domain:bus:device.function as the kernel writes it.
        id: vendor:device, four hexadecimal digits each.
        port: address of the port above it.
        generation: of the trained link: 1 is 2.5 GT/s, 2 is 5, 3 is 8, 4 is 16, 5 is 32, 6 is 64.
        width: lanes of the trained link.
        mps: Max_Payload_Size in use, bytes.
        mrrs: Max_Read_Request_Size in use, bytes.
        aspm: link power states that are enabled, one of `ASPM`.
        aer: whose error counters must be there, one of `COUNTED`; empty where none have to.
    """

    name: str
    address: str = ""
    id: str = ""
    port: str = ""
    generation: int | None = None
    width: int | None = None
    mps: int | None = None
    mrrs: int | None = None
    aspm: str = ""
    aer: str = ""

    @property
    def locator(self) -> str:
        """How a program finds it: by its address, or by vendor:device."""
        return self.address or self.id


_KEYS = ("address", "id", "port", "generation", "width", "mps", "mrrs", "aspm", "aer")


def read(value: Value) -> dict[str, Function]:
    """Read the functions of a board's file, by name. Raises ConfigError."""
    functions = {}
    for name, entry in value.entries().items():
        check_name(entry.key)
        functions[name] = _function(name, entry.value)
    return functions


def check_name(key: Value) -> None:
    """Check what a device or function is called. Raises ConfigError."""
    name = key.scalar_text()
    if not _NAME.fullmatch(name) or name == ALL:
        key.fail(
            f"{name!r} is not a name of a device (allowed: small letters, digits, '-', '_'; {ALL!r} means every one)"
        )


def select_functions(functions: Mapping[str, Function], devices: Collection[str]) -> dict[str, Function]:
    """Return the functions with these names."""
    return {name: function for name, function in functions.items() if name in devices or ALL in devices}


def _function(name: str, value: Value) -> Function:
    data = value.mapping(optional=_KEYS)
    if "address" not in data and "id" not in data:
        value.fail(f"{name} needs an address (0000:01:00.0), or an id (vendor:device, for example 144d:a808)")
    aer = _word(data.get("aer"), COUNTED)
    if aer in {"port", "both"} and "port" not in data:
        data["aer"].fail(f"{name} has no port whose counters could be read (add one: port: 0000:00:00.0)")
    return Function(
        name=name,
        address=_matching(data.get("address"), _ADDRESS, "an address of a function (allowed: as 0000:01:00.0)"),
        id=_matching(data.get("id"), _ID, "a vendor:device (allowed: for example 144d:a808)"),
        port=_matching(data.get("port"), _ADDRESS, "an address of a port (allowed: as 0000:00:00.0)"),
        generation=_one_of(data.get("generation"), range(1, _GENERATIONS + 1)),
        width=_one_of(data.get("width"), _WIDTHS),
        mps=_one_of(data.get("mps"), _SIZES),
        mrrs=_one_of(data.get("mrrs"), _SIZES),
        aspm=_word(data.get("aspm"), ASPM),
        aer=aer,
    )


def _matching(value: Value | None, pattern: re.Pattern[str], what: str) -> str:
    if value is None:
        return ""
    if not pattern.fullmatch(value.scalar_text()):
        value.fail(f"{value.scalar_text()!r} is not {what}")
    return value.scalar_text()


def _word(value: Value | None, choices: Collection[str]) -> str:
    if value is None:
        return ""
    if value.scalar_text() not in choices:
        value.fail(f"unknown value {value.scalar_text()!r} (allowed: {', '.join(choices)})")
    return value.scalar_text()


def _one_of(value: Value | None, choices: Collection[int]) -> int | None:
    if value is None:
        return None
    if value.integer() not in choices:
        value.fail(f"{value.integer()} is out of range (allowed: {', '.join(map(str, choices))})")
    return value.integer()
