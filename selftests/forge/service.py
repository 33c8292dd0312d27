# SPDX-License-Identifier: MIT
"""`rtgate gerrit` with a stand-in for `rtgate review`, and in a hurry. Arguments: a file of what `Service` writes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from selftests.forge.gerrit_server import PASSWORDS, GerritServer

from rtgate.cli import edge
from rtgate.forge.gerrit_server import GerritServer as Server
from rtgate.forge.gerrit_server import access
from rtgate.http.patience import Patience
from rtgate.report.notices import say
from rtgate.workflow import gerrit_service
from rtgate.workflow.gerrit_service import GerritService, ServiceSettings
from rtgate.workflow.gerrit_stream import ssh_address

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 90.0


@dataclass
class Service:
    """The service in a process of its own, for the changes of one branch.

    Attributes:
        series_s: how long it waits for more changes of a series, before each review; who pushes one has the usual time.
    """

    gerrit: GerritServer
    directory: Path
    branch: str
    query: str = ""
    project: str = "rt/kernel"
    series_s: float = 1.0
    _child: subprocess.Popen[bytes] | None = None
    pids: list[int] = field(default_factory=list)

    @property
    def control(self) -> Path:
        return self.directory / "control"

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def start(self) -> None:
        self.control.mkdir(parents=True, exist_ok=True)
        settings = {
            "ssh": f"127.0.0.1:{self.gerrit.ssh_port}",
            "config": str(self.gerrit.ssh_config),
            "project": self.project,
            "branch": self.branch,
            "query": self.query,
            "series_s": self.series_s,
            "output": str(self.output),
            "control": str(self.control),
        }
        (self.directory / "settings.json").write_text(json.dumps(settings))
        password = self.directory / "password"
        password.write_text(PASSWORDS["bot"])
        password.chmod(0o600)
        own = {"RTGATE_GERRIT_URL": self.gerrit.url, "RTGATE_GERRIT_USER": "bot"}
        with (self.directory / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "selftests.forge.service", self.directory / "settings.json"],
                cwd=ROOT,
                env={**os.environ, **own, "RTGATE_GERRIT_PASSWORD_FILE": str(password)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pids.append(self._child.pid)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    @property
    def reviews(self) -> list[str]:
        """What the reviews did, in lines such as `begins 7-1`."""
        path = self.control / "log"
        return path.read_text().splitlines() if path.exists() else []

    def let(self, name: str, code: int, guilty: int | None = None) -> None:
        """Let a review come to its end; `guilty` is the change of its chain that does it, from 0."""
        staged = self.control / "staged"
        staged.write_text(f"{code}" if guilty is None else f"{code} {guilty}")
        staged.rename(self.control / name)

    def until(self, holds: Callable[[], object], what: str) -> None:
        limit = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < limit, f"not within {WAIT_S:.0f} s: {what}\n{self.reviews}\n{self.log}"
            time.sleep(0.1)

    def until_review(self, line: str) -> None:
        self.until(lambda: line in self.reviews, line)

    def until_log(self, text: str, count: int = 1) -> None:
        self.until(lambda: self.log.count(text) >= count, f"{text!r} {count} times in the log")

    def send(self, number: int) -> None:
        assert self._child
        os.kill(self._child.pid, number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the service and return its exit code; nothing that it started may be there afterwards."""
        assert self._child
        self.send(number)
        code = self._child.wait(WAIT_S)
        self._child = None
        self.until(lambda: not self.leftover_processes(), "processes of the service have ended")
        return code

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def leftover_processes(self) -> list[int]:
        """Return the processes that have the service's password file in their environment."""
        marker, found = str(self.directory / "password").encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if int(path.name) != os.getpid() and marker in (path / "environ").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
        return found


def _waits() -> Iterator[float]:
    return itertools.repeat(1.0)


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    edge.begin()
    gerrit_service._SETTLE_S = 3.0
    gerrit_service._SERIES_S = settings["series_s"]
    found = access(dict(os.environ))
    stand_in = (sys.executable, "-m", "selftests.forge.stand_in_review", settings["control"])
    GerritService(
        Server(found, Patience(connect=5.0, answer=20.0, total=5.0)),
        ssh_address(settings["ssh"], found.user, Path(settings["config"])),
        ServiceSettings(
            projects=(settings["project"],),
            branches=(settings["branch"],),
            query=settings["query"],
            since_s=3600.0,
            output=Path(settings["output"]),
            command=stand_in,
        ),
        say,
        _waits,
    ).run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
