# SPDX-License-Identifier: MIT
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel.device_tree import overlaid

TREE = '/dts-v1/;\n/ { model = "a board"; uart2: serial@1 { status = "disabled"; }; };\n'
OVERLAY = '/dts-v1/;\n/plugin/;\n&uart2 { status = "okay"; };\n'

real = pytest.mark.skipif(
    not all(map(shutil.which, ("dtc", "fdtoverlay", "fdtget"))), reason="device-tree-compiler is not installed"
)


def compiled(path: Path, source: str, *options: str) -> Path:
    """Compile a device tree or an overlay, with symbols by `-@`."""
    subprocess.run(["dtc", "-q", *options, "-o", str(path), "-"], input=source, text=True, check=True)
    return path


def value(tree: Path, *where: str) -> str:
    return subprocess.run(["fdtget", str(tree), *where], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


@real
def test_overlays_are_applied_in_their_order(tmp_path: Path, into: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    first = compiled(tmp_path / "first.dtbo", OVERLAY, "-@")
    second = compiled(tmp_path / "-second.dtbo", OVERLAY.replace("okay", "reserved"), "-@")
    found = overlaid(tree, [first, second], into)
    assert found == into / "board.dtb"
    assert (value(found, "/serial@1", "status"), value(found, "/", "model")) == ("reserved", "a board")
    assert value(overlaid(tree, [second, first], into), "/serial@1", "status") == "okay"
    assert value(tree, "/serial@1", "status") == "disabled"


@real
def test_the_source_of_an_overlay_is_compiled(tmp_path: Path, into: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    source = tmp_path / "-uart.dtso"
    source.write_text(OVERLAY)
    assert value(overlaid(tree, [source], into), "/serial@1", "status") == "okay"
    source.write_text(OVERLAY.replace("okay", 'okay"'))
    with pytest.raises(ConfigError, match=r"uart\.dtso cannot be compiled: .*Unable to parse input tree$"):
        overlaid(tree, [source], into)
    source.write_text(OVERLAY.replace("&", "#include <dt-bindings/gpio/gpio.h>\n&"))
    with pytest.raises(ConfigError, match=r"lines like #include are for the kernel's own build: give its \.dtbo"):
        overlaid(tree, [source], into)


@real
def test_two_sources_of_one_name(tmp_path: Path, into: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    sources = []
    for name, text in (("first", OVERLAY), ("second", OVERLAY.replace("status", "model"))):
        (tmp_path / name).mkdir()
        sources.append(tmp_path / name / "uart.dtso")
        sources[-1].write_text(text)
    found = overlaid(tree, sources, into)
    assert [value(found, "/serial@1", key) for key in ("status", "model")] == ["okay", "okay"]


@real
def test_a_device_tree_without_symbols(tmp_path: Path, into: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE)
    overlay = compiled(tmp_path / "uart.dtbo", OVERLAY, "-@")
    with pytest.raises(
        ConfigError, match=r"uart\.dtbo cannot be applied to .*board\.dtb: .*NOTFOUND; has .* no symbols"
    ):
        overlaid(tree, [overlay], into)


@real
@pytest.mark.parametrize("data", [b"", b"no overlay", OVERLAY.encode(), bytes(100)])
def test_what_is_no_overlay(tmp_path: Path, into: Path, data: bytes) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    (tmp_path / "x.dtbo").write_bytes(data)
    with pytest.raises(ConfigError, match=r"x\.dtbo cannot be applied"):
        overlaid(tree, [tmp_path / "x.dtbo"], into)


@real
def test_a_device_tree_in_place_of_an_overlay_is_no_silent_success(tmp_path: Path, into: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    with pytest.raises(ConfigError, match="changes nothing"):
        overlaid(tree, [tree], into)


def test_without_the_program(tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"fdtoverlay \(Debian: apt-get install device-tree-compiler\)"):
        overlaid(tmp_path / "board.dtb", [tmp_path / "x.dtbo"], into)
