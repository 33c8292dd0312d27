# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from rtgate.kernel import build_output


@contextmanager
def shell(command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True) as process:
        yield process


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("one\\n\\ntwo\\n", ["one\n", "\n", "two\n"]),
        ("no end", ["no end"]),
        ("", []),
        ("a\\r\\nb\\rc\\n", ["a\n", "b\n", "c\n"]),
        ("caf\\303\\251 \\377 \\303", ["caf\xe9 \ufffd \ufffd"]),
    ],
)
def test_lines_are_as_they_were_printed(printed: str, lines: list[str]) -> None:
    with shell(f"printf '{printed}'") as process:
        assert list(build_output.lines(process)) == lines


def test_what_comes_in_parts_is_one_line_and_a_line_without_an_end_comes_in_parts() -> None:
    with shell("printf a; sleep 0.1; printf 'b\\303'; sleep 0.1; printf '\\251\\n'") as process:
        assert list(build_output.lines(process)) == ["ab\xe9\n"]
    with shell("head -c 200000 /dev/zero | tr '\\0' x") as process:
        parts = list(build_output.lines(process))
    assert len(parts) > 1
    assert "".join(parts) == "x" * 200_000


@pytest.mark.parametrize(
    ("daemon", "longest_s"),
    [("sleep 100", 10), ("while echo more; do sleep 0.1; done", 20)],
    ids=["silent", "prints"],
)
def test_what_a_build_leaves_behind_holds_up_nobody(
    daemon: str, longest_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own it is not ended with the build's process group."""
    monkeypatch.setattr(build_output, "_MORE_S", 1.0)
    began = time.monotonic()
    with shell(f"setsid sh -c '{daemon}' & echo $!; echo last") as process:
        lines = list(build_output.lines(process))
        assert time.monotonic() - began < longest_s
        assert "last\n" in lines
        with suppress(ProcessLookupError):  # what prints ends when nobody reads
            os.killpg(int(lines[0]), signal.SIGKILL)
