# SPDX-License-Identifier: MIT
"""A program run with its output timed: whoever waits for rtgate hears every few seconds what goes on."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# rtgate promises three; on a machine that does much else its reminder comes later.
LONGEST_S = 20.0
_LAST_WORDS_S = 30.0


@dataclass
class _Ear:
    """What was heard of a program: by stream, and the longest time without a word."""

    last: float = field(default_factory=time.monotonic)
    before: str = "its start"
    silence: tuple[float, str] = (0.0, "")
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listen(self, stream: IO[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line)
            self.note_line(line.strip())
        stream.close()

    def note_line(self, line: str) -> None:
        with self.lock:
            now = time.monotonic()
            self.silence = max(self.silence, (now - self.last, self.before))
            self.last, self.before = now, line


def run(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a program as `subprocess.run` does, outside any CI job, and assert that it was never silent for long."""
    outside = {name: value for name, value in environment.items() if name != "CI"}
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=outside)
    assert child.stdout
    assert child.stderr
    ear, out, err = _Ear(), list[str](), list[str]()
    pairs = ((child.stdout, out), (child.stderr, err))
    ears = [threading.Thread(target=ear.listen, args=pair, daemon=True) for pair in pairs]
    for one in ears:
        one.start()
    try:
        child.wait(timeout)
    finally:
        child.kill()
        for one in ears:
            one.join(_LAST_WORDS_S)
    # A program that it started and left behind holds its output open.
    assert not any(one.is_alive() for one in ears), f"{' '.join(argv)} has ended, and its output has not"
    ear.note_line("its end")
    seconds, line = ear.silence
    assert seconds < LONGEST_S, f"{' '.join(argv)} said nothing for {seconds:.0f} s after {line!r}"
    return subprocess.CompletedProcess(argv, child.returncode, "".join(out), "".join(err))
