# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from selftests.cpio_reader import unpack

from rtgate.errors import ConfigError
from rtgate.rootfs import cpio, elf, packing, programs
from rtgate.rootfs.debian import Member
from rtgate.rootfs.recipe import Recipe, read

ElfProgram = Callable[[str, tuple[str, ...]], bytes]
Symbol = tuple[str, str, str, int, bool, bool]
ElfSymbols = Callable[[bytes, Sequence[Symbol]], bytes]
LD = "/lib/ld-linux-aarch64.so.1"
TRIPLET = "usr/lib/aarch64-linux-gnu"


def _file(data: bytes, mode: int = 0o755) -> Member:
    return Member(stat.S_IFREG | mode, data)


def _link(target: str) -> Member:
    return Member(stat.S_IFLNK | 0o777, target.encode())


@pytest.fixture
def members(elf_program: ElfProgram) -> dict[str, dict[str, Member]]:
    return {
        "busybox": {"usr/bin/busybox": _file(elf_program("", ()) + b"sh\0ls\0"), "usr/share/doc/x": _file(b"doc")},
        "tool": {"usr/bin/tool": _file(elf_program(LD, ("libn.so.1", "libc.so.6")) + b"GLIBC_2.17\0")},
        "libn": {
            f"{TRIPLET}/libn.so.1": _link("libn.so.1.0"),
            f"{TRIPLET}/libn.so.1.0": _file(elf_program("", ("libc.so.6",)), 0o644),
        },
        "libc": {
            "usr/lib/ld-linux-aarch64.so.1": _link("aarch64-linux-gnu/ld-linux-aarch64.so.1"),
            f"{TRIPLET}/ld-linux-aarch64.so.1": _file(elf_program("", ())),
            f"{TRIPLET}/libc.so.6": _file(elf_program("", ()) + b"GLIBC_2.17\0GLIBC_2.41\0"),
            f"{TRIPLET}/glibc-hwcaps/v9/libc.so.6": _file(elf_program("", ()) + b"special"),
            f"{TRIPLET}/libm.so.6": _file(elf_program("", ())),
        },
    }


RECIPE = """\
format: 1
suite: trixie
max-mib: 1
packages:
  busybox: [usr/bin/*]
  tool: [usr/bin/tool]
libraries: [libc, libn]
applets: {usr/bin/busybox: [sh, ls]}
files: {init: {from: init, mode: 0755}}
links: {bin: usr/bin, lib: usr/lib}
directories: [proc]
"""
VERSIONS = {"busybox": "1:1.37.0-6", "tool": "2.10-1", "libn": "2.0-1", "libc": "2.41-1"}


def _recipe(directory: Path, text: str = RECIPE, name: str = "tiny") -> Recipe:
    (directory / "init").write_text("#!/bin/sh\n")
    (directory / f"{name}.yaml").write_text(text)
    return read(directory / f"{name}.yaml")


def test_programs_come_with_the_libraries_they_need_and_no_others(
    tmp_path: Path, members: dict[str, dict[str, Member]]
) -> None:
    content = packing.compose((_recipe(tmp_path),), "arm64", members, VERSIONS)
    found = {entry.name: entry for entry in content.entries}
    assert set(found) == {
        *("bin", "lib", "proc", "init", "etc/rtgate-rootfs.json"),
        *("dev/console", "dev/null", "dev/zero", "dev/tty", "dev/urandom"),
        *("usr/bin/busybox", "usr/bin/ls", "usr/bin/sh", "usr/bin/tool"),
        *("usr/lib/ld-linux-aarch64.so.1", f"{TRIPLET}/ld-linux-aarch64.so.1"),
        *(f"{TRIPLET}/libc.so.6", f"{TRIPLET}/libn.so.1", f"{TRIPLET}/libn.so.1.0"),
    }
    assert found["usr/bin/sh"].target == "busybox"
    assert found["init"].mode == stat.S_IFREG | 0o755
    assert content.programs == {"busybox": "1.37.0", "tool": "2.10"}
    assert json.loads(found["etc/rtgate-rootfs.json"].data) == {
        "format": 1,
        "name": "tiny",
        "arch": "arm64",
        "packages": VERSIONS,
        "absent": [],
    }


def test_a_file_of_the_recipe_is_a_library_for_its_programs(
    tmp_path: Path, members: dict[str, dict[str, Member]], elf_program: ElfProgram
) -> None:
    """It was looked for in packages alone: Xenomai's programs need Xenomai's library, which no package has."""
    (tmp_path / "libown.so").write_bytes(elf_program("", ("libc.so.6",)))
    (tmp_path / "own").write_bytes(elf_program(LD, ("libown.so.1", "libc.so.6")))
    own = "files-arm64: {opt/lib/libown.so.1: {from: libown.so}, opt/bin/own: {from: own, mode: 0755}}\n"
    recipe = _recipe(tmp_path, RECIPE + own)
    found = {entry.name for entry in packing.compose((recipe,), "arm64", members, VERSIONS).entries}
    assert {"opt/lib/libown.so.1", "opt/bin/own"} <= found
    assert "opt/bin/own" not in recipe.files["x86_64"]


def test_a_program_of_ours_is_compiled_and_named_with_its_compiler(
    tmp_path: Path, members: dict[str, dict[str, Member]]
) -> None:
    directory = tmp_path / "target" / "rootfs"
    directory.mkdir(parents=True)
    (directory.parent / "own.c").write_text("int main(void) { return 0; }\n")
    recipe = _recipe(directory, RECIPE + "programs: {usr/bin/own: [own.c]}\n")
    content = packing.compose((recipe,), "arm64", members, VERSIONS)
    found = {entry.name: entry for entry in content.entries}
    assert found["usr/bin/own"].mode == stat.S_IFREG | 0o755
    assert elf.is_elf(found["usr/bin/own"].data)
    listed = json.loads(found["etc/rtgate-rootfs.json"].data)["programs"]
    assert listed == {"own": content.programs["own"]}
    version = programs.version(recipe.programs["arm64"]["usr/bin/own"])
    assert listed["own"].startswith(f"{version} (aarch64-linux-gnu-gcc ")
    (directory.parent / "own.c").write_text("no C\n")
    with pytest.raises(ConfigError, match=r"own\.c does not compile"):
        packing.compose((recipe,), "arm64", members, VERSIONS)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("usr/bin/tool]", "usr/bin/toll]", r"package tool has no file 'usr/bin/toll'"),
        ("[sh, ls]", "[sh, lss]", r"usr/bin/busybox knows no applet 'lss'"),
        ("usr/bin/busybox: [sh", "usr/bin/toybox: [sh", r"applets of usr/bin/toybox, which the recipe does not take"),
        ("[libc, libn]", "[libc]", r"usr/bin/tool needs libn\.so\.1, which no package under `libraries` has"),
        ("directories: [proc]", "directories: [bin]", r"two parts of the recipe both make bin"),
    ],
)
def test_what_no_package_has_is_a_mistake_of_the_recipe(
    tmp_path: Path, members: dict[str, dict[str, Member]], before: str, after: str, message: str
) -> None:
    assert before in RECIPE
    recipe = _recipe(tmp_path, RECIPE.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        packing.compose((recipe,), "arm64", members, VERSIONS)
    assert "tiny.yaml: " in str(caught.value)


def test_a_link_without_its_library_is_a_mistake(tmp_path: Path, members: dict[str, dict[str, Member]]) -> None:
    del members["libn"][f"{TRIPLET}/libn.so.1.0"]
    with pytest.raises(ConfigError, match=r"the link .*libn\.so\.1 points to .*libn\.so\.1\.0"):
        packing.compose((_recipe(tmp_path),), "arm64", members, VERSIONS)


def test_a_program_for_a_newer_libc_is_refused(tmp_path: Path, members: dict[str, dict[str, Member]]) -> None:
    old = members["tool"]["usr/bin/tool"]
    members["tool"]["usr/bin/tool"] = _file(old.data + b"GLIBC_2.43\0")
    with pytest.raises(ConfigError, match=r"usr/bin/tool needs GLIBC_2\.43, the image's libc is 2\.41"):
        packing.compose((_recipe(tmp_path),), "arm64", members, VERSIONS)


class TestAbsent:
    """The library libn is absent, by the recipe's leave."""

    RECIPE = RECIPE.replace("[libc, libn]", "[libc]") + "absent: {libn.so.1: not used, libq.so.1: neither}\n"

    @pytest.fixture(autouse=True)
    def _with_tables(
        self, members: dict[str, dict[str, Member]], elf_program: ElfProgram, elf_symbols: ElfSymbols
    ) -> None:
        del members["libn"]
        libc = (("printf", "", "", 2, True, False), ("plain_of_libc", "", "", 2, True, False))
        members["libc"][f"{TRIPLET}/libc.so.6"] = _file(elf_symbols(elf_program("", ()), libc) + b"GLIBC_2.17\0")
        self.program = elf_program(LD, ("libn.so.1", "libc.so.6"))

    def _compose(self, directory: Path, members: dict[str, dict[str, Member]]) -> dict[str, cpio.Entry]:
        content = packing.compose((_recipe(directory, self.RECIPE),), "arm64", members, VERSIONS)
        assert content.absent == {"libn.so.1": "not used"}
        return {entry.name: entry for entry in content.entries}

    def test_a_stand_in_has_what_no_other_library_has(
        self, tmp_path: Path, members: dict[str, dict[str, Member]], elf_symbols: ElfSymbols
    ) -> None:
        program = elf_symbols(
            self.program,
            (
                ("n_open", "N_1", "libn.so.1", 2, False, False),
                ("n_shut", "", "", 2, False, False),
                ("printf", "GLIBC_2.17", "libc.so.6", 2, False, False),
                ("plain_of_libc", "", "", 2, False, False),
            ),
        )
        members["tool"]["usr/bin/tool"] = _file(program)
        found = self._compose(tmp_path, members)
        expected = elf.stand_in(183, "librtgate-absent.so", [("n_open", "N_1"), ("n_shut", "")])
        assert found["usr/lib/librtgate-absent.so"].data == expected
        assert found["usr/lib/libn.so.1"].target == "librtgate-absent.so"
        assert "usr/lib/libq.so.1" not in found
        assert found["usr/bin/tool"].data == program
        assert json.loads(found["etc/rtgate-rootfs.json"].data)["absent"] == ["libn.so.1"]

    @pytest.mark.parametrize(
        "symbol",
        [
            ("n_table", "N_1", "libn.so.1", 1, False, True),
            ("n_table", "N_1", "libn.so.1", 1, False, False),
            ("n_table", "", "", 1, False, True),
        ],
    )
    def test_data_cannot_be_stood_in_for(
        self, tmp_path: Path, members: dict[str, dict[str, Member]], elf_symbols: ElfSymbols, symbol: Symbol
    ) -> None:
        members["tool"]["usr/bin/tool"] = _file(elf_symbols(self.program, [symbol]))
        with pytest.raises(ConfigError, match=r"usr/bin/tool needs the data n_table of an absent library"):
            self._compose(tmp_path, members)

    def test_a_library_that_a_package_has_is_taken(
        self, tmp_path: Path, members: dict[str, dict[str, Member]], elf_program: ElfProgram
    ) -> None:
        members["libn"] = {f"{TRIPLET}/libn.so.1": _file(elf_program("", ()))}
        recipe = _recipe(tmp_path, self.RECIPE.replace("[libc]", "[libc, libn]"))
        content = packing.compose((recipe,), "arm64", members, VERSIONS)
        names = {entry.name for entry in content.entries}
        assert content.absent == {}
        assert f"{TRIPLET}/libn.so.1" in names
        assert "usr/lib/librtgate-absent.so" not in names


def test_a_recipe_adds_to_the_one_it_extends(tmp_path: Path, members: dict[str, dict[str, Member]]) -> None:
    text = "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 1\npackages: {more: [usr/lib/more/**]}\nlibraries: []\n"
    outer = _recipe(tmp_path, text, "large")
    members["more"] = {"usr/lib/more/a/b": _file(b"x"), "usr/lib/other": _file(b"x")}
    content = packing.compose((_recipe(tmp_path), outer), "arm64", members, {**VERSIONS, "more": "1"})
    names = {entry.name for entry in content.entries}
    assert {"usr/bin/tool", "usr/lib/more/a/b"} <= names
    assert "usr/lib/other" not in names


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("files: {bin/own: {from: init}}", "bin/own cannot be: bin"),
        ("files: {usr/lib/more/a/b/c: {from: init}}", "usr/lib/more/a/b/c cannot be: usr/lib/more/a/b"),
        ("links: {usr/lib/more: elsewhere}", "usr/lib/more cannot be: usr/lib/more"),
    ],
)
def test_nothing_lies_below_a_link_or_a_file(
    tmp_path: Path, members: dict[str, dict[str, Member]], more: str, name: str
) -> None:
    text = "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 1\npackages: {more: [usr/lib/more/**]}\nlibraries: []\n"
    outer = _recipe(tmp_path, f"{text}{more}\n", "large")
    members["more"] = {"usr/lib/more/a/b": _file(b"x")}
    with pytest.raises(ConfigError, match=rf"large\.yaml: {name} is not a directory, so nothing lies below it"):
        packing.compose((_recipe(tmp_path), outer), "arm64", members, {**VERSIONS, "more": "1"})


def test_a_mistake_of_the_inner_recipe_is_not_that_of_the_outer(
    tmp_path: Path, members: dict[str, dict[str, Member]]
) -> None:
    text = "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 1\npackages: {more: [usr/lib/more/**]}\nlibraries: []\n"
    outer = _recipe(tmp_path, text, "large")
    members["more"] = {"usr/lib/more/a/b": _file(b"x")}
    inner = _recipe(tmp_path, RECIPE.replace("[libc, libn]", "[libc]"))
    with pytest.raises(ConfigError, match=r"tiny\.yaml: usr/bin/tool needs libn"):
        packing.compose((inner, outer), "arm64", members, {**VERSIONS, "more": "1"})


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("usr/bin/a", "usr/bin/a", True),
        ("usr/bin/a", "usr/bin/*", True),
        ("usr/bin/x/a", "usr/bin/*", False),
        ("usr/bin/x/a", "usr/bin/**", True),
        ("usr/binary", "usr/bin/**", False),
    ],
)
def test_patterns(name: str, pattern: str, *, expected: bool) -> None:
    assert packing.matches(name, pattern) is expected


def test_a_locked_version_that_is_gone_is_replaced_with_a_warning() -> None:
    available = {"a": ("3", "2"), "b": ("5",), "c": ("7",)}
    versions, warnings = packing.choose(available, {"a": "2", "b": "4"})
    assert versions == {"a": "2", "b": "5", "c": "7"}
    assert len(warnings) == 1
    assert warnings[0].startswith("the archive no longer has b 4: took 5")


def test_an_image_holds_the_versions_that_the_inner_recipe_is_locked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = "format: 1\nsuite: trixie\npackages: {arm64: {tool: '%s'}, x86_64: {}, riscv64: {}}\n"
    inner = _recipe(tmp_path)
    outer = _recipe(
        tmp_path,
        "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 1\npackages: {tool: [usr/bin/more]}\nlibraries: []\n",
        "large",
    )
    inner.lock.write_text(lock % "2.10-1")
    outer.lock.write_text(lock % "2.6-1")

    class Archive:
        @classmethod
        def open(cls, directory: Path, suites: object, architecture: str) -> Archive:
            return cls()

        def versions(self, suites: dict[str, str]) -> dict[str, tuple[str, ...]]:
            return dict.fromkeys(suites, ("2.11-1", "2.10-1", "2.6-1"))

        def download(self, versions: dict[str, str]) -> dict[str, Path]:
            return {name: Path(version) for name, version in versions.items()}

    monkeypatch.setattr(packing, "Archive", Archive)
    monkeypatch.setattr(packing, "contents", lambda _: {})
    fetched = packing.fetch((inner, outer), "arm64", tmp_path, lambda _: None)
    assert (fetched.versions["tool"], fetched.versions["busybox"]) == ("2.10-1", "2.11-1")
    assert fetched.warnings == tuple(
        f"{inner.lock} does not lock {name}: took 2.11-1 (rtgate rootfs tiny --update-lock)"
        for name in ("busybox", "libc", "libn")
    )


class TestBuild:
    @pytest.fixture(autouse=True)
    def _offline(self, monkeypatch: pytest.MonkeyPatch, members: dict[str, dict[str, Member]]) -> None:
        fetched = packing.FetchedPackages(members, VERSIONS, ("careful",))
        monkeypatch.setattr(packing, "fetch", lambda *_: fetched)

    def test_two_builds_give_the_same_bytes(self, tmp_path: Path) -> None:
        recipe = _recipe(tmp_path)
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            packing.build((recipe,), "arm64", tmp_path / name, tmp_path, lambda _: None)
        for name in ("tiny-arm64.cpio.gz", "tiny-arm64.cpio", "manifest.json"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    def test_the_manifest_lists_every_file(self, tmp_path: Path) -> None:
        (tmp_path / "image").mkdir()
        packing.build((_recipe(tmp_path),), "arm64", tmp_path / "image", tmp_path, lambda _: None)
        manifest = json.loads((tmp_path / "image" / "manifest.json").read_text())
        archive = (tmp_path / "image" / manifest["archive"]).read_bytes()
        packed = {entry.name for entry in unpack(archive) if not stat.S_ISDIR(entry.mode)}
        assert packed == {row["name"] for row in manifest["files"]} - {"proc"}
        assert manifest["content_size"] == len(archive)
        assert manifest["warnings"] == ["careful"]
        assert manifest["tools"]["tool"] == "2.10"

    def test_an_image_larger_than_allowed_is_refused(
        self, tmp_path: Path, members: dict[str, dict[str, Member]]
    ) -> None:
        noise = Random(1).randbytes(2 << 20)
        members["busybox"]["usr/bin/noise"] = _file(noise)
        (tmp_path / "image").mkdir()
        with pytest.raises(ConfigError, match=r"more than max-mib \(1\) allows"):
            packing.build((_recipe(tmp_path),), "arm64", tmp_path / "image", tmp_path, lambda _: None)
