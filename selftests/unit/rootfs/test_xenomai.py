# SPDX-License-Identifier: MIT
"""Xenomai's programs for an image: built with the real compiler from a stand-in (selftests/data/fake-xenomai)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.kernel.xenomai import VARIABLE, named_tree
from rtgate.rootfs import elf, packing, recipe, xenomai
from rtgate.rootfs.debian import Member

DATA = Path(__file__).resolve().parents[2] / "data"
RECIPE = """\
format: 1
suite: trixie
max-mib: 1
packages: {}
libraries: [libc]
xenomai: [usr/xenomai/bin/latency, usr/xenomai/lib/*.so.*]
"""
LIBC = ("ld-linux-aarch64.so.1", "libc.so.6")


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(DATA / "fake-xenomai", tmp_path / "xenomai")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "xenomai"))
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{DATA / 'fake-autotools'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "xenomai"


def installed(said: list[str] | None = None) -> dict[str, Member]:
    return dict(xenomai.installed(named_tree(), "arm64", (said if said is not None else []).append))


def test_programs_and_libraries_come_once_and_are_kept() -> None:
    said: list[str] = []
    made = installed(said)
    names = ("bin/latency", "lib/libcobalt.so.2", "lib/libcobalt.so.2.0.0")
    assert set(made) == {f"usr/xenomai/{name}" for name in names}
    assert elf.needs(made["usr/xenomai/bin/latency"].data).libraries == ("libcobalt.so.2", "libc.so.6")
    assert made["usr/xenomai/lib/libcobalt.so.2"].target == "libcobalt.so.2.0.0"
    assert [line.rpartition(": ")[2] for line in said] == ["configuring", "compiling"]
    said.clear()
    assert installed(said) == made
    assert said == []


def test_the_same_source_gives_the_same_bytes_in_another_place(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = installed()
    moved = source.with_name("moved")
    shutil.copytree(source, moved)
    monkeypatch.setenv(VARIABLE, str(moved))
    monkeypatch.setenv("RTGATE_CACHE", str(source.with_name("another")))
    assert installed() == first


def test_a_changed_source_is_built_again(source: Path) -> None:
    first = installed()
    (source / "lib/cobalt.c").write_text("int cobalt_init(void) { return 77; }\n")
    assert installed() != first


def test_an_image_takes_what_its_recipe_names(source: Path) -> None:
    (source.parent / "tiny.yaml").write_text(RECIPE)
    cross = Path("/usr/aarch64-linux-gnu/lib")
    libc = {f"usr/lib/{name}": Member(0o100755, (cross / name).read_bytes()) for name in LIBC}
    chain = (recipe.read(source.parent / "tiny.yaml"),)
    content = packing.compose(chain, "arm64", {"libc": libc}, {"libc": "2.36"})
    assert {"usr/xenomai/bin/latency", "usr/xenomai/lib/libcobalt.so.2"} <= {entry.name for entry in content.entries}
    assert content.programs == {"xenomai latency": "3.3.1"}


def test_an_image_is_another_one_with_another_xenomai(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source.parent / "tiny.yaml").write_text(RECIPE)
    chain = (recipe.read(source.parent / "tiny.yaml"),)
    first = recipe.key(chain, "arm64")
    (source / "lib/cobalt.c").write_text("int other;\n")
    assert recipe.key(chain, "arm64") != first
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match="RTGATE_XENOMAI is not set"):
        recipe.key(chain, "arm64")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lib/cobalt.c", "int cobalt_init(void) { return nothing; }\n", r"make\): .*error: .nothing. undeclared"),
        ("lib/cobalt.c", "int other;\n", r"make\): .*undefined reference to .cobalt_init."),
        ("configure.ac", "#!/bin/sh\necho 'configure: error: no libc' >&2; exit 1\n", r"configure\): .*error: no libc"),
    ],
)
def test_what_does_not_build_names_the_first_error_and_the_log(source: Path, name: str, text: str, said: str) -> None:
    (source / name).write_text(text)
    with pytest.raises(BuildError, match=rf"Xenomai does not build \({said}.* \(log: /.*\.log\)"):
        installed()
    assert not [path for path in (source.parent / "cache/xenomai").iterdir() if path.is_dir()]


def test_an_architecture_without_cobalt() -> None:
    with pytest.raises(ConfigError, match=r"has no Cobalt for riscv64 \(it has: arm64, x86_64\)"):
        xenomai.key(named_tree(), "riscv64")


def test_autotools_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"autoreconf", "libtoolize"} else f"/bin/{name}")
    monkeypatch.setattr(xenomai, "key", lambda *_: "key")
    with pytest.raises(InfrastructureError, match="apt-get install autoconf automake libtool"):
        installed()
