# SPDX-License-Identifier: MIT
"""Ctrl-C at random moments: exit code 130 or the usual one, no traceback, nothing left behind."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from selftests.concurrency import KINDS
from selftests.interruptions import COMMANDS, LAVA_COMMANDS, InterruptedWorld, interrupted

from rtgate.cli.main import _COMMANDS

# Set by hand for more moments per command; a seed that failed can be given again.
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


def test_every_command_is_interrupted() -> None:
    tried = {words.split()[0] for words in COMMANDS.values()}
    assert set(_COMMANDS) <= tried
