# SPDX-License-Identifier: MIT
"""Exit codes and messages at the edge."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtgate import __version__, errors, site
from rtgate.cli import main as command
from rtgate.cli import where


@pytest.fixture(autouse=True)
def _edge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Put back what `main` changes for its whole process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setenv("RTGATE_SITE", "")
    monkeypatch.chdir(tmp_path)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException | int]]:
    """Return a list: what is put into it is what `rtgate where` then does."""
    ends: list[BaseException | int] = []

    def run(_: argparse.Namespace) -> int:
        end = ends.pop()
        if isinstance(end, int):
            return end
        raise end

    monkeypatch.setattr(where, "run", run)
    yield ends
    assert not ends


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("m"), 2),
        (errors.InfrastructureError("m"), 3),
        (errors.DeadlineError("m"), 3),
        (errors.TransportError("m"), 3),
        (errors.TargetError("m"), 1),
        (errors.BuildError("m"), 1),
        (errors.ParseError("m"), 4),
        (errors.Interrupted("m"), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_one_line_and_its_code(
    ends_with: list[BaseException | int], error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ends_with.append(error)
    assert command.main(["where", "x"]) == code
    assert capsys.readouterr() == ("", "rtgate: m\n")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_a_commands_code_is_the_exit_code(ends_with: list[BaseException | int], code: int) -> None:
    ends_with.append(code)
    assert command.main(["where", "x"]) == code


@pytest.mark.parametrize("code", [0, None, "text"])
def test_what_ends_the_program_within_a_command_is_a_mistake(
    ends_with: list[BaseException | int], code: int | str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a site's tool does that calls `sys.exit()`: its code was that of the command."""
    ends_with.append(SystemExit(code))
    assert command.main(["where", "x"]) == 2
    said = capsys.readouterr().err
    assert re.match(rf"rtgate: {re.escape(__file__)}:\d+:1: this line ended the program \(SystemExit: {code}\): ", said)


def test_control_c_is_130(ends_with: list[BaseException | int], capsys: pytest.CaptureFixture[str]) -> None:
    ends_with.append(KeyboardInterrupt())
    assert command.main(["where", "x"]) == 130
    assert capsys.readouterr().err == "rtgate: interrupted\n"


def test_a_defect_is_4_with_a_traceback(
    ends_with: list[BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    ends_with.append(ZeroDivisionError("oh"))
    assert command.main(["where", "x"]) == 4
    said = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in said
    assert said.endswith("rtgate: this is a defect of rtgate; please report it with the lines above\n")


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["where"], ["check", "--no-such-option"], ["--site"]])
def test_wrong_usage_is_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: rtgate")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"rtgate {__version__}\n"


def test_every_command_has_its_line() -> None:
    package = Path(command.__file__).parent
    modules = {path.stem for path in package.glob("*.py") if "\ndef add_options(" in path.read_text()}
    assert {name.replace("-", "_") for name in command._COMMANDS} == modules
    assert all(line and line[0].islower() and not line.endswith(".") for line in command._COMMANDS.values())


def test_help_lists_every_command_and_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        command.main(["--help"])
    said = capsys.readouterr().out
    for group, commands in command._GROUPS.items():
        listed = re.search(rf"^{group}:\n((?:  .*\n)+)", said, re.MULTILINE)
        assert listed, group
        assert [line.split(maxsplit=1) for line in listed[1].splitlines()] == [list(pair) for pair in commands.items()]
    for code in ("0  pass", "1  FAIL", "2  usage", "3  MISS", "4  ERROR", "5  inconclusive", "130  interrupted"):
        assert f"\n  {code}" in said


@pytest.mark.parametrize("name", ["gate", "demo", "build", "repeat", "report", "console", "where", "check", "rootfs"])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: rtgate {name}")


def test_the_site_option_names_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "virt-arm64.yaml").write_text("")
    assert command.main(["--site", str(tmp_path), "where", "virt-arm64"]) == 0
    assert capsys.readouterr().out.startswith(f"boards: {tmp_path}/boards/virt-arm64.yaml (site, wins)\n")
    assert command.main(["--site", f"{tmp_path}/no", "where", "virt-arm64"]) == 2


def test_a_reader_that_has_gone_is_no_defect() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        argv = [sys.executable, "-m", "rtgate", "where", "virt-arm64"]
        done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert done.stderr in {b"", b"rtgate: loading\n"}  # which a machine that is busy says


LAVA_TOOL = """
import sys
from rtgate.cli import lava_tool
lava_tool._status = lambda _: {action}
sys.exit(lava_tool.main(["job-status", "http://127.0.0.1:9", "1"]))
"""


@pytest.mark.parametrize(("action", "code"), [("print('x' * 100_000)", 141), ("1 / 0", 4)])
def test_lava_tool_ends_as_rtgate_does(action: str, code: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        argv = [sys.executable, "-c", LAVA_TOOL.format(action=action)]
        done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert done.returncode == code
    assert (b"lava-tool: this is a defect of rtgate" in done.stderr) is (code == 4)


STOPPED = """
import sys, time
from rtgate.cli import main, where
where.run = lambda _: (print("ready", flush=True), time.sleep(60))
sys.exit(main.main(["where", "x"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_130(number: int) -> None:
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        _, said = child.communicate()
    assert (child.returncode, said) == (130, b"rtgate: interrupted\n")
    assert time.monotonic() - began < 55


def _help_of(top: argparse.ArgumentParser, name: str) -> str:
    found = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    return str(found.choices[name].format_help())


def test_a_command_that_is_loaded_alone_is_the_same() -> None:
    whole = command.parser()
    for name in command._COMMANDS:
        assert _help_of(command.parser((name,)), name) == _help_of(whole, name)


@pytest.mark.parametrize("loaded", [(), ("gate",), command._COMMANDS], ids=["none", "gate", "all"])
def test_the_list_of_commands_does_not_depend_on_what_is_loaded(loaded: tuple[str, ...]) -> None:
    assert command.parser(loaded).format_help() == command.parser().format_help()


@pytest.mark.parametrize(
    "words", ["gate --board virtt", "gate --board=virtt -o out", "lab-check --board virt-arm64 --board virtt"]
)
def test_a_mistyped_board_is_refused_before_its_command_is_loaded(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_module", lambda name: pytest.fail(f"{name} was loaded"))
    assert command.main(words.split()) == 2
    assert capsys.readouterr().err.startswith("rtgate: unknown name 'virtt' in boards (allowed: ")


def test_a_board_of_the_site_is_known_before_the_command_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "boards").mkdir()
    shutil.copyfile(site.find("boards", "virt-arm64.yaml"), tmp_path / "boards" / "mine.yaml")
    words = ["--site", str(tmp_path), "console", "--board", "mine"]
    with pytest.raises(SystemExit):  # the command is loaded, and wants a kernel
        command.main([*words, "--no-such-option"])
    assert "unrecognized arguments: --no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["gate --board virtt --help", "gate -h --board virtt", "gate --board virtt -h"])
def test_help_comes_before_a_mistyped_board(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(words.split())
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: rtgate gate")


def test_words_behind_two_dashes_are_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["where", "--", "--board", "virtt"])
    assert "unrecognized arguments: virtt" in capsys.readouterr().err


ALONE = """
import contextlib, sys
from rtgate.cli import main
with contextlib.suppress(SystemExit):
    main.main(sys.argv[1:])
print(*sorted(name for name in sys.modules if name in {"rtgate.cli.gate", "matplotlib", "scipy", "sqlalchemy"}))
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["where", "virt-arm64"], "virt-arm64.yaml"),
        (["--help"], "exit codes:"),
        (["--version"], __version__),
        (["gate", "--board", "virtt"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_quick_command_loads_nothing_heavy(words: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE, *words], capture_output=True, text=True, check=True)
    assert said in done.stdout
    assert done.stdout.splitlines()[-1] == ""
