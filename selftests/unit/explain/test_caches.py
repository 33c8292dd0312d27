# SPDX-License-Identifier: MIT
from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.cache_models import MODELS, Cache, CacheModel

from .plugin_parts import plugin_parts

TINY = CacheModel(cpu="", l1i=Cache(1, 4), l1d=Cache(1, 2), l2=Cache(2, 8), source="")
ACCESSES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1 << 13)), max_size=400)


class Reference:
    """A cache that forgets what was used longest ago, in the simplest way."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(cache.sets)]

    def hit(self, line: int) -> bool:
        lines = self.sets[line % self.cache.sets]
        there = line in lines
        lines[line] = None
        lines.move_to_end(line)
        if len(lines) > self.cache.ways:
            lines.popitem(last=False)
        return there


@pytest.fixture(scope="module")
def misses(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[tuple[int, int]]], list[int]]:
    """Return what the plugin's model misses of accesses: (0 for code and 1 for data, address)."""
    library = plugin_parts(tmp_path_factory.mktemp("caches"), "caches")
    library.caches_wanted.restype = library.caches_order.restype = ctypes.c_bool
    library.caches_access.argtypes = (ctypes.c_int, ctypes.c_uint64)
    library.caches_lack.restype = ctypes.c_char_p
    counts = (ctypes.c_uint64 * 3).in_dll(library, "caches_misses")
    assert not library.caches_wanted()
    assert not library.caches_order(b"cache l1d 0 4\n")
    assert not library.caches_order(b"cache l1d 3 4\n")  # no power of two
    assert not library.caches_order(b"cache l1d 4 0\n")
    assert not library.caches_order(b"cache l4 4 4\n")
    assert library.caches_order(b"cache l1i 4 4\n")
    assert library.caches_lack() == b"l1d"

    def run(accesses: Sequence[tuple[int, int]]) -> list[int]:
        for line in TINY.order:
            assert library.caches_order(f"{line}\n".encode())
        assert library.caches_lack() is None
        before = list(counts)
        for level, address in accesses:
            library.caches_access(level, address)
        return [after - count for after, count in zip(counts, before, strict=True)]

    return run


@given(ACCESSES)
def test_the_least_recently_used_line_is_forgotten(
    misses: Callable[[Sequence[tuple[int, int]]], list[int]], accesses: list[tuple[int, int]]
) -> None:
    first, second = [Reference(TINY.l1i), Reference(TINY.l1d)], Reference(TINY.l2)
    expected = [0, 0, 0]
    for level, address in accesses:
        if not first[level].hit(address // 64):
            expected[level] += 1
            expected[2] += not second.hit(address // 64)
    assert misses(accesses) == expected


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_whole_sets_of_a_power_of_two(name: str) -> None:
    model = MODELS[name]
    for cache in (model.l1i, model.l1d, model.l2):
        assert cache.sets * cache.ways * 64 == cache.kib * 1024
        assert cache.sets & (cache.sets - 1) == 0
    assert model.source


def test_sets_are_those_of_the_device_trees() -> None:
    a55, a76 = MODELS["cortex-a55"], MODELS["cortex-a76"]
    assert (a55.l1i.sets, a55.l1d.sets, a55.l2.sets) == (128, 128, 512)  # rk356x-base.dtsi
    assert (a76.l1i.sets, a76.l1d.sets, a76.l2.sets) == (256, 256, 1024)  # rk3588-base.dtsi
    a53 = MODELS["cortex-a53"]
    assert (a53.l1i.sets, a53.l1d.sets, a53.l2.sets) == (256, 128, 512)  # rk3399-base.dtsi
