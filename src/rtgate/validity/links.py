# SPDX-License-Identifier: MIT
"""PCI functions before and after a measurement: error counters that rose, links that fell, functions that went.

The counters are those of Advanced Error Reporting as the kernel counts them since it started (drivers/pci/pcie/aer.c,
Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats): lines `NAME COUNT` and a total for each kind of error of a
function, and for a root port the messages that came to it. A function has them where it has the capability and the
kernel has CONFIG_PCIEAER and the right to use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rtgate.board.pcie import Function
from rtgate.console.faults import Fault, FaultKind
from rtgate.records.expectation import CountedFunction

FUNCTIONS = "/sys/bus/pci/devices"
_OF_FUNCTION = {
    "aer_dev_correctable": "correctable",
    "aer_dev_nonfatal": "nonfatal",
    "aer_dev_fatal": "fatal",
}
_OF_ROOT_PORT = {
    "aer_rootport_total_err_cor": "correctable",
    "aer_rootport_total_err_nonfatal": "nonfatal",
    "aer_rootport_total_err_fatal": "fatal",
}
_SPEED, _WIDTH = "current_link_speed", "current_link_width"
_ALL_ONES = 63  # lanes of a function that does not answer: six bits of PCI_EXP_LNKSTA
# What a plan reads before and after: patterns of the shell.
WATCHED = tuple(f"{FUNCTIONS}/*/{name}" for name in ("vendor", "device", _SPEED, _WIDTH, *_OF_FUNCTION, *_OF_ROOT_PORT))

_PATH = re.compile(rf"{FUNCTIONS}/([0-9a-f:.]{{7,20}})/(\w{{1,40}})")
_COUNT = re.compile(r"([\w\[\]]{1,60}) ([0-9]{1,20})")
_GIGATRANSFERS = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s")

State = Mapping[str, tuple[str, str]]  # content before and after, by path
_States = dict[str, dict[str, tuple[str, str]]]  # by address and file


def of(settings: State) -> dict[str, tuple[str, str]]:
    """Return what was read of PCI functions."""
    return {path: values for path, values in settings.items() if _PATH.fullmatch(path)}


def faults(state: State, functions: Mapping[str, Function]) -> tuple[Fault, ...]:
    """Return what happened to any PCI function between the two looks, of the kinds `aer` and `pcie-link`."""
    incidents: list[Fault] = []
    for address, files in sorted(_by_address(state).items()):
        name = _owner_name(address, files, functions)
        if files.get("vendor", ("", ""))[0] and not files["vendor"][1]:
            incidents.append(_fault(FaultKind.PCIE_LINK, f"{name} was there before the test and gone after it"))
            continue
        incidents += [_fault(FaultKind.PCIE_LINK, line) for line in _links(name, files)]
        incidents += [_fault(kind, line) for kind, line in _errors(name, files)]
    return tuple(incidents)


def counter_owners(functions: Mapping[str, Function]) -> tuple[CountedFunction, ...]:
    """Return whose counters a board's file says are there."""
    owners = []
    for function in functions.values():
        if function.aer in {"port", "both"}:
            owners.append(CountedFunction(name=f"the port of {function.name}", where=function.port))
        if function.aer in {"function", "both"}:
            owners.append(CountedFunction(name=function.name, where=function.locator))
    return tuple(owners)


def unread(state: State, functions: Sequence[CountedFunction]) -> tuple[str, ...]:
    """Return whose counters were not read before or after, of those that should be there, as people name them."""
    there = _by_address(state)
    names = []
    for entry in functions:
        name, where = entry.name, entry.where
        matches = [files for address, files in there.items() if where in {address, _id(files)}]
        for moment, when in enumerate(("before", "after")):
            if not any(all(files.get(file, ("", ""))[moment] for file in _OF_FUNCTION) for files in matches):
                names.append(f"{name} ({where}) {when} the test")
    return tuple(names)


def _by_address(state: State) -> _States:
    by_address: _States = {}
    for path, values in state.items():
        match = _PATH.fullmatch(path)
        if match:
            by_address.setdefault(match[1], {})[match[2]] = values
    return by_address


def _id(files: Mapping[str, tuple[str, str]]) -> str:
    """Return vendor:device as it was before, empty when it was not read."""
    parts = [files.get(name, ("", ""))[0].removeprefix("0x") for name in ("vendor", "device")]
    return ":".join(parts) if all(parts) else ""


def _owner_name(address: str, files: Mapping[str, tuple[str, str]], functions: Mapping[str, Function]) -> str:
    names = [function.name for function in functions.values() if function.locator in {address, _id(files)}]
    ports = [f"the port of {function.name}" for function in functions.values() if function.port == address]
    return " ".join(filter(None, (", ".join(names or ports[:1]), f"({address})" if names or ports else address)))


def _fault(kind: FaultKind, line: str) -> Fault:
    return Fault(kind=kind, line=line, text=line)


def _links(name: str, files: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield how the link fell. What cannot be read, as of a function that sleeps in D3cold, says nothing."""
    speeds = [_GIGATRANSFERS.match(text) for text in files.get(_SPEED, ("", ""))]
    widths = [int(text) if re.fullmatch("[0-9]{1,3}", text) else None for text in files.get(_WIDTH, ("", ""))]
    before, after = speeds
    if before and after and float(after[1]) < float(before[1]):
        yield f"the link of {name} fell from {before[1]} to {after[1]} GT/s during the test"
    readable = before and after and _ALL_ONES not in widths
    if readable and widths[0] is not None and widths[1] is not None and widths[1] < widths[0]:
        yield f"the link of {name} fell from {widths[0]} to {widths[1]} lanes during the test"


def _errors(name: str, files: Mapping[str, tuple[str, str]]) -> Iterator[tuple[FaultKind, str]]:
    """Yield how counters moved. One that went back was set to zero with its function: it went, and came again."""
    kinds: set[str] = set()
    for file, kind in (*_OF_FUNCTION.items(), *_OF_ROOT_PORT.items()):
        before, after = (_counts(text) for text in files.get(file, ("", "")))
        rises = {key: after[key] - before[key] for key in after if key in before and after[key] != before[key]}
        if any(value < 0 for value in rises.values()):
            yield FaultKind.PCIE_LINK, f"{name} went and came again during the test: its error counters went back"
            return
        # A port that errs tells itself: one error, two counters.
        if rises and kind not in kinds:
            what = "AER errors of" if file in _OF_FUNCTION else "AER messages at"
            yield FaultKind.AER, f"{_total(rises)} new {kind} {what} {name}{_each(rises)}"
            kinds.add(kind)


def _counts(text: str) -> dict[str, int]:
    if re.fullmatch("[0-9]{1,20}", text):
        return {"TOTAL": int(text)}
    return {match[1]: int(match[2]) for match in map(_COUNT.fullmatch, text.splitlines()) if match}


def _total(rises: Mapping[str, int]) -> int:
    return next((value for key, value in rises.items() if key.startswith("TOTAL")), sum(rises.values()))


def _each(rises: Mapping[str, int]) -> str:
    parts = [f"{key} {value}" for key, value in rises.items() if not key.startswith("TOTAL")]
    return f" ({', '.join(parts)})" if parts else ""
