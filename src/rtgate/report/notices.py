# SPDX-License-Identifier: MIT
"""What rtgate says on standard error while it works: notices, and steps with the seconds that they took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """Say something to whoever waits."""
    print(f"rtgate: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name a step when it begins, and say how long it took when it ends well."""
    began = time.monotonic()
    print(f"== {name}", file=sys.stderr, flush=True)
    yield
    print(f"== {name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
