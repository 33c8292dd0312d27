# SPDX-License-Identifier: MIT
"""Ctrl-C at random moments: exit code 130 or that of the work that was done, no traceback, nothing left behind."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from selftests.concurrency import KINDS
from selftests.interruptions import (
    COMMANDS,
    ENDLESS,
    ENDS,
    LAVA_COMMANDS,
    InterruptedWorld,
    exit_codes,
    has_traceback,
    interrupted,
)

from rtgate.cli.main import _COMMANDS

# Set by hand for more moments per command, many with --timeout=0; a seed that failed can be given again.
MOMENTS = int(os.environ.get("RTGATE_INTERRUPTIONS", "1"))
SEED = int(os.environ.get("RTGATE_INTERRUPTION_SEED", "0")) or random.randrange(1, 10**9)
# One worker has them all: the last test is about what the others have interrupted.
pytestmark = pytest.mark.xdist_group("interrupted")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterruptedWorld]:
    with interrupted(tmp_path_factory.mktemp("interrupted") / "world", SEED, exact=MOMENTS > 1) as made:
        yield made


# What starts other programs and leaves files, a job, or a server.
SHORT = ("gate of two", "build", "submit", "lava-tool submit-job", "hub")
_LONG = pytest.mark.long("every command; those that leave most behind are in make test")


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=_LONG) for name in (*COMMANDS, *LAVA_COMMANDS)]
)
def test_control_c_at_any_moment_ends_a_command_in_order(world: InterruptedWorld, name: str) -> None:
    for _ in range(MOMENTS):
        wrong = world.interrupt(name)
        assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


def test_what_was_interrupted_is_not_believed_by_a_later_run(world: InterruptedWorld) -> None:
    world.world.known[KINDS[0]] = None
    gate = world.world.start(KINDS[0])
    assert gate.child.wait(300) == 0, gate.log.read_text()
    assert {status for status, *_ in gate.result()["verdicts"]} == {"PASS"}


START = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/x/src/rtgate/__main__.py", line 8, in <module>
KeyboardInterrupt
"""


def test_an_interrupted_command_ends_with_130_or_as_its_work_did() -> None:
    assert exit_codes("gate of two", "rtgate: interrupted", interrupted=True) == {130, 1}
    assert exit_codes("gate of two", "FAIL", interrupted=False) == {1}
    assert exit_codes("gate", "", interrupted=True) == {130, 0, -2}
    assert exit_codes("submit", "rtgate: interrupted", interrupted=True) == {130}
    assert exit_codes("submit", START, interrupted=True) == {130, -2, 1}
    assert {*ENDLESS, *ENDS} <= {*COMMANDS, *LAVA_COMMANDS}


@pytest.mark.parametrize(
    ("said", "is_wrong"),
    [
        (START, False),
        ("rtgate: interrupted\n", False),
        (START.replace("in <module>", "in main"), True),
        (START.replace("<frozen runpy>", "/usr/lib/python3.11/threading.py"), True),
        (f'{START}Exception ignored in: x\nTraceback (most recent call last):\n  File "/x/y.py", line 1, in z\n', True),
        ("Traceback (most recent call last):\n", True),
        ("Exception ignored in: <function f>\n", True),
    ],
)
def test_only_a_traceback_of_python_s_own_start_is_excused(said: str, is_wrong: bool) -> None:
    assert has_traceback(said) is is_wrong


def test_every_command_is_interrupted() -> None:
    tried = {words.split()[0] for words in COMMANDS.values()}
    assert set(_COMMANDS) <= tried
