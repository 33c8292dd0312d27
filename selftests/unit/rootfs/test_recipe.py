# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.rootfs import programs
from rtgate.rootfs import recipe as recipes

GOOD = """\
format: 1
suite: trixie
max-mib: 6
packages:
  busybox-static: [usr/bin/busybox]
libraries: [libc6]
libraries-x86_64: [libipsec-mb2]
packages-arm64: {stress: [usr/bin/stress]}
absent: {libEGL.so.1: no screen}
suites: {libc6: forky}
suites-riscv64: {libc6: sid}
applets:
  usr/bin/busybox: [sh, "["]
files:
  init: {from: init, mode: 0755}
links: {bin: usr/bin}
directories: [proc]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of recipes of a site."""
    directory = tmp_path / "target" / "rootfs"
    directory.mkdir(parents=True)
    (directory / "init").write_text("#!/bin/sh\n")
    (directory / "tiny.yaml").write_text(GOOD)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    return directory


def test_a_recipe_is_read(place: Path) -> None:
    recipe = recipes.read(place / "tiny.yaml")
    assert recipe.name == "tiny"
    assert recipe.take == {
        "arm64": {"busybox-static": ("usr/bin/busybox",), "stress": ("usr/bin/stress",)},
        "x86_64": {"busybox-static": ("usr/bin/busybox",)},
        "riscv64": {"busybox-static": ("usr/bin/busybox",)},
    }
    assert recipe.absent == {"libEGL.so.1": "no screen"}
    assert recipe.packages("arm64") == {"busybox-static": "trixie", "libc6": "forky", "stress": "trixie"}
    assert recipe.packages("x86_64") == {"busybox-static": "trixie", "libc6": "forky", "libipsec-mb2": "trixie"}
    # A suite may be another one for one architecture.
    assert recipe.packages("riscv64") == {"busybox-static": "trixie", "libc6": "sid"}
    assert recipe.files["arm64"] == {"init": recipes.OwnFile(place / "init", 0o755)}
    assert recipe.applets == {"usr/bin/busybox": ("sh", "[")}


@pytest.mark.parametrize(
    ("before", "after", "where", "message"),
    [
        ("suite: trixie\n", "", "1:1", "missing key 'suite'"),
        ("max-mib: 6", "max-mb: 6", "3:1", "unknown key 'max-mb'"),
        ("max-mib: 6", "max-mib: 0", "3:10", "0 is out of range"),
        ("max-mib: 6", "max-mib: six", "3:10", "expected a whole number"),
        ("format: 1", "format: 2", "1:9", "2 is out of range"),
        ("[usr/bin/busybox]\n", "[/usr/bin/busybox]\n", "5:20", "must be relative to the root"),
        ("[usr/bin/busybox]\n", "[]\n", "5:19", "found an empty one"),
        ("[usr/bin/busybox]\n", "[usr/x, usr/x]\n", "5:20", "'usr/x' stands twice"),
        ("libc6: forky", "libc7: forky", "10:10", "'libc7' is neither under packages nor under libraries"),
        ("packages-arm64: {stress: [", "packages-arm64: {stress: [/", "8:27", "must be relative"),
        ("absent: {lib", "absent: {/lib", "9:10", "must be relative"),
        ("from: init", "from: inti", "15:16", "no such file"),
        ("from: init", "from: ../init", "15:16", "must be relative"),
        ("mode: 0755", "mode: 99999", "15:28", "out of range"),
        ("mode: 0755", "owner: 0", "15:22", "unknown key 'owner'"),
        ("links: {bin", "links: {/bin", "16:9", "must be relative"),
        ("directories: [proc]", "directories: [../proc]", "17:15", "must be relative"),
    ],
)
def test_mistakes_are_told_with_their_place(place: Path, before: str, after: str, where: str, message: str) -> None:
    path = place / "tiny.yaml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        recipes.read(path)
    assert str(caught.value).startswith(f"{path}:{where}:")


@pytest.fixture
def with_program(place: Path) -> Path:
    """Return a recipe with a program of ours."""
    sources = place.parent / "pcie"
    sources.mkdir()
    (sources / "bar.c").write_text("int main(void) { return 0; }\n")
    path = place / "tiny.yaml"
    path.write_text(GOOD + "programs: {usr/bin/pcie-bar: [pcie/bar.c]}\n")
    return path


def test_programs_of_ours_are_named_from_the_directory_above(with_program: Path) -> None:
    bar = {"usr/bin/pcie-bar": (with_program.parent.parent / "pcie" / "bar.c",)}
    assert recipes.read(with_program).programs == dict.fromkeys(ARCHES, bar)


def test_a_program_may_be_for_one_architecture(with_program: Path) -> None:
    with_program.write_text(with_program.read_text().replace("programs:", "programs-arm64:"))
    found = recipes.read(with_program).programs
    assert {arch: list(programs) for arch, programs in found.items() if programs} == {"arm64": ["usr/bin/pcie-bar"]}


@pytest.mark.parametrize(
    ("after", "where", "message"),
    [
        ("[pcie/foo.c]", "18:31", "no such C file"),
        ("[]", "18:30", "found an empty one"),
        ("[../bar.c]", "18:31", "must be relative"),
        ("[rootfs/init]", "18:31", "no such C file"),
    ],
)
def test_a_program_that_is_not_there_is_told_with_its_place(
    with_program: Path, after: str, where: str, message: str
) -> None:
    with_program.write_text(with_program.read_text().replace("[pcie/bar.c]", after))
    with pytest.raises(ConfigError, match=message) as caught:
        recipes.read(with_program)
    assert str(caught.value).startswith(f"{with_program}:{where}:")


@pytest.mark.parametrize("name", ["bar.c", "new.h"])
def test_the_key_changes_with_a_program_and_the_headers_beside_it(with_program: Path, name: str) -> None:
    before = recipes.key((recipes.read(with_program),), "arm64")
    (with_program.parent.parent / "pcie" / name).write_text("int other;\n")
    assert recipes.key((recipes.read(with_program),), "arm64") != before


def test_the_key_changes_with_the_compiler(with_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes.read(with_program)
    before = recipes.key((recipe,), "arm64")
    other = programs.Compiler("cc", "cc 99", "0" * 64)
    monkeypatch.setattr(programs, "compiler", lambda _: other)
    assert recipes.key((recipe,), "arm64") != before


def test_recipes_extend_each_other(place: Path) -> None:
    extended = "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 9\npackages: {fio: [usr/bin/fio]}\nlibraries: []\n"
    (place / "large.yaml").write_text(extended)
    chain = recipes.find("large")
    assert [recipe.name for recipe in chain] == ["tiny", "large"]
    assert recipes.packages(chain, "x86_64") == {
        "busybox-static": "trixie",
        "fio": "trixie",
        "libc6": "forky",
        "libipsec-mb2": "trixie",
    }
    (place / "large.yaml").write_text(extended.replace("extends: tiny", "extends: large"))
    with pytest.raises(ConfigError, match="extends itself"):
        recipes.find("large")
    (place / "large.yaml").write_text(extended.replace("suite: trixie", "suite: sid"))
    with pytest.raises(ConfigError, match="suite 'sid' differs from 'trixie' of 'tiny'"):
        recipes.find("large")


def test_an_unknown_recipe_lists_those_that_exist(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown name 'nope'.*core.*tiny"):
        recipes.find("nope")


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", recipes.names())
def test_the_shipped_recipes_are_right(name: str, arch: str) -> None:
    chain = recipes.find(name)
    assert set(recipes.locked_versions(chain[-1], arch)) == set(recipes.added_packages(chain, arch))


def test_the_shipped_image_with_python_has_all_of_the_other_one() -> None:
    core, full = recipes.find("full")
    assert (core.name, full.name) == ("core", "full")
    # hwlatdetect is of the same package as the other tools, in the same version.
    assert recipes.packages((core, full), "arm64")["rt-tests"] == "forky"
    assert "rt-tests" not in recipes.added_packages((core, full), "arm64")


def test_a_recipe_locks_what_it_adds_to_the_ones_it_extends(place: Path) -> None:
    (place / "large.yaml").write_text(
        "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 9\n"
        "packages: {fio: [usr/bin/fio], busybox-static: [usr/share/x]}\nlibraries: [libc6, zlib1g]\n"
    )
    chain = recipes.find("large")
    assert recipes.added_packages(chain, "x86_64") == {"fio": "trixie", "zlib1g": "trixie"}
    assert recipes.added_packages(chain[:1], "x86_64") == chain[0].packages("x86_64")
    # The inner recipe decides about the suite.
    assert recipes.packages(chain, "x86_64")["libc6"] == "forky"


class TestLock:
    def test_what_is_written_is_read_back(self, place: Path) -> None:
        recipe = recipes.read(place / "tiny.yaml")
        versions = {arch: dict.fromkeys(recipe.packages(arch), f"1:2.{arch}") for arch in ARCHES}
        recipe.lock.write_text(recipes.lock_text(recipe, versions))
        assert recipes.locked_versions(recipe, "arm64") == versions["arm64"]
        assert recipes.locked_versions(recipe, "x86_64") == versions["x86_64"]

    def test_without_a_lock_nothing_is_locked(self, place: Path) -> None:
        assert recipes.locked_versions(recipes.read(place / "tiny.yaml"), "arm64") == {}

    @pytest.mark.parametrize(
        ("text", "where", "message"),
        [
            ("format: 1\nsuite: sid\npackages: {arm64: {}, x86_64: {}, riscv64: {}}\n", "2:8", "unknown value 'sid'"),
            ("format: 1\nsuite: trixie\npackages: {arm64: {}}\n", "3:11", "missing key 'x86_64'"),
            (
                "format: 1\nsuite: trixie\npackages:\n  arm64: {fio: '3'}\n  x86_64: {}\n  riscv64: {}\n",
                "4:11",
                "'fio' is locked but tiny.yaml does not name it",
            ),
            (
                "format: 1\nsuite: trixie\npackages:\n  arm64: {libc6: 2.4}\n  x86_64: {}\n  riscv64: {}\n",
                "4:18",
                "expected text",
            ),
        ],
    )
    def test_mistakes_are_told_with_their_place(self, place: Path, text: str, where: str, message: str) -> None:
        recipe = recipes.read(place / "tiny.yaml")
        recipe.lock.write_text(text)
        with pytest.raises(ConfigError, match=message) as caught:
            recipes.locked_versions(recipe, "arm64")
        assert str(caught.value).startswith(f"{recipe.lock}:{where}:")


class TestKey:
    def test_it_changes_with_everything_that_decides_the_content(self, place: Path) -> None:
        keys = [recipes.key(recipes.find("tiny"), "arm64"), recipes.key(recipes.find("tiny"), "x86_64")]
        (place / "init").write_text("#!/bin/sh\n#\n")
        keys.append(recipes.key(recipes.find("tiny"), "arm64"))
        (place / "tiny.yaml").write_text(GOOD.replace("0755", "0700"))
        keys.append(recipes.key(recipes.find("tiny"), "arm64"))
        (place / "tiny.lock.yaml").write_text(
            "format: 1\nsuite: trixie\npackages: {arm64: {}, x86_64: {}, riscv64: {}}\n"
        )
        keys.append(recipes.key(recipes.find("tiny"), "arm64"))
        assert len(set(keys)) == len(keys)

    def test_it_does_not_change_with_where_the_recipe_lies(self, place: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("tiny.yaml", "init"):
            (copy / name).write_bytes((place / name).read_bytes())
        assert recipes.key((recipes.read(copy / "tiny.yaml"),), "arm64") == recipes.key(recipes.find("tiny"), "arm64")
