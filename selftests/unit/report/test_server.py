# SPDX-License-Identifier: MIT
from __future__ import annotations

import http.client
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from rtgate.cli.main import main
from rtgate.errors import ConfigError
from rtgate.report.server import server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    report = tmp_path / "report"
    (report / "records").mkdir(parents=True)
    (report / "index.html").write_text("<html>the report", encoding="utf-8")
    (report / "verdict.json").write_text("{}", encoding="utf-8")
    (report / "records" / "console.log").write_text("printed", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (report / "note.md").symlink_to(tmp_path / "secret")
    with server(report, "127.0.0.1", 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join(timeout=10)


def _get(port: int, path: str, method: str = "GET") -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.getheader("Content-Type", "")


def test_the_report_is_the_first_page(port: int) -> None:
    assert _get(port, "/") == (200, b"<html>the report", "text/html; charset=utf-8")
    assert _get(port, "/index.html?sort=a")[0] == 200
    assert _get(port, "/verdict.json") == (200, b"{}", "application/json")
    assert _get(port, "/", "HEAD")[:2] == (200, b"")


def test_a_browser_that_leaves_in_mid_page_is_no_traceback(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report" / "index.html").write_bytes(b"x" * 20_000_000)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves with a reset
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.recv(1000)
    assert _get(port, "/verdict.json")[0] == 200
    deadline = time.monotonic() + 10
    while threading.active_count() > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "path",
    ["/records", "/records/", "/records/console.log", "/../secret", "/%2e%2e/secret", "//etc/passwd", "/note.md", "/."],
)
def test_nothing_else_is_served_or_listed(port: int, path: str) -> None:
    status, body, _ = _get(port, path)
    assert status == 404
    assert b"secret" not in body
    assert b"console.log" not in body


def test_a_directory_without_a_report_and_a_taken_port_say_what_to_do(tmp_path: Path, port: int) -> None:
    with pytest.raises(ConfigError, match="make one with rtgate report"):
        server(tmp_path, "127.0.0.1", 0)
    with pytest.raises(ConfigError, match="--listen"):
        server(tmp_path / "report", "127.0.0.1", port)


def test_it_listens_on_an_ipv6_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.html").write_text("<html>", encoding="utf-8")
    families: list[int] = []
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda one: families.append(one.socket.family))
    assert main(["report", "--serve", "--listen", "[::1]:0", "-o", str(tmp_path)]) == 0
    assert families == [socket.AF_INET6]
    assert capsys.readouterr().out.startswith("http://[::1]:")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_no_more_words(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "summary.html").write_text("<html>", encoding="utf-8")
    argv = [sys.executable, "-m", "rtgate", "report", "--serve", "--listen", "0", "-o", str(tmp_path)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line.startswith("http://127.0.0.1:")
        assert _get(int(line.partition("127.0.0.1:")[2].partition("/")[0]), "/")[:2] == (200, b"<html>")
        time.sleep(4.0 if number is signal.SIGINT else 0.0)  # a reminder that it goes on would come after three
        child.send_signal(number)
        _, told = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "Traceback" not in told
    assert "report ... " not in told
