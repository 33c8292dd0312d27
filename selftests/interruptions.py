# SPDX-License-Identifier: MIT
"""What is interrupted: every command, at work in a world of fakes (kernel, compiler, QEMU, LAVA), at random moments.

An interruption is what a terminal's Ctrl-C is: SIGINT to the process group. Whatever its moment, no traceback may be
printed, nothing stays behind, and no later run believes what was half written. The exit code is 130, or that of the
command's own end where the work was done by then.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from selftests.concurrency import KINDS, World
from selftests.lava_server import BOARD, SITE_BOARD, TOKEN, FakeJob, LavaServer, Story, lava_server

RTGATE = (sys.executable, "-m", "rtgate")
LAVA_TOOL = (sys.executable, "-c", "from rtgate.__main__ import lava_tool; raise SystemExit(lava_tool())")
_QUICK_S = 3.0
_LONGEST_S = 12.0  # a command that does not end by itself is interrupted within so long
_END_S = 60.0
_TRACEBACK = "Traceback (most recent call last)"
_PYTHON = ("<frozen ", "<string>")  # where Python's own start begins
_PACKAGE = re.compile(r"/(?:src|[a-z]+-packages)/rtgate/")
_FRAME = re.compile(r'File "([^"]*)", line \d+, in (\S+)')
_ALLURE = "#!/bin/sh\nmkdir -p page\necho '<html><head></head></html>' >page/index.html\n"
_JOB = """\
job_name: a job
device_type: one-cpu
visibility: public
timeouts: {job: {minutes: 5}}
actions: []
"""
_POLICY = "screen: [{board: virt-arm64, build: fake, profile: smoke, select: idle}]\n"
# In the world's directory `here`. REPORT is what a gate left there, KERNEL a build, HOST the LAVA server's.
_GATE = "gate --board virt-arm64 --profile smoke -k idle --build fake --no-explain --tree TREE --thresholds LIMITS"
_JOB_OPTIONS = f"--board {BOARD} --kernel KERNEL --ramdisk ramdisk.cpio.gz --profile smoke"
_SUBMIT = f"submit {_JOB_OPTIONS}"
COMMANDS = {
    "help": "--help",
    "gate": f"{_GATE} --candidate fast -o out",
    "gate of two": f"{_GATE} --candidate slow --base fast -o out2",
    "review": "review --tree TREE --base fast --head slow -o reviewed",
    "measure": "measure --board virt-arm64 --profile smoke -k idle --kernel KERNEL -o measured",
    "judge": "judge REPORT/records --thresholds LIMITS --verdict judged.json",
    "demo": "demo -o demo",
    "soak": "soak --board virt-arm64 --console virtual --kernel KERNEL --case latency/cyclictest:idle "
    "--for 5s --chunk 1s --records soaked",
    "build": "build fake --tree TREE -o built",
    "build --check-config": "build --check-config --all --tree TREE",
    "modules": "modules fake --tree TREE -o modules",
    "placebos": "placebos learn --board virt-arm64 --build fake --tree TREE --profile smoke --seeds 1-8 --work w "
    "-o new.yaml",
    "repeat": "repeat --board virt-arm64 --kernel KERNEL --profile smoke",
    "select-cases": "select-cases --board rk3568-evb1 REPORT",
    "explain": "explain RECORD",
    "sections": "sections --board virt-arm64 --kernel KERNEL --profile smoke",
    "report": "report REPORT/records --verdict REPORT/verdict.json -o reported",
    "report served": "report --serve --listen 0 -o REPORT",
    "console": "console --board virt-arm64 --kernel KERNEL",
    "plan": "plan --detect 5% --records REPORT/records --metric latency",
    "history": "history add --history sqlite:///history.db REPORT/records",
    "history list": "history list --history sqlite:///known.db",
    "baseline show": "baseline show --history sqlite:///known.db",
    "baseline promote": "baseline promote REPORT --history sqlite:///known.db",
    "baseline revoke": "baseline revoke 0123456789ab --reason slow --history sqlite:///known.db",
    "calibrate": "calibrate --history sqlite:///known.db --board virt-arm64",
    "trend": "trend --history sqlite:///known.db --board virt-arm64",
    "qualify": "qualify --history sqlite:///qualified.db --board virt-arm64 --records REPORT/records",
    "check-records": "check-records REPORT",
    "compare-env": "compare-env RECORD RECORD",
    "compare-flavours": "compare-flavours REPORT/records",
    "where": "where virt-arm64",
    "new-board": "new-board one --like virt-arm64",
    "check": "check",
    "rootfs": "rootfs core --arch arm64",
    "pcie-limits": "pcie-limits",
    "seeds": "seeds --history sqlite:///known.db",
    "submit": f"{_SUBMIT} --wait",
    "submit without waiting": _SUBMIT,
    "render": f"render {_JOB_OPTIONS} --artefacts-url https://builds.example.org/1 --server SERVER -o rendered",
    "jobs": "jobs",
    "cancel": "cancel 1",
    "fetch": "fetch 1 -o fetched",
    "lab-check": "lab-check",
    "in-job": f"in-job --board {BOARD} --suite latency --profile smoke",
    "board-health": f"board-health --board {BOARD}",
    # Nobody listens there: it tries again and again.
    "gerrit": "gerrit --project rt/kernel --tree TREE -o reviews --url http://127.0.0.1:9 --ssh 127.0.0.1:9",
    "webhook": "webhook --forge gitlab --url http://127.0.0.1:9 --project rt/kernel --ref main --listen 0 -o hooks",
    "hub": "hub --raw 0 tcp:HOST",
}
LAVA_COMMANDS = {
    "lava-tool": "--help",
    "lava-tool submit-job": "submit-job SERVER job.yaml --block",
    "lava-tool job-status": "job-status SERVER 1",
    "lava-tool devices-list": "devices-list SERVER",
    "lava-tool all-jobs": "all-jobs SERVER",
    "lava-tool auth-add": "auth-add SERVER",
}

ENDLESS = ("demo", "submit", "gerrit", "webhook", "lava-tool submit-job")
"""What only an interruption ends; the first one builds Linux."""
ENDS = {
    "gate of two": 1,
    "soak": 2,
    "review": 1,
    "build --check-config": 1,
    "modules": 1,
    "placebos": 3,
    "explain": 2,
    "sections": 2,
    "plan": 2,
    "baseline revoke": 2,
    "calibrate": 5,
    "trend": 5,
    "qualify": 2,
    "new-board": 2,
    "check": 2,
    "fetch": 2,
    "lab-check": 2,
    "in-job": 2,
    "board-health": 2,
    "submit without waiting": 2,
    "lava-tool auth-add": 2,
}
"""Exit codes of commands that do not end with 0: a limit is broken, or they miss what this world has not."""


@dataclass
class InterruptedWorld:
    """A world in which commands are interrupted.

    Attributes:
        world: trees, compiler, QEMU, caches.
        server: the LAVA server.
        chance: moments come from here.
        exact: find out how long each command takes; else moments are those of the first seconds.
    """

    world: World
    server: LavaServer
    chance: random.Random
    lengths: dict[str, float] = field(default_factory=dict)
    exact: bool = True

    def argv(self, name: str) -> list[str]:
        """Return the command line of a command by its name here."""
        program, words = (LAVA_TOOL, LAVA_COMMANDS) if name in LAVA_COMMANDS else (RTGATE, COMMANDS)
        directory = self.world.directory
        report = directory / "reports" / "1"
        record = next(report.glob("records/*/*/*/*/record.json"), report)
        texts = {
            "REPORT": report,
            "RECORD": record.parent,
            "KERNEL": directory / "kernel",
            "TREE": directory / "one",
            "LIMITS": directory / "limits.yaml",
            "SERVER": self.server.url,
            "HOST": self.server.url.removeprefix("http://"),
        }
        line = words[name]
        for text, path in texts.items():
            line = line.replace(text, str(path))
        return [*program, *line.split()]

    def length(self, name: str) -> float:
        """Return how long a command takes when nobody interrupts it, 12 s at most."""
        if not self.exact:
            return _QUICK_S
        if name not in self.lengths:
            began = time.monotonic()
            child = self._start(name)
            try:
                child.communicate(timeout=_LONGEST_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGINT)
                child.communicate(timeout=_END_S)
            self.lengths[name] = time.monotonic() - began
        return self.lengths[name]

    def interrupt(self, name: str) -> list[str]:
        """Interrupt a command once and return what is wrong."""
        length_s = self.length(name)
        moment_s = self.chance.uniform(0, length_s)
        if self.chance.random() < 0.5:
            shutil.rmtree(self.world.directory / "here" / "build", ignore_errors=True)
        before = frozenset(self.server.jobs)
        child = self._start(name)
        time.sleep(moment_s)
        interrupted = child.poll() is None
        if interrupted:
            os.killpg(child.pid, signal.SIGINT)
        try:
            said, _ = child.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return [f"{name} after {moment_s:.3f} s: did not end within {_END_S:g} s"]
        wrong = ["a traceback"] if has_traceback(said) else []
        if child.returncode not in exit_codes(name, said, interrupted=interrupted):
            wrong.append(f"exit code {child.returncode}")
        waits = {"--wait", "--block"} & set(self.argv(name))
        wrong += self._leftovers(child.pid, before if waits else None)
        return [f"{name} after {moment_s:.3f} of {length_s:.3f} s: {', '.join(wrong)}\n{said[-3000:]}"] if wrong else []

    def _start(self, name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=self.world.directory / "here",
            env=self.environment,
            start_new_session=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every command."""
        directory = self.world.directory
        own = {
            "RTGATE_ALLURE": str(directory / "bin" / "allure"),
            "RTGATE_LAVA_URL": self.server.url,
            "RTGATE_LAVA_TOKEN": TOKEN,
            "RTGATE_GERRIT_USER": "bot",
            "RTGATE_GITLAB_TOKEN": TOKEN,
            "RTGATE_WEBHOOK_SECRET": TOKEN,
            "RTGATE_GERRIT_PASSWORD": TOKEN,
            "HOME": str(directory),
        }
        return {**self.world.environment, **own}

    def _leftovers(self, pid: int, before: frozenset[int] | None) -> list[str]:
        """Return what stayed behind; `before` are the jobs that there were, None if a job may go on."""
        end = time.monotonic() + 5  # whoever was killed is gone a moment later
        while (left := [*self.world.leftovers(), *self._jobs(before), *_group(pid)]) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def _jobs(self, before: frozenset[int] | None) -> list[str]:
        """Return the jobs that run since `before`."""
        if before is None:
            return []
        with self.server.lock:
            running = [
                job
                for job in self.server.jobs.values()
                if job.state in {"Submitted", "Running"} and job.number not in before
            ]
            return [f"left behind: job {job.number}" for job in running]


def exit_codes(name: str, said: str, *, interrupted: bool) -> set[int]:
    """Return with what a command may end that said this."""
    if not interrupted:
        return {ENDS.get(name, 0)}
    ends = {130} if name in ENDLESS else {130, ENDS.get(name, 0)}
    # Python itself had not come to its handler of SIGINT; 1 is how it ends where it cannot import its own modules.
    return ends | ({-signal.SIGINT} if not said.strip() else {-signal.SIGINT, 1} if _is_start(said) else set())


def has_traceback(said: str) -> bool:
    """Return whether a traceback was printed, beside those of Python's own start, which rtgate cannot prevent."""
    return ("Traceback" in said or "Exception ignored" in said) and not _is_start(said)


def _is_start(said: str) -> bool:
    """Return whether all tracebacks are of Python's start: not even the first function of rtgate's had begun."""
    traces = [_FRAME.findall(trace) for trace in said.split(_TRACEBACK)[1:]]
    return bool(traces) and all(
        bool(trace)
        and trace[0][0].startswith(_PYTHON)
        and all(
            path.endswith(("/__init__.py", "/__main__.py")) and function == "<module>"
            for path, function in trace
            if _PACKAGE.search(path)
        )
        for trace in traces
    )


def _group(pid: int) -> list[str]:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return []
    return ["left behind: processes of its group"]


@contextmanager
def interrupted(directory: Path, seed: int, *, exact: bool = True) -> Iterator[InterruptedWorld]:
    """Make a world in `directory`, which must be new, with one gate done and a LAVA server with one finished job."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # below nohup, and commands would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    world = World.make(directory)
    gate = world.start(KINDS[0])
    assert gate.child.wait(_END_S * 5) == 0, gate.log.read_text()
    allure = directory / "bin" / "allure"
    allure.write_text(_ALLURE)
    allure.chmod(0o755)
    (directory / "site" / "boards").mkdir()
    (directory / "site" / "boards" / f"{BOARD}.yaml").write_text(SITE_BOARD)
    (directory / "site" / "policy.yaml").write_text(_POLICY)
    kernel = directory / "kernel"
    kernel.mkdir()
    (kernel / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(8))
    here = directory / "here"
    (here / "ramdisk.cpio.gz").write_bytes(b"\x1f\x8b")
    (here / "job.yaml").write_text(_JOB)
    with lava_server() as server:
        server.types = {BOARD: ""}
        server.device()
        server.devices[0]["device_type"] = BOARD
        server.stories.extend(Story(endless=True) for _ in range(10_000))
        server.jobs[1] = FakeJob(1, _JOB, Story(), state="Finished", health="Complete")
        made = InterruptedWorld(world, server, random.Random(seed), exact=exact)
        for words in (("history", "add", gate.report / "records"), ("baseline", "promote", gate.report)):
            argv = [*RTGATE, *map(str, words), "--history", "sqlite:///known.db"]
            subprocess.run(argv, cwd=here, env=made.environment, check=True, timeout=_END_S)
        yield made
