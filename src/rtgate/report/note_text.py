# SPDX-License-Identifier: MIT
"""The note on a merge request as plain text, for Gerrit and for mail."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rtgate.report.note import About, Note
from rtgate.report.text import one_line, plain_text

WIDTH = 77  # columns; a mail that quotes the note stays below 80


def as_text(note: Note) -> str:
    """Return the note as plain text; only a word that is longer by itself goes beyond `WIDTH`."""
    return "\n\n".join("\n".join(lines) for lines in _parts(note)) + "\n"


def _parts(note: Note) -> Iterator[list[str]]:
    about = note.about
    yield _wrap(note.headline)
    # A long title goes on with an indent: its second line must not look like one of ours.
    yield from filter(None, [[line for text in _about(about) for line in _wrap(text, hang="  ")]])
    if about.edits:
        edits = ", ".join(map(one_line, about.edits))
        yield _wrap(f"It changes {edits}: the files of the target branch counted.")
    if note.rows:
        yield list(_table(note))
    if note.left_out:
        yield [note.left_out]
    for section in note.sections:
        yield [f"{section.heading}:", *(part for line in section.lines for part in _wrap(line, "  "))]
    if about.reproduce:
        yield ["The same here:", *(f"  {line}" for line in about.reproduce)]
    if about.report:
        yield [f"Report: {about.report}"]


def _about(about: About) -> Iterator[str]:
    what = ": ".join(part for part in (about.name, one_line(about.title or about.subject)) if part)
    if what:
        yield what
    where = f" of {one_line(about.target)}" if about.target else ""
    if about.candidate:
        yield f"baseline {about.base[:12]}{where}, candidate {about.candidate[:12]}"


def _table(note: Note) -> Iterator[str]:
    """Yield the cases, each with its figures below it: one line would be too long for a mail."""
    for status, board, case, figure, baseline, candidate, change, limit in note.rows:
        if status:
            yield f"{status:<5} {board} {case}"
        limit_text = "" if limit == "-" else f", limit {limit}"
        yield f"      {figure}: {baseline} -> {candidate} ({change}){limit_text}"


def _wrap(text: str, indent: str = "", hang: str = "") -> list[str]:
    clean = plain_text(text).replace("\n", " ")
    first = indent + " " * (len(clean) - len(clean.lstrip()))
    return textwrap.wrap(
        clean.strip(),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first + (hang or indent),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
