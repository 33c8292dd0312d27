# SPDX-License-Identifier: MIT
from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from rtgate import errors
from rtgate.errors import ConfigError, Location, RtgateError

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, RtgateError)]

# Design, section 4: who must act decides the exit code.
CODES = {
    "RtgateError": 4,
    "ConfigError": 2,
    "InfrastructureError": 3,
    "DeadlineError": 3,
    "TransportError": 3,
    "TargetError": 1,
    "KernelFaultError": 1,
    "HangError": 1,
    "BuildError": 1,
    "BuildLimitError": 1,
    "ChangedError": 4,
    "ParseError": 4,
    "UnfinishedError": 4,
    "NoWakeupsError": 4,
    "Interrupted": 130,
}


def test_every_error_has_the_exit_code_of_its_branch() -> None:
    assert {found.__name__: found.exit_code for found in CLASSES} == CODES


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    words = (errors.__doc__ or "").split()
    assert [name for name in CODES if name not in words] == []


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: str(found.__name__))
def test_every_error_says_what_it_means(found: type[RtgateError]) -> None:
    assert inspect.getdoc(found)


def test_a_mistake_in_a_file_starts_with_its_place() -> None:
    error = ConfigError("unknown key 'a' (allowed: b)", Location(Path("boards/x.yaml"), 3, 7))
    assert str(error) == "boards/x.yaml:3:7: unknown key 'a' (allowed: b)"
    assert error.location == Location(Path("boards/x.yaml"), 3, 7)


def test_a_mistake_on_the_command_line_has_no_place() -> None:
    assert str(ConfigError("no such board")) == "no such board"
