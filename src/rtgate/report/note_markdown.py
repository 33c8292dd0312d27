# SPDX-License-Identifier: MIT
"""The note on a merge request or a run as Markdown: CommonMark, with the tables that GitLab and GitHub have.

What others wrote stands in code spans and code blocks. Neither Markdown nor HTML, no mention and no quick action works
there. A span ends at as many backticks as it began with, a block at a line of at least as many (CommonMark 0.31, 6.1
and 4.5); GitLab and GitHub look for references outside of code only.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from rtgate.report.note import COLUMNS, About, Note
from rtgate.report.text import one_line, plain_text

_WIDTH = 110  # of a code block, which scrolls sideways beyond it


def as_markdown(note: Note) -> str:
    """Return the note as Markdown."""
    return "\n\n".join(_parts(note)) + "\n"


def _parts(note: Note) -> Iterator[str]:
    about = note.about
    yield f"**{note.headline}**"
    if subject := _about(about):
        yield subject
    if about.edits:
        yield f"It changes {', '.join(map(_code, about.edits))}: the files of the target branch counted."
    if note.rows:
        yield _table(note.rows)
    if note.left_out:
        yield note.left_out
    for section in note.sections:
        yield f"**{section.heading}**"
        yield _block([part for line in section.lines for part in _wrap(line)])
    if about.reproduce:
        yield "**The same here**"
        yield _block(about.reproduce)
    if about.report:
        yield f"Report: <{about.report}>"


def _about(about: About) -> str:
    title = about.title or about.subject
    what = ": ".join(part for part in (about.name, _code(title) if title else "") if part)
    where = f" of {_code(about.target)}" if about.target else ""
    commits = f"baseline {about.base[:12]}{where}, candidate {about.candidate[:12]}" if about.candidate else ""
    kernels = [f"{arm}: {_code(kernel)}" for arm, kernel in about.kernels]
    return "  \n".join(part for part in (what, commits, *kernels) if part)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [COLUMNS, ["---"] * len(COLUMNS), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    """Return a code span, fenced by more backticks than the text has in a row."""
    line = one_line(text)
    fence = "`" * (1 + _longest([line]))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _block(lines: Sequence[str]) -> str:
    """Return a code block, fenced by more backticks than any line has in a row."""
    own = [plain_text(line).replace("\n", " ") for line in lines]
    fence = "`" * max(3, 1 + _longest(own))
    return "\n".join([f"{fence}text", *own, fence])


def _longest(lines: Sequence[str]) -> int:
    """Return how many backticks these lines have in a row, at most."""
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def _cell(text: str) -> str:
    """Return a cell; names of boards and cases and figures are ours, but a bar would end it."""
    return re.sub(r"([\\|_*<])", r"\\\1", one_line(text))


def _wrap(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
