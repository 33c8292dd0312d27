# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import process
from rtgate.errors import InfrastructureError


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError) as caught:
        process.require("aarch64-linux-gnu-gcc", "xz", "own-tool")
    assert str(caught.value) == (
        "not installed: aarch64-linux-gnu-gcc, xz, own-tool "
        "(Debian: apt-get install gcc-aarch64-linux-gnu xz-utils own-tool)"
    )
    with pytest.raises(InfrastructureError, match="apt-get install git"):
        process.output(["git", "--version"])


def test_output(tmp_path: Path) -> None:
    assert process.output(["sh", "-c", "echo $X"], environment={"X": "1"}) == "1\n"
    assert process.attempt(["sh", "-c", "pwd"], directory=tmp_path).stdout == f"{tmp_path}\n"


def test_failures_have_the_programs_words() -> None:
    with pytest.raises(InfrastructureError, match="status 3: broken"):
        process.output(["sh", "-c", "echo broken >&2; exit 3"])
