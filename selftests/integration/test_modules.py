# SPDX-License-Identifier: MIT
"""Our kernel modules are built for real, against the default kernels."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.kernel.modules import information

from .conftest import rtgate

EVERYWHERE = {"rtgate_msi_count", "rtgate_elbi_send"}
ENDPOINT = {"rtgate_elbi_count", "rtgate_msi_send"}  # found in a device tree


@pytest.mark.parametrize(
    ("arch", "fixture", "names"),
    [("arm64", "kernel", EVERYWHERE | ENDPOINT), ("x86_64", "x86_64_kernel", EVERYWHERE)],
)
def test_the_modules_belong_to_the_default_kernel(
    arch: str, fixture: str, names: set[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kernel: Path = request.getfixturevalue(fixture)
    modules = tmp_path / "modules"
    assert rtgate("modules", f"virt-{arch}-preempt_rt", "-o", modules).returncode == 0
    told = json.loads((kernel / "build.json").read_text())
    made = json.loads((modules / "modules.json").read_text())
    assert (made["kernel"], made["toolchain"]) == (told["inputs"], told["toolchain"])
    assert {path.stem for path in modules.glob("*.ko")} == names
    for name in names:
        found = information(modules / f"{name}.ko")
        assert found["license"] == "GPL"
        assert found["vermagic"].split()[0] == told["release"]
        assert {"SMP", "preempt_rt", "mod_unload"} <= set(found["vermagic"].split())


@pytest.mark.skipif(shutil.which("modinfo") is None, reason="kmod is not installed")
def test_modinfo_reads_the_same(kernel: Path, tmp_path: Path) -> None:
    assert kernel.is_dir()
    assert rtgate("modules", "virt-arm64-preempt_rt", "-o", tmp_path / "modules").returncode == 0
    for path in (tmp_path / "modules").glob("*.ko"):
        for field, value in information(path).items():
            told = subprocess.run(["modinfo", "-F", field, path], capture_output=True, text=True, check=True)
            assert told.stdout.split("\n")[0] == value


def test_a_module_that_needs_what_the_kernel_does_not_export_is_refused(kernel: Path, tmp_path: Path) -> None:
    assert kernel.is_dir()
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "Kbuild").write_text("obj-m += lost.o\n")
    (sources / "lost.c").write_text(
        "#include <linux/module.h>\nvoid rtgate_no_such_symbol(void);\nint init_module(void);\n"
        "int init_module(void) { rtgate_no_such_symbol(); return 0; }\n"
        'MODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("x");\n'
    )
    done = rtgate("modules", "virt-arm64-preempt_rt", "--modules", sources, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "rtgate_no_such_symbol" in done.stderr
    assert not (tmp_path / "out").exists()
