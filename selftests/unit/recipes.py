# SPDX-License-Identifier: MIT
"""Carries out a recipe of docs/how-to/contribute: its files are written, its changes applied, its commands run.

What a fence of the page means:

* a language and `title="PATH"`: the file PATH with this content, or with `diff` a change of PATH;
* `sh` without a title: commands that end with 0 and print the `text` block that follows;
* `sh` with the title `exit code N`: the same, and they end with N;
* `sh` with any other title: a person runs it, who has what it takes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Block:
    """A fence of a page."""

    language: str
    title: str
    exit_code: int
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the fences of a page."""
    for match in _FENCE.finditer(page):
        title = re.search(r'title="([^"]+)"', match["rest"])
        code = re.fullmatch(r"exit code ([0-9]+)", title[1]) if title else None
        name = title[1] if title and not code else ""
        yield Block(match["language"], name, int(code[1]) if code else 0, match["text"])


def apply_change(source: str, change: str) -> str:
    """Return a source with a change, of which every line begins with a blank, `-` or `+`.

    Raises:
        ValueError: the lines before the change stand in the source never, or more than once.
    """
    lines = [line or " " for line in change.rstrip("\n").split("\n")]
    before = "\n".join(line[1:] for line in lines if line[0] != "+")
    after = "\n".join(line[1:] for line in lines if line[0] != "-")
    if source.count(before) != 1:
        raise ValueError(f"stands {source.count(before)} times in the source, not once:\n{before}")
    return source.replace(before, after)


def carry_out(page: str, tree: Path, environment: Mapping[str, str]) -> list[str]:
    """Carry out a page in a directory and return its commands. A page that is wrong fails an assertion."""
    commands: list[str] = []
    said = ""
    for block in blocks(page):
        path = tree / block.title
        if block.language == "sh" and not block.title:
            said = ""
            for line in block.text.splitlines():
                said += _run(line, block.exit_code, tree, environment)
                commands.append(line)
        elif block.language == "text":
            assert block.text.strip() in said, f"the page promises\n{block.text}\nand what was said is\n{said}"
        elif block.language == "diff":
            path.write_text(apply_change(path.read_text(encoding="utf-8"), block.text), encoding="utf-8")
        elif block.language != "sh" and block.title:
            assert not path.exists(), f"{block.title} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return commands


def _run(line: str, exit_code: int, tree: Path, environment: Mapping[str, str]) -> str:
    program, *arguments = shlex.split(line)
    known = {"rtgate": ["-m", "rtgate"], "python": []}
    assert program in known, f"a recipe's test runs only {', '.join(known)}: {line}"
    done = subprocess.run(
        [sys.executable, *known[program], *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == exit_code, f"{line} ended with {done.returncode}:\n{said}"
    return said
