# SPDX-License-Identifier: MIT
"""The fuzzer's targets hold for what they begin with, so that they are right when somebody runs `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest
from selftests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_reads_its_seeds(name: str, tmp_path: Path) -> None:
    assert TARGETS[name].seeds
    for seed in (b"", *TARGETS[name].seeds):
        TARGETS[name].read(seed, tmp_path)
