# SPDX-License-Identifier: MIT
"""A kernel repository whose pipeline runs on this machine, with a small program in place of `rtgate`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selftests.integration.conftest import ROOT


@dataclass(frozen=True)
class KernelRepository:
    """The repository, and what its job left in `record`."""

    tree: Path
    record: Path

    def call(self, argv: Sequence[str], code: int) -> subprocess.CompletedProcess[str]:
        """Run what runs a pipeline; `rtgate` ends with a code there."""
        environment = {
            "PATH": f"{self.tree.parent / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.tree.parent),
            "RECORD": str(self.record),
            "CODE": str(code),
            "PYTHONPATH": str(ROOT / "src"),
        }
        done = subprocess.run(
            argv, cwd=self.tree, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        print(done.stdout, done.stderr, sep="\n")
        return done

    def argv(self) -> list[str]:
        """Return with which words `rtgate` was called."""
        path = self.record / "argv"
        return path.read_text().splitlines() if path.exists() else []

    def program(self, text: str) -> None:
        """Write what runs as `rtgate`."""
        path = self.tree.parent / "bin" / "rtgate"
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *arguments: str) -> str:
        """Run git in the repository and return what it prints."""
        who = ["-c", "user.name=jane", "-c", "user.email=jane@example.org", "-c", "init.defaultBranch=main"]
        command = ["git", *who, "-C", str(self.tree), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
