# SPDX-License-Identifier: MIT
"""What all self-tests share: golden files, and Hypothesis without a clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).with_name("golden")
Golden = Callable[[str, str], None]

# Another program on the machine must not fail a test.
# In CI the same examples every time: a merge request is not to blame for what chance finds. `pytest
# --hypothesis-profile=deep` looks further than `make test` does.
# Tests are about boots that are made; those of boots that were made before unset it.
os.environ["RTGATE_KEEP_BOOTS"] = "no"
settings.register_profile("rtgate", deadline=None, derandomize="RTGATE_CI_RUN" in os.environ)
settings.register_profile("deep", deadline=None, max_examples=3000)
settings.load_profile("rtgate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew; review the difference")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the golden file of a name, or write it there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: make it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: pytest --update-golden, then review"

    return compare
