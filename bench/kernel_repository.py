# SPDX-License-Identifier: MIT
"""A git repository of the pinned kernel source, and changes of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rtgate.kernel.source import default_tree

Edit = Callable[[str], str]
"""Makes the new text of a file from the old one, which is empty for a new file."""
_SETTINGS = {
    "user.name": "An Author",
    "user.email": "author@example.org",
    "gc.auto": "0",
    "core.compression": "1",
    "commit.gpgsign": "false",
}


# The same changes are the same commits in each run, whose kernels are known.
_DATES = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True)
class KernelRepository:
    """A repository with a work tree at `path`; its branch `main` begins at the tag `source`, the pinned one."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> KernelRepository:
        """Return the repository, with nothing but the source on `main`; a minute if it is new, or of another source."""
        tree, repository, made_from = default_tree(), cls(path), path / ".git" / "rtgate-source"
        source = f"{tree.identity.package} {tree.identity.package_version}"
        if not made_from.is_file() or made_from.read_text(encoding="utf-8") != source:
            shutil.rmtree(path, ignore_errors=True)
            repository._make(tree.path)
            made_from.write_text(source, encoding="utf-8")
        repository.git("checkout", "--quiet", "--force", "-B", "main", "source")
        return repository

    def _make(self, source: Path) -> None:
        # Other builds of the tree may have left a log there.
        shutil.copytree(source, self.path, symlinks=True, ignore=shutil.ignore_patterns("rtgate-build*"))
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", self.path], check=True)
        for name, value in _SETTINGS.items():
            self.git("config", name, value)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message", "base")
        self.git("tag", "source")

    def git(self, *words: str) -> str:
        """Return what git prints."""
        argv, environment = ["git", "-C", str(self.path), *words], {**os.environ, **_DATES}
        return subprocess.run(argv, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    def branch(self, name: str, title: str, edits: Mapping[str, Edit], base: str = "main", change: str = "") -> str:
        """Make a branch with one commit on `base` and return the commit. `change` becomes Gerrit's identity of it."""
        self.git("checkout", "--quiet", "-B", name, base)
        for file, edit in edits.items():
            path = self.path / file
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            path.parent.mkdir(exist_ok=True)
            path.write_text(edit(old), encoding="utf-8")
            self.git("add", "--force", file)
        identity = hashlib.sha1((change or name).encode(), usedforsecurity=False).hexdigest()
        self.git("commit", "--quiet", "--message", title, "--message", f"Change-Id: I{identity}")
        self.git("checkout", "--quiet", "main")
        return self.git("rev-parse", f"refs/heads/{name}")
