# SPDX-License-Identifier: MIT
"""How many made-up cases a property is tried with that needs more than others."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

USUAL = 25
"""Of every property in `make test`: what chance finds there is found within a few."""


def examples(many: int, **others: Any) -> settings:
    """Return settings with `many` made-up cases in `make test-all`, and with no more than `USUAL` in `make test`.

    Which of the two it is, Hypothesis' profile says: it is loaded before the tests are (`selftests/conftest.py`).
    """
    short = settings.default is not None and settings.default.max_examples <= USUAL
    return settings(max_examples=min(many, USUAL) if short else many, **others)
