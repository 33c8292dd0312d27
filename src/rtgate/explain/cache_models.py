# SPDX-License-Identifier: MIT
"""The caches of CPUs of which a boot's misses can be counted, on a board that has none (`caches.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_LINE = 64


@dataclass(frozen=True, slots=True)
class Cache:
    """The geometry of a cache with lines of 64 bytes.

    Attributes:
        kib: its size in KiB.
        ways: its associativity.
    """

    kib: int
    ways: int

    @property
    def sets(self) -> int:
        """How many lines of memory have places of their own."""
        return self.kib * 1024 // _LINE // self.ways


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheModel:
    """The caches of a CPU.

    Attributes:
        cpu: the core, and a SoC that has it with these sizes.
        source: where the sizes are from.
    """

    cpu: str
    l1i: Cache
    l1d: Cache
    l2: Cache
    source: str

    @property
    def order(self) -> list[str]:
        """The lines with which the plugin is asked for them."""
        levels = {"l1i": self.l1i, "l1d": self.l1d, "l2": self.l2}
        return [f"cache {name} {cache.sets} {cache.ways}" for name, cache in levels.items()]


MODELS: Mapping[str, CacheModel] = MappingProxyType(
    {
        "cortex-a53": CacheModel(
            cpu="Cortex-A53 of RK3399",
            l1i=Cache(32, 2),
            l1d=Cache(32, 4),
            l2=Cache(512, 16),
            source="rk3399-base.dtsi of Linux 7.2; those of RK3528, RK3562 and RK3576 give no sizes",
        ),
        "cortex-a55": CacheModel(
            cpu="Cortex-A55 of RK3568",
            l1i=Cache(32, 4),
            l1d=Cache(32, 4),
            l2=Cache(512, 16),
            source="rk356x-base.dtsi of Linux 7.2, which calls its L3 the second level",
        ),
        "cortex-a76": CacheModel(
            cpu="Cortex-A76 of RK3588",
            l1i=Cache(64, 4),
            l1d=Cache(64, 4),
            l2=Cache(512, 8),
            source="rk3588-base.dtsi of Linux 7.2; its L3 of 3 MiB is left out",
        ),
        "goldmont": CacheModel(
            cpu="Goldmont of the Celeron J3455",
            l1i=Cache(32, 8),
            l1d=Cache(24, 6),
            l2=Cache(1024, 16),
            source="WikiChip, Goldmont; two cores share the second level",
        ),
        "gracemont": CacheModel(
            cpu="Gracemont of the N100",
            l1i=Cache(64, 8),
            l1d=Cache(32, 8),
            l2=Cache(2048, 16),
            source="Wikipedia, Gracemont; four cores share the second level; its L3 is left out",
        ),
    }
)
"""The models by name."""
