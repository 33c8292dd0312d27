# SPDX-License-Identifier: MIT
"""What a PCI Express link can carry, from its generation, width and payload: no measurement, arithmetic.

Source: Rockchip Developer Guide PCIe Performance V2.2.0, chapter on theory; rates and encodings are those of the PCI
Express Base Specification. All rates are for one direction, in MB/s of 10^6 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.board.pcie import Function
from rtgate.errors import ParseError
from rtgate.units import Quantity, Unit

GENERATIONS = (1, 2, 3, 4, 5)
LANES = (1, 2, 4, 8, 16)
PAYLOADS = (128, 256, 512, 1024, 2048, 4096)

# GT/s and the encoding's bits of data in bits on the wire. Generation 6 has no such encoding (PAM4, flits).
_SPEEDS = {1: (2.5, (8, 10)), 2: (5.0, (8, 10)), 3: (8.0, (128, 130)), 4: (16.0, (128, 130)), 5: (32.0, (128, 130))}

OVERHEAD_BYTES = 28
"""What the guide counts beside the payload, the worst case: header 16, ECRC 4, LCRC 4, sequence number 2, framing 2."""

LEAST_OVERHEAD_BYTES = 20
"""What no packet with data goes without: a header of 3 words (12) instead of 4, no ECRC. Completions are like that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link as it was trained, and the payload in use: never what the slot's name says.

    Attributes:
        generation: 1 to 5.
        lanes: of the negotiated width.
        payload: Max Payload Size in bytes.
    """

    generation: int
    lanes: int
    payload: int

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("generation", self.generation, GENERATIONS),
            ("width", self.lanes, LANES),
            ("payload", self.payload, PAYLOADS),
        ):
            if value not in choices:
                raise ValueError(f"no {name} {value} (allowed: {', '.join(map(str, choices))})")

    def __str__(self) -> str:
        return f"Gen{self.generation} x{self.lanes} with payloads of {self.payload} bytes"

    @property
    def gigatransfers(self) -> float:
        """GT/s of each lane."""
        return _SPEEDS[self.generation][0]

    @property
    def encoding(self) -> str:
        """The line code, as `128b/130b`."""
        data, wire = _SPEEDS[self.generation][1]
        return f"{data}b/{wire}b"

    @property
    def raw(self) -> Quantity:
        """What is left of the bit rate after the line code."""
        data, wire = _SPEEDS[self.generation][1]
        return Quantity(self.lanes * self.gigatransfers * 1000 / 8 * data / wire, Unit.MB_S)

    @property
    def usable(self) -> Quantity:
        """What is left for payload when each packet is as large as it may be and has the guide's overhead.

        Flow control, acknowledgements, ordered sets and the round trips of reads are not in it: they take more.
        """
        return self._with_overhead(OVERHEAD_BYTES)

    @property
    def ceiling(self) -> Quantity:
        """What no measurement can exceed: as `usable`, with the least overhead there is."""
        return self._with_overhead(LEAST_OVERHEAD_BYTES)

    def _with_overhead(self, overhead: int) -> Quantity:
        return Quantity(self.raw.value * self.payload / (self.payload + overhead), Unit.MB_S)


def link_of(function: Function | None) -> Link | None:
    """Return the link of a function as the board's file expects it; None where it does not say all of it.

    Neither is there one for a kind of link without a formula here. That the link is trained so is for the link's own
    checks, which every case on the board has.
    """
    if function is None or function.generation is None or function.width is None or function.mps is None:
        return None
    try:
        return Link(generation=function.generation, lanes=function.width, payload=function.mps)
    except ValueError:
        return None


def share(quantity: Quantity, link: Link) -> float:
    """Return a measured rate as a share of what the trained link can carry (`Link.usable`).

    It may be a little over 1, because the guide counts the overhead of the worst case.

    Raises:
        ParseError: the rate is more than any packet overhead permits: the measurement is wrong, not the link fast.
        ValueError: it is not a rate, or one of a virtual-time board, whose links have none.
    """
    rate = quantity.to(Unit.MB_S).value
    if rate > link.ceiling.value:
        raise ParseError(
            f"{quantity} is {rate / link.usable.value:.0%} of the {format_rate(link.usable.value)} MB/s that {link} "
            f"can carry: a measuring error (the formula's overhead is {OVERHEAD_BYTES} bytes for each packet; even "
            f"with {LEAST_OVERHEAD_BYTES} it is {format_rate(link.ceiling.value)} MB/s)"
        )
    return rate / link.usable.value


def format_rate(megabytes: float) -> str:
    """Return a rate as the guide prints it: one decimal below 1000 MB/s, none above."""
    return f"{megabytes:.0f}" if megabytes >= 1000 else f"{megabytes:.1f}".removesuffix(".0")


# What the guide prints after the packets' overhead where that is not what its formula gives: it starts from 984.6 and
# cuts (807.88), or multiplies what it has rounded already (8 x 808).
GUIDE_PRINTS = {
    Link(generation=3, lanes=1, payload=128): "807.8",
    Link(generation=3, lanes=8, payload=256): "7100.2",
    Link(generation=3, lanes=8, payload=128): "6464",
}
