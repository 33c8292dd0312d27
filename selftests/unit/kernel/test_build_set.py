# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selftests.unit.kernel.conftest import Describe, cache, describe, fake_tree

from rtgate.errors import BuildError, Interrupted
from rtgate.kernel import build, build_set
from rtgate.kernel.source import open_tree
from rtgate.kernel.work import UnsupportedTreeError
from rtgate.report import build_table

__all__ = ["cache", "describe", "fake_tree"]


def test_what_stops_one_build_is_said_and_the_next_one_is_built(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = [UnsupportedTreeError("no device tree x.dts", "no device tree"), BuildError("a.c:1: error\nmake failed")]

    def fail(*_: Any) -> None:
        raise stops.pop(0)

    monkeypatch.setattr(build, "build", fail)
    description = describe()
    tree = open_tree(fake_tree)
    outcomes = list(build_set.build_each([description, description], tree, tmp_path, build.Options()))
    assert [(one.kernel, one.unsupported, one.failure) for one in outcomes] == [
        (None, "no device tree", ""),
        (None, "", "a.c:1: error\nmake failed"),
    ]
    assert [line.rstrip() for line in build_table.lines(outcomes)] == [
        "build  Linux              image    time",
        "fake   -                      -     0 s  no device tree",
        "fake   -                      -     0 s  failed",
        "fake:",
        "  a.c:1: error",
        "  make failed",
        "0 of 2 kernels built, 1 failed, 1 not for this tree",
    ]


def test_ctrl_c_ends_all(describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise Interrupted("stopped")

    monkeypatch.setattr(build, "build", interrupt)
    with pytest.raises(Interrupted):
        list(build_set.build_each([describe()], open_tree(fake_tree), tmp_path, build.Options()))
