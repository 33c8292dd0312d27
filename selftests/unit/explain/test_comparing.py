# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.explain.comparing import vmlinux


def test_a_kernel_without_its_elf_file_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the kernel's ELF file only"):
        vmlinux(tmp_path)
    (tmp_path / "vmlinux").touch()
    assert vmlinux(tmp_path) == tmp_path / "vmlinux"
