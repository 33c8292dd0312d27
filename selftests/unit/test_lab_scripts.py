# SPDX-License-Identifier: MIT
"""The lab's own programs without a lab: the power switch on a played monitor, the supervisor of small programs."""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LAB = Path(__file__).resolve().parents[2] / "ci" / "lab"
Answer = Callable[[str], list[dict[str, Any]]]
Supervised = tuple[subprocess.Popen[bytes], Path]


def script(name: str) -> ModuleType:
    """Return a program as a module."""
    loader = SourceFileLoader(f"lab_{name.replace('-', '_')}", str(LAB / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    no_cache, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = no_cache
    return module


def play(path: Path, answer: Answer, asked: list[str]) -> threading.Thread:
    """Play QEMU's monitor for one connection."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as connection, connection.makefile("rw") as lines:
            messages: list[dict[str, Any]] = [{"QMP": {}}]
            while True:
                lines.writelines(json.dumps(message) + "\n" for message in messages)
                lines.flush()
                line = lines.readline()
                if not line:
                    return
                asked.append(json.loads(line)["execute"])
                messages = answer(asked[-1])

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("board-power")
    monkeypatch.setattr(module, "RUN", tmp_path)
    return module


def test_the_switch_waits_until_the_reset_has_happened(power: ModuleType, tmp_path: Path) -> None:
    def answer(command: str) -> list[dict[str, Any]]:
        event: list[dict[str, Any]] = [{"event": "RESET"}] if command == "system_reset" else []
        return [{"event": "STOP"}, {"return": {}}, *event]

    asked: list[str] = []
    monitor = play(tmp_path / "b.qmp", answer, asked)
    assert power.main(["b", "reset"]) == 0
    monitor.join(10)
    assert asked == ["qmp_capabilities", "system_reset", "cont"]


def test_the_state_is_printed(power: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = play(tmp_path / "b.qmp", lambda _: [{"return": {"status": "prelaunch"}}], [])
    assert power.main(["b", "state"]) == 0
    monitor.join(10)
    assert capsys.readouterr().out == "prelaunch\n"


def test_a_switch_that_is_not_there_or_refuses_is_an_error(
    power: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert power.main(["b", "on"]) == 1
    assert "b on:" in capsys.readouterr().err
    monitor = play(tmp_path / "b.qmp", lambda _: [{"error": {"desc": "Device is in use"}}], [])
    assert power.main(["b", "on"]) == 1
    monitor.join(10)
    assert "Device is in use" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["b"], ["b", "explode"], ["../b", "on"]])
def test_wrong_usage_switches_nothing(power: ModuleType, arguments: list[str]) -> None:
    assert power.main(arguments) == 2


def status(control: Path) -> dict[str, dict[str, Any]]:
    answer = script("ask").ask(str(control), "status")
    return {service["name"]: service for service in answer}


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    """Start a supervisor of two services: one that runs, one that ends at once."""
    services = [
        {"name": "stays", "argv": ["sleep", "1000"], "user": getpass.getuser()},
        {"name": "ends", "argv": ["sh", "-c", "echo trouble; exit 3"], "user": getpass.getuser()},
    ]
    (tmp_path / "services.json").write_text(json.dumps(services))
    argv = [sys.executable, str(LAB / "supervise"), str(tmp_path / "services.json"), str(tmp_path / "c"), str(tmp_path)]
    with subprocess.Popen(argv) as supervisor:
        wait_for((tmp_path / "c").exists)
        yield supervisor, tmp_path / "c"
        supervisor.terminate()
        assert supervisor.wait(20) == 0


def wait_for(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_services_that_end_are_started_again(supervised: Supervised, tmp_path: Path) -> None:
    _, control = supervised
    wait_for(lambda: status(control)["ends"]["starts"] >= 2)
    found = status(control)
    assert found["ends"]["last"] == "exit code 3"
    assert found["stays"]["running"]
    assert (tmp_path / "ends.log").read_text().startswith("trouble\n")


def test_services_can_be_stopped_and_started(supervised: Supervised) -> None:
    _, control = supervised
    wait_for(lambda: status(control)["stays"]["running"])
    before = status(control)["stays"]["pid"]
    ask = script("ask").ask
    assert not ask(str(control), "stop stays")["running"]
    assert not status(control)["stays"]["wanted"]
    ask(str(control), "start stays")
    wait_for(lambda: status(control)["stays"]["running"])
    assert status(control)["stays"]["pid"] != before
    assert "services: stays, ends" in ask(str(control), "stop nothing")["error"]


def test_nothing_is_left_when_it_ends(supervised: Supervised) -> None:
    supervisor, control = supervised
    wait_for(lambda: status(control)["stays"]["running"])
    pid = status(control)["stays"]["pid"]
    supervisor.send_signal(signal.SIGTERM)
    supervisor.wait(20)
    assert not Path(f"/proc/{pid}").exists()


def test_the_image_has_what_gates_and_builds_need() -> None:
    """`ci/bootstrap gate` installs the same on a machine."""
    bootstrap = (LAB.parent / "bootstrap").read_text(encoding="utf-8")
    needs = bootstrap.partition("\nneeds() {\n")[2].partition("\tEND\n")[0]
    wanted = {*re.findall(r"^\t\t\S+ (\S+)$", needs, re.MULTILINE), "gcc-aarch64-linux-gnu", "debian-archive-keyring"}
    packages = (LAB.parent / "image" / "packages").read_text(encoding="utf-8").splitlines()
    assert {"qemu-system-arm", "libelf-dev"} < wanted
    assert wanted - {*packages} == set()


def test_a_tree_that_is_mounted_stays_though_nobody_has_asked_for_it_for_weeks(tmp_path: Path) -> None:
    """As that of a lab which is up, in a mount namespace of its own."""
    for name in ("lab", "old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.used").touch()
    for name in ("lab", "old"):
        os.utime(tmp_path / f"{name}.used", (0, 0))
    unshare = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "mount", "--bind", tmp_path / "lab", tmp_path / "lab"], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    script = 'mount --bind "$1/lab" "$1/lab" && . "$2" && used "$1/new"'
    subprocess.run([*unshare, "bash", "-euc", script, "used", tmp_path, LAB / "debian"], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab", "lab.used", "new", "new.used"]
