# SPDX-License-Identifier: MIT
"""Gates beside each other for a while, some of them killed: each must say what it says alone.

`python -m bench.concurrency 3600` tries for an hour, a second number draws other gates and moments. Kernels and QEMU
are fakes (`selftests/concurrency.py`). Exit code 1 if a verdict was wrong, or something stayed behind.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from selftests.concurrency import World


def main(words: Sequence[str]) -> int:
    """Try rounds until the time is over."""
    seconds, seed = (float(words[0]) if words else 60.0), (int(words[1]) if len(words) > 1 else 1)
    chosen = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    rounds = gates = killed = 0
    with tempfile.TemporaryDirectory(prefix="rtgate-concurrency-") as name:
        world = World.make(Path(name) / "world")
        world.learn()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asked, kill = world.draw_gates(chosen)
            wrong = world.round(chosen, asked, kill)
            rounds, gates, killed = rounds + 1, gates + len(asked), killed + kill
            print(f"round {rounds}: {len(asked)} gates, {kill} to be killed: {len(wrong)} wrong", flush=True)
            if wrong:
                print("\n".join(wrong))
                return 1
    print(f"{gates} gates in {rounds} rounds, {killed} of them to be killed: every survivor said what it says alone")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
