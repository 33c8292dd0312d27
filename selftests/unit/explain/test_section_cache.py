# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.judge.conftest import record

from rtgate.explain import plugin, section_cache, wakeups
from rtgate.explain.section_cache import SectionCache
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot
from rtgate.records.bound import Bound, Delay

SITE = Site(Kind.IRQSOFF, Context.SOFTIRQ, Spot("f", "g"), Spot("f"))
SECTIONS = BootSections(
    sections=(Section(SITE, 5, 500, 110, 1, 7, 117, (0, 5), (Call("f", 90, 1),)),),
    bound=Bound(
        seed=1, postponed=Delay(3, "f"), switching=Delay(), entry=1, way=2, interrupts=9, interrupt_count=1, measured=7
    ),
)
NONE: frozenset[str] = frozenset()


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = ["trace-1.so"]
    monkeypatch.setattr(plugin, "identity", lambda emulator: f"{names[-1]} {emulator}")
    return names


def test_what_is_kept_is_found_for_the_same_boot(tmp_path: Path) -> None:
    cache = SectionCache(tmp_path / "sections")
    assert cache.find(record(), NONE) is None
    cache.keep(record(), NONE, SECTIONS)
    assert SectionCache(tmp_path / "sections").find(record(), NONE) == SECTIONS
    assert [path.suffix for path in (tmp_path / "sections").iterdir()] == [".gz"]


def test_another_boot_or_another_plugin_has_others(tmp_path: Path, library: list[str]) -> None:
    cache = SectionCache(tmp_path)
    cache.keep(record(), NONE, SECTIONS)
    assert cache.find(record(seed=2), NONE) is None
    assert cache.find(record({31_000: 2000}), NONE) is None
    assert cache.find(replace(record(), machine={**record().machine, "image_sha256": "other"}), NONE) is None
    assert cache.find(record(), frozenset({"f"})) is None
    library.append("trace-2.so")
    assert cache.find(record(), NONE) is None


def test_another_program_has_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SectionCache(tmp_path).keep(record(), NONE, SECTIONS)
    assert SectionCache(tmp_path).find(record(), NONE) == SECTIONS
    monkeypatch.setattr(section_cache, "program_identity", lambda: "another one")
    assert SectionCache(tmp_path).find(record(), NONE) is None


@pytest.mark.parametrize("name", ["explain/wakeups.py", "kernel/raw_locks.py", "records/bound.py"])
def test_a_program_is_another_one_where_a_module_differs_that_finds_sections(name: str, tmp_path: Path) -> None:
    package = Path(wakeups.__file__).parents[1]
    copy = tmp_path / "rtgate"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("share", "__pycache__"))
    assert section_cache.source_hash(copy) == section_cache.program_identity()
    with (copy / name).open("a") as file:
        file.write("\n")
    assert section_cache.source_hash(copy) != section_cache.program_identity()


def test_the_program_is_known_by_its_source_as_it_began() -> None:
    """An update in the middle of a gate changes the files, and not what runs."""
    code = "from rtgate.explain.section_cache import program_identity as own; print(own.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("damage", [b"", b"not gzip", bytes.fromhex("1f8b0800")])
def test_what_cannot_be_read_is_followed_again(tmp_path: Path, damage: bytes) -> None:
    cache = SectionCache(tmp_path)
    cache.keep(record(), NONE, SECTIONS)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert cache.find(record(), NONE) is None
    cache.keep(record(), NONE, SECTIONS)
    assert cache.find(record(), NONE) == SECTIONS


def test_a_directory_that_cannot_be_written_costs_a_boot_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = SectionCache(tmp_path / "file" / "sections")
    cache.keep(record(), NONE, SECTIONS)
    assert cache.find(record(), NONE) is None


def test_old_sections_go_and_the_user_can_keep_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path))
    monkeypatch.delenv("RTGATE_KEEP_BOOTS", raising=False)
    cache = SectionCache.open()
    assert cache is not None
    cache.keep(record(), NONE, SECTIONS)
    (path,) = (tmp_path / "sections").iterdir()
    os.utime(path, (0, 0))
    SectionCache.open()
    assert not path.exists()
    monkeypatch.setenv("RTGATE_KEEP_BOOTS", "no")
    assert SectionCache.open() is None
