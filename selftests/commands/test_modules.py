# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.kernel.conftest import Describe, cache, describe, fake_tree, state, toolchain

from rtgate.errors import BuildError, ConfigError
from rtgate.kernel.build import Options
from rtgate.kernel.modules import Module, build_modules, information
from rtgate.kernel.source import open_tree

__all__ = ["cache", "describe", "fake_tree", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")
MODULES = 'config MODULES\n\tbool "modules"\n\n'


def elf(**info: str) -> bytes:
    """Return a file that has nothing but a section `.modinfo`."""
    names = b"\0.modinfo\0.shstrtab\0"
    content = b"\0".join(f"{name}={value}".encode() for name, value in info.items()) + b"\0"
    start = 64 + len(names) + len(content)
    header = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<QIHHHHHH", start, 0, 64, 0, 0, 64, 3, 2)
    section = "<IIQQQQ24x"
    return (
        header
        + names
        + content
        + bytes(64)
        + struct.pack(section, 1, 1, 0, 0, 64 + len(names), len(content))
        + struct.pack(section, 10, 3, 0, 0, 64, len(names))
    )


@pytest.fixture
def tree(fake_tree: Path) -> Path:
    """Return a fake tree in which `make modules` copies each .c to a .ko."""
    makefile = fake_tree / "Makefile"
    rule = (
        "\nmodules:\n\t@test -f $(M)/Kbuild && test -f $(O)/vmlinux\n"
        '\t@grep -L broken $(M)/*.c | grep -q . || { echo "ERROR: modpost: \\"lost\\" [a.ko] undefined!"; exit 1; }\n'
        "\t@for file in $(M)/*.c; do cp $$file $${file%.c}.ko; done\n"
        '\t@echo "$(CC)|$(CROSS_COMPILE)|$(ARCH)|$(KBUILD_BUILD_USER)" >$(O)/called\n'
    )
    makefile.write_text(makefile.read_text() + rule)
    return fake_tree


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    directory = tmp_path / "modules"
    directory.mkdir()
    (directory / "Kbuild").write_text("obj-m += a.o\n")
    (directory / "a.c").write_bytes(elf(license="GPL", vermagic="6.12.7 SMP preempt mod_unload"))
    return directory


def _build(describe: Describe, tree: Path, sources: Path, output: Path) -> tuple[Module, ...]:
    description = describe()
    return build_modules(description, open_tree(tree), sources, output, Options())


def test_modules_are_built_and_described(describe: Describe, tree: Path, sources: Path, tmp_path: Path) -> None:
    before = state(tree), state(sources)
    [module] = _build(describe, tree, sources, tmp_path / "out")
    assert (state(tree), state(sources)) == before
    assert module.path == tmp_path / "out" / "a.ko"
    assert module.info == {"license": "GPL", "vermagic": "6.12.7 SMP preempt mod_unload"}
    told = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert told["arch"] == "arm64"
    assert told["modules"]["a.ko"]["license"] == "GPL"
    assert sorted(told["sources"]) == ["Kbuild", "a.c"]
    assert [path.name for path in tmp_path.glob(".out*")] == []
    [called] = (tmp_path / "cache" / "builds").glob("*/called")
    assert called.read_text() == "ccache aarch64-linux-gnu-gcc|aarch64-linux-gnu-|arm64|rtgate\n"


def test_modules_are_replaced_and_other_things_left_alone(
    describe: Describe, tree: Path, sources: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    _build(describe, tree, sources, output)
    (sources / "a.c").rename(sources / "b.c")
    _build(describe, tree, sources, output)
    assert sorted(path.name for path in output.iterdir()) == ["b.ko", "modules.json"]
    (output / "modules.json").unlink()
    with pytest.raises(ConfigError, match="neither empty nor modules of rtgate's"):
        _build(describe, tree, sources, output)
    with pytest.raises(ConfigError, match="is not a directory"):
        _build(describe, tree, sources, sources / "Kbuild")


def test_a_module_of_another_kernel_is_refused(describe: Describe, tree: Path, sources: Path, tmp_path: Path) -> None:
    (sources / "a.c").write_bytes(elf(vermagic="6.12.8 SMP"))
    with pytest.raises(BuildError, match=r"a\.ko is a module of '6\.12\.8 SMP', not of 6\.12\.7"):
        _build(describe, tree, sources, tmp_path / "out")
    (sources / "a.c").write_bytes(b"no module")
    with pytest.raises(BuildError, match="a module of 'no kernel'"):
        _build(describe, tree, sources, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_symbol_that_is_missing_is_told(describe: Describe, tree: Path, sources: Path, tmp_path: Path) -> None:
    (sources / "a.c").write_text("broken")
    with pytest.raises(BuildError, match=r'modpost: "lost" \[a\.ko\] undefined!'):
        _build(describe, tree, sources, tmp_path / "out")


def test_a_kernel_without_modules_is_refused(describe: Describe, tree: Path, sources: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fake takes no modules: its kernel is built without CONFIG_MODULES"):
        build_modules(describe("# CONFIG_MODULES is not set\n"), open_tree(tree), sources, tmp_path / "out", Options())


def test_a_directory_without_modules_is_refused(describe: Describe, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no modules: it has no file Kbuild"):
        _build(describe, tree, tmp_path, tmp_path / "out")


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_file_is_a_module_or_says_nothing(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any.ko"
    good = elf(license="GPL", vermagic="6.12.7")
    for content in (data, b"\x7fELF\x02\x01" + data, good[:at], good[:at] + data + good[at + len(data) :]):
        path.write_bytes(content)
        assert isinstance(information(path), dict)
