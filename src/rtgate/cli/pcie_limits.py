# SPDX-License-Identifier: MIT
"""`rtgate pcie-limits`: what PCI Express links can carry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rtgate.board.pcie_limits import (
    GENERATIONS,
    GUIDE_PRINTS,
    LANES,
    LEAST_OVERHEAD_BYTES,
    OVERHEAD_BYTES,
    PAYLOADS,
    Link,
    format_rate,
)

DESCRIPTION = f"""\
Print what a PCI Express link can carry in one direction, in MB/s of 10^6 bytes: after line encoding, and after TLP
overhead, for which the vendor's guide counts {OVERHEAD_BYTES} bytes each, the worst case; the least is
{LEAST_OVERHEAD_BYTES}. Flow control, acknowledgements and, for reads, round trips take more. Take generation, width and
payload from the link as it was trained (current_link_speed, current_link_width, Max Payload Size), never from the name
of the slot.

examples:
  rtgate pcie-limits                                       the guide's tables
  rtgate pcie-limits --gen 3 --lanes 4 --payload 256       one link
  rtgate pcie-limits --gen 3 --json
"""
_GUIDE_GENERATIONS, _GUIDE_LANES, _GUIDE_PAYLOADS = (1, 2, 3, 4), (1, 2, 4, 8), (128, 256)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--gen", type=int, choices=GENERATIONS, help="generation (default: 1 to 4)")
    parser.add_argument("--lanes", type=int, choices=LANES, help="width (default: 1 to 8)")
    parser.add_argument("--payload", type=int, choices=PAYLOADS, help="Max Payload Size (default: 128 and 256)")
    parser.add_argument("--json", action="store_true", help="print exact figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    generations = _choices(arguments.gen, _GUIDE_GENERATIONS)
    lanes = _choices(arguments.lanes, _GUIDE_LANES)
    payloads = _choices(arguments.payload, _GUIDE_PAYLOADS)
    if arguments.json:
        every = [
            Link(generation=gen, lanes=width, payload=payload)
            for gen in generations
            for width in lanes
            for payload in payloads
        ]
        print(json.dumps([_as_json(link) for link in every], indent=2))
        return 0
    print("\n".join([*_raw(generations, lanes), "", *_usable_rate_lines(generations, lanes, payloads)]))
    return 0


def _choices(option: int | None, guide: tuple[int, ...]) -> tuple[int, ...]:
    return guide if option is None else (option,)


def _raw(generations: Sequence[int], lanes: Sequence[int]) -> list[str]:
    lines = ["MB/s after line encoding", _row("generation", "GT/s", "encoding", [f"x{width}" for width in lanes])]
    for gen in generations:
        links = [Link(generation=gen, lanes=width, payload=PAYLOADS[0]) for width in lanes]
        cells = [format_rate(link.raw.value) for link in links]
        lines.append(_row(f"Gen{gen}", f"{links[0].gigatransfers:g}", links[0].encoding, cells))
    return lines


def _usable_rate_lines(generations: Sequence[int], lanes: Sequence[int], payloads: Sequence[int]) -> list[str]:
    lines = [
        f"MB/s after TLP overhead, {OVERHEAD_BYTES} bytes each",
        _row("generation", "payload", "factor", [f"x{width}" for width in lanes]),
    ]
    for gen in generations:
        for payload in payloads:
            links = [Link(generation=gen, lanes=width, payload=payload) for width in lanes]
            factor = f"{payload / (payload + OVERHEAD_BYTES):.4f}"
            lines.append(_row(f"Gen{gen}", f"{payload}", factor, [format_rate(link.usable.value) for link in links]))
    differ = [link for link in GUIDE_PRINTS if _is_listed(link, generations, lanes, payloads)]
    if differ:
        lines += ["", "The guide itself rounds or cuts on its way, and prints"]
    lines += [f"  {GUIDE_PRINTS[link]:<7} for {link}" for link in differ]
    return lines


def _is_listed(link: Link, generations: Sequence[int], lanes: Sequence[int], payloads: Sequence[int]) -> bool:
    return link.generation in generations and link.lanes in lanes and link.payload in payloads


def _row(first: str, second: str, third: str, cells: Sequence[str]) -> str:
    return f"{first:<12}{second:>8}{third:>11}" + "".join(f"{cell:>9}" for cell in cells)


def _as_json(link: Link) -> dict[str, float | int | str]:
    figures: dict[str, float | int | str] = {
        "generation": link.generation,
        "lanes": link.lanes,
        "payload_bytes": link.payload,
        "gt_s": link.gigatransfers,
        "encoding": link.encoding,
        "raw_mb_s": round(link.raw.value, 3),
        "usable_mb_s": round(link.usable.value, 3),
        "ceiling_mb_s": round(link.ceiling.value, 3),
    }
    return {**figures, "guide_prints_mb_s": GUIDE_PRINTS[link]} if link in GUIDE_PRINTS else figures
