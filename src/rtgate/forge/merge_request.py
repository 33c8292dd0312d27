# SPDX-License-Identifier: MIT
"""A merge request as every forge has it, and the answer that goes back to it.

A forge is one module with one class that keeps to `Forge`. GitLab calls what it reviews a merge request, GitHub a pull
request, Gerrit a patch set of a change, a mailing list a version of a series: here all of them are merge requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What is proposed. None of these texts can be trusted: whoever proposes it wrote them.

    Attributes:
        name: as people on the forge name it: `!12`, `#12`, `change 4711, patch set 3`; empty for plain commits.
        title: its first line; empty where there is none.
        url: of its page; empty for none.
        target: the branch it goes to; empty for none.
        base: what names the tip of that branch in the clone, as git understands it.
        head: what names the last proposed commit in the clone.
        fetch: a command that brings `head` into a clone of the project; empty where nobody needs one.
        series: the mailbox that `head` was made from, whose commits nobody else has; empty for commits of a clone.
        merged: whether `head` is the result of merging already, which the forge has made.
    """

    base: str
    head: str
    name: str = ""
    title: str = ""
    url: str = ""
    target: str = ""
    fetch: str = ""
    series: str = ""
    merged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """Which commit of several made the whole fail.

    Attributes:
        suspects: the commits one of which fails first: one where that could be found out.
        innocents: the commits below, of which the last one was measured and did not fail. Empty where the whole would
            not pass without that failure: nobody looked for the rest there.
        sentence: the same for people; it may hold anything.
    """

    suspects: tuple[str, ...]
    innocents: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a review came to.

    Attributes:
        exit_code: rtgate's.
        markdown: the note for a forge that renders Markdown (CommonMark and GitHub's tables).
        text: the same as plain text, at most 77 columns wide where no name is longer.
        blame: which commit of several did it, where that was looked for.
    """

    exit_code: int
    markdown: str
    text: str
    blame: Blame | None = None


class Forge(Protocol):
    """Where a merge request comes from, and where its answer goes to."""

    def merge_request(self) -> MergeRequest:
        """Return what is to be reviewed.

        Raises:
            ConfigError: the environment does not say which it is.
            InfrastructureError: the forge does not answer.
        """

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        """Get the commits of a merge request into a clone; nothing where `merge_request` found them there.

        Raises:
            ConfigError: the forge refuses.
            InfrastructureError: the forge does not answer.
        """

    def check_access(self) -> None:
        """Ask once whether the forge accepts our token, where it has not been asked yet: before hours of work.

        Raises:
            ConfigError: the forge refuses the token.
            InfrastructureError: the forge does not answer.
        """

    def publish(self, answer: Answer) -> None:
        """Put the answer where the author reads, in place of an earlier one of ours to the same merge request.

        Raises:
            ConfigError: the forge refuses: a token that is wrong, or may not do this.
            InfrastructureError: the forge does not answer.
        """
