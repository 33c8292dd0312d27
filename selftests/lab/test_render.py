# SPDX-License-Identifier: MIT
"""A rendered job on a real server: another client submits it, its files come from a web server, rtgate judges it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selftests.lab.lab import Lab

from rtgate import strict_yaml
from rtgate.board import boards
from rtgate.cli.main import main

pytestmark = pytest.mark.long("a job of a minute; test_submit has one that rtgate submits itself")

BOARD = "lab-virt-arm64"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return the URL of a web server, and the directory that it serves."""
    directory = tmp_path / "www"
    directory.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(directory))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}/artefacts", directory / "artefacts"
        http.shutdown()


def test_a_job_that_somebody_else_submits(lab: Lab, web: tuple[str, Path], tmp_path: Path) -> None:
    url, served = web
    kernel = tmp_path / "kernel"
    assert main(["build", boards.board(BOARD).build, "-o", str(kernel)]) == 0

    def rtgate(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rtgate", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            cwd=tmp_path,
            check=False,
        )

    nowhere = {name: text for name, text in os.environ.items() if not name.startswith("RTGATE_LAVA")}
    asked = ("--board", BOARD, "--kernel", str(kernel), "--suite", "scheduling", "--profile", "functional")
    done = rtgate("render", *asked, "--artefacts-url", url, environment=nowhere)
    assert done.returncode == 0, done.stderr
    (tmp_path / "job" / "artefacts").rename(served)
    number = lab.submit(strict_yaml.data((tmp_path / "job" / "job.yaml").read_text()))
    done = rtgate("fetch", str(number), "--wait", environment={**os.environ, **lab.environment})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scheduling/pi_stress:idle" in done.stdout
