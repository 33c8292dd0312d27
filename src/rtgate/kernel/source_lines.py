# SPDX-License-Identifier: MIT
"""Which line of the source an instruction comes from, where a kernel has debug information (DWARF)."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from rtgate.kernel.elf import DWARFInfo, open_elf


def source_lines(vmlinux: Path, addresses: Collection[int]) -> dict[int, str]:
    """Return `FILE:LINE` of each address that the debug information of a kernel knows.

    The compiler's list of addresses (`.debug_aranges`, which GCC writes) leads to the few line tables that are read.
    Without it, or without debug information, nothing is known.

    Args:
        vmlinux: the kernel's ELF file.
        addresses: of instructions.

    Raises:
        ConfigError: the file cannot be read, or its debug information is damaged.
    """
    if not addresses:
        return {}
    lines: dict[int, str] = {}
    with open_elf(vmlinux, "its debug information is damaged, build the kernel again") as elf:
        section_names = (".debug_info", ".debug_line", ".debug_aranges")
        if any(elf.get_section_by_name(name) is None for name in section_names):
            return {}
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        for unit, unit_addresses in _by_unit(dwarf, addresses).items():
            lines |= dict(_of_unit(dwarf, unit, unit_addresses))
    return lines


def _by_unit(dwarf: DWARFInfo, addresses: Collection[int]) -> dict[int, list[int]]:
    """Return addresses in ascending order, by the place of the compilation unit that they belong to."""
    ranges = dwarf.get_aranges()
    assert ranges is not None
    units: dict[int, list[int]] = {}
    for address in sorted(addresses):
        unit = ranges.cu_offset_at_addr(address)
        if unit is not None:
            units.setdefault(unit, []).append(address)
    return units


def _of_unit(dwarf: DWARFInfo, unit: int, addresses: list[int]) -> Iterator[tuple[int, str]]:
    """Yield the line of each of some addresses of one compilation unit; they ascend."""
    compilation_unit = dwarf.get_CU_at(unit)
    table = dwarf.line_program_for_CU(compilation_unit)
    if table is None:
        return
    place = compilation_unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    directory = place.value.decode() if place else ""
    before: Any = None
    for entry in table.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None and before.address < state.address and before.line:
            for address in addresses[bisect_left(addresses, before.address) : bisect_left(addresses, state.address)]:
                yield address, f"{_file(table, before.file, directory)}:{before.line}"
        before = None if state.end_sequence else state


def _file(table: Any, number: int, directory: str) -> str:
    """Return the path of a file of a line table, from the top of the source on where that is known.

    Args:
        table: pyelftools' line program.
        number: of the file, from 0 on in DWARF 5, from 1 on before (DWARF 5, 6.2.4; DWARF 4, 6.2.4).
        directory: in which the compiler ran: the top of the source, or a directory in it.
    """
    header = table.header
    numbered_from_0 = header["version"] >= 5
    file = header["file_entry"][number if numbered_from_0 else number - 1]
    directories = [name.decode() for name in header["include_directory"]]
    if not numbered_from_0:
        directories.insert(0, directory)
    path = posixpath.normpath(posixpath.join(directory, directories[file.dir_index], file.name.decode()))
    for top in (directory, posixpath.dirname(directory)):
        if top.strip("/") and path.startswith(f"{top}/"):
            return path[len(top) + 1 :]
    return path
