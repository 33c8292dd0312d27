# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel.build import build
from rtgate.kernel.publish import BuildResult, check_output
from rtgate.kernel.source import open_tree

from .conftest import Describe


def test_other_peoples_directories_are_left_alone(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    check_output(tmp_path)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="left alone"):
        check_output(tmp_path)
    with pytest.raises(ConfigError, match="is not a directory"):
        check_output(tmp_path / "thesis.tex")


def test_former_builds_may_be_replaced(tmp_path: Path) -> None:
    for name in ("build.json", "Image"):
        (tmp_path / name).touch()
    check_output(tmp_path)


@pytest.mark.usefixtures("toolchain")
def test_modules_without_modules(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    description = describe("# CONFIG_MODULES is not set\n", "targets: [kernel, modules]\n")
    with pytest.raises(ConfigError, match=r"made no modules.tar.xz.*CONFIG_MODULES=y"):
        build(description, open_tree(fake_tree), tmp_path / "out")


@pytest.mark.usefixtures("toolchain")
def test_output_that_cannot_be_written(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="cannot write"):
        build(describe(), open_tree(fake_tree), tmp_path / "file" / "out")


def test_made_survives_json(tmp_path: Path) -> None:
    made = BuildResult("abc", 1.5, 3, 2, 1)
    made.write(tmp_path / "made.json")
    assert BuildResult.read(tmp_path / "made.json") == made
    (tmp_path / "made.json").write_text('{"inputs": 1}')
    assert BuildResult.read(tmp_path / "made.json") is None
