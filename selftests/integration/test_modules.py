# SPDX-License-Identifier: MIT
"""Our kernel modules are built for real, against the default kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "target" / "modules"
EVERYWHERE = {"rtgate_msi_count", "rtgate_elbi_send"}
ENDPOINT = {"rtgate_elbi_count", "rtgate_msi_send"}  # found in a device tree


def rtgate(*words: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rtgate", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=3000,
        cwd=ROOT,
        env=os.environ,
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n")
    return done


@pytest.mark.parametrize(("arch", "names"), [("arm64", EVERYWHERE | ENDPOINT), ("x86_64", EVERYWHERE)])
def test_the_modules_belong_to_the_default_kernel(arch: str, names: set[str], tmp_path: Path) -> None:
    build = f"virt-{arch}-preempt_rt"
    kernel, modules = tmp_path / "kernel", tmp_path / "modules"
    assert rtgate("build", build, "-o", kernel).returncode == 0
    assert rtgate("modules", build, "-o", modules).returncode == 0
    told = json.loads((kernel / "build.json").read_text())
    made = json.loads((modules / "modules.json").read_text())
    assert (made["kernel"], made["toolchain"]) == (told["inputs"], told["toolchain"])
    assert set(made["modules"]) == {f"{name}.ko" for name in names}
    for name in names:
        found = subprocess.run(
            ["modinfo", "-F", "vermagic", modules / f"{name}.ko"], capture_output=True, text=True, check=True
        )
        words = found.stdout.split()
        assert words[0] == told["release"]
        assert {"SMP", "preempt_rt"} <= set(words)
        assert made["modules"][f"{name}.ko"]["license"] == "GPL"


def test_a_module_that_needs_what_the_kernel_does_not_export_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Kbuild").write_text("obj-m += lost.o\n")
    (tmp_path / "lost.c").write_text(
        "#include <linux/module.h>\nvoid rtgate_no_such_symbol(void);\nint init_module(void);\n"
        "int init_module(void) { rtgate_no_such_symbol(); return 0; }\n"
        'MODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("x");\n'
    )
    done = rtgate("modules", "virt-arm64-preempt_rt", "--modules", tmp_path, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "rtgate_no_such_symbol" in done.stderr
    assert not (tmp_path / "out").exists()
