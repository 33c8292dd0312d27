# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from rtgate.cli import command_options, gate, judge, main, suite_options
from rtgate.history.queries import BootFilter
from rtgate.measure import profiles


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action


@pytest.mark.parametrize(
    ("option", "commands"),
    [("--server", 5), ("--history", 8), ("--tuning", 6), ("-k", 3), ("--allow-unjudged", 3), ("--queue-timeout", 2)],
)
def test_an_option_is_the_same_in_each_command(option: str, commands: int) -> None:
    found = [one for one in _actions(main.parser()) if option in one.option_strings and one.metavar != "FILE"]
    assert len(found) >= commands
    assert len({(one.help, one.metavar, repr(one.default), one.dest, one.required) for one in found}) == 1


def test_chosen_cases_take_the_place_of_suites(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["submit", "--board", "rk3568-evb1", "--family", "mainline", "--kernel", "https://lab.example.org/Image"]
    assert main.main([*job, "--cases", "cases.json", "--suite", "signal"]) == 2
    assert "leave out --suite" in capsys.readouterr().err


class _Group:
    """Instead of pytest's options: notes them."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def getgroup(self, *_: str) -> _Group:
        return self

    def addoption(self, name: str, **keywords: Any) -> None:
        self.found[name] = keywords


def test_an_option_of_the_suites_is_the_same_in_a_gate() -> None:
    suites = _Group()
    suite_options.add(suites)  # type: ignore[arg-type]
    gate_parser = argparse.ArgumentParser()
    gate.add_options(gate_parser)
    gates = {option: one for one in _actions(gate_parser) for option in one.option_strings}
    # Suites measure one board by kernel, and have their own defaults; a gate has boots in pairs, and $RTGATE_HISTORY.
    own = {"--board", "--kernel", "--arm", "--profile", "--boots", "--history"}
    assert (gates.keys() & suites.found.keys()) - own >= {"--tuning", "--console", "--power-cycle", "--thresholds"}
    for name in (gates.keys() & suites.found.keys()) - own:
        mine, theirs = suites.found[name], gates[name]
        assert (mine["help"], mine.get("metavar"), mine.get("choices")) == (theirs.help, theirs.metavar, theirs.choices)
        assert (mine.get("default") or None) == (theirs.default or None)


def test_a_profile_that_nobody_names_is_the_same_everywhere() -> None:
    """`rtgate judge` chooses cases by it, which without one are those of the records."""
    found = [one for one in _actions(main.parser()) if "--profile" in one.option_strings]
    lengths = [one for one in found if one.help != judge.PROFILE]
    assert len(lengths) == len(found) - 1 == 9
    # None: quick, or compare for two kernels; compare: placebos, which are for comparing two
    assert {(one.default, str(one.help).partition("(")[2]) for one in lengths} == {
        (profiles.DEFAULT, "default: quick)"),
        (None, "default: quick; where two kernels are gated: compare)"),
        ("compare", "default: compare)"),
    }


def test_which_boots_of_the_history_are_meant() -> None:
    parser = argparse.ArgumentParser()
    command_options.add_history_options(parser)
    assert command_options.boot_filter(parser.parse_args(["--board", "b"])) == BootFilter(
        board="b", flavour="preempt_rt"
    )
    whole = ("--board", "b", "--device", "b-2", "--flavour", "generic", "--case", "latency/cyclictest:idle")
    wanted = BootFilter(board="b", device="b-2", flavour="generic", case="latency/cyclictest:idle")
    assert command_options.boot_filter(parser.parse_args(whole)) == wanted
