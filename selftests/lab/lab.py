# SPDX-License-Identifier: MIT
"""The lab as tests see it: a real LAVA server at a URL, and its switches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "ci" / "lab" / "lab"
# As ci/lab/paths has them: for a second lab beside the first.
STATE = Path(os.environ.get("RTGATE_LAB_STATE", "/var/lib/rtgate-lab"))
PORT = os.environ.get("RTGATE_LAB_PORT", "28000")


def why_not() -> str:
    """Return why this machine can have no lab, empty if it can."""
    if os.geteuid() != 0:
        return "the lab needs root"
    if not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        return "the lab needs Debian's packages"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() and shutil.which("modprobe") is None:
        return "this kernel has no overlayfs"
    if subprocess.run(["unshare", "--mount", "sh", "-ec", _TRIAL], capture_output=True, check=False).returncode:
        return "namespaces or overlays are not allowed here (a container?)"
    return ""


# What ci/lab/enter does, in small.
_TRIAL = "mount -t tmpfs none /mnt; cd /mnt; mkdir a b c d; mount -t overlay o -o lowerdir=a,upperdir=b,workdir=c d"


def exists() -> bool:
    """Return whether there is a lab, also one with services that are stopped."""
    return subprocess.run([PROGRAM, "exec", "true"], capture_output=True, check=False, timeout=60).returncode == 0


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up."""

    url: str = f"http://127.0.0.1:{PORT}"
    user: str = "lab"
    token_file: Path = STATE / "token"

    @property
    def environment(self) -> dict[str, str]:
        """Return what rtgate needs to reach it."""
        return {"RTGATE_LAVA_URL": self.url, "RTGATE_LAVA_TOKEN_FILE": str(self.token_file)}

    def inside(self, *argv: str, code: int = 0) -> str:
        """Run a command inside, check its exit code, and return what it prints."""
        done = subprocess.run([PROGRAM, "exec", *argv], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def service(self, action: str, name: str) -> None:
        """Stop, start or restart a service."""
        subprocess.run([PROGRAM, action, name], check=True, timeout=60)

    def ask(self, path: str, data: object = None) -> Any:
        """Return the answer of LAVA's REST API."""
        request = urllib.request.Request(f"{self.url}/api/v0.2/{path}")
        request.add_header("Authorization", f"Token {self.token_file.read_text().strip()}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(data).encode()
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def submit(self, definition: dict[str, Any]) -> int:
        """Submit a job and return its number."""
        return int(self.ask("jobs/", {"definition": yaml.safe_dump(definition)})["job_ids"][0])

    def wait(self, job: int, seconds: float) -> dict[str, Any]:
        """Wait until a job has finished, and return what the server says of it."""
        limit = time.monotonic() + seconds
        while True:
            found: dict[str, Any] = self.ask(f"jobs/{job}/")
            if found["state"] == "Finished":
                return found
            assert time.monotonic() < limit, f"job {job} is {found['state']} after {seconds:.0f} s"
            time.sleep(0.5)

    def log(self, job: int) -> list[dict[str, Any]]:
        """Return a job's log."""
        request = urllib.request.Request(f"{self.url}/api/v0.2/jobs/{job}/logs/")
        request.add_header("Authorization", f"Token {self.token_file.read_text().strip()}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: list[dict[str, Any]] = yaml.load(answer.read(), Loader=yaml.CSafeLoader)
        return found

    def results(self, job: int) -> dict[str, dict[str, Any]]:
        """Return a job's results by suite and case."""
        found = {}
        for suite in self.ask(f"jobs/{job}/suites/")["results"]:
            for test in self.ask(f"jobs/{job}/suites/{suite['id']}/tests/?limit=1000")["results"]:
                found[f"{suite['name']}/{test['name']}"] = test
        return found
