# SPDX-License-Identifier: MIT
"""Mailed patches as commits, made in git's object store as `git am` makes them in a work tree."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtgate import process
from rtgate.errors import ConfigError
from rtgate.kernel.merge import COMMITTER, ConflictError, commit_of, git

# In the words of git 2.39's apply.c, with LC_ALL=C.
_FAILED = re.compile(r"^error: patch failed: (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)", re.MULTILINE)


def apply_patches(tree: Path, base: str, mails: Sequence[Path]) -> str:
    """Return the commit that patches make of `base`, one after the other; no branch names it.

    The same mails make the same commits, on any machine.

    Args:
        tree: a clone that has `base`.
        base: a commit.
        mails: a file for each patch, as it was mailed, in order.

    Raises:
        ConfigError: `base` is not there, or a mail has no patch.
        ConflictError: a patch does not apply; names the patch, the file and the hunk.
        InfrastructureError: git fails.
    """
    commit = commit_of(tree, base)
    with tempfile.TemporaryDirectory(prefix="rtgate-series-") as name:
        work = Path(name)
        index = {"GIT_INDEX_FILE": str(work / "index")}
        process.output([*git(tree), "read-tree", commit], environment=index)
        for number, mail in enumerate(mails, start=1):
            try:
                commit = _apply(tree, commit, mail, work, index)
            except ConflictError as error:
                raise ConflictError(f"patch {number} of {len(mails)}, {error}") from error
    return commit


def _apply(tree: Path, parent: str, mail: Path, work: Path, index: Mapping[str, str]) -> str:
    message, patch = work / "message", work / "patch"
    # A shell for its redirection alone: mailinfo reads a mail from standard input.
    argv = ["sh", "-c", 'exec "$@" < "$0"', str(mail), *git(tree), "mailinfo", "--encoding=UTF-8"]
    about = _fields(process.output([*argv, str(message), str(patch)]))
    subject = about.get("Subject", "")
    attempt = process.attempt([*git(tree), "apply", "--cached", "--whitespace=nowarn", str(patch)], environment=index)
    if "No valid patches" in attempt.stderr:
        raise ConfigError(f"the mail {subject!r} has no patch")
    if attempt.returncode:
        text = patch.read_text(encoding="utf-8", errors="replace")
        raise ConflictError(f"{subject!r}, does not apply to {parent[:12]}: {_reason(attempt.stderr, text)}")
    snapshot = process.output([*git(tree), "write-tree"], environment=index).strip()
    author = {
        "GIT_AUTHOR_NAME": about.get("Author", ""),
        "GIT_AUTHOR_EMAIL": about.get("Email", ""),
        # Without one git would take the present time, and no two machines would make the same commit.
        "GIT_AUTHOR_DATE": about.get("Date") or COMMITTER["GIT_COMMITTER_DATE"],
    }
    body = message.read_text(encoding="utf-8", errors="replace").strip()
    (work / "commit").write_text("\n\n".join(filter(None, (subject, body))) + "\n", encoding="utf-8")
    argv = [*git(tree), "commit-tree", snapshot, "-p", parent, "-F", str(work / "commit")]
    attempt = process.attempt(argv, environment={**COMMITTER, **author})
    if attempt.returncode:
        raise ConfigError(
            f"the mail {subject!r} makes no commit, see its From and Date: {attempt.stderr.strip()[:200]}"
        )
    return attempt.stdout.strip()


def _reason(message: str, patch: str) -> str:
    """Return why `git apply` refuses a patch: file and hunk, or its own first words."""
    match = _FAILED.search(message)
    if match is None:
        return " / ".join(message.strip().removeprefix("error: ").splitlines()[:3])
    name, line = match["file"], match["line"]
    _, _, below = patch.partition(f"\n+++ b/{name}\n")
    starts = _HUNK.findall(below.partition("\ndiff --git ")[0])
    which = f"hunk {starts.index(line) + 1}" if line in starts else "the hunk"
    return f"{name}: {which} at line {line} does not match"


def _fields(text: str) -> Mapping[str, str]:
    """Return what `git mailinfo` prints: Author, Email, Subject, Date."""
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
