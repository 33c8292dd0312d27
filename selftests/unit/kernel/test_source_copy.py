# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import site
from rtgate.errors import ConfigError
from rtgate.kernel.configuration import load_description
from rtgate.kernel.fragments import load_fragment
from rtgate.kernel.harmless import KernelChange, harmless_changes
from rtgate.kernel.source import Tree, open_tree
from rtgate.kernel.source_copy import SourceCopy

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 18\nSUBLEVEL = 2\n"
CODE = harmless_changes()["boot-nops-100"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "linux"
    for name, text in {
        "Makefile": MAKEFILE,
        "Kbuild": "\n",
        "Kconfig": "\n",
        "arch/arm64/Makefile": "\n",
        "init/Makefile": "obj-y := main.o",  # as some versions, without an end of its last line
        "init/main.c": "int main;\n",
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def _content(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def test_a_change_with_code_becomes_part_of_init(tree: Path, tmp_path: Path) -> None:
    copy = SourceCopy(tmp_path / "work" / "linux", open_tree(tree))
    changed = copy.with_change(CODE)
    assert (changed.path / "init" / "placebo.c").read_text() == (CODE.code or Path()).read_text()
    assert (changed.path / "init" / "Makefile").read_text() == "obj-y := main.o\nobj-y += placebo.o\n"
    assert changed.owned
    assert _content(copy.with_change(None).path) == _content(tree)
    assert (tree / "init" / "Makefile").read_text() == "obj-y := main.o"


def test_each_change_has_a_fingerprint_of_its_own(tree: Path, tmp_path: Path) -> None:
    copy = SourceCopy(tmp_path / "work" / "linux", open_tree(tree))
    changes = harmless_changes()
    every: list[Tree] = [copy.with_change(changes[name]) for name in ("boot-nops-1", "boot-nops-100", "one-word")]
    assert len({one.identity.fingerprint for one in every}) == 3
    # Words of the command line are no other source.
    assert copy.with_change(None).identity == every[2].identity == open_tree(tree).identity


def test_a_change_that_was_interrupted_is_undone(tree: Path, tmp_path: Path) -> None:
    SourceCopy(tmp_path / "work" / "linux", open_tree(tree)).with_change(CODE)
    again = SourceCopy(tmp_path / "work" / "linux", open_tree(tree))
    assert _content(again.with_change(None).path) == _content(tree)


def test_another_state_of_the_source_is_copied_again(tree: Path, tmp_path: Path) -> None:
    said: list[str] = []
    SourceCopy(tmp_path / "work" / "linux", open_tree(tree), said.append).with_change(CODE)
    SourceCopy(tmp_path / "work" / "linux", open_tree(tree), said.append).with_change(None)
    assert said == [f"copying {tree}"]
    (tree / "init" / "main.c").write_text("long main_is_another;\n")
    newer = SourceCopy(tmp_path / "work" / "linux", open_tree(tree), said.append).with_change(None)
    assert _content(newer.path) == _content(tree)
    assert len(said) == 2


def test_a_patch_that_does_not_apply_is_told(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text("--- a/init/main.c\n+++ b/init/main.c\n@@ -1 +1 @@\n-char main;\n+short main;\n")
    copy = SourceCopy(tmp_path / "work" / "linux", open_tree(tree))
    with pytest.raises(ConfigError, match="does not apply to Linux"):
        copy.with_change(KernelChange(name="patched", patches=(patch,)))
    assert _content(copy.with_change(None).path) == _content(tree)


def test_the_shipped_changes_are_whole() -> None:
    changes = harmless_changes()
    build = load_description(site.find("kernel-configs", "virt-arm64-preempt_rt.yaml"))
    used = {path.name for change in changes.values() for path in (change.code, change.fragment) if path}
    assert used == {path.name for path in (site.shipped_directory() / "kernel-configs" / "harmless").iterdir()}
    for name, change in changes.items():
        assert change.name == name
        assert bool(change.command_line) != change.is_built
        if change.fragment:
            extra = load_fragment(change.fragment)
            asked = change.description(build).options
            assert asked[-len(extra) :] == extra
            assert not {one.symbol for one in extra} & {one.symbol for one in asked[: -len(extra)]}
            assert not {(one.symbol, one.value) for one in extra} & {(one.symbol, one.value) for one in build.options}
        else:
            assert change.description(build) == build


def test_a_change_that_takes_the_real_time_away_is_of_another_flavour(tmp_path: Path) -> None:
    build = load_description(site.find("kernel-configs", "virt-arm64-preempt_rt.yaml"))
    (tmp_path / "extra.config").write_text("# CONFIG_PREEMPT_RT is not set\n")
    change = KernelChange(name="lost", fragment=tmp_path / "extra.config")
    assert (change.description(build).flavour, build.flavour) == ("generic", "preempt_rt")
