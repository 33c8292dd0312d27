# SPDX-License-Identifier: MIT
"""What the records of a run were made with, as pairs of name and value; values that differ stand by board and arm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rtgate import __version__
from rtgate.board.boot import ArmName
from rtgate.records.record import Record
from rtgate.report.text import plain_text
from rtgate.units import plural, ranges


def _field(name: str) -> Callable[[Record], str]:
    return lambda record: str(getattr(record.environment, name))


def _with_unit(value: str, unit: str) -> str:
    return value and f"{value} {unit}"


# What a reader asks first stands first: a report shows the first seven, the others on request, and
# only the beginning of long names.
_FIELDS: dict[str, Callable[[Record], str]] = {
    "board": _field("board"),
    "kernel release": _field("kernel_release"),
    "kernel flavour": _field("flavour"),
    "kernel source": lambda record: record.kernel.source,
    "clock": _field("time"),
    "profile": lambda record: record.profile,
    "tools": _field("tools"),
    "kernel version": _field("kernel_version"),
    "build id": _field("build_id"),
    "kernel config": _field("config_sha256"),
    "kernel image": lambda record: record.kernel.image_sha256,
    "provenance": lambda record: record.kernel.provenance,
    "command line": _field("command_line"),
    "architecture": _field("arch"),
    "SoC": _field("soc"),
    "CPUs": _field("cpus"),
    "CPU model": _field("cpu_model"),
    "memory": lambda record: _with_unit(record.environment.memory_mib, "MiB"),
    "instruction": lambda record: _with_unit(record.environment.instruction_ns, "virtual ns"),
    "QEMU": _field("emulator"),
    "QEMU machine": _field("machine"),
    "rootfs": _field("rootfs"),
    "clock source": _field("clocksource"),
    "RT runtime": lambda record: _with_unit(record.environment.rt_runtime_us, "us"),
    "isolated CPUs": _field("isolated"),
}


def surroundings(records: Sequence[Record]) -> dict[str, str]:
    """Return names and values; an empty value is left out, because nobody said anything."""
    arms: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        arms.setdefault((record.board, record.arm), []).append(record)
    pairs: dict[str, str] = {}
    for label, get in _FIELDS.items():
        values = {arm: _distinct(get(record) for record in here) for arm, here in arms.items()}
        pairs.update(_value_by_arm(label, values))
    pairs.update(_value_by_arm("boots", {arm: _boots(here) for arm, here in arms.items()}))
    pairs["rtgate"] = __version__
    return {name: plain_text(value).replace("\n", " ") for name, value in pairs.items() if value}


def _distinct(values: Iterable[str]) -> str:
    texts = dict.fromkeys(value for value in values if value)
    return "; ".join(list(texts)[:4]) + (f"; and {len(texts) - 4} more" if len(texts) > 4 else "")


def _value_by_arm(label: str, values: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return one pair when all arms agree; else one for each arm, with the board where there are several."""
    if len(set(values.values())) == 1:
        return {label: next(iter(values.values()))}
    several = len({board for board, _ in values}) > 1
    return {f"{label} ({f'{board}, ' if several else ''}{arm})": value for (board, arm), value in values.items()}


def _boots(records: Sequence[Record]) -> str:
    seeds = sorted({record.seed for record in records if record.seed is not None})
    if seeds:
        return f"seeds {ranges(seeds)}"
    return plural(len({record.boot_id for record in records}), "boot")


def title(records: Sequence[Record]) -> str:
    """Return the report's name: the boards and the kernels that were judged; the last word tells its kernel apart."""
    boards = ", ".join(sorted({record.board for record in records})) or "nothing measured"
    judged_records = [record for record in records if record.arm == ArmName.CANDIDATE] or records
    releases = {record.release for record in judged_records}
    parts = ["rtgate:", boards, ", ".join(sorted(filter(None, releases))), _short_hash(judged_records)]
    return plain_text(" ".join(filter(None, parts))).replace("\n", " ")


def _short_hash(records: Sequence[Record]) -> str:
    """Return the commit of the kernel, or what its image's digest begins with where its source names none."""
    if not records:
        return ""
    kernel = records[0].kernel
    commit = re.search(r"\bg?([0-9a-f]{12})\b", kernel.source)
    return commit[1] if commit else kernel.image_sha256[:12]


def properties(pairs: Mapping[str, str]) -> str:
    """Return the pairs as a Java properties file, which is ASCII."""
    lines = []
    for name, value in pairs.items():
        key = "".join(f"\\{char}" if char in " :=#!\\" else char for char in name)
        lines.append(f"{_ascii(key)}={_ascii(value.replace(chr(92), chr(92) * 2))}")
    return "\n".join(lines) + "\n"


def _ascii(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)
