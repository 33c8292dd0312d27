# SPDX-License-Identifier: MIT
"""The body of our note on a forge: a mark to find it again, and text in which nothing acts.

The text quotes titles, branches, file names and kernel logs, which whoever proposes a change can write. GitLab carries
out a line that begins with `/` (a quick action), as bots on GitHub do, and both tell people whose name stands behind
`@`. GitLab decides with two parsers that do not agree which parts of a text are code, so nothing here depends on it:
what is done to a text is right in code and outside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = "<!-- rtgate review -->"
_CUT = "**This note is cut: {forge} takes {limit}. The whole is `note.md` in the artifacts of the job.**"
_FIRST_LINE = re.compile(rf"{re.escape(MARK)}(?: <!-- pipeline (\d{{1,18}}) -->)?(?:\n|$)")
# PostgreSQL refuses NUL; the rest moves cursors or turns the direction of text around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Only a space: GitLab looks for `/` in the first column (lib/gitlab/quick_actions/extractor.rb).
_QUICK_ACTION = re.compile(r"^(?=[`~]*/)", re.MULTILINE)
# HTML makes the character of these, with and without a semicolon, before GitLab looks for names.
_AT_SIGN = re.compile(r"@|&commat;?|&#0*64(?!\d);?|&#[xX]0*40(?![0-9a-fA-F]);?")
_WORD_JOINER = "\u2060"  # invisible, and no name begins with it


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a note a forge takes.

    Attributes:
        unit: what it counts, `characters` or `bytes` of UTF-8.
    """

    forge: str
    size: int
    unit: str

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.size:,} {self.unit}"

    def cut(self, text: str) -> str:
        """Return as much of a text as fits."""
        if self.unit == "bytes":
            return text.encode()[: self.size].decode("utf-8", "ignore")
        return text[: self.size]


# Of a comment (doc/administration/instance_limits.md, "Size of comments").
GITLAB = Limit("GitLab", 1_000_000, "characters")
# Of the summary of a check run, which says "characters" and means bytes (github/docs, issue 35252). A comment may have
# one more, and GitHub counts it more generously.
GITHUB = Limit("GitHub", 65_535, "bytes")


def note_body(markdown: str, pipeline: int | None = None, limit: Limit = GITLAB) -> str:
    """Return what to post: the mark with the pipeline's number, and the text without what acts on a forge."""
    first = MARK if pipeline is None else f"{MARK} <!-- pipeline {pipeline} -->"
    body = f"{first}\n\n{harmless(markdown)}"
    if limit.cut(body) == body:
        return body
    return limit.cut(f"{first}\n\n{_CUT.format(forge=limit.forge, limit=limit)}\n\n{harmless(markdown)}")


def harmless(markdown: str) -> str:
    """Return a text that starts no quick action and mentions nobody, and otherwise reads the same."""
    # What cannot be encoded came from bytes that are not UTF-8. GitLab drops carriage returns before it looks at lines.
    text = markdown.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    text = _AT_SIGN.sub(lambda match: match.group() + _WORD_JOINER, text)
    return _QUICK_ACTION.sub(" ", text)


def has_mark(body: str) -> bool:
    """Return whether a note begins as ours do."""
    return _FIRST_LINE.match(body) is not None


def pipeline_of(body: str) -> int | None:
    """Return the number of the pipeline that wrote one of our notes; None if it does not say."""
    match = _FIRST_LINE.match(body)
    return int(match.group(1)) if match and match.group(1) else None
