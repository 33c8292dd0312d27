# SPDX-License-Identifier: MIT
"""A git repository of the pinned kernel source, and changes of it."""

from __future__ import annotations

import hashlib
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


@dataclass(frozen=True, slots=True)
class KernelRepository:
    """A repository with a work tree at `path`; its branch `main` is the pinned source."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> KernelRepository:
        """Copy the source and commit it; a minute. `path` must be new."""
        # Other builds of the tree may have left a log there.
        shutil.copytree(default_tree().path, path, symlinks=True, ignore=shutil.ignore_patterns("rtgate-build*"))
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", path], check=True)
        repository = cls(path)
        for name, value in _SETTINGS.items():
            repository.git("config", name, value)
        repository.git("add", "--all", "--force")
        repository.git("commit", "--quiet", "--message", "base")
        return repository

    def git(self, *words: str) -> str:
        """Return what git prints."""
        argv = ["git", "-C", str(self.path), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

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
