# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rtgate.cli.main import main


def test_the_hub_runs_alone_and_ends_by_sigterm(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "rtgate.cli.hub", f"serial:{os.ttyname(theirs)}", "--raw", "0"]
    with subprocess.Popen([*argv, "--log", str(tmp_path / "log")], stderr=subprocess.PIPE, text=True) as hub:
        assert hub.stderr is not None
        place = re.search(r"on 127\.0\.0\.1:(\d+)", hub.stderr.readline())
        assert place
        with socket.create_connection(("127.0.0.1", int(place[1])), timeout=10) as client:
            client.sendall(b"typed\r")
            assert os.read(ours, 100) == b"typed\r"
            os.write(ours, b"said\n")
            assert client.recv(100) == b"said\n"
        hub.send_signal(signal.SIGTERM)
        assert hub.wait(10) == 0
    os.close(ours)
    os.close(theirs)
    assert " | said\n" in (tmp_path / "log").read_text()


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, rtgate.cli.hub; print([m for m in ('pexpect', 'serial', 'yaml', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tcp:127.0.0.1:1"], "nobody could connect"),
        (["tcp:127.0.0.1:1", "--raw", "port"], "no TCP port"),
        (["somewhere", "--raw", "0"], "unknown line"),
        (["tcp:127.0.0.1:1", "--raw", "0", "--clients", "0"], "--clients 0"),
        (["tcp:127.0.0.1:1", "--raw", "0", "--log", "/nowhere/log"], "cannot be written"),
    ],
)
def test_mistakes_are_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", *arguments]) == 2
    assert message in capsys.readouterr().err
