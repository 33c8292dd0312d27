# SPDX-License-Identifier: MIT
"""pcie-link: what the links of a board's PCI Express functions were trained to, against what its file says.

Not a program but a script: it copies the configuration space of every function, twice with a pause between, and
`rtgate.tools.config_space` reads it. The pause is for links that do not keep what they were trained to. Only the first
256 bytes are read: they hold the PCI Express capability, and some devices do not bear more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import pcie
from rtgate.board.pcie import ASPM, Function
from rtgate.errors import ParseError
from rtgate.tools import Bound, Expected, Output, Reports, Setting, Tool, config_space, count
from rtgate.tools.config_space import ConfigSpace, Express
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_tests import check_end

# `od` and `readlink` are in coreutils, busybox and toybox. A function that goes meanwhile has a line and no bytes.
_SCRIPT = """\
look() {{
    for one in /sys/bus/pci/devices/*; do
        [ -e "$one" ] || continue
        path=$(readlink -f "$one")
        path=${{path%/*}}
        echo "function $1 ${{one##*/}} ${{path##*/}}"
        od -A n -v -t x1 -N {bytes} "$one/config"
    done
}}
look first; sleep {seconds}; look last; echo end"""
_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_FUNCTION = re.compile(rf"function (?P<look>first|last) (?P<address>{_ADDRESS}) (?P<above>[\w.:-]{{1,60}})")
_BYTES = re.compile(r"(?: +[0-9a-f]{2}){1,16} *")


@dataclass(frozen=True, slots=True)
class _FunctionState:
    """One function at one look: what is above it, and its configuration space, None if it did not answer."""

    above: str
    space: ConfigSpace | None


_Look = dict[str, _FunctionState]  # by address


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink(Tool):
    """Options of the script.

    Attributes:
        seconds: between the two looks.
    """

    seconds: int = 2

    name: ClassVar[str] = "pcie-link"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    devices: ClassVar[tuple[str, ...]] = (pcie.ALL,)
    reports: ClassVar[Mapping[str, Reports]] = {
        "function.present": Reports.COUNT,
        "port.present": Reports.COUNT,
        "link.generation": Reports.COUNT,
        "link.width": Reports.COUNT,
        "link.capable.generation": Reports.COUNT,
        "link.capable.width": Reports.COUNT,
        "link.aspm": Reports.COUNT,
        "link.changes": Reports.FAILURES,
        "payload.size": Reports.COUNT,
        "read_request.size": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:  # noqa: ARG002 - the same on every board
        """Return the command line."""
        return ("sh", "-c", _SCRIPT.format(seconds=self.seconds, bytes=config_space.BYTES))

    def expected(self, setting: Setting) -> Expected:
        """Return what the board's file says of its functions."""
        bounds = tuple(bound for function in setting.pcie.values() for bound in _bounds(function))
        return Expected(threads=(), duration_s=self.seconds, bounds=bounds)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return what was seen of each function of the board's file, and of the port above it.

        Raises:
            ParseError: the script failed, nothing could be read, or a configuration space is damaged.
        """
        check_end("pcie-link", output)
        first, last = _looks(output.text("tool.out"))
        measurements: list[Measurement] = []
        for function in output.setting.pcie.values():
            measurements += _link_measurements(function, first, last, self.seconds)
        if not measurements:
            raise ParseError("the board's file lists no function, so pcie-link has nothing to look at")
        return tuple(measurements)


def _bounds(function: Function) -> Iterator[Bound]:
    labels = {"function": function.name}
    source = f"the board's file, pcie: {function.name}: "
    yield Bound(measurement="function.present", labels=labels, value=1, source=f"{source}{function.locator}")
    if function.port:
        yield Bound(measurement="port.present", labels=labels, value=1, source=f"{source}port: {function.port}")
    for measurement, key, value in (
        ("link.generation", "generation", function.generation),
        ("link.width", "width", function.width),
        ("payload.size", "mps", function.mps),
        ("read_request.size", "mrrs", function.mrrs),
    ):
        if value is not None:
            yield Bound(measurement=measurement, labels=labels, value=value, source=f"{source}{key}: {value}")
    if function.aspm:
        value, text = ASPM.index(function.aspm), f"{source}aspm: {function.aspm}"
        yield Bound(measurement="link.aspm", labels=labels, value=value, exact=True, source=text)


def _looks(text: str) -> tuple[_Look, _Look]:
    """Return what the script saw at both looks. Raises ParseError."""
    lines = text.splitlines()
    if not lines or lines.pop() != "end":
        raise ParseError(f"pcie-link did not come to its end: {text.strip()[-200:] or 'it printed nothing'}")
    looks: dict[str, _Look] = {"first": {}, "last": {}}
    number = 0
    while number < len(lines):
        head = _FUNCTION.fullmatch(lines[number])
        if head is None:
            raise ParseError(f"pcie-link printed something else in line {number + 1}: {lines[number][:200]!r}")
        start = number = number + 1
        while number < len(lines) and _BYTES.fullmatch(lines[number]):
            number += 1
        looks[head["look"]][head["address"]] = _read_state(head, bytes.fromhex("".join(lines[start:number])))
    if not looks["first"]:
        raise ParseError("the target has no PCI function at all: its kernel has no PCI, or its host bridge no driver")
    return looks["first"], looks["last"]


def _read_state(head: re.Match[str], data: bytes) -> _FunctionState:
    try:
        return _FunctionState(head["above"], config_space.read(data) if data else None)
    except ParseError as error:
        raise ParseError(f"{head['address']}: {error}") from error


def _link_measurements(function: Function, first: _Look, last: _Look, seconds: int) -> Iterator[Measurement]:
    """Yield what was seen of one function; of one that is not there only that."""
    labels = {"function": function.name}
    address = _find_address(function, first)
    space, problem = _space(function, first, address)
    if space is not None and (address not in last or last[address].space is None):
        problem = f"gone {seconds} s later"
    yield count("function.present", 0 if problem else 1, Better.HIGHER, labels | ({"seen": problem} if problem else {}))
    if problem or space is None:
        return
    above = first[address].above
    if function.port:
        mismatch = {"seen": f"it is below {above}"} if above != function.port else {}
        yield count("port.present", 0 if mismatch else 1, Better.HIGHER, labels | mismatch)
    port = first[above].space if above in first else None
    for end, configuration in (("device", space), ("port", port)):
        if configuration is not None and configuration.express is not None:
            yield from _express(configuration.express, labels, end)
    yield count("link.changes", _changes((address, above), first, last), Better.LOWER, labels)


def _find_address(function: Function, look: _Look) -> str:
    """Return a function's address: of the board's file, or where its vendor:device is. Raises ParseError."""
    if function.address:
        return function.address
    addresses = [
        address for address, state in look.items() if state.space is not None and state.space.id == function.id
    ]
    if len(addresses) > 1:
        raise ParseError(
            f"{', '.join(addresses)} are all {function.id}: the board's file must name the address of {function.name}"
        )
    return addresses[0] if addresses else ""


def _space(function: Function, look: _Look, address: str) -> tuple[ConfigSpace | None, str]:
    """Return a function's configuration space, and what is wrong with it."""
    if address not in look:
        return None, "nothing there"
    space = look[address].space
    if space is None:
        return None, "it does not answer: its registers read as all ones"
    if function.id and space.id != function.id:
        return space, f"{space.id} is there"
    return space, ""


def _express(express: Express, labels: Mapping[str, str], end: str) -> Iterator[Measurement]:
    here = {**labels, "end": end}
    yield count("payload.size", express.mps, Better.HIGHER, here)
    if end == "device":
        yield count("read_request.size", express.mrrs, Better.HIGHER, here)
    if express.link is None:
        return
    for name, value in (
        ("link.generation", express.link.generation),
        ("link.width", express.link.width),
        ("link.capable.generation", express.link.most_generation),
        ("link.capable.width", express.link.most_width),
    ):
        yield count(name, value, Better.HIGHER, here)
    yield count("link.aspm", express.link.aspm, Better.NEITHER, here)


def _changes(addresses: tuple[str, ...], first: _Look, last: _Look) -> int:
    """Return how many of these functions were something else at the second look."""
    return sum(address in first and first[address] != last.get(address) for address in addresses)
