# SPDX-License-Identifier: MIT
"""Gates beside each other: of one tree and of two, of one commit, from one directory and from two; some are killed.

Kernels, compiler and QEMU are fakes: a kernel with the word "slow" in its sources breaks a limit. What is real is all
between: checkouts, builds, their directories, the kernels' copies, boots, records and verdicts. Whoever survives must
say what it says alone, and nothing may stay behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selftests.fake_target import files
from selftests.unit.cli.conftest import QEMU, write_rootfs

ROOT = Path(__file__).resolve().parents[1]
_DATA = ROOT / "selftests" / "data"
_DEADLINE_S = 600.0
# The page takes Allure seconds, and is not a part of what is tried here.
_PROGRAM = """
import sys
from rtgate.cli import main
from rtgate.report import html
html.generate = lambda results, output, history=None: output / "index.html"
sys.exit(main.main(sys.argv[1:]))
"""
_LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}
"""
_SOURCES = {"one": {"fast": "int one;\n", "slow": "int one; /* slow */\n"}, "two": {"fast": "int two;\n"}}


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What one gate is asked: a tree, a commit of it, another one to compare it with, and where it runs."""

    tree: str
    candidate: str
    base: str = ""
    place: str = "here"

    @property
    def words(self) -> list[str]:
        return ["--candidate", self.candidate, *(["--base", self.base] if self.base else [])]

    @property
    def single(self) -> GateRequest:
        return GateRequest(self.tree, self.candidate, self.base)


KINDS = (
    GateRequest("one", "fast"),
    GateRequest("one", "slow"),
    GateRequest("two", "fast"),
    GateRequest("one", "slow", base="fast"),
)


@dataclass
class World:
    """A directory with trees, programs and a cache of its own."""

    directory: Path
    number: int = 0
    known: dict[GateRequest, Any] = field(default_factory=dict)
    seconds: float = 10.0

    @classmethod
    def make(cls, directory: Path) -> World:
        """Make it; `directory` must be new."""
        world = cls(directory)
        for name in ("bin", "fake", "captured", "tmp", "here", "there", "reports", "site/kernel-configs/fragments"):
            (directory / name).mkdir(parents=True)
        for name, data in files().items():
            if name != "config.sha256":  # of the kernel of the capture, which these gates do not build
                (directory / "captured" / name).write_bytes(data)
        program = directory / "bin" / "qemu-system-aarch64"
        program.write_text(
            QEMU.format(
                python=sys.executable, packages=[str(ROOT / "src"), str(ROOT)], capture=str(directory / "captured")
            )
        )
        program.chmod(0o755)
        (directory / "gate.py").write_text(_PROGRAM)
        (directory / "limits.yaml").write_text(_LIMITS)
        configs = directory / "site" / "kernel-configs"
        (configs / "fragments" / "only.config").write_text("CONFIG_EXPERT=y\n")
        (configs / "fake.yaml").write_text("arch: arm64\nflavour: preempt_rt\nbase: tinyconfig\nfragments: [only]\n")
        write_rootfs(directory / "cache")
        for tree, sources in _SOURCES.items():
            _repository(directory / tree, sources)
        return world

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.directory / "bin"), str(_DATA / "fake-toolchain"), os.environ["PATH"]])
        own = {
            "PATH": path,
            "FAKE_QEMU": str(self.directory / "fake"),
            "RTGATE_CACHE": str(self.directory / "cache"),
            "RTGATE_SITE": str(self.directory / "site"),
            "TMPDIR": str(self.directory / "tmp"),
        }
        return {**os.environ, **own}

    def start(self, asked: GateRequest) -> Gate:
        """Start a gate."""
        self.number += 1
        report = self.directory / "reports" / str(self.number)
        words = ["gate", "--board", "virt-arm64", "--profile", "smoke", "-k", "idle", "--build", "fake", "--no-explain"]
        words += ["--tree", str(self.directory / asked.tree), "--thresholds", str(self.directory / "limits.yaml")]
        with (self.directory / "reports" / f"{self.number}.log").open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, str(self.directory / "gate.py"), *words, *asked.words, "-o", str(report)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory / asked.place,
                env=self.environment,
            )
        return Gate(asked, child, report, Path(log.name))

    def learn(self, kinds: Sequence[GateRequest] = KINDS) -> None:
        """Find out what each gate says alone."""
        for asked in kinds:
            began = time.monotonic()
            gate = self.start(asked)
            gate.child.wait(_DEADLINE_S)
            self.known[asked] = gate.result()
            assert gate.child.returncode == (1 if asked.candidate == "slow" else 0), gate.log.read_text()
            self.seconds = time.monotonic() - began

    def round(self, chosen: random.Random, gates: Sequence[GateRequest], kill: int) -> list[str]:
        """Run gates beside each other, kill some of them, and return what is wrong with the others."""
        # Every round builds and publishes.
        for path in (*self.directory.glob("here/build/[!.]*"), *self.directory.glob("there/build/[!.]*")):
            shutil.rmtree(path)
        begun = [self.start(asked) for asked in gates]
        doomed = sorted((chosen.uniform(0, self.seconds * len(gates) / 2), gate) for gate in begun[:kill])
        began = time.monotonic()
        for moment, gate in doomed:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            if gate.child.poll() is None:
                gate.child.send_signal(signal.SIGKILL)
                gate.killed = True
        wrong = []
        for gate in begun:
            gate.child.wait(_DEADLINE_S)
            if not gate.killed and (said := gate.result()) != self.known[gate.asked.single]:
                log = gate.log.read_text(errors="replace")[-2000:]
                wrong.append(f"{gate.asked}: {said} instead of {self.known[gate.asked.single]}\n{log}")
        if any(gate.killed for gate in begun):
            wrong += self._after_a_kill()
        wrong += self.leftovers()
        if not wrong:
            for gate in begun:
                gate.log.unlink()
                shutil.rmtree(gate.report, ignore_errors=True)
        return wrong

    def _after_a_kill(self) -> list[str]:
        """Return what is wrong with the next gate, which also tidies up."""
        self._wait_for_children()
        gates = [GateRequest("one", "fast", place=place) for place in ("here", "there")]
        return self.round(random.Random(0), gates, 0)

    def _wait_for_children(self) -> None:
        """Wait until what a killed gate had started has ended by itself."""
        end = time.monotonic() + 30
        while self.processes() and time.monotonic() < end:
            time.sleep(0.1)

    def processes(self) -> list[str]:
        """Return the processes that work in this world."""
        mark = f"RTGATE_CACHE={self.directory / 'cache'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue
        return found

    def leftovers(self) -> list[str]:
        """Return what stayed behind."""
        names = ("cache/pinned/*", "tmp/*", "here/build/.*", "there/build/.*", "cache/checkouts/*.index.lock")
        found = [str(path.relative_to(self.directory)) for name in names for path in self.directory.glob(name)]
        found += [f"process {command}" for command in self.processes()]
        found += [f"held: {path}" for path in self._locks() if _is_locked(path)]
        return [f"left behind: {name}" for name in found]

    def _locks(self) -> Iterator[Path]:
        yield from (path for path in (self.directory / "cache").rglob("*.lock") if path.is_file())
        yield from (self.directory / "cache" / "locks").glob("*")
        yield from (self.directory / "cache" / "cores").glob("*")

    def draw_gates(self, chosen: random.Random) -> tuple[list[GateRequest], int]:
        """Draw which gates run beside each other, and how many of them are killed."""
        count = chosen.choice((2, 8))
        kinds = chosen.choice(((KINDS[0],), KINDS[:2], KINDS[::2], KINDS))  # one commit, one tree, two trees, all
        places = chosen.choice((("here",), ("here", "there")))
        gates = [
            GateRequest(kind.tree, kind.candidate, kind.base, places[number % len(places)])
            for number in range(count)
            for kind in [kinds[number % len(kinds)]]
        ]
        chosen.shuffle(gates)
        return gates, chosen.choice((0, count // 2))


@dataclass
class Gate:
    """A gate that runs."""

    asked: GateRequest
    child: subprocess.Popen[bytes]
    report: Path
    log: Path
    killed: bool = False

    def __lt__(self, other: Gate) -> bool:
        return self.child.pid < other.child.pid

    def result(self) -> Any:
        """Return what it came to: exit code, verdicts, and which kernel each arm's records are of and booted."""
        path = self.report / "verdict.json"
        if not path.exists():
            return {"exit code": self.child.returncode, "log": self.log.read_text(errors="replace")[-500:]}
        verdicts = json.loads(path.read_text())["verdicts"]
        records = [json.loads(one.read_text()) for one in (self.report / "records").glob("*/*/*/*/record.json")]
        return {
            "exit code": self.child.returncode,
            "verdicts": sorted([one["status"], one["kind"], one["sentence"]] for one in verdicts),
            "kernels": sorted(
                [one["arm"], one["seed"], one["kernel"]["image_sha256"], one["machine"]["image_sha256"]]
                for one in records
            ),
        }


def _repository(tree: Path, sources: dict[str, str]) -> None:
    shutil.copytree(_DATA / "fake-kernel", tree)
    makefile = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(makefile.replace("SUBLEVEL = 7\n", "SUBLEVEL = 117\n"))  # what the captured boot ran
    git = ["git", "-C", str(tree), "-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for name, text in sources.items():
        (tree / "kernel" / "sched.c").write_text(text)
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "-c", "commit.gpgsign=false", "commit", "--quiet", f"--message={name}"], check=True)
        subprocess.run([*git, "tag", name], check=True)


def _is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
